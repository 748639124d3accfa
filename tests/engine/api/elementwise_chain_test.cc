// Chains of element-wise operators run as one task, and every element keeps its bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "tests/support/compare.h"
#include "tests/support/model_builder.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::ModelBuilder;
using test::RandomFloats;
using testing::HasSubstr;

struct Line {
  std::string op;
  std::vector<std::string> inputs;
  std::string output;
};

// Input x of `shape`; constants f (its shape), r (its last axis), c (its axis before that) and s.
std::string Model(const std::vector<Line>& lines, const Shape& shape,
                  const std::vector<std::string>& outputs) {
  const int rank = shape.rank();
  Shape column = shape;
  for (int axis = 0; axis < rank; ++axis) column[axis] = axis == rank - 2 ? shape[axis] : 1;
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, graph::ToDims(shape))
      .Initializer("f", RandomFloats(shape, 1))
      .Initializer("r", RandomFloats({shape[rank - 1]}, 2))
      .Initializer("c", RandomFloats(column, 3))
      .Initializer("s", Tensor::Scalar(1.5F));
  for (const Line& line : lines) builder.Node(line.op, line.inputs, {line.output});
  for (const std::string& output : outputs) {
    builder.Output(output, DType::kFloat, graph::ToDims(shape));
  }
  return builder.Serialize();
}

const std::vector<Line>& Chain() {
  static const std::vector<Line> chain = {
      {"Sub", {"r", "x"}, "a"}, {"Tanh", {"a"}, "b"},     {"Mul", {"b", "f"}, "d"},
      {"Add", {"c", "d"}, "e"}, {"Sub", {"s", "e"}, "g"}, {"Abs", {"g"}, "h"},
      {"Div", {"h", "x"}, "i"}, {"Sigmoid", {"i"}, "y"},
  };
  return chain;
}

void ExpectSameBits(const std::string& bytes, const Shape& shape, int tasks, int threads) {
  const Engine fused(EngineOptions{.threads = threads});
  const Engine plain(EngineOptions{.threads = 1, .disabled_passes = {"fuse_epilogue"}});
  const auto one = fused.LoadBytes(bytes);
  const auto other = plain.LoadBytes(bytes);
  ASSERT_TRUE(one.ok() && other.ok()) << one.status() << other.status();
  EXPECT_THAT((*one)->Explain(), HasSubstr(fmt::format("{} tasks", tasks)));
  const std::vector<NamedTensor> inputs = {{"x", RandomFloats(shape, 4)}};
  const auto a = (*one)->Run(inputs);
  const auto b = (*other)->Run(inputs);
  ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
  ASSERT_EQ(a->outputs.size(), b->outputs.size());
  for (size_t i = 0; i < a->outputs.size(); ++i) {
    EXPECT_TRUE(test::Close(a->outputs[i].tensor, b->outputs[i].tensor, test::Exact()))
        << a->outputs[i].name << " of " << ToString(shape);
  }
}

TEST(ElementwiseChainTest, RunsAsOneTaskWithTheSameBits) {
  for (const Shape& shape : {Shape({1, 1, 1}), Shape({2, 3, 7}), Shape({1, 3, 1023}),
                             Shape({2, 2, 1025}), Shape({3, 0, 5}), Shape({5, 7, 3000})}) {
    for (const int threads : {1, 4}) {
      ExpectSameBits(Model(Chain(), shape, {"y"}), shape, 1, threads);
    }
  }
}

TEST(ElementwiseChainTest, EveryLengthHasTheSameBits) {
  for (int64_t n = 1; n <= 70; ++n) {
    const Shape shape({2, 3, n});
    ExpectSameBits(Model(Chain(), shape, {"y"}), shape, 1, 1);
  }
}

TEST(ElementwiseChainTest, EveryValueOnTheWayMayBeAnOutput) {
  const Shape shape({2, 3, 70});
  for (const Line& line : Chain()) {
    if (line.output == "y") continue;
    ExpectSameBits(Model(Chain(), shape, {"y", line.output}), shape, 2, 1);
  }
}

TEST(ElementwiseChainTest, AValueThatTheChainReadsTwiceIsNotOverwritten) {
  // h would be computed in the memory of g, which Mul reads again.
  const std::vector<Line> lines = {{"Softmax", {"x"}, "g"},
                                   {"Exp", {"g"}, "h"},
                                   {"Mul", {"h", "g"}, "i"},
                                   {"Softmax", {"i"}, "y"}};
  const Shape shape({4, 3, 300});
  ExpectSameBits(Model(lines, shape, {"y"}), shape, 3, 1);
}

TEST(ElementwiseChainTest, WhatIsReadElsewhereEndsTheChain) {
  const Shape shape({2, 3, 5});
  const std::vector<Line> lines = {
      {"Exp", {"x"}, "a"}, {"Neg", {"a"}, "b"}, {"Sin", {"a"}, "d"}, {"Add", {"b", "d"}, "y"}};
  ExpectSameBits(Model(lines, shape, {"y"}), shape, 3, 1);
}

// The chain of `n` additions of full tensors to x.
std::vector<Line> Additions(int n) {
  std::vector<Line> lines;
  for (int i = 0; i < n; ++i) {
    lines.push_back({"Add",
                     {i == 0 ? "x" : fmt::format("v{}", i - 1), "f"},
                     i == n - 1 ? "y" : fmt::format("v{}", i)});
  }
  return lines;
}

TEST(ElementwiseChainTest, TooManyOperandsStopItWithTheNumbers) {
  const Shape shape({2, 3, 5});
  ExpectSameBits(Model(Additions(6), shape, {"y"}), shape, 1, 1);
  const std::string longer = Model(Additions(7), shape, {"y"});
  ExpectSameBits(longer, shape, 2, 1);
  const Engine engine(EngineOptions{.threads = 1});
  EXPECT_THAT((*engine.LoadBytes(longer))->Explain(), HasSubstr("too many operands (6 > 5)"));
}

TEST(ElementwiseChainTest, IntegersAndPredicatesAreLeftAlone) {
  const std::string bytes = ModelBuilder(17)
                                .Input("x", DType::kInt64, {3})
                                .Input("z", DType::kFloat, {3})
                                .Node("Add", {"x", "x"}, {"a"})
                                .Node("Mul", {"a", "x"}, {"y"})
                                .Node("Greater", {"z", "z"}, {"p"})
                                .Node("Not", {"p"}, {"q"})
                                .Output("y", DType::kInt64, {3})
                                .Output("q", DType::kBool, {3})
                                .Serialize();
  const Engine engine(EngineOptions{.threads = 1});
  const auto model = engine.LoadBytes(bytes);
  ASSERT_TRUE(model.ok()) << model.status();
  const std::string text = (*model)->Explain();
  EXPECT_THAT(text, HasSubstr("4 tasks"));
  EXPECT_THAT(text, HasSubstr("only chains of floating types are fused (int64)"));
  EXPECT_THAT(text, HasSubstr("the element type changes on the way"));
}

}  // namespace
}  // namespace tandem
