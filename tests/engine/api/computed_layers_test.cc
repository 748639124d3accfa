// Layers whose weights and biases a model computes: the same model with the results as initializers
// is their oracle, in every order of the nodes, on several threads, with batches of several sizes.
#include <gtest/gtest.h>

#include <functional>

#include "tests/engine/api/comparison.h"
#include "tests/support/random_bytes.h"

namespace tandem {
namespace {

using test::ExpectMeans;
using test::LoadModel;
using test::ModelBuilder;
using test::RandomBytes;
using test::RandomFloats;
using Ints = std::vector<int64_t>;
using Strings = std::vector<std::string>;

const graph::Dim kN = graph::Dim::Symbol("N");

struct Layer {
  std::string name;
  graph::DimVector x;
  Strings computed;                             // what `weights` makes of initializers
  std::function<void(ModelBuilder&)> weights;   // the nodes that make it
  std::function<void(ModelBuilder&)> products;  // from x and `computed` to y
  uint64_t packs = 1;
};

// An operand of quantised operators: its scale and zero point, under names of their own.
void AddQuantisation(ModelBuilder& builder, const std::string& name, const Tensor& scale,
                     const Tensor& zero) {
  builder.Initializer(name + "_scale", scale).Initializer(name + "_zero", zero);
}

void AddWeightNorm(ModelBuilder& builder, const Shape& v, const Shape& g, const Ints& axes) {
  builder.Initializer("v", RandomFloats(v, 1))
      .Initializer("g", RandomFloats(g, 2, 0.5F, 2))
      .Node("ReduceL2", {"v"}, {"norm"}, {{"axes", axes}})
      .Node("Div", {"g", "norm"}, {"scale"})
      .Node("Mul", {"v", "scale"}, {"w"});
}

// w = v g
void AddScaled(ModelBuilder& builder, const Shape& v, const Shape& g) {
  builder.Initializer("v", RandomFloats(v, 1))
      .Initializer("g", RandomFloats(g, 2, 0.5F, 2))
      .Node("Mul", {"v", "g"}, {"w"});
}

// b [8] of `to`, by splitting, casting and adding.
void AddBias(ModelBuilder& builder, DType to) {
  const Tensor more = RandomFloats({8}, 5, -100, 100);
  const graph::Attributes cast = {{"to", static_cast<int64_t>(to)}};
  builder.Initializer("biases", RandomFloats({16}, 4, -100, 100))
      .Initializer("parts", Tensor::Of<int64_t>({2}, {8, 8}))
      .Initializer("more", more)
      .Node("Split", {"biases", "parts"}, {"", "second"})
      .Node("Cast", {"second"}, {"cast"}, cast)
      .Node("Cast", {"more"}, {"cast_more"}, cast)
      .Node("Add", {"cast", "cast_more"}, {"b"});
}

void AddProjections(ModelBuilder& builder) {
  const Strings parts = {"q", "k", "v"};
  builder.Initializer("in_proj", RandomFloats({120, 40}, 1))
      .Initializer("in_bias", RandomFloats({120}, 2))
      .Initializer("parts", Tensor::Of<int64_t>({3}, {40, 40, 40}))
      .Node("Split", {"in_proj", "parts"}, {"wq", "wk", "wv"})
      .Node("Split", {"in_bias", "parts"}, {"bq", "bk", "bv"});
  for (const std::string& part : parts) {
    builder.Node("Transpose", {"w" + part}, {"t" + part}, {{"perm", Ints{1, 0}}});
  }
}

void AddProjected(ModelBuilder& builder) {
  for (const std::string part : {"q", "k", "v"}) {
    builder.Node("MatMul", {"x", "t" + part}, {"m" + part})
        .Node("Add", {"m" + part, "b" + part}, {part})
        .Output(part);
  }
}

void AddSpectralNorm(ModelBuilder& builder) {
  builder.Initializer("weight", RandomFloats({20, 4, 3, 3}, 1))
      .Initializer("matrix_shape", Tensor::Of<int64_t>({2}, {20, 36}))
      .Initializer("u", RandomFloats({20}, 2))
      .Initializer("v", RandomFloats({36}, 3))
      .Node("Reshape", {"weight", "matrix_shape"}, {"matrix"})
      .Node("MatMul", {"matrix", "v"}, {"wv"})
      .Node("MatMul", {"u", "wv"}, {"sigma"})
      .Node("Div", {"weight", "sigma"}, {"w"});
}

// y = op(x, w)
std::function<void(ModelBuilder&)> Product(const std::string& op,
                                           const graph::Attributes& attributes = {}) {
  return [=](ModelBuilder& b) { b.Node(op, {"x", "w"}, {"y"}, attributes).Output("y"); };
}

std::vector<Layer> FloatLayers() {
  return {
      {"weight norm of a grouped Conv1d",
       {kN, 48, 20},
       {"w"},
       [](ModelBuilder& b) {
         AddWeightNorm(b, {64, 3, 5}, {1, 1, 5}, {0, 1});
       },
       Product("Conv", {{"group", int64_t{16}}})},
      {"spectral norm", {kN, 4, 9, 9}, {"w"}, AddSpectralNorm, Product("Conv")},
      {"packed projections",
       {kN, 40},
       {"tq", "tk", "tv", "bq", "bk", "bv"},
       AddProjections,
       AddProjected,
       3},
      {"a product of low rank that grows nothing",
       {kN, 60},
       {"w"},
       [](ModelBuilder& b) {
         b.Initializer("down", RandomFloats({60, 50}, 1))
             .Initializer("up", RandomFloats({50, 50}, 2))
             .Node("MatMul", {"down", "up"}, {"w"});
       },
       Product("MatMul")},
      {"a weight of two products that is an output",
       {kN, 40},
       {"w"},
       [](ModelBuilder& b) {
         b.Initializer("weight", RandomFloats({40, 30}, 1)).Node("Tanh", {"weight"}, {"w"});
       },
       [](ModelBuilder& b) {
         b.Node("MatMul", {"x", "w"}, {"y"})
             .Node("Abs", {"x"}, {"z"})
             .Node("MatMul", {"z", "w"}, {"v2"})
             .Output("y")
             .Output("v2")
             .Output("w");
       }},
      {"a depthwise convolution",
       {kN, 24, 9, 8},
       {"w"},
       [](ModelBuilder& b) {
         AddScaled(b, {24, 1, 3, 3}, {24, 1, 1, 1});
       },
       Product("Conv", {{"group", int64_t{24}}})},
      {"a transposed convolution",
       {kN, 6, 5, 4},
       {"w"},
       [](ModelBuilder& b) {
         AddScaled(b, {6, 8, 3, 3}, {6, 1, 1, 1});
       },
       Product("ConvTranspose", {{"strides", Ints{2, 2}}})},
  };
}

// y = what x [N,4,9,8] becomes by a quantised convolution with bias b.
void AddQuantisedConvolution(ModelBuilder& b) {
  AddQuantisation(b, "x", Tensor::Scalar(0.01F), Tensor::Scalar<uint8_t>(120));
  AddQuantisation(b, "w", RandomFloats({8}, 6, 0.001F, 0.01F), RandomBytes<int8_t>({8}, 7));
  AddQuantisation(b, "y", Tensor::Scalar(0.05F), Tensor::Scalar<uint8_t>(130));
  b.Initializer("w", RandomBytes<int8_t>({8, 4, 3, 3}, 8))
      .Node("QuantizeLinear", {"x", "x_scale", "x_zero"}, {"q"})
      .Node("QLinearConv",
            {"q", "x_scale", "x_zero", "w", "w_scale", "w_zero", "y_scale", "y_zero", "b"}, {"r"})
      .Node("DequantizeLinear", {"r", "y_scale", "y_zero"}, {"y"})
      .Output("y");
}

// The same between pairs of QuantizeLinear and DequantizeLinear.
void AddConvolutionOfPairs(ModelBuilder& b) {
  AddQuantisation(b, "x", Tensor::Scalar(0.01F), Tensor::Scalar<uint8_t>(120));
  AddQuantisation(b, "w", RandomFloats({8}, 6, 0.001F, 0.01F), RandomBytes<int8_t>({8}, 7));
  b.Initializer("w8", RandomBytes<int8_t>({8, 4, 3, 3}, 8))
      .Node("QuantizeLinear", {"x", "x_scale", "x_zero"}, {"q"})
      .Node("DequantizeLinear", {"q", "x_scale", "x_zero"}, {"xd"})
      .Node("DequantizeLinear", {"w8", "w_scale", "w_zero"}, {"w"}, {{"axis", int64_t{0}}})
      .Node("Conv", {"xd", "w", "b"}, {"y"})
      .Output("y");
}

// y = what x [N,12] becomes by a product whose left side is quantised in the run.
void AddDynamicProduct(ModelBuilder& b) {
  AddQuantisation(b, "w", Tensor::Scalar(0.02F), Tensor::Scalar<int8_t>(3));
  b.Initializer("w", RandomBytes<int8_t>({12, 8}, 8))
      .Node("DynamicQuantizeLinear", {"x"}, {"q", "q_scale", "q_zero"})
      .Node("MatMulInteger", {"q", "w", "q_zero", "w_zero"}, {"sums"})
      .Node("Cast", {"sums"}, {"numbers"}, {{"to", int64_t{1}}})
      .Node("Mul", {"q_scale", "w_scale"}, {"both"})
      .Node("Mul", {"numbers", "both"}, {"scaled"})
      .Node("Add", {"scaled", "b"}, {"y"})
      .Output("y");
}

std::vector<Layer> QuantisedLayers() {
  const auto bias = [](DType to) { return [to](ModelBuilder& b) { AddBias(b, to); }; };
  const graph::DimVector image = {kN, 4, 9, 8};
  return {
      {"bias of a quantised convolution",
       image,
       {"b"},
       bias(DType::kInt32),
       AddQuantisedConvolution},
      {"bias between quantised values", image, {"b"}, bias(DType::kFloat), AddConvolutionOfPairs},
      {"bias behind dynamic quantisation", {kN, 12}, {"b"}, bias(DType::kFloat), AddDynamicProduct},
  };
}

std::string Computed(const Layer& layer) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, layer.x);
  layer.weights(builder);
  layer.products(builder);
  return builder.Serialize();
}

