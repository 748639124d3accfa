#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/ops/operator.h"
#include "engine/ops/registry.h"
#include "tests/support/compare.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using testing::HasSubstr;

// numpy.matmul on batches: broadcasts by indexing modulo extents.
Tensor Naive(const Tensor& a, const Tensor& b) {
  const int ra = a.shape().rank();
  const int rb = b.shape().rank();
  const int64_t k = a.shape()[ra - 1];
  const int64_t m = ra == 1 ? 1 : a.shape()[ra - 2];
  const int64_t n = rb == 1 ? 1 : b.shape()[rb - 1];
  const auto batch_of = [](const Shape& s) {
    return s.rank() > 2 ? Shape(s.dims().first(static_cast<size_t>(s.rank() - 2))) : Shape();
  };
  const Shape batch = *BroadcastShapes(batch_of(a.shape()), batch_of(b.shape()));
  const auto index_of = [&](const Shape& own, int64_t flat) {
    int64_t at = 0;
    int64_t step = 1;
    for (int i = batch.rank() - 1, j = own.rank() - 1; j >= 0; --i, --j) {
      at += flat % batch[i] % own[j] * step;
      step *= own[j];
      flat /= batch[i];
    }
    return at;
  };
  Shape out = batch;
  if (ra > 1) out.Append(m);
  if (rb > 1) out.Append(n);
  Tensor y = *Tensor::Allocate(DType::kFloat, out);
  float* to = y.mutable_data<float>();
  for (int64_t i = 0; i < batch.elements(); ++i) {
    const float* x = a.data<float>() + index_of(batch_of(a.shape()), i) * m * k;
    const float* w = b.data<float>() + index_of(batch_of(b.shape()), i) * k * n;
    for (int64_t row = 0; row < m; ++row) {
      for (int64_t column = 0; column < n; ++column) {
        double sum = 0;
        for (int64_t j = 0; j < k; ++j) {
          sum += static_cast<double>(x[row * k + j]) * w[j * n + column];
        }
        *to++ = static_cast<float>(sum);
      }
    }
  }
  return y;
}

TEST(MatMul, FollowsTheRankAndBroadcastRules) {
  const std::pair<Shape, Shape> cases[] = {
      {{3}, {3, 2}},
      {{2, 3}, {3}},
      {{3}, {3}},
      {{2, 1, 2, 3}, {1, 4, 3, 2}},
      {{5, 7}, {7, 33}},
      {{4, 5, 7}, {7, 3}},
      {{5, 7}, {4, 7, 3}},
      {{7}, {4, 7, 3}},
      {{4, 5, 7}, {7}},
      {{2, 3, 5, 7}, {3, 7, 4}},
      {{3, 5, 7}, {2, 1, 7, 17}},
      {{2, 1, 3, 1, 4}, {5, 1, 4, 6}},
      {{0, 3}, {3, 2}},
      {{2, 0}, {0, 3}},
      {{2, 3}, {3, 0}},
      {{0, 2, 3}, {0, 3, 4}},
      {{1, 0, 1030}, {1030, 8}},
  };
  for (const Isa isa : test::IsaLevels()) {
    for (const auto& [a_shape, b_shape] : cases) {
      const Tensor a = test::RandomFloats(a_shape, 1);
      const Tensor b = test::RandomFloats(b_shape, 2);
      const auto y = test::RunOp({.op_type = "MatMul", .isa = isa}, {a, b});
      ASSERT_TRUE(y.ok()) << ToString(a_shape) << ToString(b_shape) << y.status();
      EXPECT_TRUE(test::Close((*y)[0], Naive(a, b), test::Reduction(16)))
          << IsaName(isa) << " " << ToString(a_shape) << " x " << ToString(b_shape);
    }
  }
}

TEST(MatMul, ASumOfNothingIsZero) {
  const auto y = test::RunOp({.op_type = "MatMul"},
                             {test::RandomFloats({2, 0}, 1), test::RandomFloats({0, 2}, 1)});
  EXPECT_TRUE(test::Close((*y)[0], Tensor::Of<float>({2, 2}, {0, 0, 0, 0}), test::Exact()));
}

