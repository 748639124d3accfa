// One weight that several nodes read, by its name or through others: the numbers are those of
// private copies, and a pack belongs to what a node does with the weight.
#include <gtest/gtest.h>

#include "tests/engine/api/comparison.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::ExpectMeans;
using test::LoadModel;
using test::ModelBuilder;
using test::RandomFloats;
using Ints = std::vector<int64_t>;

const graph::Dim kN = graph::Dim::Symbol("N");
const graph::Attributes kSame3 = {{"pads", Ints{1, 1, 1, 1}}};

graph::Attributes Grouped(int64_t group) { return {{"pads", Ints{1, 1, 1, 1}}, {"group", group}}; }

// A chain of nodes from the weight to another name of it; the last one makes `to`.
struct Alias {
  const char* name;
  void (*add)(ModelBuilder& builder);
};

constexpr Alias kAliases[] = {
    {"Identity", [](ModelBuilder& b) { b.Node("Identity", {"w"}, {"v"}); }},
    {"three Identity",
     [](ModelBuilder& b) {
       b.Node("Identity", {"w"}, {"w1"})
           .Node("Identity", {"w1"}, {"w2"})
           .Node("Identity", {"w2"}, {"v"});
     }},
    {"Cast to its own type",
     [](ModelBuilder& b) {
       b.Node("Cast", {"w"}, {"v"}, {{"to", int64_t{1}}});
     }},
    {"Reshape to its own shape",
     [](ModelBuilder& b) {
       b.Initializer("own", Tensor::Of<int64_t>({4}, {16, 1, 3, 3}))
           .Node("Reshape", {"w", "own"}, {"v"});
     }},
    {"Reshape there and back",
     [](ModelBuilder& b) {
       b.Initializer("flat", Tensor::Of<int64_t>({2}, {16, -1}))
           .Initializer("own", Tensor::Of<int64_t>({4}, {16, 1, 3, 3}))
           .Node("Reshape", {"w", "flat"}, {"w1"})
           .Node("Reshape", {"w1", "own"}, {"v"});
     }},
    {"Transpose there and back",
     [](ModelBuilder& b) {
       b.Node("Transpose", {"w"}, {"w1"}, {{"perm", Ints{2, 3, 1, 0}}})
           .Node("Transpose", {"w1"}, {"v"}, {{"perm", Ints{3, 2, 0, 1}}});
     }},
    {"Unsqueeze and Squeeze",
     [](ModelBuilder& b) {
       b.Initializer("axes", Tensor::Of<int64_t>({1}, {0}))
           .Node("Unsqueeze", {"w", "axes"}, {"w1"})
           .Node("Squeeze", {"w1", "axes"}, {"v"});
     }},
};

// x -> Conv(w) -> h -> Conv(v) -> y, depthwise over 16 channels; `alias` makes v of w.
std::string TwoDepthwise(const Alias* alias) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {kN, 16, 9, 7})
      .Initializer("w", RandomFloats({16, 1, 3, 3}, 1));
  if (alias == nullptr) {
    builder.Initializer("v", RandomFloats({16, 1, 3, 3}, 1));
  } else {
    alias->add(builder);
  }
  return builder.Node("Conv", {"x", "w"}, {"h"}, Grouped(16))
      .Node("Conv", {"h", "v"}, {"y"}, Grouped(16))
      .Output("h", DType::kFloat, {kN, 16, 9, 7})
      .Output("y", DType::kFloat, {kN, 16, 9, 7})
      .Serialize();
}

TEST(SharedWeights, AWeightUnderAnotherNameIsTheSameWeight) {
  for (const Alias& alias : kAliases) {
    SCOPED_TRACE(alias.name);
    ExpectMeans(TwoDepthwise(&alias), {.oracle = TwoDepthwise(nullptr)});
    const Engine engine(EngineOptions{.threads = 1});
    ASSERT_NE(LoadModel(engine, TwoDepthwise(&alias)), nullptr);
    EXPECT_EQ(engine.stats().packs_built, 1u);
    EXPECT_EQ(engine.stats().constant_bytes, 0u);
  }
}

TEST(SharedWeights, ANameThatNoPassResolvesIsReadAsItIs) {
  for (const Alias& alias : kAliases) {
    SCOPED_TRACE(alias.name);
    const Engine engine(test::WithoutPasses());
    const auto model = LoadModel(engine, TwoDepthwise(&alias));
    const auto copies = LoadModel(engine, TwoDepthwise(nullptr));
    ASSERT_TRUE(model != nullptr && copies != nullptr);
    const auto inputs = test::InputsOf(*model, 2);
    test::ExpectClose(test::Answers(*model, inputs), test::Answers(*copies, inputs), test::Exact());
  }
}

