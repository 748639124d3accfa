// Transpose, Concat, Split, Slice, Gather, Expand, Tile, Pad, DepthToSpace, SpaceToDepth.
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <random>

#include "engine/ops/registry.h"
#include "tests/support/bound_step.h"
#include "tests/support/compare.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using graph::Dim;
using test::Exact;
using Ints = std::vector<int64_t>;

Tensor Vector(const Ints& values) {
  return Tensor::Of<int64_t>({static_cast<int64_t>(values.size())},
                             std::span<const int64_t>(values));
}

Tensor Arange(Shape shape, float start = 0) {
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  std::iota(values.begin(), values.end(), start);
  return Tensor::Of<float>(shape, std::span<const float>(values));
}

std::vector<Tensor> RunAll(const test::OpCall& call, const std::vector<Tensor>& inputs) {
  auto outputs = test::RunOp(call, inputs);
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  if (!outputs.ok()) return std::vector<Tensor>(static_cast<size_t>(call.outputs), Arange({0}));
  return *outputs;
}

Tensor First(const test::OpCall& call, const std::vector<Tensor>& inputs) {
  return RunAll(call, inputs)[0];
}

std::string Error(const test::OpCall& call, const std::vector<Tensor>& inputs) {
  const auto outputs = test::RunOp(call, inputs);
  return outputs.ok() ? "ok" : std::string(Message(outputs.status()));
}

// A tensor of `shape` whose element at `index` is element source(index) of `x`.
Tensor Picked(const Tensor& x, const Shape& shape, const std::function<Ints(const Ints&)>& source) {
  const Dims strides = x.shape().Strides();
  std::vector<float> values;
  Ints index(static_cast<size_t>(shape.rank()), 0);
  for (int64_t i = 0; i < shape.elements(); ++i) {
    int64_t rest = i;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      index[static_cast<size_t>(axis)] = rest % shape[axis];
      rest /= shape[axis];
    }
    const Ints from = source(index);
    int64_t offset = 0;
    for (size_t k = 0; k < from.size(); ++k) offset += from[k] * strides[k];
    values.push_back(x.data<float>()[offset]);
  }
  return Tensor::Of<float>(shape, std::span<const float>(values));
}

TEST(Transpose, ReversesByDefaultAndFollowsPerm) {
  const Tensor x = Arange({2, 3, 4, 5});
  EXPECT_TRUE(test::Close(First({.op_type = "Transpose"}, {x}),
                          Picked(x, {5, 4, 3, 2},
                                 [](const Ints& i) {
                                   return Ints{i[3], i[2], i[1], i[0]};
                                 }),
                          Exact()));
  EXPECT_TRUE(
      test::Close(First({.op_type = "Transpose", .attributes = {{"perm", Ints{2, 0, 3, 1}}}}, {x}),
                  Picked(x, {4, 2, 5, 3},
                         [](const Ints& i) {
                           return Ints{i[1], i[3], i[0], i[2]};
                         }),
                  Exact()));
  EXPECT_EQ(First({.op_type = "Transpose"}, {Arange({})}).shape(), Shape());
  EXPECT_EQ(First({.op_type = "Transpose"}, {Arange({2, 0})}).shape(), (Shape{0, 2}));
}

TEST(Transpose, MovesStringsAndRefusesAWrongPerm) {
  const Tensor x = Tensor::Of<std::string>({2, 2}, {"a", "b", "c", "d"});
  EXPECT_TRUE(test::Close(First({.op_type = "Transpose"}, {x}),
                          Tensor::Of<std::string>({2, 2}, {"a", "c", "b", "d"}), Exact()));
  EXPECT_NE(Error({.op_type = "Transpose", .attributes = {{"perm", Ints{0, 0}}}}, {x}).find("perm"),
            std::string::npos);
  EXPECT_EQ(Error({.op_type = "Transpose", .attributes = {{"perm", Ints{0}}}}, {x}),
            "attribute 'perm' has 1 axes where input string[2,2] has 2");
}

