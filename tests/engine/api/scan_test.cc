// Scan through the whole engine: its body is a plan of its own, compiled at load.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/api/control_flow_testing.h"
#include "tests/support/compare.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using graph::Dim;
using test::Close;
using test::Exact;
using test::ModelBuilder;
using test::RandomFloats;
using test::control_flow::Floats;
using test::control_flow::Integers;
using test::control_flow::Load;
using test::control_flow::LoadError;
using test::control_flow::RunError;
using test::control_flow::RunModel;
using testing::HasSubstr;

using Ints = std::vector<int64_t>;

// Two states and one scan input: sums and products, and their difference at each step.
ModelBuilder ScanBody() {
  ModelBuilder body;
  body.Input("s", DType::kFloat, {Dim()}).Input("p", DType::kFloat, {Dim()});
  body.Input("v", DType::kFloat, {Dim()});
  body.Node("Add", {"s", "v"}, {"s2"})
      .Node("Mul", {"p", "v"}, {"p2"})
      .Node("Sub", {"p2", "s2"}, {"d"});
  body.Output("s2").Output("p2").Output("d");
  return body;
}

ModelBuilder ScanModel(const ModelBuilder& body, graph::Attributes attributes,
                       const graph::DimVector& x, int opset = 17) {
  attributes["num_scan_inputs"] = int64_t{1};
  ModelBuilder model(opset);
  model.Input("zero", DType::kFloat, {Dim()}).Input("one", DType::kFloat, {Dim()});
  model.Input("x", DType::kFloat, x);
  model.Node("Scan", {"zero", "one", "x"}, {"sum", "product", "all"}, attributes, "scan")
      .Body("body", body);
  model.Output("sum").Output("product").Output("all");
  return model;
}

std::vector<NamedTensor> ScanInputs(const Tensor& x) {
  return {{"zero", Floats({0, 0})}, {"one", Floats({1, 1})}, {"x", x}};
}

TEST(Scan, WalksAlongTheFirstAxis) {
  const ModelBuilder model = ScanModel(ScanBody(), {}, {Dim::Symbol("T"), 2});
  const auto y = RunModel(model, ScanInputs(Tensor::Of<float>({3, 2}, {1, 2, 3, 4, 5, 6})));
  EXPECT_TRUE(Close(y[0], Floats({9, 12}), Exact()));
  EXPECT_TRUE(Close(y[1], Floats({15, 48}), Exact()));
  EXPECT_TRUE(Close(y[2], Tensor::Of<float>({3, 2}, {0, 0, -1, 2, 6, 36}), Exact()));
}

TEST(Scan, OtherAxesAndDirections) {
  const Tensor x = Tensor::Of<float>({2, 3}, {1, 3, 5, 2, 4, 6});
  for (const int64_t axis : {1, -1}) {
    const ModelBuilder model =
        ScanModel(ScanBody(), {{"scan_input_axes", Ints{axis}}, {"scan_output_axes", Ints{axis}}},
                  {2, Dim::Symbol("T")});
    const auto y = RunModel(model, ScanInputs(x));
    EXPECT_TRUE(Close(y[1], Floats({15, 48}), Exact()));
    EXPECT_TRUE(Close(y[2], Tensor::Of<float>({2, 3}, {0, -1, 6, 0, 2, 36}), Exact()));
  }
  const ModelBuilder back = ScanModel(ScanBody(),
                                      {{"scan_input_axes", Ints{1}},
                                       {"scan_input_directions", Ints{1}},
                                       {"scan_output_directions", Ints{1}}},
                                      {2, Dim::Symbol("T")});
  const auto y = RunModel(back, ScanInputs(x));
  EXPECT_TRUE(Close(y[0], Floats({9, 12}), Exact()));
  EXPECT_TRUE(Close(y[2], Tensor::Of<float>({3, 2}, {6, 36, 7, 14, 0, 0}), Exact()));
}

TEST(Scan, NoStepsLeaveTheStates) {
  const auto y = RunModel(ScanModel(ScanBody(), {}, {Dim::Symbol("T"), 2}),
                          ScanInputs(RandomFloats({0, 2}, 1)));
  EXPECT_TRUE(Close(y[0], Floats({0, 0}), Exact()));
  EXPECT_TRUE(Close(y[1], Floats({1, 1}), Exact()));
  EXPECT_EQ(y[2].shape(), (Shape{0, 2}));
}

