// Element-wise operators in the epilogue of the product before them: they fuse, and mean the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "tests/engine/api/comparison.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::ModelBuilder;
using test::RandomFloats;
using Strings = std::vector<std::string>;

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

// A product p = op(reads) of inputs and weights.
struct Producer {
  std::string name;
  graph::DimVector result;
  Shape column;                              // one element a column, against the result
  std::function<void(ModelBuilder&)> reads;  // adds x, w and own
  std::string op;
  Strings inputs;
  graph::Attributes attributes = {};
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
                .Initializer("own", RandomFloats({channels}, 2));
          },
          op,
          {"x", "w", "own"},
          {{"group", group}, {"strides", std::vector<int64_t>{stride, stride}}}};
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
             .Initializer("own", RandomFloats({37}, 2));
       },
       "Gemm",
       {"x", "w", "own"}},
      {"MatMul",
       {kN, 5, 37},
       {37},
       [](ModelBuilder& builder) {
         builder.Input("x", DType::kFloat, {kN, 5, 7}).Initializer("w", RandomFloats({7, 37}, 1));
       },
       "MatMul",
       {"x", "w"}},
      {"MatMul of batches",
       {kN, 2, 5, 37},
       {37},
       [](ModelBuilder& builder) {
         builder.Input("x", DType::kFloat, {kN, 2, 5, 7}).Input("w", DType::kFloat, {kN, 2, 7, 37});
       },
       "MatMul",
       {"x", "w"}},
  };
}

// y from p: constants s (a scalar) and c (one element a column), input r of the result's extents.
struct Tail {
  std::string name;
  std::vector<std::pair<std::string, Strings>> lines;  // the last one makes y
  graph::Attributes attributes = {};                   // of the first line
  std::string fused = {};                              // else that of the first
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

// Adds a product and its tail, whose result is an output of the tail's name.
void AddTail(ModelBuilder& builder, const Producer& producer, const Tail& tail) {
  const auto own = [&tail](const std::string& value) {
    return value == "p" || value == "t0" ? value + " of " + tail.name : value;
  };
  builder.Node(producer.op, producer.inputs, {own("p")}, producer.attributes);
  for (size_t i = 0; i < tail.lines.size(); ++i) {
    Strings inputs;
    for (const std::string& input : tail.lines[i].second) inputs.push_back(own(input));
    builder.Node(tail.lines[i].first, inputs, {i + 1 == tail.lines.size() ? tail.name : own("t0")},
                 i == 0 ? tail.attributes : graph::Attributes());
  }
  builder.Output(tail.name, DType::kFloat, producer.result);
}

// A product for each of the tails.
std::string Joined(const Producer& producer, const std::vector<Tail>& tails) {
  ModelBuilder builder(20);
  producer.reads(builder);
  builder.Input("r", DType::kFloat, producer.result)
      .Initializer("s", Tensor::Scalar(-0.25F))
      .Initializer("high", Tensor::Scalar(0.5F))
      .Initializer("c", RandomFloats(producer.column, 4));
  for (const Tail& tail : tails) AddTail(builder, producer, tail);
  return builder.Serialize();
}

TEST(EpilogueTest, EveryProducerTakesEveryTailWithTheSameBits) {
  std::multiset<std::string> stages;
  for (const Tail& tail : Tails()) {
    stages.insert(tail.fused.empty() ? tail.lines[0].first : tail.fused);
  }
  for (const Producer& producer : Producers()) {
    SCOPED_TRACE(producer.name);
    const std::string bytes = Joined(producer, Tails());
    const Engine engine(EngineOptions{.threads = 1});
    const auto model = test::LoadModel(engine, bytes);
    ASSERT_NE(model, nullptr);
    std::multiset<std::string> fused;
    for (const TaskReport& task : test::ReportOf(*model, test::InputsOf(*model, 1)).tasks) {
      EXPECT_THAT(task.kernel, testing::Not(testing::HasSubstr("elementwise.")));
      EXPECT_LE(task.epilogue.size(), 1U) << task.name;
      fused.insert(task.epilogue.begin(), task.epilogue.end());
    }
    EXPECT_EQ(fused, stages);
    test::ExpectMeans(bytes, {.oracle = bytes,
                              .options = {.threads = 1, .disabled_passes = {"fuse_epilogue"}},
                              .batches = {1, 3}});
  }
}

enum class Reader { kOutput, kNode };

// A product that an activation reads and something else, too.
std::string WithAReader(const Producer& producer, const std::string& op, Reader reader) {
  ModelBuilder builder(20);
  producer.reads(builder);
  builder.Initializer("c", RandomFloats(producer.column, 4))
      .Node(producer.op, producer.inputs, {"p"}, producer.attributes)
      .Node(op, op == "Mish" ? Strings{"p"} : Strings{"p", "c"}, {"y"})
      .Output("y", DType::kFloat, producer.result);
  if (reader == Reader::kOutput) {
    builder.Output("p", DType::kFloat, producer.result);
  } else {
    builder.Node("Exp", {"p"}, {"z"}).Output("z", DType::kFloat, producer.result);
  }
  return builder.Serialize();
}

TEST(EpilogueTest, AResultThatOthersReadKeepsItsTailApart) {
  for (const Producer& producer : Producers()) {
    for (const std::string op : {"Mish", "PRelu"}) {
      SCOPED_TRACE(producer.name + " and " + op);
      for (const Reader reader : {Reader::kOutput, Reader::kNode}) {
        const std::string bytes = WithAReader(producer, op, reader);
        const Engine engine(EngineOptions{.threads = 1});
        const auto model = test::LoadModel(engine, bytes);
        ASSERT_NE(model, nullptr);
        EXPECT_THAT(model->Explain(),
                    testing::HasSubstr(reader == Reader::kOutput ? "the result is a graph output"
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