TEST(Concat, JoinsAlongEveryAxisAndSkipsEmptyParts) {
  const Tensor a = Arange({2, 3});
  const Tensor b = Arange({2, 2}, 50);
  const Tensor empty = Arange({2, 0});
  const Tensor expected = Tensor::Of<float>({2, 5}, {0, 1, 2, 50, 51, 3, 4, 5, 52, 53});
  for (const int64_t axis : {1, -1}) {
    EXPECT_TRUE(
        test::Close(First({.op_type = "Concat", .attributes = {{"axis", axis}}}, {a, empty, b}),
                    expected, Exact()));
  }
  EXPECT_TRUE(
      test::Close(First({.op_type = "Concat", .attributes = {{"axis", int64_t{0}}}}, {a, a}),
                  Tensor::Of<float>({4, 3}, {0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5}), Exact()));
}

TEST(Concat, ChannelsLastHasTheNumbersOfNative) {
  const Tensor x = Arange({2, 3, 4, 5});
  const std::vector<Tensor> others = {Arange({1, 3, 4, 5}, 200), Arange({2, 7, 4, 5}, 200),
                                      Arange({2, 3, 1, 5}, 200), Arange({2, 3, 4, 2}, 200)};
  const std::vector<Shape> joined = {{3, 3, 4, 5}, {2, 10, 4, 5}, {2, 3, 5, 5}, {2, 3, 4, 7}};
  for (size_t axis = 0; axis < 4; ++axis) {
    test::BoundCall call{.op_type = "Concat",
                         .attributes = {{"axis", static_cast<int64_t>(axis)}},
                         .out = joined[axis],
                         .own_inputs = 1};
    const std::vector<Tensor> parts = {x, others[axis]};
    const Tensor native = test::BindAndRun(call, parts);
    EXPECT_TRUE(test::Close(
        native, First({.op_type = "Concat", .attributes = call.attributes}, parts), Exact()));
    call.channels_last = test::kInputZero | test::kOperands | test::kOutput;
    EXPECT_TRUE(test::Close(test::BindAndRun(call, parts), native, Exact())) << "axis " << axis;
  }
}

TEST(Concat, NamesWhatDoesNotFit) {
  const auto error = [](int64_t axis, const std::vector<Tensor>& parts) {
    return Error({.op_type = "Concat", .attributes = {{"axis", axis}}}, parts);
  };
  EXPECT_EQ(error(5, {Arange({2, 3}), Arange({2, 3})}),
            "attribute 'axis' is 5 where -2 to 1 are expected for rank 2");
  EXPECT_EQ(error(0, {Arange({2, 3}), Arange({2, 4})}),
            "input 1 has shape [2,4] where extent 3 of axis 1 is expected");
  EXPECT_EQ(error(0, {Arange({2, 3}), Arange({2})}),
            "input 1 has shape [2] where rank 2 is expected");
}

TEST(Split, CutsEvenlyBySizesAndWithASmallerLastPart) {
  const Tensor x = Arange({7});
  const auto shapes = [](const std::vector<Tensor>& parts) {
    Ints extents;
    for (const Tensor& part : parts) extents.push_back(part.shape()[0]);
    return extents;
  };
  const auto uneven = RunAll(
      {.op_type = "Split", .opset = 18, .attributes = {{"num_outputs", int64_t{3}}}, .outputs = 3},
      {x});
  EXPECT_EQ(shapes(uneven), (Ints{3, 3, 1}));
  EXPECT_EQ(uneven[2].data<float>()[0], 6);
  EXPECT_EQ(shapes(RunAll({.op_type = "Split", .opset = 13, .outputs = 2}, {x, Vector({2, 5})})),
            (Ints{2, 5}));
  EXPECT_EQ(
      shapes(RunAll(
          {.op_type = "Split", .opset = 11, .attributes = {{"split", Ints{6, 1}}}, .outputs = 2},
          {x})),
      (Ints{6, 1}));
  EXPECT_EQ(Error({.op_type = "Split", .opset = 13, .outputs = 2}, {x}),
            "extent 7 cannot be split into 2 parts");
  EXPECT_EQ(Error({.op_type = "Split", .opset = 13, .outputs = 2}, {x, Vector({2, 4})}),
            "the split sizes add up to 6 where the axis has extent 7");
}