// The name of the weight, or of a copy of it for each reader.
std::string Name(const std::string& reader, bool shared) { return shared ? "w" : "w_" + reader; }

// Five convolutions of one weight.
std::string FiveReaders(bool shared) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {kN, 6, 7, 5});
  if (shared) builder.Initializer("w", RandomFloats({6, 6, 3, 3}, 1));
  for (const std::string n : {"a", "b", "c", "d", "e"}) {
    if (!shared) builder.Initializer(Name(n, shared), RandomFloats({6, 6, 3, 3}, 1));
    const std::string from =
        n == "a" || n == "b" ? "x" : std::string(1, static_cast<char>(n[0] - 2));
    builder.Node("Conv", {from, Name(n, shared)}, {n}, kSame3)
        .Output(n, DType::kFloat, {kN, 6, 7, 5});
  }
  return builder.Serialize();
}

TEST(SharedWeights, OfSeveralConvolutionsArePackedOnce) {
  ExpectMeans(FiveReaders(true), {.oracle = FiveReaders(false)});
  const Engine engine(EngineOptions{.threads = 1});
  const auto model = LoadModel(engine, FiveReaders(true));
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(engine.stats().packs_built, 1u);
  EXPECT_EQ(engine.stats().packs_shared, 4u);
  // Equal contents are one weight, too.
  ASSERT_NE(LoadModel(engine, FiveReaders(false)), nullptr);
  EXPECT_EQ(engine.stats().packs_built, 1u);
}

// w[8,1,3,3] as the filters of one channel and of eight each by itself, transposed in both ways, as
// a matrix, as an operand, as what is summed and measured, and as an output.
std::string ManyRoles(bool shared) {
  ModelBuilder builder(17);
  builder.Input("x1", DType::kFloat, {kN, 1, 9, 7})
      .Input("x8", DType::kFloat, {kN, 8, 9, 7})
      .Input("m", DType::kFloat, {kN, 8})
      .Initializer("two", Tensor::Scalar(2.0F))
      .Initializer("matrix", Tensor::Of<int64_t>({2}, {8, 9}));
  const Tensor weight = RandomFloats({8, 1, 3, 3}, 1);
  if (shared) builder.Initializer("w", weight);
  if (!shared) {
    for (const std::string reader :
         {"one", "each", "again", "up", "up8", "product", "scaled", "sum", "shape"}) {
      builder.Initializer(Name(reader, shared), weight);
    }
    builder.Initializer("w", weight);
  }
  return builder.Node("Conv", {"x1", Name("one", shared)}, {"one"}, kSame3)
      .Node("Conv", {"x8", Name("each", shared)}, {"each"}, Grouped(8))
      .Node("Conv", {"one", Name("again", shared)}, {"again"}, Grouped(8))
      .Node("ConvTranspose", {"x8", Name("up", shared)}, {"up"})
      .Node("ConvTranspose", {"x8", Name("up8", shared)}, {"up8"}, {{"group", int64_t{8}}})
      .Node("Reshape", {Name("product", shared), "matrix"}, {"flat"})
      .Node("MatMul", {"m", "flat"}, {"product"})
      .Node("Mul", {Name("scaled", shared), "two"}, {"scaled"})
      .Node("ReduceSum", {Name("sum", shared)}, {"sum"}, {{"keepdims", int64_t{0}}})
      .Node("Shape", {Name("shape", shared)}, {"shape"})
      .Output("one", DType::kFloat, {kN, 8, 9, 7})
      .Output("each", DType::kFloat, {kN, 8, 9, 7})
      .Output("again", DType::kFloat, {kN, 8, 9, 7})
      .Output("up", DType::kFloat, {kN, 1, 11, 9})
      .Output("up8", DType::kFloat, {kN, 8, 11, 9})
      .Output("product", DType::kFloat, {kN, 9})
      .Output("scaled", DType::kFloat, {8, 1, 3, 3})
      .Output("sum", DType::kFloat, {})
      .Output("shape", DType::kInt64, {4})
      .Output("w", DType::kFloat, {8, 1, 3, 3})
      .Serialize();
}

TEST(SharedWeights, EveryRoleHasItsOwnFormAndOthersSeeTheWeightItself) {
  ExpectMeans(ManyRoles(true), {.oracle = ManyRoles(false)});
  for (const bool passes : {true, false}) {
    const Engine engine(passes ? EngineOptions{.threads = 1} : test::WithoutPasses());
    const auto model = LoadModel(engine, ManyRoles(true));
    ASSERT_NE(model, nullptr);
    const auto outputs = test::Answers(*model, test::InputsOf(*model, 2));
    EXPECT_TRUE(test::Close(outputs.at("w"), RandomFloats({8, 1, 3, 3}, 1), test::Exact()));
    // One as a dense filter, one for the two depthwise readers, two transposed, one as a matrix.
    EXPECT_EQ(engine.stats().packs_built, passes ? 5u : 4u);
  }
}

