// Resize and Upsample.
#include <gtest/gtest.h>

#include <numeric>

#include "engine/ops/registry.h"
#include "tests/support/bound_step.h"
#include "tests/support/compare.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using graph::Dim;
using test::Close;
using test::Exact;
using test::RandomFloats;
using Ints = std::vector<int64_t>;

Tensor Floats(const std::vector<float>& values) {
  return Tensor::Of<float>({static_cast<int64_t>(values.size())}, std::span<const float>(values));
}

Tensor Sizes(const Ints& values) {
  return Tensor::Of<int64_t>({static_cast<int64_t>(values.size())},
                             std::span<const int64_t>(values));
}

Tensor Arange(Shape shape, float start = 1) {
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  std::iota(values.begin(), values.end(), start);
  return Tensor::Of<float>(shape, std::span<const float>(values));
}

test::OpCall Resize(graph::Attributes attributes, int opset = 19) {
  return {.op_type = "Resize", .opset = opset, .attributes = std::move(attributes)};
}

Tensor First(const test::OpCall& call, const std::vector<Tensor>& inputs) {
  const auto outputs = test::RunOp(call, inputs);
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  return outputs.ok() ? outputs->at(0) : Arange({0});
}

std::string Error(const test::OpCall& call, const std::vector<Tensor>& inputs) {
  const auto outputs = test::RunOp(call, inputs);
  return outputs.ok() ? "ok" : std::string(Message(outputs.status()));
}

const Tensor kSquare = Arange({1, 1, 2, 2});

TEST(Resize, Opset10IsAsymmetricWithFloorUpAndCeilDown) {
  const test::OpCall call = Resize({}, 10);
  EXPECT_TRUE(Close(First(call, {kSquare, Floats({1, 1, 2, 3})}),
                    Tensor::Of<float>({1, 1, 4, 6}, {1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2,
                                                     3, 3, 3, 4, 4, 4, 3, 3, 3, 4, 4, 4}),
                    Exact()));
  EXPECT_TRUE(Close(First(call, {Arange({1, 1, 2, 4}), Floats({1, 1, 0.6F, 0.6F})}),
                    Tensor::Of<float>({1, 1, 1, 2}, {1, 3}), Exact()));
  EXPECT_TRUE(Close(
      First(Resize({{"mode", "linear"}}, 10), {kSquare, Floats({1, 1, 2, 2})}),
      Tensor::Of<float>({1, 1, 4, 4}, {1, 1.5, 2, 2, 2, 2.5, 3, 3, 3, 3.5, 4, 4, 3, 3.5, 4, 4}),
      Exact()));
  EXPECT_EQ(Error(Resize({{"mode", "cubic"}}, 10), {kSquare, Floats({1, 1, 2, 2})}),
            "attribute 'mode' is 'cubic' where one of nearest, linear is expected");
}

TEST(Upsample, TakesScalesAsAttributeThenAsInput) {
  const Tensor expected = Tensor::Of<float>({1, 1, 2, 4}, {1, 1, 2, 2, 3, 3, 4, 4});
  EXPECT_TRUE(Close(First({.op_type = "Upsample",
                           .opset = 7,
                           .attributes = {{"scales", std::vector<float>{1, 1, 1, 2}}}},
                          {kSquare}),
                    expected, Exact()));
  EXPECT_TRUE(Close(First({.op_type = "Upsample", .opset = 9}, {kSquare, Floats({1, 1, 1, 2})}),
                    expected, Exact()));
  EXPECT_EQ(Error({.op_type = "Upsample", .opset = 7}, {kSquare}), "attribute 'scales' is missing");
  EXPECT_EQ(Error({.op_type = "Upsample", .opset = 9}, {kSquare}), "input 1 (scales) is missing");
  EXPECT_EQ(Error({.op_type = "Upsample", .opset = 10}, {kSquare, Floats({1, 1, 1, 2})}),
            "opset 10 has Resize in place of Upsample");
}

TEST(Resize, AGivenScaleIsUsedRatherThanTheQuotientOfExtents) {
  // floor(3 * 1.7) = 5 places at i / 1.7.
  const float scale = 1.7F;
  const Tensor y =
      First(Resize({{"mode", "linear"}, {"coordinate_transformation_mode", "asymmetric"}}),
            {Arange({1, 1, 1, 3}, 0), Tensor(), Floats({1, 1, 1, scale})});
  std::vector<float> expected;
  for (int i = 0; i < 5; ++i) expected.push_back(std::min(2.0F, static_cast<float>(i) / scale));
  EXPECT_TRUE(
      Close(y, Tensor::Of<float>({1, 1, 1, 5}, std::span<const float>(expected)), test::Ulp(2)));
}