TEST(Split, CutsInnerAxes) {
  const Tensor x = Arange({2, 4, 3});
  const auto parts =
      RunAll({.op_type = "Split", .opset = 13, .attributes = {{"axis", int64_t{-2}}}, .outputs = 2},
             {x, Vector({1, 3})});
  EXPECT_TRUE(test::Close(parts[1],
                          Picked(x, {2, 3, 3},
                                 [](const Ints& i) {
                                   return Ints{i[0], i[1] + 1, i[2]};
                                 }),
                          Exact()));
}

TEST(Slice, BehavesAsNumpyWithNegativeSteps) {
  const Tensor x = Arange({5, 10});
  const Tensor y = First({.op_type = "Slice"},
                         {x, Vector({5, 10}), Vector({0, 1}), Vector({0, 1}), Vector({-1, -3})});
  EXPECT_TRUE(test::Close(y,
                          Picked(x, {4, 3},
                                 [](const Ints& i) {
                                   return Ints{4 - i[0], 9 - 3 * i[1]};
                                 }),
                          Exact()));
}

TEST(Slice, ANegativeEndDropsTheLast) {
  EXPECT_TRUE(test::Close(
      First(
          {.op_type = "Slice", .opset = 9, .attributes = {{"starts", Ints{0}}, {"ends", Ints{-1}}}},
          {Arange({3})}),
      Arange({2}), Exact()));
}

// numpy's rule, written as a walk.
Ints Walk(int64_t start, int64_t end, int64_t step, int64_t extent) {
  const auto place = [&](int64_t at) {
    if (at < 0) at += extent;
    if (step > 0) return std::min(std::max<int64_t>(at, 0), extent);
    return std::min(std::max<int64_t>(at, -1), extent - 1);
  };
  Ints places;
  const int64_t stop = place(end);
  for (int64_t at = place(start); step > 0 ? at < stop : at > stop; at += step)
    places.push_back(at);
  return places;
}

TEST(Slice, RandomBoundsEqualAWalk) {
  std::mt19937 random(11);
  const auto pick = [&random](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint32_t>(high - low + 1));
  };
  for (int round = 0; round < 500; ++round) {
    const int64_t extent = pick(0, 9);
    const int64_t start = pick(-12, 12);
    const int64_t end = pick(-12, 12);
    int64_t step = pick(-4, 4);
    if (step == 0) step = 5;
    const Ints places = Walk(start, end, step, extent);
    const Tensor x = Arange({3, extent, 2});
    const Tensor y = First({.op_type = "Slice"},
                           {x, Vector({start}), Vector({end}), Vector({-2}), Vector({step})});
    const Tensor expected =
        Picked(x, {3, static_cast<int64_t>(places.size()), 2}, [&](const Ints& i) {
          return Ints{i[0], places[static_cast<size_t>(i[1])], i[2]};
        });
    ASSERT_TRUE(test::Close(y, expected, Exact()))
        << start << ":" << end << ":" << step << " of " << extent;
  }
}

TEST(Slice, TakesTheSmallestAndLargestNumbers) {
  const int64_t low = std::numeric_limits<int64_t>::min();
  const int64_t high = std::numeric_limits<int64_t>::max();
  const auto slice = [](int64_t start, int64_t end, int64_t step) {
    return First({.op_type = "Slice"},
                 {Arange({4}), Vector({start}), Vector({end}), Vector({0}), Vector({step})});
  };
  EXPECT_TRUE(test::Close(slice(low, high, 1), Arange({4}), Exact()));
  EXPECT_TRUE(test::Close(slice(high, low, -1), Tensor::Of<float>({4}, {3, 2, 1, 0}), Exact()));
  EXPECT_TRUE(test::Close(slice(high, low, low), Tensor::Of<float>({1}, {3}), Exact()));
  EXPECT_TRUE(test::Close(slice(1, high, high), Tensor::Of<float>({1}, {1}), Exact()));
  EXPECT_EQ(Error({.op_type = "Slice"},
                  {Arange({4}), Vector({0}), Vector({1}), Vector({0}), Vector({0})}),
            "a step is 0");
}