// The layer with the results of the nodes of its weights, run one by one, as initializers.
std::string Stored(const Layer& layer) {
  ModelBuilder weights(17);
  layer.weights(weights);
  for (const std::string& name : layer.computed) weights.Output(name);
  const Engine engine(test::WithoutPasses());
  const auto model = LoadModel(engine, weights.Serialize());
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, layer.x);
  if (model != nullptr) {
    for (const auto& [name, tensor] : test::Answers(*model, {})) builder.Initializer(name, tensor);
  }
  layer.products(builder);
  return builder.Serialize();
}

TEST(ComputedLayers, HaveTheBitsOfStoredWeights) {
  for (const auto& layers : {FloatLayers(), QuantisedLayers()}) {
    for (const Layer& layer : layers) {
      SCOPED_TRACE(layer.name);
      ExpectMeans(Computed(layer), {.oracle = Stored(layer)});
    }
  }
}

// What loading made of a model within a budget of no growth.
struct Loading {
  std::vector<std::string> kernels;
  std::vector<std::string> rules;  // of declines
  EngineStats stats;
};

Loading Load(const Layer& layer, const std::string& bytes) {
  const Engine engine(EngineOptions{
      .threads = 1, .fold_growth_bytes = 256, .model_growth_share = 0, .model_growth_bytes = 256});
  const auto model = LoadModel(engine, bytes);
  Loading loading;
  if (model == nullptr) return loading;
  Shape shape = {2};
  for (size_t i = 1; i < layer.x.size(); ++i) shape.Append(layer.x[i].number());
  const auto report = model->Report(std::vector<NamedShape>{{"x", shape}});
  EXPECT_TRUE(report.ok()) << report.status();
  if (!report.ok()) return loading;
  for (const TaskReport& task : report->tasks) loading.kernels.push_back(task.kernel);
  for (const Decline& decline : report->declines) loading.rules.push_back(decline.rule);
  loading.stats = engine.stats();
  return loading;
}