TEST(Resize, ExtentsAreFlooredInFloat32) {
  const Tensor x = Arange({7});
  EXPECT_EQ(First(Resize({}), {x, Tensor(), Floats({3.0F / 7})}).shape(), Shape({3}));
  EXPECT_EQ(First(Resize({}), {Arange({10}), Tensor(), Floats({0.7F})}).shape(), Shape({7}));
  EXPECT_EQ(First(Resize({}), {x, Tensor(), Floats({0.1F})}).shape(), Shape({0}));
}

TEST(Resize, AlignCornersDiffersFromAsymmetric) {
  const Tensor x = Arange({1, 3, 4, 2});
  const Tensor scales = Floats({1, 2, 2, 1});
  const auto run = [&](const char* coordinates) {
    return First(Resize({{"mode", "linear"}, {"coordinate_transformation_mode", coordinates}}),
                 {x, Tensor(), scales});
  };
  const Tensor corners = run("align_corners");
  EXPECT_EQ(corners.data<float>()[corners.elements() - 1], 24);
  EXPECT_FALSE(Close(corners, run("asymmetric"), test::OfScale(0.01)));
}

TEST(Resize, AnEmptyRegionOrEmptyScalesAreNotThere) {
  const Tensor x = Arange({1, 1, 2, 2});
  const Tensor none = Tensor::Of<float>({0}, {});
  const Tensor expected = Tensor::Of<float>({1, 1, 2, 4}, {1, 1, 2, 2, 3, 3, 4, 4});
  for (const int opset : {11, 13, 18, 19}) {
    EXPECT_TRUE(
        Close(First(Resize({}, opset), {x, none, Floats({1, 1, 1, 2})}), expected, Exact()));
    EXPECT_TRUE(
        Close(First(Resize({}, opset), {x, none, none, Sizes({1, 1, 2, 4})}), expected, Exact()));
  }
}

TEST(Resize, AxesNameWhatScalesSizesAndRegionsAreFor) {
  const Tensor x = RandomFloats({2, 3, 4, 5}, 1);
  const auto linear = [](Ints axes) {
    graph::Attributes attributes{{"mode", "linear"}};
    if (!axes.empty()) attributes["axes"] = std::move(axes);
    return Resize(std::move(attributes));
  };
  const Tensor all = First(linear({}), {x, Tensor(), Tensor(), Sizes({2, 3, 7, 9})});
  EXPECT_TRUE(Close(First(linear({-1, 2}), {x, Tensor(), Tensor(), Sizes({9, 7})}), all, Exact()));
  EXPECT_EQ(Error(linear({2, -2}), {x, Tensor(), Tensor(), Sizes({9, 7})}),
            "attribute 'axes' names axis 2 twice");
  EXPECT_EQ(Error(linear({4}), {x, Tensor(), Tensor(), Sizes({9})}),
            "attribute 'axes' is 4 where -4 to 3 are expected for rank 4");
}

TEST(Resize, PoliciesKeepTheAspectRatio) {
  const auto shape = [](const char* policy, const Ints& sizes) {
    return First(Resize({{"keep_aspect_ratio_policy", policy}, {"axes", Ints{2, 3}}}, 18),
                 {Arange({1, 1, 2, 4}), Tensor(), Tensor(), Sizes(sizes)})
        .shape();
  };
  EXPECT_EQ(shape("stretch", {7, 8}), Shape({1, 1, 7, 8}));
  EXPECT_EQ(shape("not_larger", {7, 8}), Shape({1, 1, 4, 8}));
  EXPECT_EQ(shape("not_smaller", {7, 8}), Shape({1, 1, 7, 14}));
  EXPECT_EQ(shape("not_larger", {1, 3}), Shape({1, 1, 1, 2})) << "halves are rounded up";
}

TEST(Resize, NearestMovesElementsOfAnyType) {
  const Tensor strings = Tensor::Of<std::string>({2}, {"a", "b"});
  EXPECT_TRUE(Close(First(Resize({}), {strings, Tensor(), Floats({2})}),
                    Tensor::Of<std::string>({4}, {"a", "a", "b", "b"}), Exact()));
  const Tensor bools = Tensor::Of<bool>({1, 2}, {true, false});
  EXPECT_TRUE(Close(First(Resize({}), {bools, Tensor(), Floats({2, 1})}),
                    Tensor::Of<bool>({2, 2}, {true, false, true, false}), Exact()));
  const int64_t big = (int64_t{1} << 53) + 1;
  EXPECT_TRUE(Close(First(Resize({}), {Tensor::Of<int64_t>({1}, {big}), Tensor(), Floats({3})}),
                    Tensor::Of<int64_t>({3}, {big, big, big}), Exact()));
  EXPECT_EQ(Error(Resize({{"mode", "linear"}}), {strings, Tensor(), Floats({2})}),
            "mode linear of string is not supported");
}