TEST(Gather, PicksAlongAnyAxisWithIndicesOfAnyRank) {
  const Tensor x = Arange({3, 4, 2});
  const Tensor picks = Tensor::Of<int64_t>({2, 2}, {0, -1, 2, 2});
  EXPECT_TRUE(
      test::Close(First({.op_type = "Gather", .attributes = {{"axis", int64_t{1}}}}, {x, picks}),
                  Picked(x, {3, 2, 2, 2},
                         [&](const Ints& i) {
                           const int64_t index = picks.data<int64_t>()[i[1] * 2 + i[2]];
                           return Ints{i[0], index < 0 ? index + 4 : index, i[3]};
                         }),
                  Exact()));
  EXPECT_EQ(First({.op_type = "Gather"}, {x, Tensor::Scalar<int64_t>(1)}).shape(), (Shape{4, 2}));
  EXPECT_EQ(First({.op_type = "Gather"}, {x, Tensor::Of<int32_t>({0, 2}, {})}).shape(),
            (Shape{0, 2, 4, 2}));
  EXPECT_TRUE(test::Close(
      First({.op_type = "Gather"}, {Tensor::Of<std::string>({2}, {"a", "b"}), Vector({1, 1, 0})}),
      Tensor::Of<std::string>({3}, {"b", "b", "a"}), Exact()));
}

TEST(Gather, AnIndexOutOfRangeIsNamed) {
  const auto error = [](int64_t index) {
    return Error({.op_type = "Gather"}, {Arange({3}), Tensor::Of<int64_t>({1, 1}, {index})});
  };
  EXPECT_EQ(error(3),
            "element 0: the index is 3 where -3 to 2 are expected for an axis of extent 3");
  EXPECT_EQ(error(std::numeric_limits<int64_t>::min()).find("element 0: the index is -92"), 0u);
  EXPECT_EQ(error(-3), "ok");
}

TEST(Expand, BroadcastsBothWays) {
  const Tensor x = Arange({3, 1});
  EXPECT_TRUE(test::Close(First({.op_type = "Expand"}, {x, Vector({2, 1, 4})}),
                          Picked(x, {2, 3, 4},
                                 [](const Ints& i) {
                                   return Ints{i[1], 0};
                                 }),
                          Exact()));
  EXPECT_EQ(First({.op_type = "Expand"}, {x, Vector({1})}).shape(), (Shape{3, 1}));
  EXPECT_EQ(First({.op_type = "Expand"}, {x, Vector({0, 1, 2})}).shape(), (Shape{0, 3, 2}));
  EXPECT_EQ(Error({.op_type = "Expand"}, {x, Vector({2, 4})}),
            "an input of shape [3,1] does not broadcast to shape [2,4]");
}

TEST(Tile, RepeatsAxes) {
  const Tensor x = Arange({2, 3});
  EXPECT_TRUE(test::Close(First({.op_type = "Tile"}, {x, Vector({2, 3})}),
                          Picked(x, {4, 9},
                                 [](const Ints& i) {
                                   return Ints{i[0] % 2, i[1] % 3};
                                 }),
                          Exact()));
  EXPECT_EQ(First({.op_type = "Tile"}, {x, Vector({0, 3})}).shape(), (Shape{0, 9}));
  EXPECT_EQ(Error({.op_type = "Tile"}, {x, Vector({2})}),
            "repeats has 1 elements where input 0 is float[2,3]");
  const int64_t huge = int64_t{1} << 62;
  EXPECT_NE(Error({.op_type = "Tile"}, {x, Vector({1, huge})}).find("can be counted"),
            std::string::npos);
}

