#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/ops/matrix_product.h"
#include "engine/ops/registry.h"
#include "tests/support/compare.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using testing::HasSubstr;

std::vector<Isa> Isas() {
  std::vector<Isa> list;
  for (const Isa isa : {Isa::kReference, Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    if (isa <= DetectIsa()) list.push_back(isa);
  }
  return list;
}

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
  for (const Isa isa : Isas()) {
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
  for (const Isa isa : Isas()) {
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

// Binds with or without a constant B, on the same numbers.
class Binder final : public ops::BindContext {
 public:
  Binder(const graph::Node& node, const std::vector<Tensor>& inputs, const Tensor& constant_b)
      : node_(node), b_(constant_b) {
    for (const Tensor& input : inputs) facts_.push_back(ops::FactsOf(input));
  }
  const graph::Node& node() const override { return node_; }
  Isa isa() const override { return DetectIsa(); }
  const ops::ValueFacts& input(int port) const override { return At(port); }
  const ops::ValueFacts& output(int) const override { return none_; }
  Layout input_layout(int) const override { return Layout::kNative; }
  Layout output_layout(int) const override { return Layout::kNative; }
  graph::ConstantRef constant(int port) const override {
    if (port != 1 || !b_.valid()) return nullptr;
    return std::make_shared<const graph::Constant>(b_, Hash128());
  }
  StatusOr<ops::PackRef> MakePack(int, const ops::PackSpec& spec) override {
    ++packs;
    ASSIGN_OR_RETURN(Buffer buffer, Buffer::Allocate(spec.bytes));
    spec.fill(b_.view(), buffer.bytes());
    return std::make_shared<const ops::Pack>(ops::Pack{spec.kernel, std::move(buffer)});
  }
  int packs = 0;

 private:
  const ops::ValueFacts& At(int port) const {
    return static_cast<size_t>(port) < facts_.size() ? facts_[static_cast<size_t>(port)] : none_;
  }
  const graph::Node& node_;
  Tensor b_;
  ops::ValueFacts none_;
  std::vector<ops::ValueFacts> facts_;
};

class Context final : public ops::StepContext {
 public:
  Context(const std::vector<Tensor>& inputs, const Tensor& output, std::span<std::byte> scratch)
      : output_(output.mutable_view()), scratch_(scratch) {
    for (const Tensor& input : inputs)
      views_.push_back(input.valid() ? input.view() : TensorView());
  }
  const TensorView& input(int port) const override { return views_[static_cast<size_t>(port)]; }
  const MutableTensorView& output(int) const override { return output_; }
  StatusOr<MutableTensorView> AllocateOutput(int, const Shape&) override { return output_; }
  std::span<std::byte> scratch() const override { return scratch_; }
  const Parallel& parallel() const override { return parallel_; }

 private:
  std::vector<TensorView> views_;
  MutableTensorView output_;
  std::span<std::byte> scratch_;
  SequentialParallel parallel_;
};

Tensor BindAndRun(const std::string& op_type, const graph::Attributes& attributes,
                  std::vector<Tensor> inputs, const Tensor& constant_b, const Shape& out) {
  graph::Node node;
  node.op_type = op_type;
  node.opset = 17;
  node.attributes = attributes;
  for (size_t i = 0; i < inputs.size(); ++i) node.inputs.push_back(static_cast<int>(i));
  node.outputs = {100};
  node.op = *ops::ParseNode(node);
  Binder binder(node, inputs, constant_b);
  const auto step = *ops::OpOf(node).Bind(binder);
  EXPECT_EQ(binder.packs, constant_b.valid() ? 1 : 0);
  std::vector<Shape> shapes;
  for (const Tensor& input : inputs) shapes.push_back(input.shape());
  // A packed constant is not there when the step runs.
  if (constant_b.valid()) inputs[1] = Tensor();
  Buffer scratch = *Buffer::Allocate(step->ScratchBytes({shapes, std::span(&out, 1), 1}));
  Tensor y = *Tensor::Allocate(DType::kFloat, out);
  Context context(inputs, y, scratch.bytes());
  EXPECT_TRUE(step->Run(context).ok());
  return y;
}

TEST(Gemm, WeightsKnownAtLoadAndInTheRunGiveTheSameBits) {
  const Case gemm{9, 37, 50, 1, 1, 0.3f, 0.7f};
  const std::vector<Tensor> inputs = {gemm.A(), gemm.B(), test::RandomFloats({37}, 3)};
  EXPECT_TRUE(test::Close(BindAndRun("Gemm", gemm.Attributes(), inputs, inputs[1], {9, 37}),
                          BindAndRun("Gemm", gemm.Attributes(), inputs, Tensor(), {9, 37}),
                          test::Exact()));
  const std::vector<Tensor> batch = {test::RandomFloats({3, 5, 7}, 1),
                                     test::RandomFloats({3, 7, 40}, 2)};
  EXPECT_TRUE(test::Close(BindAndRun("MatMul", {}, batch, batch[1], {3, 5, 40}),
                          BindAndRun("MatMul", {}, batch, Tensor(), {3, 5, 40}), test::Exact()));
  const std::vector<Tensor> image = {test::RandomFloats({2, 8, 5, 6}, 1),
                                     test::RandomFloats({20, 8, 2, 2}, 2)};
  EXPECT_TRUE(test::Close(BindAndRun("Conv", {}, image, image[1], {2, 20, 4, 5}),
                          BindAndRun("Conv", {}, image, Tensor(), {2, 20, 4, 5}), test::Exact()));
  const std::vector<Tensor> depthwise = {test::RandomFloats({2, 8, 5, 6}, 1),
                                         test::RandomFloats({8, 1, 2, 2}, 2)};
  const graph::Attributes group = {{"group", int64_t{8}}};
  EXPECT_TRUE(test::Close(BindAndRun("Conv", group, depthwise, depthwise[1], {2, 8, 4, 5}),
                          BindAndRun("Conv", group, depthwise, Tensor(), {2, 8, 4, 5}),
                          test::Exact()));
}

}  // namespace
}  // namespace tandem
