// Blocks of mobile networks (pointwise, depthwise, pointwise, residual), also broken ones: the
// numbers are those of their nodes one by one.
#include <gmock/gmock.h>
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
constexpr int64_t kIn = 10;   // channels of x
constexpr int64_t kMid = 22;  // between the pointwise convolutions, no multiple of a vector
constexpr int64_t kSize = 12;

enum class Padding { kExplicit, kSameUpper };

// x -> pointwise -> depthwise -> pointwise -> Add(residual) -> y, with activations on the way.
struct Block {
  int64_t out = 12;
  int64_t kernel = 3;
  int64_t stride = 1;
  int64_t dilation = 1;
  Padding padding = Padding::kExplicit;
  int64_t inputs_per_group = 1;  // 2: no depthwise convolution, though as many groups as outputs
  bool late_residual = false;    // the residual is computed between depthwise and pointwise
  bool second_reader = false;    // of the depthwise result
  std::string activation = "Relu";
  std::vector<std::string> visible = {};
};

graph::Attributes Spatial(const Block& block, int64_t group) {
  const int64_t pad = block.dilation * (block.kernel - 1) / 2;
  graph::Attributes attributes = {{"group", group},
                                  {"strides", Ints{block.stride, block.stride}},
                                  {"dilations", Ints{block.dilation, block.dilation}}};
  if (block.padding == Padding::kSameUpper) {
    attributes["auto_pad"] = std::string("SAME_UPPER");
  } else {
    attributes["pads"] = Ints{pad, pad, pad, pad};
  }
  return attributes;
}

void AddBranch(const Block& block, ModelBuilder& builder) {
  builder.Node("Conv", {"z", "branch"}, {"r0"}, {{"strides", Ints{block.stride, block.stride}}})
      .Node("Relu", {"r0"}, {"r"});
}

std::string Build(const Block& block) {
  const int64_t groups = kMid / block.inputs_per_group;
  const int64_t size = kSize / block.stride;
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {kN, kIn, kSize, kSize})
      .Input("z", DType::kFloat, {kN, 3, kSize, kSize})
      .Initializer("expand", RandomFloats({kMid, kIn, 1, 1}, 1))
      .Initializer("expand_bias", RandomFloats({kMid}, 2))
      .Initializer("spatial",
                   RandomFloats({groups, block.inputs_per_group, block.kernel, block.kernel}, 3))
      .Initializer("project", RandomFloats({block.out, groups, 1, 1}, 4))
      .Initializer("branch", RandomFloats({block.out, 3, 1, 1}, 5))
      .Node("Conv", {"x", "expand", "expand_bias"}, {"a"})
      .Node(block.activation, {"a"}, {"b"});
  if (!block.late_residual) AddBranch(block, builder);
  builder.Node("Conv", {"b", "spatial"}, {"c"}, Spatial(block, groups))
      .Node(block.activation, {"c"}, {"d"});
  if (block.late_residual) AddBranch(block, builder);
  builder.Node("Conv", {"d", "project"}, {"e"}).Node("Add", {"e", "r"}, {"f"});
  builder.Node("Relu", {"f"}, {"y"}).Output("y", DType::kFloat, {kN, block.out, size, size});
  if (block.second_reader) {
    builder.Node("GlobalAveragePool", {"c"}, {"pooled"})
        .Output("pooled", DType::kFloat, {kN, groups, 1, 1});
  }
  for (const std::string& name : block.visible) {
    const bool before = name == "a" || name == "b";
    const bool middle = name == "c" || name == "d";
    const int64_t channels = before ? kMid : middle ? groups : block.out;
    const int64_t extent = before ? kSize : size;
    builder.Output(name, DType::kFloat, {kN, channels, extent, extent});
  }
  return builder.Serialize();
}

void ExpectUnfused(const Block& block) {
  const std::string bytes = Build(block);
  ExpectMeans(bytes, {.oracle = bytes, .options = test::WithoutPasses()});
  ExpectMeans(bytes, {.oracle = bytes,
                      .options = test::WithoutPacks(),
                      .tolerance = test::Reduction(kIn + kMid + block.kernel * block.kernel),
                      .batches = {2}});
}

TEST(MobileBlocks, AnyWidthKernelAndStride) {
  for (const int64_t out : {12, 24, 72}) {
    for (const int64_t kernel : {3, 5}) {
      for (const int64_t stride : {1, 2}) {
        SCOPED_TRACE(fmt::format("{} channels, kernel {}, stride {}", out, kernel, stride));
        ExpectUnfused({.out = out, .kernel = kernel, .stride = stride});
      }
    }
  }
}

TEST(MobileBlocks, DilationsAndPadsThatAreNotTheSameOnBothSides) {
  ExpectUnfused({.dilation = 2});
  ExpectUnfused({.kernel = 5, .dilation = 2});
  ExpectUnfused({.stride = 2, .padding = Padding::kSameUpper});
  ExpectUnfused({.kernel = 5, .stride = 2, .padding = Padding::kSameUpper});
}

