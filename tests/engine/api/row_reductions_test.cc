// Reductions of the rows of a product: made as the rows come, without the product in memory, or
// declined with the reason; the numbers are those of one step after the other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/engine/api/comparison.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::Answers;
using test::LoadModel;
using test::ModelBuilder;
using test::RandomFloats;
using Ints = std::vector<int64_t>;

const graph::Dim kN = graph::Dim::Symbol("N");

struct Case {
  std::string op = "ReduceMax";
  graph::DimVector x = {kN, 5, 13};  // its last extent is 13; the product has 37 columns
  int64_t axis = -2;
  int64_t keepdims = 1;
  int opset = 13;
  DType dtype = DType::kFloat;
};

bool AxesAreInput(const Case& c) { return c.opset >= (c.op == "ReduceSum" ? 13 : 18); }

graph::DimVector Reduced(const Case& c) {
  graph::DimVector dims = c.x;
  dims.back() = 37;
  const auto at = dims.begin() + (c.axis < 0 ? static_cast<int64_t>(dims.size()) : 0) + c.axis;
  if (c.keepdims != 0) {
    *at = 1;
  } else {
    dims.erase(at);
  }
  return dims;
}

ModelBuilder& AddReduction(ModelBuilder& builder, const Case& c, const std::string& of,
                           const std::string& result = "y") {
  graph::Attributes attributes = {{"keepdims", c.keepdims}};
  std::vector<std::string> inputs = {of};
  if (AxesAreInput(c)) {
    builder.Initializer("axes of " + result, Tensor::Of<int64_t>({1}, {c.axis}));
    inputs.push_back("axes of " + result);
  } else {
    attributes["axes"] = Ints{c.axis};
  }
  return builder.Node(c.op, inputs, {result}, attributes);
}

Tensor Weight(const Case& c) {
  if (c.dtype == DType::kFloat) return RandomFloats({13, 37}, 1);
  Tensor weight = *Tensor::Allocate(DType::kInt64, {13, 37});
  for (int64_t i = 0; i < 13 * 37; ++i) weight.mutable_data<int64_t>()[i] = i % 5 - 2;
  return weight;
}

// y = op(x w) over one axis.
std::string Build(const Case& c) {
  ModelBuilder builder(c.opset);
  builder.Input("x", c.dtype, c.x).Initializer("w", Weight(c)).Node("MatMul", {"x", "w"}, {"p"});
  return AddReduction(builder, c, "p").Output("y", c.dtype, Reduced(c)).Serialize();
}

// The plan for inputs whose open extents are 3.
PlanReport ReportOf(const Model& model) {
  std::vector<NamedShape> shapes;
  for (const NamedTensor& input : test::InputsOf(model, 3)) {
    shapes.push_back({input.name, input.tensor.shape()});
  }
  auto report = model.Report(shapes);
  EXPECT_TRUE(report.ok()) << report.status();
  return report.ok() ? *report : PlanReport();
}

const Decline* DeclineOf(const PlanReport& report, const std::string& op) {
  for (const Decline& decline : report.declines) {
    if (decline.pass == "fuse_reduction" && decline.role == "reduction epilogue " + op) {
      return &decline;
    }
  }
  return nullptr;
}

// One task for each of the reductions, that ends in it, and no values but inputs, constants and the
// results.
void ExpectFused(const std::string& bytes, const std::multiset<std::string>& ops) {
  const Engine engine(EngineOptions{.threads = 2});
  const auto model = LoadModel(engine, bytes);
  ASSERT_NE(model, nullptr);
  const PlanReport report = ReportOf(*model);
  std::multiset<std::string> ends;
  for (const TaskReport& task : report.tasks) {
    ends.insert(task.epilogue.empty() ? task.kernel : task.epilogue.back());
  }
  EXPECT_EQ(ends, ops) << model->Explain();
  for (const ValueReport& value : report.values) {
    EXPECT_NE(value.memory, "arena") << value.name << " " << value.extents;
  }
}