TEST(Pad, AConstantIsZeroUnlessGiven) {
  const Tensor x = Tensor::Of<int32_t>({2}, {5, 6});
  const Tensor pads = Vector({1, 2});
  const Tensor zeros = Tensor::Of<int32_t>({5}, {0, 5, 6, 0, 0});
  EXPECT_TRUE(test::Close(First({.op_type = "Pad", .opset = 13}, {x, pads}), zeros, Exact()));
  EXPECT_TRUE(
      test::Close(First({.op_type = "Pad", .opset = 13}, {x, pads, Tensor()}), zeros, Exact()));
  EXPECT_TRUE(
      test::Close(First({.op_type = "Pad", .opset = 13}, {x, pads, Tensor::Scalar<int32_t>(9)}),
                  Tensor::Of<int32_t>({5}, {9, 5, 6, 9, 9}), Exact()));
  EXPECT_TRUE(test::Close(
      First({.op_type = "Pad", .opset = 10, .attributes = {{"pads", Ints{1, 0}}, {"value", 2.5f}}},
            {Arange({2})}),
      Tensor::Of<float>({3}, {2.5f, 0, 1}), Exact()));
}

TEST(Pad, NegativePadsCrop) {
  const Tensor x = Arange({1, 1, 4, 4});
  EXPECT_TRUE(test::Close(First({.op_type = "Pad"}, {x, Vector({0, 0, -1, -1, 0, 0, -1, -1})}),
                          Picked(x, {1, 1, 2, 2},
                                 [](const Ints& i) {
                                   return Ints{0, 0, i[2] + 1, i[3] + 1};
                                 }),
                          Exact()));
  EXPECT_TRUE(test::Close(First({.op_type = "Pad"}, {Arange({3}), Vector({-2, 2})}),
                          Tensor::Of<float>({3}, {2, 0, 0}), Exact()));
  EXPECT_TRUE(test::Close(First({.op_type = "Pad"}, {Arange({3}), Vector({-4, 3})}),
                          Tensor::Of<float>({2}, {0, 0}), Exact()));
  EXPECT_EQ(Error({.op_type = "Pad"}, {Arange({3}), Vector({-2, -2})}),
            "an axis of extent 3 cannot have pads -2 and -2");
}

TEST(Pad, ReflectsEdgesAndWraps) {
  const Tensor x = Arange({3, 4});
  const auto pad = [&](const std::string& mode, const Ints& pads) {
    return First({.op_type = "Pad", .opset = 19, .attributes = {{"mode", mode}}},
                 {x, Vector(pads)});
  };
  EXPECT_TRUE(test::Close(pad("reflect", {1, 0, 0, 0}),
                          Picked(x, {4, 4},
                                 [](const Ints& i) {
                                   return Ints{i[0] == 0 ? 1 : i[0] - 1, i[1]};
                                 }),
                          Exact()));
  const auto row = [&](const std::string& mode, int64_t begin, int64_t end) {
    return First({.op_type = "Pad", .opset = 19, .attributes = {{"mode", mode}}},
                 {Arange({3}), Vector({begin, end})});
  };
  EXPECT_TRUE(test::Close(row("reflect", 5, 4),
                          Tensor::Of<float>({12}, {1, 0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2}), Exact()));
  EXPECT_TRUE(test::Close(row("edge", 2, 1), Tensor::Of<float>({6}, {0, 0, 0, 1, 2, 2}), Exact()));
  EXPECT_TRUE(
      test::Close(row("wrap", 4, 2), Tensor::Of<float>({9}, {2, 0, 1, 2, 0, 1, 2, 0, 1}), Exact()));
  EXPECT_TRUE(test::Close(row("edge", -1, 1), Tensor::Of<float>({3}, {1, 2, 2}), Exact()));
}

TEST(Pad, TakesAxesSinceOpset18) {
  EXPECT_EQ(First({.op_type = "Pad", .opset = 18},
                  {Arange({2, 3}), Vector({1, 1}), Tensor(), Vector({-1})})
                .shape(),
            (Shape{2, 5}));
  EXPECT_EQ(Error({.op_type = "Pad", .opset = 18}, {Arange({2, 3}), Vector({1, 1})}),
            "pads has 2 elements where 4 are expected");
}