TEST(MobileBlocks, AResidualThatIsComputedWithinTheBlock) {
  for (const int64_t stride : {1, 2}) ExpectUnfused({.stride = stride, .late_residual = true});
}

TEST(MobileBlocks, ASecondReaderOfTheDepthwiseResult) {
  ExpectUnfused({.second_reader = true});
  ExpectUnfused({.late_residual = true, .second_reader = true});
}

TEST(MobileBlocks, AsManyGroupsAsOutputsIsNotDepthwise) {
  ExpectUnfused({.inputs_per_group = 2});
  ExpectUnfused({.stride = 2, .inputs_per_group = 2, .late_residual = true});
}

TEST(MobileBlocks, OtherActivations) {
  for (const std::string activation : {"HardSwish", "Sigmoid", "LeakyRelu", "Tanh", "Identity"}) {
    SCOPED_TRACE(activation);
    ExpectUnfused({.activation = activation});
  }
}

TEST(MobileBlocks, EveryValueMayBeAnOutput) {
  for (const std::string name : {"a", "b", "c", "d", "e", "f", "r", "r0"}) {
    SCOPED_TRACE(name);
    const std::string bytes = Build({.late_residual = true, .visible = {name}});
    ExpectMeans(bytes, {.oracle = bytes, .options = test::WithoutPasses(), .batches = {2}});
  }
}

// Eight blocks one behind the other, the result of each an output.
TEST(MobileBlocks, ALongRowOfBlocksComputesAllOfThem) {
  constexpr int kBlocks = 8;
  ModelBuilder builder(17);
  builder.Input("y0", DType::kFloat, {kN, 6, 9, 7});
  for (int i = 0; i < kBlocks; ++i) {
    const auto name = [i](const char* what) { return fmt::format("{}{}", what, i); };
    const auto seed = static_cast<uint32_t>(10 * i);
    builder.Initializer(name("dw"), RandomFloats({6, 1, 3, 3}, seed + 1))
        .Initializer(name("pw"), RandomFloats({6, 6, 1, 1}, seed + 2, -0.3F, 0.3F))
        .Node("Conv", {name("y"), name("dw")}, {name("a")},
              {{"group", int64_t{6}}, {"pads", Ints{1, 1, 1, 1}}})
        .Node("Conv", {name("a"), name("pw")}, {name("b")})
        .Node("Add", {name("b"), name("y")}, {fmt::format("y{}", i + 1)})
        .Output(fmt::format("y{}", i + 1), DType::kFloat, {kN, 6, 9, 7});
  }
  const std::string bytes = builder.Serialize();
  ExpectMeans(bytes, {.oracle = bytes, .options = test::WithoutPasses()});
  const Engine engine(EngineOptions{.threads = 1});
  const auto model = LoadModel(engine, bytes);
  ASSERT_NE(model, nullptr);
  const std::string text = model->Explain();
  for (int i = 0; i < kBlocks; ++i) {
    for (const char* value : {"a", "b"}) {
      EXPECT_THAT(text, testing::HasSubstr(fmt::format("'{}{}'", value, i)));
    }
  }
}

TEST(MobileBlocks, ABatchOfWideDepthwiseImagesHasTheBitsOfItsItems) {
  for (const int64_t channels : {96, 97}) {
    const std::string bytes =
        ModelBuilder(17)
            .Input("x", DType::kFloat, {kN, channels, 9, 11})
            .Initializer("w", RandomFloats({channels, 1, 7, 7}, 1))
            .Node("Conv", {"x", "w"}, {"y"}, {{"group", channels}, {"pads", Ints{3, 3, 3, 3}}})
            .Output("y", DType::kFloat, {kN, channels, 9, 11})
            .Serialize();
    for (const int64_t items : {2, 3, 7}) test::ExpectItemsAlone(bytes, items);
    ExpectMeans(
        bytes,
        {.oracle = bytes, .options = test::WithoutPacks(), .tolerance = test::Reduction(49)});
  }
}

// Patches of a vision transformer: the kernel is as large as its stride.
TEST(MobileBlocks, AConvolutionOfLargePatches) {
  const std::string bytes = ModelBuilder(17)
                                .Input("x", DType::kFloat, {kN, 3, 64, 96})
                                .Initializer("w", RandomFloats({768, 3, 32, 32}, 1))
                                .Initializer("b", RandomFloats({768}, 2))
                                .Node("Conv", {"x", "w", "b"}, {"y"}, {{"strides", Ints{32, 32}}})
                                .Output("y", DType::kFloat, {kN, 768, 2, 3})
                                .Serialize();
  for (const int64_t items : {2, 3}) test::ExpectItemsAlone(bytes, items);
  const Engine plain(test::WithoutPacks());
  const Engine engine(EngineOptions{.threads = 2});
  const auto oracle = LoadModel(plain, bytes);
  const auto model = LoadModel(engine, bytes);
  ASSERT_TRUE(oracle != nullptr && model != nullptr);
  const auto inputs = test::InputsOf(*model, 2);
  test::ExpectClose(test::Answers(*model, inputs), test::Answers(*oracle, inputs),
                    test::Reduction(3 * 32 * 32));
}

}  // namespace
}  // namespace tandem