// w[4,2,3,3] over two channels and over four in two groups.
std::string TwoGroupings(bool shared) {
  ModelBuilder builder(17);
  builder.Input("x2", DType::kFloat, {kN, 2, 6, 5}).Input("x4", DType::kFloat, {kN, 4, 6, 5});
  for (const std::string reader : {"a", "b"}) {
    if (shared && reader == "b") continue;
    builder.Initializer(Name(reader, shared), RandomFloats({4, 2, 3, 3}, 1));
  }
  return builder.Node("Conv", {"x2", Name("a", shared)}, {"a"}, kSame3)
      .Node("Conv", {"x4", Name("b", shared)}, {"b"}, Grouped(2))
      .Output("a", DType::kFloat, {kN, 4, 6, 5})
      .Output("b", DType::kFloat, {kN, 4, 6, 5})
      .Serialize();
}

TEST(SharedWeights, EveryGroupingHasItsOwnPack) {
  ExpectMeans(TwoGroupings(true), {.oracle = TwoGroupings(false)});
  const Engine engine(EngineOptions{.threads = 1});
  ASSERT_NE(LoadModel(engine, TwoGroupings(true)), nullptr);
  EXPECT_EQ(engine.stats().packs_built, 2u);
}

enum class Bias { kNone, kShared };

// Two convolutions of one weight, each with its own normalization, meet in an Add.
std::string TwoNormalizations(bool shared, Bias bias) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {kN, 5, 6, 7});
  for (const std::string n : {"a", "b"}) {
    const uint32_t seed = n == "a" ? 10 : 20;
    if (!shared || n == "a") {
      builder.Initializer(Name(n, shared), RandomFloats({5, 5, 3, 3}, 1));
      builder.Initializer(Name(n, shared) + "_bias", RandomFloats({5}, 2));
    }
    builder.Initializer("scale_" + n, RandomFloats({5}, seed + 1, 0.5F, 2))
        .Initializer("shift_" + n, RandomFloats({5}, seed + 2))
        .Initializer("mean_" + n, RandomFloats({5}, seed + 3))
        .Initializer("var_" + n, RandomFloats({5}, seed + 4, 0.5F, 2));
    std::vector<std::string> inputs = {"x", Name(n, shared)};
    if (bias == Bias::kShared) inputs.push_back(Name(n, shared) + "_bias");
    builder.Node("Conv", inputs, {"conv_" + n}, kSame3)
        .Node("BatchNormalization",
              {"conv_" + n, "scale_" + n, "shift_" + n, "mean_" + n, "var_" + n}, {"norm_" + n});
  }
  return builder.Node("Add", {"norm_a", "norm_b"}, {"y"})
      .Output("y", DType::kFloat, {kN, 5, 6, 7})
      .Serialize();
}

TEST(SharedWeights, EveryNormalizationScalesItsOwnCopy) {
  for (const Bias bias : {Bias::kNone, Bias::kShared}) {
    const std::string model = TwoNormalizations(true, bias);
    ExpectMeans(model, {.oracle = TwoNormalizations(false, bias)});
    ExpectMeans(
        model,
        {.oracle = model, .options = test::WithoutPasses(), .tolerance = test::Reduction(2 * 45)});
  }
}

// Models of equal shapes come and go, so that weights lie where others have lain.
TEST(SharedWeights, APackIsNotTakenForThatOfAModelThatIsGone) {
  const Engine engine(EngineOptions{.threads = 1});
  for (uint32_t seed = 1; seed <= 16; ++seed) {
    const std::string bytes = ModelBuilder(17)
                                  .Input("x", DType::kFloat, {kN, 8, 6, 6})
                                  .Initializer("w", RandomFloats({8, 8, 3, 3}, seed))
                                  .Node("Conv", {"x", "w"}, {"y"})
                                  .Output("y", DType::kFloat, {kN, 8, 4, 4})
                                  .Serialize();
    const auto model = LoadModel(engine, bytes);
    const Engine other(EngineOptions{.threads = 1});
    const auto fresh = LoadModel(other, bytes);
    ASSERT_TRUE(model != nullptr && fresh != nullptr);
    const auto inputs = test::InputsOf(*model, 1);
    test::ExpectClose(test::Answers(*model, inputs), test::Answers(*fresh, inputs), test::Exact());
    EXPECT_EQ(engine.stats().packs_built, seed);
  }
}

}  // namespace
}  // namespace tandem