TEST(DepthToSpace, BothModesAndTheWayBack) {
  const Tensor x = Arange({1, 8, 2, 3});
  const auto call = [](const std::string& mode) {
    return test::OpCall{.op_type = "DepthToSpace",
                        .attributes = {{"blocksize", int64_t{2}}, {"mode", mode}}};
  };
  const Tensor dcr = First(call("DCR"), {x});
  EXPECT_TRUE(
      test::Close(dcr,
                  Picked(x, {1, 2, 4, 6},
                         [](const Ints& i) {
                           return Ints{0, (i[2] % 2 * 2 + i[3] % 2) * 2 + i[1], i[2] / 2, i[3] / 2};
                         }),
                  Exact()));
  EXPECT_TRUE(
      test::Close(First(call("CRD"), {x}),
                  Picked(x, {1, 2, 4, 6},
                         [](const Ints& i) {
                           return Ints{0, i[1] * 4 + i[2] % 2 * 2 + i[3] % 2, i[2] / 2, i[3] / 2};
                         }),
                  Exact()));
  EXPECT_TRUE(test::Close(
      First({.op_type = "SpaceToDepth", .attributes = {{"blocksize", int64_t{2}}}}, {dcr}), x,
      Exact()));
}

TEST(Movers, ThreadsDoNotChangeAnything) {
  const Tensor x = Arange({7, 33, 129});
  for (const int threads : {2, 4}) {
    const test::OpCall one{.op_type = "Transpose", .attributes = {{"perm", Ints{2, 0, 1}}}};
    test::OpCall many = one;
    many.threads = threads;
    EXPECT_TRUE(test::Close(First(many, {x}), First(one, {x}), Exact()));
  }
}

// The inferred dims of the output "y".
std::string TypeOf(test::GraphBuilder& builder) {
  const graph::Graph graph = builder.Output("y").Build();
  return graph::ToString(*graph.value(graph.FindValue("y")).type.dims);
}

TEST(ShapeArithmetic, TheFlattenOfExportersKeepsTheSymbol) {
  test::GraphBuilder builder;
  builder.Input("x", DType::kFloat, {Dim::Symbol("N"), 16, 4, 4})
      .Constant("zero", Tensor::Scalar<int64_t>(0))
      .Constant("axes", Vector({0}))
      .Constant("rest", Vector({-1}))
      .Node("Shape", {"x"}, {"shape"})
      .Node("Gather", {"shape", "zero"}, {"n"}, {{"axis", int64_t{0}}})
      .Node("Unsqueeze", {"n", "axes"}, {"n1"})
      .Node("Concat", {"n1", "rest"}, {"wanted"}, {{"axis", int64_t{0}}})
      .Node("Reshape", {"x", "wanted"}, {"y"});
  EXPECT_EQ(TypeOf(builder), "[N,256]");
}

TEST(ShapeArithmetic, SliceSplitAndExpandFollowSymbols) {
  test::GraphBuilder builder;
  builder.Input("x", DType::kFloat, {Dim::Symbol("N"), Dim::Symbol("T"), 8})
      .Constant("start", Vector({0}))
      .Constant("end", Vector({2}))
      .Constant("one", Vector({1}))
      .Node("Shape", {"x"}, {"shape"})
      .Node("Slice", {"shape", "start", "end"}, {"front"})
      .Node("Split", {"front"}, {"n", "t"}, {{"axis", int64_t{0}}})
      .Node("Concat", {"t", "n", "one"}, {"wanted"}, {{"axis", int64_t{0}}})
      .Constant("x1", Arange({1, 1, 4}))
      .Node("Expand", {"x1", "wanted"}, {"y"});
  EXPECT_EQ(TypeOf(builder), "[T,N,4]");
}

TEST(ShapeArithmetic, FullSlicesKeepTheirSymbol) {
  test::GraphBuilder builder;
  builder.Input("x", DType::kFloat, {Dim::Symbol("N"), 10})
      .Constant("starts", Vector({0, 2}))
      .Constant("ends", Vector({std::numeric_limits<int64_t>::max(), -1}))
      .Node("Slice", {"x", "starts", "ends"}, {"y"});
  EXPECT_EQ(TypeOf(builder), "[N,7]");
}

