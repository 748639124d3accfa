#include <gtest/gtest.h>

#include "tests/support/compare.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::Close;
using test::Exact;

TEST(Where, AllThreeInputsBroadcast) {
  const Tensor condition = Tensor::Of<bool>({2, 1, 1}, {true, false});
  const Tensor x = Tensor::Of<float>({3, 1}, {1, 2, 3});
  const Tensor y = Tensor::Of<float>({4}, {10, 20, 30, 40});
  const auto z = test::RunOp({.op_type = "Where"}, {condition, x, y});
  ASSERT_TRUE(z.ok()) << z.status();
  EXPECT_TRUE(Close((*z)[0],
                    Tensor::Of<float>({2, 3, 4}, {1,  1,  1,  1,  2,  2,  2,  2,  3,  3,  3,  3,
                                                  10, 20, 30, 40, 10, 20, 30, 40, 10, 20, 30, 40}),
                    Exact()));
}

TEST(Where, ChoosesElementsOfEveryWidth) {
  const Tensor condition = Tensor::Of<bool>({3}, {true, false, true});
  const auto expect = [&](auto a, auto b) {
    using T = decltype(a);
    const auto z = test::RunOp({.op_type = "Where"},
                               {condition, Tensor::Of<T>({1}, {a}), Tensor::Of<T>({1}, {b})});
    ASSERT_TRUE(z.ok()) << z.status();
    EXPECT_TRUE(Close((*z)[0], Tensor::Of<T>({3}, {a, b, a}), Exact()));
  };
  expect(true, false);
  expect(int8_t{1}, int8_t{2});
  expect(int16_t{1}, int16_t{2});
  expect(int32_t{1}, int32_t{2});
  expect((int64_t{1} << 53) + 1, int64_t{2});
  expect(1.0, 2.0);
  expect(std::string("a long string that lives on the heap"), std::string("b"));
}

TEST(Where, EveryLengthChoosesByItsOwnCondition) {
  for (int64_t n = 1; n <= 70; ++n) {
    Tensor condition = *Tensor::Allocate(DType::kBool, {2, n});
    for (int64_t i = 0; i < 2 * n; ++i) condition.mutable_data<bool>()[i] = i % 3 == 0;
    const Tensor x = test::RandomFloats({2, n}, 1);
    for (const Shape& shape : {Shape{2, n}, Shape{n}, Shape{2, 1}}) {
      const Tensor y = test::RandomFloats(shape, 2);
      const Tensor z = test::Apply({.op_type = "Where"}, {condition, x, y});
      ASSERT_EQ(z.shape(), Shape({2, n}));
      for (int64_t i = 0; i < 2 * n; ++i) {
        const int64_t other = shape == Shape{2, 1} ? i / n : i % y.elements();
        const float expected = i % 3 == 0 ? x.data<float>()[i] : y.data<float>()[other];
        ASSERT_EQ(z.data<float>()[i], expected) << n << " element " << i;
      }
    }
  }
}

TEST(Where, FollowsTheShapeThatExpandIsGiven) {
  // -1 in a wanted shape stands for the extent that is there.
  const graph::Dim n = graph::Dim::Symbol("N");
  test::GraphBuilder builder;
  builder.Input("shape", DType::kInt64, {2})
      .Constant("minus", Tensor::Of<int64_t>({2}, {-1, -1}))
      .Constant("ones", Tensor::Of<int64_t>({2}, {1, 1}))
      .Node("Equal", {"shape", "minus"}, {"open"})
      .Node("Where", {"open", "ones", "shape"}, {"wanted"})
      .Output("wanted");
  const graph::Graph graph = builder.Build();
  for (const graph::NodeId id : graph.order()) {
    const graph::Node& node = graph.node(id);
    if (node.op_type != "Where") continue;
    ops::ValueFacts condition = ops::FactsOf(Tensor::Of<bool>({2}, {false, true}));
    ops::ValueFacts ones = ops::FactsOf(Tensor::Of<int64_t>({2}, {1, 1}));
    ops::ValueFacts shape;
    shape.dtype = DType::kInt64;
    shape.dims = graph::DimVector{2};
    shape.content = graph::DimVector{n, 3};
    ops::InferContext context(node, {&condition, &ones, &shape});
    ASSERT_TRUE(ops::OpOf(node).Infer(context).ok());
    ASSERT_TRUE(context.results()[0].content.has_value());
    EXPECT_EQ(graph::ToString(*context.results()[0].content), "[N,1]");
  }
}

TEST(Where, ADtypeThatDiffersIsRefused) {
  const auto z = test::RunOp({.op_type = "Where"}, {Tensor::Scalar(true), Tensor::Scalar(1.0f),
                                                    Tensor::Scalar<int64_t>(1)});
  ASSERT_FALSE(z.ok());
  EXPECT_EQ(std::string(Message(z.status())),
            "input 2 is of type int64 where float, the type of input 1, is expected");
}

}  // namespace
}  // namespace tandem