TEST(Resize, RegionsOutsideTheInputShowTheExtrapolationValue) {
  for (const char* mode : {"nearest", "linear"}) {
    const test::OpCall call = Resize({{"mode", mode},
                                      {"coordinate_transformation_mode", "tf_crop_and_resize"},
                                      {"extrapolation_value", 10.0F},
                                      {"axes", Ints{1, 2}}});
    const Tensor x = Arange({1, 2, 3});
    const Tensor y = First(call, {x, Floats({0, 0, 2, 1}), Tensor(), Sizes({3, 3})});
    EXPECT_TRUE(Close(y, Tensor::Of<float>({1, 3, 3}, {1, 2, 3, 4, 5, 6, 10, 10, 10}), Exact()))
        << mode;
    const Tensor cropped = First(call, {x, Floats({0, 0.5F, 1, 1}), Tensor(), Sizes({2, 3})});
    const float half = mode == std::string("nearest") ? 0 : 0.5F;
    EXPECT_TRUE(
        Close(cropped, Tensor::Of<float>({1, 2, 3}, {2, 2 + half, 3, 5, 5 + half, 6}), Exact()))
        << mode;
    EXPECT_EQ(Error(call, {x, Floats({0, 1}), Tensor(), Sizes({3, 3})}),
              "roi (input 1) has shape [2] where 4 elements are expected");
    EXPECT_EQ(Error(call, {x, Tensor(), Tensor(), Sizes({3, 3})}),
              "input 1 (roi) is missing where tf_crop_and_resize needs it");
  }
}

TEST(Resize, EmptyTensorsAndExtentsOfOne) {
  EXPECT_EQ(First(Resize({{"mode", "linear"}}), {Arange({2, 0}), Tensor(), Floats({2, 3})}).shape(),
            Shape({4, 0}));
  EXPECT_EQ(Error(Resize({}), {Arange({2, 0}), Tensor(), Tensor(), Sizes({2, 3})}),
            "axis 1 has no elements and cannot have size 3");
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    EXPECT_TRUE(Close(First(Resize({{"mode", mode}}), {Arange({1, 1}), Tensor(), Floats({3, 17})}),
                      Tensor::Of<float>({3, 17}, std::vector<float>(51, 1)), test::Ulp(2)))
        << mode;
  }
}

TEST(Resize, SaysWhatIsWrong) {
  const Tensor x = Arange({2, 2});
  EXPECT_EQ(Error(Resize({}), {x, Tensor(), Floats({1})}),
            "scales have 1 elements where 2 are expected");
  EXPECT_EQ(Error(Resize({}), {x, Tensor(), Tensor(), Sizes({1, 2, 3})}),
            "sizes have 3 elements where 2 are expected");
  EXPECT_EQ(Error(Resize({}), {x, Tensor(), Floats({1, 0})}),
            "a scale is 0 where a positive number is expected");
  EXPECT_EQ(Error(Resize({}), {x, Tensor(), Floats({1, 1e30F})}),
            "extent 2 scaled by 1e+30 is 2e+30 where less than 2^31 is expected");
  EXPECT_EQ(Error(Resize({}), {x, Tensor(), Tensor(), Sizes({1, -2})}),
            "a size is -2 where 0 to 2^31 - 1 are expected");
  EXPECT_EQ(Error(Resize({}), {x, Tensor(), Floats({1, 1}), Sizes({2, 2})}),
            "both scales and sizes are given");
  EXPECT_EQ(Error(Resize({}), {x, Tensor(), Tensor(), Tensor()}),
            "neither scales nor sizes are given");
  EXPECT_EQ(Error(Resize({}), {x, Tensor(), Sizes({1, 1})}), "input 2 (scales) is of type int64");
  EXPECT_EQ(Error(Resize({{"antialias", int64_t{1}}}), {x, Tensor(), Floats({1, 1})}),
            "attribute 'antialias' is 1 where mode is nearest");
  EXPECT_EQ(Error(Resize({{"coordinate_transformation_mode", "half_pixel_symmetric"}}, 18),
                  {x, Tensor(), Floats({1, 1})}),
            "attribute 'coordinate_transformation_mode' is 'half_pixel_symmetric', which opset 18 "
            "does not have");
  EXPECT_EQ(Error(Resize({{"axes", Ints{0}}}, 13), {x, Tensor(), Floats({1})}),
            "opset 13 of Resize has no attribute 'axes' ([0])");
}

