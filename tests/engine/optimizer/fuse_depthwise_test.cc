#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/optimizer/pass_testing.h"
#include "tests/support/random_tensor.h"

namespace tandem::optimizer::test {
namespace {

using tandem::test::Exact;
using tandem::test::GraphBuilder;
using tandem::test::RandomFloats;
using testing::ElementsAre;
using Ints = std::vector<int64_t>;

// x -> depthwise d -> Conv 1x1 -> y
struct Pair {
  int64_t channels = 6;
  int64_t inputs_per_group = 1;
  int64_t outputs_per_group = 1;
  int64_t size = 12;
  DType dtype = DType::kFloat;
  graph::Attributes first = {{"pads", Ints{1, 1, 1, 1}}};
  graph::Attributes second = {};
  int64_t kernel = 1;  // of the second
  bool bias = true;
  std::string given;  // "v", "b" or "w": an input where the others are constants
};

Tensor Weights(const Shape& shape, uint32_t seed, DType dtype) {
  Tensor floats = RandomFloats(shape, seed);
  if (dtype == DType::kFloat) return floats;
  std::vector<double> doubles;
  for (int64_t i = 0; i < floats.elements(); ++i) doubles.push_back(floats.data<float>()[i]);
  return Tensor::Of<double>(shape, doubles);
}

struct Builder : GraphBuilder {
  explicit Builder(const Pair& pair = {}) {
    const int64_t groups = pair.channels / pair.inputs_per_group;
    const int64_t between = groups * pair.outputs_per_group;
    const int64_t second_group = [&] {
      const auto found = pair.second.find("group");
      return found == pair.second.end() ? int64_t{1} : found->second.get<int64_t>();
    }();
    const auto add = [&](const std::string& name, const Shape& shape, uint32_t seed) {
      if (name == pair.given) {
        Input(name, pair.dtype, graph::ToDims(shape));
      } else {
        Constant(name, Weights(shape, seed, pair.dtype));
      }
    };
    Input("floats", DType::kFloat, {2, pair.channels, pair.size, pair.size});
    Node("Cast", {"floats"}, {"x"}, {{"to", int64_t{pair.dtype == DType::kFloat ? 1 : 11}}});
    add("v", {between, pair.inputs_per_group, 3, 3}, 1);
    add("b", {between}, 2);
    add("w", {8, between / second_group, pair.kernel, pair.kernel}, 3);
    graph::Attributes attributes = pair.first;
    attributes["group"] = groups;
    std::vector<std::string> inputs = {"x", "v"};
    if (pair.bias) inputs.emplace_back("b");
    Node("Conv", inputs, {"d"}, attributes, "first");
    Node("Conv", {"d", "w"}, {"y"}, pair.second, "second");
  }
};

PassOutcome Fuse(Builder& builder, OptimizeOptions options = {}) {
  return RunPass("fuse_depthwise", builder, Exact(), std::move(options));
}

PassOutcome FusePair(const Pair& pair) {
  Builder builder(pair);
  builder.Output("y");
  return Fuse(builder);
}

std::vector<std::string> PrologueOf(const PassOutcome& outcome) {
  std::vector<std::string> ops;
  EXPECT_EQ(outcome.graph.order().size(), 2U);
  for (const auto& stage : outcome.graph.node(outcome.graph.order()[1]).prologue) {
    ops.push_back(stage.op);
  }
  return ops;
}

TEST(FuseDepthwise, TheDepthwiseConvolutionAndItsBiasBecomeAPrologue) {
  const PassOutcome outcome = FusePair({});
  EXPECT_THAT(PrologueOf(outcome), ElementsAre("Conv", "Add"));
  EXPECT_EQ(outcome.graph.node(outcome.graph.order()[1]).origin, "first + second");
  EXPECT_THAT(PrologueOf(FusePair({.bias = false})), ElementsAre("Conv"));
}

TEST(FuseDepthwise, AnyWindowOfTheFirst) {
  for (const graph::Attributes& first :
       {graph::Attributes{{"pads", Ints{1, 0, 2, 1}}},
        graph::Attributes{{"strides", Ints{2, 1}}, {"pads", Ints{1, 1, 1, 1}}},
        graph::Attributes{{"dilations", Ints{2, 2}}, {"pads", Ints{2, 2, 2, 2}}},
        graph::Attributes{{"auto_pad", std::string("SAME_UPPER")}}}) {
    EXPECT_EQ(PrologueOf(FusePair({.size = 17, .first = first})).size(), 2U);
  }
}

TEST(FuseDepthwise, AutomaticPadsOfAPointwiseConvolutionAreNone) {
  EXPECT_FALSE(FusePair({.second = {{"auto_pad", std::string("SAME_LOWER")}}}).unchanged);
}

TEST(FuseDepthwise, GroupsOfMoreChannelsAreNotDepthwise) {
  ExpectDeclined(FusePair({.inputs_per_group = 2}), "more than one input or output channel");
  ExpectDeclined(FusePair({.outputs_per_group = 2}), "more than one input or output channel");
  // As many groups as outputs, though.
  ExpectDeclined(FusePair({.channels = 12, .inputs_per_group = 2}),
                 "more than one input or output channel");
}

TEST(FuseDepthwise, TheReaderMustBePointwise) {
  ExpectDeclined(FusePair({.second = {{"strides", Ints{2, 2}}}}), "no 1x1 convolution");
  ExpectDeclined(FusePair({.second = {{"pads", Ints{0, 0, 1, 1}}}}), "no 1x1 convolution");
  ExpectDeclined(FusePair({.second = {{"group", int64_t{2}}}}), "no 1x1 convolution");
  ExpectDeclined(FusePair({.kernel = 3}), "no 1x1 convolution");
}

TEST(FuseDepthwise, DoublesStopIt) {
  ExpectDeclined(FusePair({.dtype = DType::kDouble}), "float32 only");
}

TEST(FuseDepthwise, SmallImagesStopIt) {
  ExpectDeclined(FusePair({.size = 11}), "small");
  EXPECT_FALSE(FusePair({.size = 12}).unchanged);
}

TEST(FuseDepthwise, ADepthwiseResultThatIsAnOutputStopsIt) {
  Builder builder;
  builder.Output("y").Output("d");
  ExpectDeclined(Fuse(builder), "is a graph output");
}

TEST(FuseDepthwise, ASecondReaderStopsIt) {
  Builder builder;
  builder.Node("Relu", {"d"}, {"r"}).Output("y").Output("r");
  ExpectDeclined(Fuse(builder), "other readers");
}

TEST(FuseDepthwise, WeightsAndABiasThatAreNotConstantStopIt) {
  ExpectDeclined(FusePair({.given = "v"}), "not constant");
  ExpectDeclined(FusePair({.given = "b"}), "not constant");
  ExpectDeclined(FusePair({.given = "w"}), "the weights of the convolution are not constant");
}

// x -> Conv 1x1 e -> Relu r -> depthwise d -> Relu s -> Conv 1x1 y, with as much between the first
// two as there must be.
struct Bottleneck : GraphBuilder {
  explicit Bottleneck(int64_t size = 64, int64_t kernel = 1) {
    constexpr int64_t kChannels = 32;
    Input("x", DType::kFloat, {1, 4, size, size});
    Constant("u", RandomFloats({kChannels, 4, kernel, kernel}, 1));
    Constant("a", RandomFloats({kChannels}, 2));
    Constant("v", RandomFloats({kChannels, 1, 3, 3}, 3))
        .Constant("b", RandomFloats({kChannels}, 4));
    Constant("w", RandomFloats({8, kChannels, 1, 1}, 5)).Constant("c", RandomFloats({8}, 6));
    const int64_t pad = kernel / 2;
    Node("Conv", {"x", "u", "a"}, {"e"}, {{"pads", Ints{pad, pad, pad, pad}}}, "expand");
    Node("Relu", {"e"}, {"r"});
    Node("Conv", {"r", "v", "b"}, {"d"}, {{"group", kChannels}, {"pads", Ints{1, 1, 1, 1}}},
         "filter");
    Node("Relu", {"d"}, {"s"});
    Node("Conv", {"s", "w", "c"}, {"y"}, {}, "project");
  }
};

// After the passes that make stages of the activations, too.
graph::Graph Fused(Bottleneck& builder) {
  graph::Graph graph = builder.Build();
  OptimizeOptions options;
  for (const std::string& name : PassNames()) {
    if (name != "fuse_depthwise" && name != "fuse_epilogue") options.disabled_passes.insert(name);
  }
  EXPECT_TRUE(Optimize(graph, builder.constants(), options).ok());
  return graph;
}

std::vector<std::string> LastPrologue(const graph::Graph& graph) {
  std::vector<std::string> ops;
  for (const auto& stage : graph.node(graph.order().back()).prologue) ops.push_back(stage.op);
  return ops;
}

TEST(FuseDepthwise, AnInvertedBottleneckIsOneNode) {
  Bottleneck builder;
  builder.Output("y");
  const graph::Graph graph = Fused(builder);
  EXPECT_EQ(graph.order().size(), 1U);
  EXPECT_THAT(LastPrologue(graph), ElementsAre("Conv", "Add", "Relu", "Conv", "Add", "Relu"));
  EXPECT_THAT(graph.node(graph.order()[0]).origin,
              testing::AllOf(testing::HasSubstr("expand"), testing::HasSubstr("filter"),
                             testing::HasSubstr("project")));
}

TEST(FuseDepthwise, TheDepthwiseConvolutionTakesItsExpansionAlone) {
  Bottleneck builder;
  builder.Output("s");
  const PassOutcome outcome = RunPass("fuse_depthwise", builder, Exact());
  ASSERT_TRUE(outcome.unchanged);  // the Relu is between them
  Bottleneck whole;
  whole.Output("s");
  const graph::Graph graph = Fused(whole);
  EXPECT_EQ(graph.order().size(), 1U);
  EXPECT_THAT(LastPrologue(graph), ElementsAre("Conv", "Add", "Relu"));
}

TEST(FuseDepthwise, WhatStaysInACacheIsNotExpandedInRows) {
  Bottleneck builder(63);
  builder.Output("y");
  const graph::Graph graph = Fused(builder);
  EXPECT_EQ(graph.order().size(), 2U);
  EXPECT_THAT(LastPrologue(graph), ElementsAre("Conv", "Add", "Relu"));
}

TEST(FuseDepthwise, OnlyAPointwiseConvolutionIsExpandedInRows) {
  Bottleneck builder(64, 3);
  builder.Output("y");
  EXPECT_EQ(Fused(builder).order().size(), 2U);
}

TEST(FuseDepthwise, AConvolutionThatHasOneInItsPrologueIsNoExpansion) {
  GraphBuilder builder;
  builder.Input("x", DType::kFloat, {1, 32, 64, 64});
  builder.Constant("v", RandomFloats({32, 1, 3, 3}, 1))
      .Constant("w", RandomFloats({32, 32, 1, 1}, 2));
  const graph::Attributes spatial = {{"group", int64_t{32}}, {"pads", Ints{1, 1, 1, 1}}};
  builder.Node("Conv", {"x", "v"}, {"a"}, spatial).Node("Conv", {"a", "w"}, {"b"});
  builder.Node("Conv", {"b", "v"}, {"c"}, spatial, "third").Output("c");
  graph::Graph graph = builder.Build();
  const auto report = Optimize(graph, builder.constants(), {});
  ASSERT_TRUE(report.ok()) << Message(report.status());
  EXPECT_EQ(graph.order().size(), 2U);
  const auto third = std::ranges::find_if(report->declines, [](const Decline& decline) {
    return decline.node.find("third") != std::string::npos;
  });
  ASSERT_NE(third, report->declines.end());
  EXPECT_EQ(third->rule, "depthwise: the convolution before has one in its own prologue");
}

TEST(FuseDepthwise, AReaderOfWhatIsExpandedStopsIt) {
  Bottleneck builder;
  builder.Output("y").Output("r");
  EXPECT_EQ(Fused(builder).order().size(), 2U);
}

// A normalization behind the pair would take its inputs apart.
TEST(FuseDepthwise, NothingIsFoldedIntoThePair) {
  Builder builder;
  for (const char* name : {"scale", "shift", "mean", "variance"}) {
    builder.Constant(name, RandomFloats({8}, 5, 0.5F, 1));
  }
  builder.Node("BatchNormalization", {"y", "scale", "shift", "mean", "variance"}, {"n"});
  builder.Output("n");
  graph::Graph graph = builder.Build();
  for (const std::string only : {"fuse_depthwise", "fold_batch_norm"}) {
    OptimizeOptions options;
    for (const std::string& name : PassNames()) {
      if (name != only) options.disabled_passes.insert(name);
    }
    const auto report = Optimize(graph, builder.constants(), options);
    ASSERT_TRUE(report.ok()) << Message(report.status());
    if (only == "fuse_depthwise") continue;
    ASSERT_EQ(report->declines.size(), 1U);
    EXPECT_EQ(report->declines[0].rule, "the Conv has a prologue already");
  }
  EXPECT_EQ(graph.order().size(), 3U);
}

TEST(FuseDepthwise, AnExtentThatIsOpenStopsIt) {
  GraphBuilder builder;
  builder.Input("x", DType::kFloat, {1, 6, graph::Dim::Symbol("H"), 20});
  builder.Constant("v", RandomFloats({6, 1, 3, 3}, 1)).Constant("w", RandomFloats({8, 6, 1, 1}, 2));
  builder.Node("Conv", {"x", "v"}, {"d"}, {{"group", int64_t{6}}});
  builder.Node("Conv", {"d", "w"}, {"y"}).Output("y");
  graph::Graph graph = builder.Build();
  const auto report = Optimize(graph, builder.constants(), {});
  ASSERT_TRUE(report.ok()) << Message(report.status());
  ASSERT_EQ(report->declines.size(), 1U);
  EXPECT_EQ(report->declines[0].rule, "depthwise: extents are not known at load");
  EXPECT_EQ(graph.order().size(), 2U);
}

TEST(FuseDepthwise, ItRunsOnceAndCanBeSwitchedOff) {
  for (const bool off : {false, true}) {
    Builder builder;
    builder.Output("y");
    graph::Graph graph = builder.Build();
    OptimizeOptions options{.disabled_passes = {"drop_noop", "drop_identity"}};
    if (off) options.disabled_passes.insert("fuse_depthwise");
    ASSERT_TRUE(Optimize(graph, builder.constants(), options).ok());
    EXPECT_EQ(graph.order().size(), off ? 3U : 2U);
    const auto again = Optimize(graph, builder.constants(), options);
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(graph.order().size(), off ? 3U : 2U);
  }
}

}  // namespace
}  // namespace tandem::optimizer::test
