#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/ops/matrix_product.h"
#include "engine/ops/registry.h"
#include "tests/support/bound_step.h"
#include "tests/support/compare.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using testing::HasSubstr;

struct Case {
  int64_t m, n, k;
  int64_t trans_a = 0;
  int64_t trans_b = 0;
  float alpha = 1;
  float beta = 1;

  Tensor A() const { return test::RandomFloats(trans_a ? Shape{k, m} : Shape{m, k}, 1); }
  Tensor B() const { return test::RandomFloats(trans_b ? Shape{n, k} : Shape{k, n}, 2); }
  graph::Attributes Attributes() const {
    return {{"transA", trans_a}, {"transB", trans_b}, {"alpha", alpha}, {"beta", beta}};
  }
  Tensor Naive(const Tensor& c) const {
    const Tensor a = A();
    const Tensor b = B();
    Tensor y = *Tensor::Allocate(DType::kFloat, {m, n});
    const int rank = c.valid() ? c.shape().rank() : 0;
    const int64_t rows = rank == 2 ? c.shape()[0] : 1;
    const int64_t columns = rank > 0 ? c.shape()[rank - 1] : 1;
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < k; ++l) {
          sum += static_cast<double>(a.data<float>()[trans_a ? l * m + i : i * k + l]) *
                 b.data<float>()[trans_b ? j * k + l : l * n + j];
        }
        sum *= alpha;
        if (c.valid()) {
          sum += static_cast<double>(beta) *
                 c.data<float>()[(rows == 1 ? 0 : i) * columns + (columns == 1 ? 0 : j)];
        }
        y.mutable_data<float>()[i * n + j] = static_cast<float>(sum);
      }
    }
    return y;
  }
};

TEST(Gemm, EverySizeTransposedAndNotWithEveryFormOfC) {
  for (const Isa isa : test::IsaLevels()) {
    for (int64_t size = 0; size < 17 * 17; ++size) {
      Case gemm{1 + size % 17, 1 + size / 17, 1 + (size * 5) % 17};
      gemm.trans_a = size & 1;
      gemm.trans_b = size / 2 & 1;
      gemm.alpha = size % 3 == 0 ? 1.0f : 0.37f;
      gemm.beta = size % 5 == 0 ? 1.0f : -1.5f;
      const Shape forms[] = {{gemm.n}, {gemm.m, 1}, {1}, {}, {gemm.m, gemm.n}, {1, gemm.n}};
      const Tensor c = test::RandomFloats(forms[size % 6], 3);
      const auto y = test::RunOp({.op_type = "Gemm", .attributes = gemm.Attributes(), .isa = isa},
                                 {gemm.A(), gemm.B(), c});
      ASSERT_TRUE(y.ok()) << y.status();
      ASSERT_TRUE(test::Close((*y)[0], gemm.Naive(c), test::Reduction(gemm.k)))
          << IsaName(isa) << " " << gemm.m << "x" << gemm.n << "x" << gemm.k << " C "
          << ToString(c.shape());
    }
  }
}

TEST(Gemm, CIsOptionalFromOpset11On) {
  const Case gemm{3, 4, 5};
  const auto y = test::RunOp({.op_type = "Gemm", .opset = 11}, {gemm.A(), gemm.B()});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_TRUE(test::Close((*y)[0], gemm.Naive({}), test::Reduction(5)));
  const auto older = test::RunOp({.op_type = "Gemm", .opset = 9}, {gemm.A(), gemm.B()});
  EXPECT_THAT(std::string(Message(older.status())), HasSubstr("input C is omitted"));
}

TEST(Gemm, EmptyExtentsGiveTheScaledC) {
  for (const Isa isa : test::IsaLevels()) {
    const Case gemm{2, 3, 0, 0, 0, 1, 2};
    const Tensor c = Tensor::Of<float>({3}, {1, 2, 3});
    const auto y = test::RunOp({.op_type = "Gemm", .attributes = gemm.Attributes(), .isa = isa},
                               {gemm.A(), gemm.B(), c});
    EXPECT_TRUE(test::Close((*y)[0], Tensor::Of<float>({2, 3}, {2, 4, 6, 2, 4, 6}), test::Exact()));
    const Case none{0, 3, 4};
    EXPECT_EQ((*test::RunOp({.op_type = "Gemm", .isa = isa}, {none.A(), none.B(), c}))[0].shape(),
              Shape({0, 3}));
  }
}