// The batch axis of the output when input 0 has it on `axis`; -1 where the node declines.
int Batch(test::GraphBuilder& builder, std::vector<std::optional<int>> axes) {
  const graph::Graph graph = builder.Output("y").Build();
  const graph::Node& node = graph.node(graph.order()[0]);
  std::vector<ops::ValueFacts> facts;
  for (const graph::ValueId id : node.inputs) facts.push_back(ops::FactsOf(graph.value(id)));
  const ops::ValueFacts out = ops::FactsOf(graph.value(node.outputs[0]));
  std::vector<const ops::ValueFacts*> inputs;
  for (const ops::ValueFacts& fact : facts) inputs.push_back(&fact);
  const ops::ValueFacts* outputs[] = {&out};
  const ops::BatchAnswer answer =
      ops::OpOf(node).Batch({node, graph::Dim::Symbol("N"), axes, inputs, outputs});
  return answer.declined ? -1 : answer.outputs[0].value_or(-2);
}

TEST(BatchOfMovers, AxesThatAreNotTouchedAreKept) {
  const auto one = [](const std::string& op, const std::vector<std::string>& inputs,
                      graph::Attributes attributes, int axis) {
    test::GraphBuilder b;
    b.Input("x", DType::kFloat, {Dim::Symbol("N"), 4, 6})
        .Constant("one", Vector({1}))
        .Constant("two", Vector({2}))
        .Constant("zero", Vector({0}))
        .Constant("pads", Vector({0, 1, 1, 0, 1, 1}));
    b.Node(op, inputs, {"y"}, std::move(attributes));
    std::vector<std::optional<int>> axes(inputs.size());
    axes[0] = axis;
    return Batch(b, axes);
  };
  EXPECT_EQ(one("Transpose", {"x"}, {{"perm", Ints{1, 2, 0}}}, 0), 2);
  EXPECT_EQ(one("Concat", {"x"}, {{"axis", int64_t{1}}}, 0), 0);
  EXPECT_EQ(one("Concat", {"x"}, {{"axis", int64_t{0}}}, 0), -1);
  EXPECT_EQ(one("Concat", {"x", "x"}, {{"axis", int64_t{1}}}, 0), -1);
  EXPECT_EQ(one("Slice", {"x", "one", "two", "one"}, {}, 0), 0);
  EXPECT_EQ(one("Slice", {"x", "one", "two", "zero"}, {}, 0), -1);
  EXPECT_EQ(one("Gather", {"x", "one"}, {{"axis", int64_t{1}}}, 0), 0);
  EXPECT_EQ(one("Gather", {"x", "one"}, {{"axis", int64_t{0}}}, 0), -1);
  EXPECT_EQ(one("Pad", {"x", "pads"}, {}, 0), 0);
}

// As models add positions to the words of a text: a longer text than the table fails when it comes.
TEST(Slice, ATableCutToALengthBroadcastsToIt) {
  const graph::Dim n = graph::Dim::Symbol("N");
  const graph::Dim length = graph::Dim::Symbol("length");
  for (const int64_t rows : {1, 16}) {
    test::GraphBuilder builder;
    builder.Input("words", DType::kFloat, {n, length, 8})
        .Constant("table", test::RandomFloats({1, rows, 8}, 1))
        .Constant("zero", Tensor::Of<int64_t>({1}, {0}))
        .Constant("one", Tensor::Of<int64_t>({1}, {1}))
        .Node("Shape", {"words"}, {"shape"})
        .Node("Gather", {"shape", "one"}, {"end"})
        .Node("Slice", {"table", "zero", "end", "one"}, {"positions"})
        .Node("Add", {"positions", "words"}, {"y"})
        .Output("y")
        .Output("positions");
    const graph::Graph graph = builder.Build();
    EXPECT_EQ(graph::ToString(*graph.value(graph.FindValue("y")).type.dims), "[N,length,8]");
    EXPECT_EQ(graph::ToString(*graph.value(graph.FindValue("positions")).type.dims), "[1,?,8]");
  }
}

}  // namespace
}  // namespace tandem