// The reduction is a task of its own for this reason.
void ExpectDeclined(const std::string& bytes, const std::string& op, const std::string& rule,
                    const std::string& numbers) {
  const Engine engine(EngineOptions{.threads = 1});
  const auto model = LoadModel(engine, bytes);
  ASSERT_NE(model, nullptr);
  const PlanReport report = ReportOf(*model);
  const Decline* decline = DeclineOf(report, op);
  ASSERT_NE(decline, nullptr) << model->Explain();
  EXPECT_EQ(decline->rule, rule);
  EXPECT_EQ(decline->numbers, numbers);
  for (const TaskReport& task : report.tasks) {
    EXPECT_TRUE(task.epilogue.empty() || task.epilogue.back() != op);
  }
}

std::vector<graph::DimVector> Inputs() { return {{5, 13}, {kN, 5, 13}, {kN, 2, 3, 13}}; }

// A product for each of `ops`, reduced with and without keepdims, and with its axis counted from
// either end.
std::string BuildAll(const std::vector<std::string>& ops, int opset, const graph::DimVector& x) {
  ModelBuilder builder(opset);
  builder.Input("x", DType::kFloat, x).Initializer("w", Weight({}));
  for (const std::string& op : ops) {
    for (const int64_t keepdims : {0, 1}) {
      const auto rank = static_cast<int64_t>(x.size());
      const Case c = {op, x, keepdims != 0 ? -2 : rank - 2, keepdims, opset};
      const std::string result = fmt::format("{} keepdims {}", op, keepdims);
      builder.Node("MatMul", {"x", "w"}, {"p of " + result});
      AddReduction(builder, c, "p of " + result, result).Output(result, DType::kFloat, Reduced(c));
    }
  }
  return builder.Serialize();
}

TEST(RowReductions, AreMadeAsTheRowsComeWithTheSameBits) {
  const std::vector<std::string> ops = {"ReduceMax",       "ReduceMin",   "ReduceSum",
                                        "ReduceMean",      "ReduceL1",    "ReduceL2",
                                        "ReduceSumSquare", "ReduceLogSum"};
  std::multiset<std::string> ends(ops.begin(), ops.end());
  ends.insert(ops.begin(), ops.end());
  for (const int opset : {11, 13, 18}) {
    for (const graph::DimVector& x : Inputs()) {
      SCOPED_TRACE(fmt::format("opset {}, rank {}", opset, x.size()));
      const std::string bytes = BuildAll(ops, opset, x);
      ExpectFused(bytes, ends);
      test::ExpectMeans(bytes, {.oracle = bytes, .options = test::WithoutPasses()});
    }
  }
}

TEST(RowReductions, StagesOfTheProductComeFirst) {
  for (const bool batched : {false, true}) {
    for (const std::string op : {"ReduceMax", "ReduceMean"}) {
      const Case c = {op, {kN, 150, 13}};
      ModelBuilder builder(17);
      builder.Input("x", DType::kFloat, c.x);
      if (batched) {
        builder.Input("w", DType::kFloat, {kN, 13, 37});
      } else {
        builder.Initializer("w", RandomFloats({13, 37}, 1));
      }
      builder.Initializer("b", RandomFloats({37}, 2))
          .Initializer("r", RandomFloats({150, 1}, 3))
          .Node("MatMul", {"x", "w"}, {"p"})
          .Node("Add", {"p", "b"}, {"q"})
          .Node("Tanh", {"q"}, {"t"});
      const std::string bytes =
          AddReduction(builder, c, "t").Output("y", DType::kFloat, Reduced(c)).Serialize();
      ExpectFused(bytes, {op});
      test::ExpectMeans(
          bytes, {.oracle = bytes, .options = test::WithoutPasses(), .tolerance = test::Ulp(1)});
      test::ExpectItemsAlone(bytes, 7);
    }
  }
}