TEST(ComputedLayers, HaveThePlanAndTheMemoryOfStoredWeights) {
  for (const auto& layers : {FloatLayers(), QuantisedLayers()}) {
    for (const Layer& layer : layers) {
      SCOPED_TRACE(layer.name);
      const Loading computed = Load(layer, Computed(layer));
      const Loading stored = Load(layer, Stored(layer));
      EXPECT_EQ(computed.kernels, stored.kernels);
      EXPECT_EQ(computed.rules, stored.rules);
      EXPECT_EQ(computed.stats.packs_built, stored.stats.packs_built);
      EXPECT_EQ(computed.stats.pack_bytes, stored.stats.pack_bytes);
      EXPECT_EQ(computed.stats.constant_bytes, stored.stats.constant_bytes);
    }
  }
  for (const Layer& layer : FloatLayers()) {
    EXPECT_EQ(Load(layer, Computed(layer)).stats.packs_built, layer.packs) << layer.name;
  }
}

// Rank 2 makes 1100 by 1100 numbers of 4400: it is computed in every run, and packed in none.
TEST(ComputedLayers, AProductOfLowRankThatWouldGrowHasTheBitsOfTheWholeMatrix) {
  const Layer layer = {"low rank",
                       {kN, 1100},
                       {"w"},
                       [](ModelBuilder& b) {
                         b.Initializer("down", RandomFloats({1100, 2}, 1))
                             .Initializer("up", RandomFloats({2, 1100}, 2))
                             .Node("MatMul", {"down", "up"}, {"w"});
                       },
                       Product("MatMul")};
  const Loading computed = Load(layer, Computed(layer));
  EXPECT_EQ(computed.kernels.size(), 2u);
  ASSERT_EQ(computed.rules.size(), 1u);
  EXPECT_EQ(computed.rules[0], "makes more than it frees and more than one fold may");
  ExpectMeans(Computed(layer), {.oracle = Stored(layer)});
}