TEST(Resize, ChannelsLastHasTheNumbersOfNative) {
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    for (const int64_t channels : {1, 3, 16, 19, 300}) {
      const Tensor x = RandomFloats({2, channels, 5, 7}, 4);
      const std::vector<Tensor> inputs = {x, Tensor::Of<float>({0}, {}), Floats({1, 1, 2, 1.5F})};
      test::BoundCall call{.op_type = "Resize",
                           .attributes = {{"mode", mode}},
                           .out = {2, channels, 10, 10},
                           .own_inputs = 3};
      const Tensor native = test::BindAndRun(call, inputs);
      call.channels_last = test::kInputZero | test::kOutput;
      EXPECT_TRUE(Close(test::BindAndRun(call, inputs), native, test::Reduction(16)))
          << mode << " " << channels;
    }
  }
}

TEST(Resize, ABatchHasTheBitsOfItsItems) {
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    const Tensor x = RandomFloats({3, 4, 9, 6}, 8);
    const Tensor scales = Floats({1, 1, 1.7F, 2});
    const Tensor y = First(Resize({{"mode", mode}}), {x, Tensor(), scales});
    for (int64_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(Close(First(Resize({{"mode", mode}}), {x.Rows(i, i + 1), Tensor(), scales}),
                        y.Rows(i, i + 1), Exact()));
    }
  }
}

// Dims of output y of a graph in which x is [N,3,H,8].
graph::DimVector InferredDims(const Tensor& scales, const Tensor& sizes) {
  test::GraphBuilder builder(19);
  builder.Input("x", DType::kFloat, {Dim::Symbol("N"), 3, Dim::Symbol("H"), 8});
  if (scales.valid()) builder.Constant("scales", scales);
  if (sizes.valid()) builder.Constant("sizes", sizes);
  builder.Node("Resize", {"x", "", scales.valid() ? "scales" : "", sizes.valid() ? "sizes" : ""},
               {"y"});
  const graph::Graph graph = builder.Output("y").Build();
  return *graph.value(graph.FindValue("y")).type.dims;
}

TEST(Resize, InfersSymbolicExtents) {
  EXPECT_EQ(ToString(InferredDims(Floats({1, 1, 2, 1.5F}), Tensor())), "[N,3,2*H,12]");
  EXPECT_EQ(ToString(InferredDims(Floats({1, 1, 1.5F, 1}), Tensor())), "[N,3,?,8]");
  EXPECT_EQ(ToString(InferredDims(Tensor(), Sizes({1, 3, 4, 5}))), "[1,3,4,5]");
}

std::string BatchReason(const Tensor& scales, graph::Attributes attributes) {
  test::GraphBuilder builder(19);
  const bool crops = attributes.contains("coordinate_transformation_mode");
  const graph::Graph graph =
      builder.Input("x", DType::kFloat, {Dim::Symbol("N"), 3, 8, 8})
          .Constant("scales", scales)
          .Constant("roi", Floats({0, 0, 0, 0, 1, 1, 1, 1}))
          .Node("Resize", {"x", crops ? "roi" : "", "scales"}, {"y"}, std::move(attributes))
          .Output("y")
          .Build();
  const graph::Node& node = graph.node(graph.order()[0]);
  std::vector<ops::ValueFacts> facts(3);
  facts[0] = ops::FactsOf(graph.value(node.inputs[0]));
  facts[1] = ops::FactsOf(graph.value(node.inputs[2]));
  facts[2] = ops::FactsOf(graph.value(node.outputs[0]));
  const std::vector<std::optional<int>> axes = {0, std::nullopt, std::nullopt};
  const std::vector<const ops::ValueFacts*> inputs = {&facts[0], nullptr, &facts[1]};
  const std::vector<const ops::ValueFacts*> outputs = {&facts[2]};
  return ops::OpOf(node)
      .Batch({node, graph::Dim::Symbol("N"), axes, inputs, outputs})
      .declined.value_or("kept");
}

TEST(Resize, KeepsTheBatchWhereItsScaleIsOne) {
  EXPECT_EQ(BatchReason(Floats({1, 1, 2, 2}), {}), "kept");
  EXPECT_EQ(BatchReason(Floats({2, 1, 2, 2}), {}), "it resizes the batch, or may do so");
  EXPECT_EQ(
      BatchReason(Floats({1, 1, 2, 2}), {{"coordinate_transformation_mode", "tf_crop_and_resize"}}),
      "its region may crop the batch");
  EXPECT_EQ(BatchReason(Floats({2, 2}), {{"axes", Ints{2, 3}}}), "kept");
}

}  // namespace
}  // namespace tandem