TEST(RowReductions, OfGemmAreMadeAsTheRowsCome) {
  for (const int64_t transposed : {0, 1}) {
    const std::string bytes =
        ModelBuilder(13)
            .Input("a", DType::kFloat,
                   transposed != 0 ? graph::DimVector{13, 300} : graph::DimVector{300, 13})
            .Initializer("b", RandomFloats({13, 37}, 1))
            .Initializer("c", RandomFloats({300, 1}, 2))
            .Node("Gemm", {"a", "b", "c"}, {"p"},
                  {{"alpha", 0.5F}, {"beta", 2.0F}, {"transA", transposed}})
            .Node("Relu", {"p"}, {"r"})
            .Node("ReduceMean", {"r"}, {"y"}, {{"axes", Ints{0}}})
            .Output("y", DType::kFloat, {1, 37})
            .Serialize();
    ExpectFused(bytes, {"ReduceMean"});
    test::ExpectMeans(
        bytes, {.oracle = bytes, .options = test::WithoutPasses(), .tolerance = test::Ulp(1)});
  }
}

TEST(RowReductions, OfManyRowsNeedAFewOfThemAtATime) {
  const std::string bytes = Build({"ReduceSum", {kN, 1 << 16, 13}});
  const Engine engine(EngineOptions{.threads = 2});
  const auto model = LoadModel(engine, bytes);
  ASSERT_NE(model, nullptr);
  const auto report = model->Report(std::vector<NamedShape>{{"x", {1, 1 << 16, 13}}});
  ASSERT_TRUE(report.ok()) << report.status();
  const size_t product = (size_t{1} << 16) * 37 * sizeof(float);
  EXPECT_LT(*report->arena_bytes, product / 10);
}

TEST(RowReductions, OfNoRowsAreWhatTheReductionSays) {
  for (const std::string op : {"ReduceMax", "ReduceSum", "ReduceMean"}) {
    const std::string bytes = Build({op, {2, 0, 13}});
    ExpectFused(bytes, {op});
    test::ExpectMeans(bytes, {.oracle = bytes, .options = test::WithoutPasses(), .batches = {1}});
  }
}

// E(x^2) - E(x)^2 would lose a deviation of 1 beside a mean of 10^4.
TEST(RowReductions, TheMeanOfLargeNumbersThatDifferLittleIsExact) {
  Tensor x = RandomFloats({300, 1}, 1);
  for (int64_t i = 0; i < 300; ++i) x.mutable_data<float>()[i] += 10000;
  const std::string bytes = ModelBuilder(13)
                                .Input("x", DType::kFloat, {300, 1})
                                .Initializer("w", Tensor::Of<float>({1, 3}, {1, 1, 1}))
                                .Node("MatMul", {"x", "w"}, {"p"})
                                .Node("ReduceMean", {"p"}, {"y"}, {{"axes", Ints{-2}}})
                                .Output("y", DType::kFloat, {1, 3})
                                .Serialize();
  double sum = 0;
  for (const float value : x.view().span<float>()) sum += value;
  const auto mean = static_cast<float>(sum / 300);
  ExpectFused(bytes, {"ReduceMean"});
  const Engine engine(EngineOptions{.threads = 1});
  const auto model = LoadModel(engine, bytes);
  ASSERT_NE(model, nullptr);
  EXPECT_TRUE(test::Close(Answers(*model, {{"x", x}}).at("y"),
                          Tensor::Of<float>({1, 3}, {mean, mean, mean}), test::Exact()));
}