TEST(Scan, WithoutStatesItIsAMap) {
  ModelBuilder body;
  body.Input("v", DType::kFloat, {Dim()}).Node("Mul", {"v", "k"}, {"r"}).Output("r");
  ModelBuilder model(17);
  model.Input("x", DType::kFloat, {4, 2}).Input("k", DType::kFloat, {2});
  model.Node("Scan", {"x"}, {"y"}, {{"num_scan_inputs", int64_t{1}}}).Body("body", body);
  model.Output("y", DType::kFloat, {4, 2});
  const Tensor x = RandomFloats({4, 2}, 1);
  const Tensor y = RunModel(model, {{"x", x}, {"k", Floats({2, 4})}})[0];
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(y.data<float>()[i], x.data<float>()[i] * (i % 2 == 0 ? 2.0f : 4.0f));
  }
}

// The extents of results are known only when a step has been run.
TEST(Scan, ResultsWhoseExtentsDependOnData) {
  ModelBuilder body;
  body.Input("v", DType::kFloat, {Dim()}).Node("Expand", {"v", "shape"}, {"r"}).Output("r");
  ModelBuilder model(17);
  model.Input("x", DType::kFloat, {3, 1}).Input("shape", DType::kInt64, {1});
  model
      .Node("Scan", {"x"}, {"y"}, {{"num_scan_inputs", int64_t{1}}, {"scan_output_axes", Ints{-1}}})
      .Body("body", body);
  model.Output("y");
  const auto y =
      RunModel(model, {{"x", Tensor::Of<float>({3, 1}, {1, 2, 3})}, {"shape", Integers({2})}});
  EXPECT_TRUE(Close(y[0], Tensor::Of<float>({2, 3}, {1, 2, 3, 1, 2, 3}), Exact()));
}

// What one run of a scan over x, whose results each have 1000 elements, ends with.
Status RunWithLimit(ModelBuilder& model, const Tensor& x, size_t max_run_bytes) {
  EngineOptions options;
  options.threads = 1;
  options.max_run_bytes = max_run_bytes;
  const auto loaded = Load(model, Engine(options));
  if (loaded == nullptr) return absl::UnknownError("it does not load");
  const std::vector<NamedTensor> inputs = {{"x", x}, {"shape", Integers({1000})}};
  return loaded->Run(inputs).status();
}