TEST(MatMul, RowsOfAnyBatchAndThreadCountHaveTheSameBits) {
  for (const Isa isa : test::IsaLevels()) {
    const Tensor a = test::RandomFloats({5, 19, 40}, 1);
    const Tensor b = test::RandomFloats({5, 40, 50}, 2);
    test::OpCall call{.op_type = "MatMul", .isa = isa};
    const Tensor whole = (*test::RunOp(call, {a, b}))[0];
    for (int64_t i = 0; i < 5; ++i) {
      const Tensor one = (*test::RunOp(call, {a.Rows(i, i + 1), b.Rows(i, i + 1)}))[0];
      EXPECT_TRUE(test::Close(one, whole.Rows(i, i + 1), test::Exact()));
      // The same product with one B for all rows, and with a single row.
      const Tensor matrix = b.Rows(i, i + 1).Reshaped({40, 50});
      const Tensor row = a.Rows(i, i + 1).Reshaped({19, 40}).Rows(7, 8);
      const Tensor single = (*test::RunOp(call, {row, matrix}))[0];
      const Tensor expected = whole.Rows(i, i + 1).Reshaped({19, 50}).Rows(7, 8);
      EXPECT_TRUE(test::Close(single, expected, test::Exact()));
    }
    for (const int threads : {2, 4}) {
      call.threads = threads;
      EXPECT_TRUE(test::Close((*test::RunOp(call, {a, b}))[0], whole, test::Exact()));
    }
  }
}

TEST(MatMul, IntegersWrapAndDoublesKeepTheirPrecision) {
  const Tensor a = Tensor::Of<int64_t>({1, 2}, {(int64_t{1} << 53) + 1, INT64_MAX});
  const Tensor b = Tensor::Of<int64_t>({2, 2}, {1, 3, 0, 2});
  EXPECT_TRUE(test::Close(
      (*test::RunOp({.op_type = "MatMul"}, {a, b}))[0],
      Tensor::Of<int64_t>({1, 2}, {(int64_t{1} << 53) + 1, 3 * ((int64_t{1} << 53) + 1) - 2}),
      test::Exact()));
  const Tensor u = Tensor::Of<uint32_t>({2}, {0xFFFFFFFFu, 2});
  EXPECT_TRUE(test::Close((*test::RunOp({.op_type = "MatMul"}, {u, u}))[0],
                          Tensor::Of<uint32_t>({}, {5}), test::Exact()));
  const Tensor d = Tensor::Of<double>({2}, {1, 1e-12});
  EXPECT_TRUE(test::Close((*test::RunOp({.op_type = "MatMul"}, {d, d}))[0],
                          Tensor::Of<double>({}, {1 + 1e-24}), test::OfScale(1e-15)));
}

std::string ErrorOf(const std::vector<Tensor>& inputs) {
  const auto y = test::RunOp({.op_type = "MatMul"}, inputs);
  return y.ok() ? "no error" : std::string(Message(y.status()));
}

TEST(MatMul, WhatIsWrongIsRefusedWithWhatCameAndWhatWasExpected) {
  const auto floats = [](Shape shape) { return test::RandomFloats(std::move(shape), 1); };
  EXPECT_THAT(ErrorOf({floats({2, 3}), floats({4, 2})}), HasSubstr("inner extent 3"));
  EXPECT_THAT(ErrorOf({floats({}), floats({4, 2})}), HasSubstr("A is a scalar"));
  EXPECT_THAT(ErrorOf({floats({2, 2, 3}), floats({3, 3, 2})}), HasSubstr("do not broadcast"));
  EXPECT_THAT(ErrorOf({floats({2, 2}), Tensor::Of<double>({2}, {1, 2})}),
              HasSubstr("B is double where A is float"));
  const Tensor half = *Tensor::Allocate(DType::kBfloat16, {2, 2});
  EXPECT_THAT(ErrorOf({half, half}), HasSubstr("no kernel for bfloat16"));
}