TEST(Gemm, WhatIsWrongIsRefusedWithWhatCameAndWhatWasExpected) {
  const auto error = [](const std::vector<Tensor>& inputs, const graph::Attributes& attributes) {
    const auto y = test::RunOp({.op_type = "Gemm", .attributes = attributes}, inputs);
    return y.ok() ? "no error" : std::string(Message(y.status()));
  };
  const auto floats = [](Shape shape) { return test::RandomFloats(std::move(shape), 1); };
  EXPECT_THAT(error({floats({2, 3}), floats({4, 2})}, {}), HasSubstr("inner extent 3"));
  EXPECT_THAT(error({floats({1, 2, 3}), floats({3, 2})}, {}), HasSubstr("rank 2 is expected"));
  EXPECT_THAT(error({floats({2, 3}), floats({3, 2}), floats({3})}, {}),
              HasSubstr("not broadcast to [2,2]"));
  EXPECT_THAT(error({floats({2, 3}), floats({3, 2}), floats({1, 2, 2})}, {}),
              HasSubstr("not broadcast to [2,2]"));
  EXPECT_THAT(error({floats({2, 3}), floats({3, 2})}, {{"broadcast", int64_t{1}}}),
              HasSubstr("'broadcast'"));
  const Tensor ints = Tensor::Of<int32_t>({1, 1}, {3});
  EXPECT_THAT(error({ints, ints}, {{"alpha", 0.5f}}), HasSubstr("whole numbers"));
}

TEST(Gemm, IntegersAndDoubles) {
  const Tensor a = Tensor::Of<int32_t>({2, 2}, {1, 2, 3, 4});
  const Tensor c = Tensor::Of<int32_t>({2, 1}, {10, 20});
  const auto y = test::RunOp(
      {.op_type = "Gemm", .attributes = {{"transA", int64_t{1}}, {"alpha", 2.0f}, {"beta", -1.0f}}},
      {a, a, c});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_TRUE(test::Close((*y)[0], Tensor::Of<int32_t>({2, 2}, {10, 18, 8, 20}), test::Exact()));
  const Tensor d = Tensor::Of<double>({1, 1}, {1e-200});
  EXPECT_EQ((*test::RunOp({.op_type = "Gemm"}, {d, d, d}))[0].data<double>()[0], 1e-200);
}

// The same product with its weights known at load and only in the run.
void ExpectSameBits(test::BoundCall call, const std::vector<Tensor>& inputs) {
  call.constant_port = -1;
  const Tensor in_the_run = test::BindAndRun(call, inputs);
  call.constant_port = 1;
  EXPECT_TRUE(test::Close(test::BindAndRun(call, inputs), in_the_run, test::Exact()))
      << call.op_type;
}

TEST(Gemm, WeightsKnownAtLoadAndInTheRunGiveTheSameBits) {
  const Case gemm{9, 37, 50, 1, 1, 0.3f, 0.7f};
  ExpectSameBits({.op_type = "Gemm", .attributes = gemm.Attributes(), .out = {9, 37}},
                 {gemm.A(), gemm.B(), test::RandomFloats({37}, 3)});
  ExpectSameBits({.op_type = "MatMul", .out = {3, 5, 40}},
                 {test::RandomFloats({3, 5, 7}, 1), test::RandomFloats({3, 7, 40}, 2)});
  ExpectSameBits({.op_type = "Conv", .out = {2, 20, 4, 5}},
                 {test::RandomFloats({2, 8, 5, 6}, 1), test::RandomFloats({20, 8, 2, 2}, 2)});
  ExpectSameBits({.op_type = "Conv", .attributes = {{"group", int64_t{8}}}, .out = {2, 8, 4, 5}},
                 {test::RandomFloats({2, 8, 5, 6}, 1), test::RandomFloats({8, 1, 2, 2}, 2)});
}

}  // namespace
}  // namespace tandem
