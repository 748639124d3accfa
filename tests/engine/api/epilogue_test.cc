// Element-wise operators in the epilogue of the product before them: they fuse, and mean the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/engine/api/comparison.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::ModelBuilder;
using test::RandomFloats;

// y = `op`(x W, b) or `op`(b, x W) with x [5, 7], W [7, 9] and b of `operand`.
std::string Product(const std::string& op, bool operand_is_first, const Shape& operand) {
  const std::vector<std::string> inputs =
      operand_is_first ? std::vector<std::string>{"b", "p"} : std::vector<std::string>{"p", "b"};
  return ModelBuilder(17)
      .Input("x", DType::kFloat, {5, 7})
      .Initializer("w", RandomFloats({7, 9}, 1))
      .Initializer("b", RandomFloats(operand, 2))
      .Node("MatMul", {"x", "w"}, {"p"})
      .Node(op, inputs, {"y"})
      .Output("y", DType::kFloat, {5, 9})
      .Serialize();
}

TEST(EpilogueTest, BinaryOperatorsFuseOnEitherSideWithTheSameBits) {
  const Engine fused(EngineOptions{.threads = 1});
  const Engine plain(EngineOptions{.threads = 1, .disabled_passes = {"fuse_epilogue"}});
  for (const std::string op : {"Add", "Sub", "Mul"}) {
    for (const bool first : {false, true}) {
      for (const Shape& operand : {Shape({9}), Shape({5, 9}), Shape({1})}) {
        SCOPED_TRACE(op + (first ? " of operand and product " : " of product and operand ") +
                     ToString(operand));
        const std::string bytes = Product(op, first, operand);
        const auto one = fused.LoadBytes(bytes);
        const auto other = plain.LoadBytes(bytes);
        ASSERT_TRUE(one.ok() && other.ok()) << one.status() << other.status();
        EXPECT_THAT((*one)->Explain(), testing::HasSubstr("fuse_epilogue: 1"));
        EXPECT_THAT((*other)->Explain(), testing::Not(testing::HasSubstr("fuse_epilogue: 1")));
        const std::vector<NamedTensor> inputs = {{"x", RandomFloats({5, 7}, 3)}};
        const auto a = (*one)->Run(inputs);
        const auto b = (*other)->Run(inputs);
        ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
        EXPECT_TRUE(test::Close(a->outputs[0].tensor, b->outputs[0].tensor, test::Exact()));
      }
    }
  }
}

struct Producer {
  std::string name;
  graph::DimVector result;
  Shape column;                            // one element a column, against the result
  std::function<void(ModelBuilder&)> add;  // inputs, weights and the node that makes p
};

const graph::Dim kN = graph::Dim::Symbol("N");

Producer Convolution(const std::string& op, const Shape& weights, int64_t group, int64_t stride) {
  const bool transposed = op == "ConvTranspose";
  const int64_t channels = transposed ? weights[1] * group : weights[0];
  const int64_t inputs = transposed ? weights[0] : weights[1] * group;
  const int64_t kernel = weights[2];
  const int64_t extent = transposed ? stride * 4 + kernel : (5 - kernel) / stride + 1;
  return {fmt::format("{} {} group {} stride {}", op, ToString(weights), group, stride),
          {kN, channels, extent, extent},
          {channels, 1, 1},
          [=](ModelBuilder& builder) {
            builder.Input("x", DType::kFloat, {kN, inputs, 5, 5})
                .Initializer("w", RandomFloats(weights, 1))
                .Initializer("own", RandomFloats({channels}, 2))
                .Node(op, {"x", "w", "own"}, {"p"},
                      {{"group", group}, {"strides", std::vector<int64_t>{stride, stride}}});
          }};
}

std::vector<Producer> Producers() {
  return {
      Convolution("Conv", {20, 6, 3, 3}, 1, 1),
      Convolution("Conv", {20, 6, 1, 1}, 1, 2),
      Convolution("Conv", {18, 1, 3, 3}, 18, 1),
      Convolution("ConvTranspose", {6, 20, 3, 3}, 1, 1),
      Convolution("ConvTranspose", {6, 20, 2, 2}, 1, 2),
      Convolution("ConvTranspose", {6, 20, 3, 3}, 1, 2),
      Convolution("ConvTranspose", {18, 1, 3, 3}, 18, 2),
      {"Gemm",
       {kN, 37},
       {37},
       [](ModelBuilder& builder) {
         builder.Input("x", DType::kFloat, {kN, 7})
             .Initializer("w", RandomFloats({7, 37}, 1))
             .Initializer("own", RandomFloats({37}, 2))
             .Node("Gemm", {"x", "w", "own"}, {"p"});
       }},
      {"MatMul",
       {kN, 5, 37},
       {37},
       [](ModelBuilder& builder) {
         builder.Input("x", DType::kFloat, {kN, 5, 7})
             .Initializer("w", RandomFloats({7, 37}, 1))
             .Node("MatMul", {"x", "w"}, {"p"});
       }},
      {"MatMul of batches",
       {kN, 2, 5, 37},
       {37},
       [](ModelBuilder& builder) {
         builder.Input("x", DType::kFloat, {kN, 2, 5, 7})
             .Input("w", DType::kFloat, {kN, 2, 7, 37})
             .Node("MatMul", {"x", "w"}, {"p"});
       }},
  };
}

// y from p: constants s (a scalar) and c (one element a column), input r of the result's extents.
struct Tail {
  std::string name;
  std::vector<std::pair<std::string, std::vector<std::string>>> lines;  // the last one makes y
  graph::Attributes attributes = {};                                    // of the first line
  std::string fused = {};                                               // else that of the first
};