// How many steps there are is the client's choice: what piles up counts towards the limit of a run.
TEST(Scan, ResultsOfAllStepsCountTowardsTheLimitOfARun) {
  ModelBuilder body;
  body.Input("v", DType::kFloat, {Dim()}).Node("Expand", {"v", "shape"}, {"r"}).Output("r");
  const graph::Attributes attributes = {{"num_scan_inputs", int64_t{1}}};
  constexpr size_t kAll = 100 * 1000 * sizeof(float);
  ModelBuilder model(17);
  model.Input("x", DType::kFloat, {Dim(), 1}).Input("shape", DType::kInt64, {1});
  model.Node("Scan", {"x"}, {"y"}, attributes).Body("body", body).Output("y");
  const Tensor x = RandomFloats({100, 1}, 1);
  EXPECT_EQ(RunWithLimit(model, x, kAll - 1).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(RunWithLimit(model, x, 2 * kAll).ok()) << RunWithLimit(model, x, 2 * kAll);
  // Of opset 8 the results of the first item, and then those of all items.
  ModelBuilder batch(8);
  batch.Input("x", DType::kFloat, {Dim(), Dim(), 1}).Input("shape", DType::kInt64, {1});
  batch.Node("Scan", {"", "x"}, {"y"}, attributes).Body("body", body).Output("y");
  const Tensor items = RandomFloats({2, 50, 1}, 1);
  EXPECT_EQ(RunWithLimit(batch, items, kAll + kAll / 2 - 1).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(RunWithLimit(batch, items, 2 * kAll).ok()) << RunWithLimit(batch, items, 2 * kAll);
}

TEST(Scan, OpsetEightHasABatchAndLengths) {
  ModelBuilder body;
  body.Input("s", DType::kFloat, {1}).Input("v", DType::kFloat, {1});
  body.Node("Add", {"s", "v"}, {"s2"}).Node("Identity", {"s2"}, {"r"}).Output("s2").Output("r");
  for (const bool lengths : {false, true}) {
    for (const bool reverse : {false, true}) {
      graph::Attributes attributes = {{"num_scan_inputs", int64_t{1}}};
      if (reverse) attributes["directions"] = Ints{1};
      ModelBuilder model(8);
      model.Input("n", DType::kInt64, {2}).Input("zero", DType::kFloat, {2, 1});
      model.Input("x", DType::kFloat, {2, 3, 1});
      model.Node("Scan", {lengths ? "n" : "", "zero", "x"}, {"sum", "all"}, attributes)
          .Body("body", body);
      model.Output("sum").Output("all");
      const auto y = RunModel(model, {{"n", Integers({3, 2})},
                                      {"zero", Tensor::Of<float>({2, 1}, {0, 10})},
                                      {"x", Tensor::Of<float>({2, 3, 1}, {1, 2, 3, 4, 5, 6})}});
      const float second = lengths ? 19.0f : 25.0f;
      EXPECT_TRUE(Close(y[0], Tensor::Of<float>({2, 1}, {6, second}), Exact()));
      Tensor all = Tensor::Of<float>({2, 3, 1}, {1, 3, 6, 14, 19, lengths ? 0.0f : 25.0f});
      if (reverse && lengths) all = Tensor::Of<float>({2, 3, 1}, {3, 5, 6, 15, 19, 0});
      if (reverse && !lengths) all = Tensor::Of<float>({2, 3, 1}, {3, 5, 6, 16, 21, 25});
      EXPECT_TRUE(Close(y[1], all, Exact())) << lengths << reverse;
    }
  }
}

TEST(Scan, OpsetEightWithoutItemsOrWithOutputsThatNobodyWants) {
  ModelBuilder body;
  body.Input("s", DType::kFloat, {Dim()}).Input("v", DType::kFloat, {Dim()});
  body.Node("Add", {"s", "v"}, {"s2"}).Node("Identity", {"s2"}, {"r"}).Output("s2").Output("r");
  for (const std::string sum : {"sum", ""}) {
    ModelBuilder model(8);
    model.Input("zero", DType::kFloat, {Dim(), Dim()});
    model.Input("x", DType::kFloat, {Dim(), Dim(), Dim()});
    model.Node("Scan", {"", "zero", "x"}, {sum, "all"}, {{"num_scan_inputs", int64_t{1}}})
        .Body("body", body)
        .Output("all");
    const auto y = RunModel(model, {{"zero", Tensor::Of<float>({2, 1}, {0, 10})},
                                    {"x", Tensor::Of<float>({2, 2, 1}, {1, 2, 3, 4})}});
    EXPECT_TRUE(Close(y[0], Tensor::Of<float>({2, 2, 1}, {1, 3, 13, 17}), Exact()));
    const auto none =
        RunModel(model, {{"zero", RandomFloats({0, 1}, 1)}, {"x", RandomFloats({0, 2, 1}, 1)}});
    EXPECT_EQ(none[0].shape(), (Shape{0, 2, 1}));
  }
}

// Extents are symbols: an item without steps has results of no shape of its own.
TEST(Scan, OpsetEightGivesZerosForAnItemWithoutSteps) {
  ModelBuilder body;
  body.Input("s", DType::kFloat, {Dim()}).Input("v", DType::kFloat, {Dim()});
  body.Node("Add", {"s", "v"}, {"s2"}).Node("Identity", {"s2"}, {"r"}).Output("s2").Output("r");
  ModelBuilder model(8);
  model.Input("n", DType::kInt64, {Dim()}).Input("zero", DType::kFloat, {Dim(), Dim()});
  model.Input("x", DType::kFloat, {Dim(), Dim(), Dim()});
  model.Node("Scan", {"n", "zero", "x"}, {"sum", "all"}, {{"num_scan_inputs", int64_t{1}}})
      .Body("body", body)
      .Output("sum")
      .Output("all");
  const Tensor zero = Tensor::Of<float>({2, 2}, {0, 1, 2, 3});
  const Tensor x = Tensor::Of<float>({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const auto run = [&](std::initializer_list<int64_t> lengths) {
    return RunModel(model, {{"n", Tensor::Of<int64_t>({2}, lengths)}, {"zero", zero}, {"x", x}});
  };
  for (int repeat = 0; repeat < 10; ++repeat) {  // whatever memory holds before
    const auto second = run({0, 2});
    EXPECT_TRUE(Close(second[0], Tensor::Of<float>({2, 2}, {0, 1, 14, 17}), Exact()));
    EXPECT_TRUE(
        Close(second[1], Tensor::Of<float>({2, 2, 2}, {0, 0, 0, 0, 7, 9, 14, 17}), Exact()));
    const auto first = run({1, 0});
    EXPECT_TRUE(Close(first[0], Tensor::Of<float>({2, 2}, {1, 3, 2, 3}), Exact()));
    EXPECT_TRUE(Close(first[1], Tensor::Of<float>({2, 2, 2}, {1, 3, 0, 0, 0, 0, 0, 0}), Exact()));
  }
  EXPECT_TRUE(Close(run({0, 0})[0], zero, Exact()));
}

TEST(Scan, OpsetEightNeedsResultsOfOneShapeFromAllItems) {
  ModelBuilder body;  // as many elements as v says
  body.Input("s", DType::kFloat, {Dim()}).Input("v", DType::kInt64, {1});
  body.Node("Expand", {"s", "v"}, {"r"}).Node("Identity", {"s"}, {"t"}).Output("t").Output("r");
  ModelBuilder model(8);
  model.Input("zero", DType::kFloat, {Dim(), Dim()}).Input("x", DType::kInt64, {Dim(), Dim(), 1});
  model.Node("Scan", {"", "zero", "x"}, {"sum", "all"}, {{"num_scan_inputs", int64_t{1}}}, "scan")
      .Body("body", body)
      .Output("sum")
      .Output("all");
  const Tensor zero = Tensor::Of<float>({2, 1}, {0, 0});
  const auto error = [&](int64_t first, int64_t second) {
    return RunError(model,
                    {{"zero", zero}, {"x", Tensor::Of<int64_t>({2, 1, 1}, {first, second})}});
  };
  EXPECT_THAT(error(5, 1),
              HasSubstr("output 1 of item 1 has shape [1,1] where other items have [1,5]"));
  EXPECT_THAT(error(1, 5), HasSubstr("has shape [1,5] where other items have [1,1]"));
}

TEST(Scan, WhatIsWrongIsSaidAtLoadOrNamesTheNode) {
  const auto error = [](const graph::Attributes& attributes) {
    return LoadError(ScanModel(ScanBody(), attributes, {Dim::Symbol("T"), 2}));
  };
  EXPECT_EQ(error({{"scan_input_axes", Ints{0, 1}}}),
            "node 'scan' (Scan): attribute 'scan_input_axes' has 2 elements where 1 are expected");
  EXPECT_EQ(error({{"scan_output_directions", Ints{2}}}),
            "node 'scan' (Scan): attribute 'scan_output_directions' holds 2 where 0 or 1 is "
            "expected");
  EXPECT_THAT(error({{"scan_input_axes", Ints{2}}}), HasSubstr("the axis of scan input 0"));
  EXPECT_THAT(error({{"directions", Ints{0}}}), HasSubstr("no attribute 'directions'"));
  ModelBuilder grows;
  grows.Input("s", DType::kFloat, {Dim()}).Input("p", DType::kFloat, {Dim()});
  grows.Input("v", DType::kFloat, {Dim()});
  grows.Node("Concat", {"s", "v"}, {"t"}, {{"axis", int64_t{0}}});
  grows.Output("t").Output("p").Output("v");
  EXPECT_THAT(
      RunError(ScanModel(grows, {}, {Dim::Symbol("T"), 2}), ScanInputs(RandomFloats({3, 2}, 1))),
      HasSubstr("node 'scan' (Scan): body: state 0 has shape [4] after a step where it has [2]"));
}

}  // namespace
}  // namespace tandem