TEST(ComputedLayers, AQuantisedKernelIsThatOfItsNumbers) {
  const Layer layer = {
      "quantised kernel",
      {kN, 5, 9, 8},
      {"w"},
      [](ModelBuilder& b) {
        AddQuantisation(b, "w", RandomFloats({8}, 6, 0.001F, 0.01F), RandomBytes<int8_t>({8}, 7));
        b.Initializer("w8", RandomBytes<int8_t>({8, 5, 3, 3}, 8))
            .Node("DequantizeLinear", {"w8", "w_scale", "w_zero"}, {"w"}, {{"axis", int64_t{0}}});
      },
      Product("Conv")};
  ExpectMeans(Computed(layer), {.oracle = Stored(layer), .tolerance = test::Reduction(45)});
}

TEST(ComputedLayers, OneLoadedModelServesTwoLengths) {
  const auto model_of = [](const Engine& engine) {
    ModelBuilder builder(17);
    builder.Input("x", DType::kFloat, {kN, 6, graph::Dim::Symbol("L")});
    AddWeightNorm(builder, {32, 3, 5}, {32, 1, 1}, {1, 2});
    builder.Node("Conv", {"x", "w"}, {"y"}, {{"group", int64_t{2}}}).Output("y");
    return LoadModel(engine, builder.Serialize());
  };
  const Engine engine(EngineOptions{.threads = 2});
  const auto model = model_of(engine);
  ASSERT_NE(model, nullptr);
  for (int turn = 0; turn < 6; ++turn) {
    const int64_t length = turn % 2 == 0 ? 17 : 40;
    const std::vector<NamedTensor> inputs = {
        {"x", RandomFloats({2, 6, length}, static_cast<uint32_t>(turn))}};
    const Engine other(EngineOptions{.threads = 2});
    const auto fresh = model_of(other);
    ASSERT_NE(fresh, nullptr);
    test::ExpectClose(test::Answers(*model, inputs), test::Answers(*fresh, inputs), test::Exact());
  }
  EXPECT_EQ(engine.stats().packs_built, 1u);
}

}  // namespace
}  // namespace tandem