std::vector<Tail> Tails() {
  return {
      {"bias", {{"Add", {"p", "c"}}}},
      {"scale", {{"Mul", {"p", "c"}}}},
      {"Relu", {{"Relu", {"p"}}}},
      {"Clip", {{"Clip", {"p", "s", "high"}}}},
      {"LeakyRelu", {{"LeakyRelu", {"p"}}}, {{"alpha", 0.2F}}},
      {"PRelu of a scalar", {{"PRelu", {"p", "s"}}}},
      {"PRelu of columns", {{"PRelu", {"p", "c"}}}},
      {"Sigmoid", {{"Sigmoid", {"p"}}}},
      {"SiLU", {{"Sigmoid", {"p"}}, {"Mul", {"p", "t0"}}}, {}, "Swish"},
      {"HardSwish", {{"HardSwish", {"p"}}}},
      {"HardSigmoid", {{"HardSigmoid", {"p"}}}},
      {"Gelu by erf", {{"Gelu", {"p"}}}},
      {"Gelu by tanh", {{"Gelu", {"p"}}}, {{"approximate", std::string("tanh")}}},
      {"Tanh", {{"Tanh", {"p"}}}},
      {"Mish", {{"Mish", {"p"}}}},
      {"residual sum", {{"Add", {"r", "p"}}}},
      {"residual product", {{"Mul", {"p", "r"}}}},
  };
}

std::string Joined(const Producer& producer, const Tail& tail) {
  ModelBuilder builder(20);
  producer.add(builder);
  builder.Input("r", DType::kFloat, producer.result)
      .Initializer("s", Tensor::Scalar(-0.25F))
      .Initializer("high", Tensor::Scalar(0.5F))
      .Initializer("c", RandomFloats(producer.column, 4));
  for (size_t i = 0; i < tail.lines.size(); ++i) {
    const bool last = i + 1 == tail.lines.size();
    builder.Node(tail.lines[i].first, tail.lines[i].second, {last ? "y" : fmt::format("t{}", i)},
                 i == 0 ? tail.attributes : graph::Attributes());
  }
  return builder.Output("y", DType::kFloat, producer.result).Serialize();
}

TEST(EpilogueTest, EveryProducerTakesEveryTailWithTheSameBits) {
  for (const Producer& producer : Producers()) {
    for (const Tail& tail : Tails()) {
      SCOPED_TRACE(producer.name + " and " + tail.name);
      const std::string bytes = Joined(producer, tail);
      const Engine engine(EngineOptions{.threads = 1});
      const auto model = test::LoadModel(engine, bytes);
      ASSERT_NE(model, nullptr);
      const std::string stage = tail.fused.empty() ? tail.lines[0].first : tail.fused;
      EXPECT_THAT(model->Explain(), testing::HasSubstr(" +" + stage));
      EXPECT_THAT(model->Explain(), testing::Not(testing::HasSubstr("elementwise.")));
      test::ExpectMeans(bytes, {.oracle = bytes,
                                .options = {.threads = 1, .disabled_passes = {"fuse_epilogue"}},
                                .batches = {1, 3}});
    }
  }
}

TEST(EpilogueTest, AResultThatOthersReadKeepsItsTailApart) {
  for (const Producer& producer : Producers()) {
    for (const std::string op : {"Mish", "PRelu"}) {
      SCOPED_TRACE(producer.name + " and " + op);
      for (const bool output : {false, true}) {
        ModelBuilder builder(20);
        producer.add(builder);
        builder.Initializer("c", RandomFloats(producer.column, 4));
        if (op == "Mish") {
          builder.Node(op, {"p"}, {"y"});
        } else {
          builder.Node(op, {"p", "c"}, {"y"});
        }
        builder.Output("y", DType::kFloat, producer.result);
        if (output) {
          builder.Output("p", DType::kFloat, producer.result);
        } else {
          builder.Node("Exp", {"p"}, {"z"}).Output("z", DType::kFloat, producer.result);
        }
        const std::string bytes = builder.Serialize();
        const Engine engine(EngineOptions{.threads = 1});
        const auto model = test::LoadModel(engine, bytes);
        ASSERT_NE(model, nullptr);
        EXPECT_THAT(model->Explain(), testing::HasSubstr(output ? "the result is a graph output"
                                                                : "the result has other readers"));
        test::ExpectMeans(bytes, {.oracle = bytes,
                                  .options = {.threads = 1, .disabled_passes = {"fuse_epilogue"}},
                                  .batches = {2}});
      }
    }
  }
}

TEST(EpilogueTest, AProductThatIsTheSlopeStaysApart) {
  const std::string bytes = ModelBuilder(17)
                                .Input("x", DType::kFloat, {5, 7})
                                .Input("z", DType::kFloat, {5, 9})
                                .Initializer("w", RandomFloats({7, 9}, 1))
                                .Node("MatMul", {"x", "w"}, {"p"})
                                .Node("PRelu", {"z", "p"}, {"y"})
                                .Output("y", DType::kFloat, {5, 9})
                                .Serialize();
  const Engine engine(EngineOptions{.threads = 1});
  EXPECT_THAT(test::LoadModel(engine, bytes)->Explain(),
              testing::HasSubstr("the result is the slope"));
  test::ExpectMeans(bytes, {.oracle = bytes, .options = test::WithoutPasses()});
}

}  // namespace
}  // namespace tandem