TEST(RowReductions, TheReferenceKernelReducesThemToo) {
  for (const graph::DimVector& x : Inputs()) {
    const std::string bytes = Build({"ReduceMean", x});
    const Engine plain(EngineOptions{.threads = 1, .prepack = false});
    const Engine packed(EngineOptions{.threads = 1});
    const auto one = LoadModel(plain, bytes);
    const auto other = LoadModel(packed, bytes);
    ASSERT_TRUE(one != nullptr && other != nullptr);
    EXPECT_EQ(ReportOf(*one).tasks.size(), 1U);
    const auto inputs = test::InputsOf(*one, 3);
    test::ExpectClose(Answers(*one, inputs), Answers(*other, inputs), test::Reduction(13));
  }
}

TEST(RowReductions, OverAnotherAxisDecline) {
  for (const std::string op : {"ReduceMax", "ReduceSum", "ReduceMean"}) {
    const std::string rule = "gemm: only the rows (axis -2) are reduced as they are made";
    ExpectDeclined(Build({op, {5, 13}, -1}), op, rule, "axes=[-1] rank=2");
    ExpectDeclined(Build({op, {5, 13}, 1}), op, rule, "axes=[1] rank=2");
    ExpectDeclined(Build({op, {kN, 5, 13}, -1}), op, rule, "axes=[-1] rank=3");
    ExpectDeclined(Build({op, {kN, 5, 13}, 0}), op, rule, "axes=[0] rank=3");
    ExpectDeclined(Build({op, {kN, 2, 5, 13}, -1}), op, rule, "axes=[-1] rank=4");
    ExpectDeclined(Build({op, {kN, 2, 5, 13}, 0}), op, rule, "axes=[0] rank=4");
    ExpectDeclined(Build({op, {kN, 2, 5, 13}, 1}), op, rule, "axes=[1] rank=4");
  }
}

TEST(RowReductions, OfIntegersAndWithoutAKernelDecline) {
  const Case integers = {.op = "ReduceSum", .dtype = DType::kInt64};
  ExpectDeclined(Build(integers), "ReduceSum", "gemm: the epilogue reduces float32 only", "");
  ExpectDeclined(Build({.op = "ReduceProd"}), "ReduceProd",
                 "gemm: the epilogue has no such reduction", "");
  for (const Case& c : {integers, Case{.op = "ReduceProd"}}) {
    test::ExpectMeans(Build(c), {.oracle = Build(c), .options = test::WithoutPasses()});
  }
}

TEST(RowReductions, OfVectorsDecline) {
  // Axis -2 of the result is a batch.
  const std::string bytes = ModelBuilder(13)
                                .Input("x", DType::kFloat, {kN, 5, 13})
                                .Initializer("w", RandomFloats({13}, 1))
                                .Node("MatMul", {"x", "w"}, {"p"})
                                .Node("ReduceMax", {"p"}, {"y"}, {{"axes", Ints{-2}}})
                                .Output("y", DType::kFloat, {1, 5})
                                .Serialize();
  ExpectDeclined(bytes, "ReduceMax", "gemm: a side is a vector, or its rank is unknown", "");
  test::ExpectMeans(bytes, {.oracle = bytes, .options = test::WithoutPasses()});
}

TEST(RowReductions, OfAProductThatOthersReadDecline) {
  for (const bool output : {false, true}) {
    ModelBuilder builder(13);
    builder.Input("x", DType::kFloat, {kN, 5, 13})
        .Initializer("w", RandomFloats({13, 37}, 1))
        .Node("MatMul", {"x", "w"}, {"p"});
    AddReduction(builder, {}, "p").Output("y", DType::kFloat, {kN, 1, 37});
    if (output) {
      builder.Output("p", DType::kFloat, {kN, 5, 37});
    } else {
      builder.Node("Exp", {"p"}, {"e"}).Output("e", DType::kFloat, {kN, 5, 37});
    }
    const std::string bytes = builder.Serialize();
    ExpectDeclined(bytes, "ReduceMax",
                   output ? "the result is a graph output" : "the result has other readers",
                   output ? "" : "readers=2");
    test::ExpectMeans(bytes, {.oracle = bytes, .options = test::WithoutPasses()});
  }
}