TEST(MatMul, FusedOperandsReachEveryBatchAndVectorResults) {
  const auto run = [](const std::vector<graph::EpilogueStage>& stages,
                      const std::vector<Tensor>& inputs, Isa isa) {
    graph::Node node;
    node.op_type = "MatMul";
    node.opset = 17;
    node.outputs = {100};
    node.inputs = {0, 1};
    node.op = *ops::ParseNode(node);
    if (inputs.size() > 2) node.inputs.push_back(2);
    node.epilogue = stages;
    return (*ops::Evaluate(node, inputs, isa, SequentialParallel()))[0];
  };
  const std::tuple<Shape, Shape, Shape> cases[] = {
      {{2, 3, 5}, {2, 5, 4}, {2, 3, 4}},
      {{2, 3, 5}, {2, 5, 4}, {4}},
      {{2, 3, 5}, {5, 4}, {2, 3, 4}},
      {{2, 3, 5}, {5}, {3}},
      {{2, 3, 5}, {5}, {2, 3}},
      {{5}, {5, 4}, {4}},
      {{5}, {5}, {}},
      {{2, 3, 5}, {2, 5, 4}, {1, 1}},
  };
  for (const Isa isa : test::IsaLevels()) {
    for (const auto& [a_shape, b_shape, operand_shape] : cases) {
      const Tensor a = test::RandomFloats(a_shape, 1);
      const Tensor b = test::RandomFloats(b_shape, 2);
      const Tensor operand = test::RandomFloats(operand_shape, 3);
      const Tensor plain = run({}, {a, b}, isa);
      const Tensor fused = run({{"Add", {}, 2}}, {a, b, operand}, isa);
      Tensor expected = *Tensor::Allocate(DType::kFloat, plain.shape());
      for (int64_t i = 0; i < plain.elements(); ++i) {
        expected.mutable_data<float>()[i] =
            plain.data<float>()[i] + operand.data<float>()[i % operand.elements()];
      }
      EXPECT_TRUE(test::Close(fused, expected, test::Exact()))
          << IsaName(isa) << ToString(a_shape) << ToString(b_shape) << ToString(operand_shape);
    }
  }
}

ops::BatchAnswer AskBatch(const std::string& op_type, const std::vector<graph::DimVector>& inputs,
                          const std::vector<std::optional<int>>& axes) {
  graph::Node node;
  node.op_type = op_type;
  node.opset = 17;
  for (size_t i = 0; i < inputs.size(); ++i) node.inputs.push_back(static_cast<int>(i));
  node.outputs = {100};
  const auto op = *ops::ParseNode(node);
  std::vector<ops::ValueFacts> facts(inputs.size());
  std::vector<const ops::ValueFacts*> pointers;
  for (size_t i = 0; i < inputs.size(); ++i) {
    facts[i].dtype = DType::kFloat;
    facts[i].dims = inputs[i];
    pointers.push_back(&facts[i]);
  }
  return op->Batch({node, graph::Dim::Symbol("N"), axes, pointers, {}});
}

TEST(MatMul, KeepsABatchThatDoesNotMeetTheSum) {
  const graph::Dim n = graph::Dim::Symbol("N");
  const std::optional<int> none;
  EXPECT_EQ(AskBatch("MatMul", {{n, 5, 7}, {7, 3}}, {0, none}).outputs[0], 0);
  EXPECT_EQ(AskBatch("MatMul", {{n, 7}, {7, 3}}, {0, none}).outputs[0], 0);
  EXPECT_EQ(AskBatch("MatMul", {{n, 2, 7}, {n, 7, 3}}, {0, 0}).outputs[0], 0);
  EXPECT_EQ(AskBatch("MatMul", {{n, 2, 7}, {4, 1, 7, 3}}, {0, none}).outputs[0], 1);
  EXPECT_TRUE(AskBatch("MatMul", {{n, 2, 7}, {4, 7, 3}}, {0, none}).declined.has_value());
  EXPECT_TRUE(AskBatch("MatMul", {{2, n}, {n, 3}}, {1, 0}).declined.has_value());
  EXPECT_TRUE(AskBatch("MatMul", {{2, 7}, {7, n}}, {none, 1}).declined.has_value());
  EXPECT_EQ(AskBatch("Gemm", {{n, 7}, {7, 3}, {3}}, {0, none, none}).outputs[0], 0);
  EXPECT_TRUE(AskBatch("Gemm", {{n, 7}, {7, 3}, {4, 3}}, {0, none, none}).declined.has_value());
  EXPECT_TRUE(AskBatch("Gemm", {{n, 7}, {7, 3}, {3}}, {1, none, none}).declined.has_value());
  EXPECT_EQ(AskBatch("Conv", {{n, 3, 5, 5}, {4, 3, 3, 3}}, {0, none}).outputs[0], 0);
  EXPECT_TRUE(AskBatch("Conv", {{1, n, 5, 5}, {4, 3, 3, 3}}, {1, none}).declined.has_value());
}

}  // namespace
}  // namespace tandem