TEST(RowReductions, OverAxesThatARunBringsDecline) {
  const std::string bytes = ModelBuilder(18)
                                .Input("x", DType::kFloat, {3, 5, 13})
                                .Input("axes", DType::kInt64, {1})
                                .Initializer("w", RandomFloats({13, 37}, 1))
                                .Node("MatMul", {"x", "w"}, {"p"})
                                .Node("ReduceMax", {"p", "axes"}, {"y"})
                                .Output("y", DType::kFloat, {graph::Dim(), graph::Dim(), 37})
                                .Serialize();
  ExpectDeclined(bytes, "ReduceMax", "gemm: only the rows (axis -2) are reduced as they are made",
                 "");
}

TEST(RowReductions, NothingFollowsThemInTheEpilogue) {
  ModelBuilder builder(13);
  builder.Input("x", DType::kFloat, {kN, 5, 13})
      .Initializer("w", RandomFloats({13, 37}, 1))
      .Node("MatMul", {"x", "w"}, {"p"});
  AddReduction(builder, {}, "p");
  const std::string bytes =
      builder.Node("Relu", {"y"}, {"z"}).Output("z", DType::kFloat, {kN, 1, 37}).Serialize();
  const Engine engine(EngineOptions{.threads = 1});
  const auto model = LoadModel(engine, bytes);
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(ReportOf(*model).tasks.size(), 2U);
  EXPECT_THAT(model->Explain(),
              testing::HasSubstr("nothing follows the reduction that ends the epilogue"));
  test::ExpectMeans(bytes, {.oracle = bytes, .options = test::WithoutPasses()});
}

// The mean over the channels of a layer normalization in front of channels, as in ConvNeXt V2.
TEST(RowReductions, OverTheChannelsOfAConvolutionDecline) {
  ModelBuilder builder(13);
  builder.Input("x", DType::kFloat, {kN, 3, 8, 8})
      .Initializer("w", RandomFloats({16, 3, 2, 2}, 1))
      .Initializer("two", Tensor::Scalar(2.0F))
      .Initializer("epsilon", Tensor::Scalar(1e-6F))
      .Node("Conv", {"x", "w"}, {"c"}, {{"strides", Ints{2, 2}}})
      .Node("ReduceMean", {"c"}, {"u"}, {{"axes", Ints{1}}})
      .Node("Sub", {"c", "u"}, {"d"})
      .Node("Pow", {"d", "two"}, {"s"})
      .Node("ReduceMean", {"s"}, {"v"}, {{"axes", Ints{1}}})
      .Node("Add", {"v", "epsilon"}, {"ve"})
      .Node("Sqrt", {"ve"}, {"r"})
      .Node("Div", {"d", "r"}, {"y"})
      .Output("y", DType::kFloat, {kN, 16, 4, 4});
  const std::string bytes = builder.Serialize();
  ExpectDeclined(bytes, "ReduceMean", "conv: the epilogue reduces no axis", "");
  test::ExpectMeans(
      bytes, {.oracle = bytes, .options = test::WithoutPasses(), .tolerance = test::Reduction(64)});
  test::ExpectItemsAlone(bytes, 3);
}

TEST(RowReductions, MatchingTwiceGivesTheSamePlan) {
  const std::string bytes = Build({"ReduceMean", {kN, 2, 3, 13}});
  const auto plan = [&] {
    const Engine engine(EngineOptions{.threads = 1});
    PlanReport report = ReportOf(*LoadModel(engine, bytes));
    for (PassReport& pass : report.passes) pass.time = {};
    return ToText(report);
  };
  EXPECT_EQ(plan(), plan());
  const Engine off(EngineOptions{.threads = 1, .disabled_passes = {"fuse_reduction"}});
  EXPECT_EQ(ReportOf(*LoadModel(off, bytes)).tasks.size(), 2U);
}

}  // namespace
}  // namespace tandem
