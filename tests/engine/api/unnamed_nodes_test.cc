// Nodes without names, nodes of one name and ports that are omitted: names are no more than names.
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "tests/engine/api/comparison.h"
#include "tests/support/random_bytes.h"

namespace tandem {
namespace {

using test::ExpectMeans;
using test::LoadModel;
using test::ModelBuilder;
using test::RandomFloats;
using Ints = std::vector<int64_t>;

const graph::Dim kN = graph::Dim::Symbol("N");

enum class Names { kNone, kOne, kDistinct };

// A network that every pass finds something in.
class Network {
 public:
  explicit Network(Names names) : names_(names) {
    builder_.Input("x", DType::kFloat, {kN, 5, 6, 7})
        .Initializer("half", Tensor::Scalar(0.5F))
        .Initializer("one", Tensor::Scalar(1.0F))
        .Initializer("two", Tensor::Scalar(2.0F))
        .Initializer("root", Tensor::Scalar(1.4142135F))
        .Initializer("epsilon", Tensor::Scalar(1e-3F))
        .Initializer("row", RandomFloats({7}, 1))
        .Initializer("square", RandomFloats({7, 7}, 2, -0.4F, 0.4F))
        .Initializer("channel", RandomFloats({5, 1, 1}, 3, 0.5F, 1.5F))
        .Initializer("unit", Tensor::Of<float>({1}, {1}))
        .Initializer("zero", Tensor::Of<float>({1}, {0}))
        .Initializer("groups", Tensor::Of<int64_t>({3}, {0, 1, -1}))
        .Initializer("image", Tensor::Of<int64_t>({4}, {0, 5, 6, 7}))
        .Initializer("twice", Tensor::Scalar(int64_t{2}))
        .Initializer("yes", Tensor::Scalar(true));
    std::string from = AddQuantised("x");
    for (const std::string n : {"1", "2"}) from = AddBlock(from, n);
    AddLayerNorm(AddDepthwise(from));
    AddGelu();
    Add("Dropout", {"gelu"}, "dropped");
    Add("Identity", {"dropped"}, "same");
    Add("Sigmoid", {"same"}, "gate");
    Add("Mul", {"same", "gate"}, "swish");
    AddNormalizations("swish", "z");
    AddAttention("z", "o");
    AddProduct("o", "u");
    AddControlFlow("u", "y");
  }

  std::string Serialize() { return builder_.Output("y", DType::kFloat, {kN, 5, 6, 7}).Serialize(); }

 private:
  void Add(const std::string& op, const std::vector<std::string>& inputs, const std::string& output,
           const graph::Attributes& attributes = {}) {
    builder_.Node(op, inputs, {output}, attributes, NameOf(output));
  }

  std::string NameOf(const std::string& output) const {
    if (names_ == Names::kNone) return "";
    return names_ == Names::kOne ? "node" : "n_" + output;
  }

  // There and back on integers that are written as floats.
  std::string AddQuantised(const std::string& from) {
    builder_.Initializer("step", Tensor::Scalar(1.0F / 128))
        .Initializer("middle", Tensor::Scalar<uint8_t>(128));
    const graph::Attributes turn = {{"perm", Ints{0, 1, 3, 2}}};
    Add("QuantizeLinear", {from, "step", "middle"}, "integers");
    Add("DequantizeLinear", {"integers", "step", "middle"}, "floats");
    Add("Transpose", {"floats"}, "turned", turn);
    Add("QuantizeLinear", {"turned", "step", "middle"}, "turned_integers");
    Add("DequantizeLinear", {"turned_integers", "step", "middle"}, "turned_floats");
    Add("Transpose", {"turned_floats"}, "upright", turn);
    return "upright";
  }

  // Identity, Conv of a weight that is computed, normalization, Add and Relu.
  std::string AddBlock(const std::string& from, const std::string& n) {
    const auto seed = static_cast<uint32_t>(10 * n[0]);
    builder_.Initializer("w" + n, RandomFloats({5, 5, 3, 3}, seed))
        .Initializer("scale" + n, RandomFloats({5}, seed + 1, 0.5F, 2))
        .Initializer("shift" + n, RandomFloats({5}, seed + 2))
        .Initializer("mean" + n, RandomFloats({5}, seed + 3))
        .Initializer("var" + n, RandomFloats({5}, seed + 4, 0.5F, 2));
    Add("Identity", {from}, "i" + n);
    Add("Mul", {"w" + n, "half"}, "v" + n);
    Add("Conv", {"i" + n, "v" + n}, "c" + n, {{"pads", Ints{1, 1, 1, 1}}});
    Add("BatchNormalization", {"c" + n, "scale" + n, "shift" + n, "mean" + n, "var" + n}, "b" + n);
    Add("Add", {"b" + n, from}, "a" + n);
    Add("Relu", {"a" + n}, "r" + n);
    return "r" + n;
  }

  // A depthwise and a pointwise convolution on a larger image, and the way back.
  std::string AddDepthwise(const std::string& from) {
    builder_.Initializer("spread", RandomFloats({5, 1, 3, 3}, 40))
        .Initializer("mix", RandomFloats({5, 5, 1, 1}, 41))
        .Initializer("gather", RandomFloats({5, 5, 9, 9}, 42, -0.2F, 0.2F));
    Add("Conv", {from, "spread"}, "wide", {{"group", int64_t{5}}, {"pads", Ints{5, 5, 5, 5}}});
    Add("Conv", {"wide", "mix"}, "mixed");
    Add("Conv", {"mixed", "gather"}, "gathered");
    return "gathered";
  }

  void AddLayerNorm(const std::string& from) {
    const graph::Attributes last = {{"axes", Ints{-1}}};
    Add("ReduceMean", {from}, "m", last);
    Add("Sub", {from, "m"}, "d");
    Add("Pow", {"d", "two"}, "p");
    Add("ReduceMean", {"p"}, "v", last);
    Add("Add", {"v", "epsilon"}, "e");
    Add("Sqrt", {"e"}, "s");
    Add("Div", {"d", "s"}, "n");
    Add("Mul", {"n", "row"}, "scaled");
    Add("Add", {"scaled", "row"}, "normalized");
  }

  void AddGelu() {
    Add("Div", {"normalized", "root"}, "t");
    Add("Erf", {"t"}, "f");
    Add("Add", {"f", "one"}, "g");
    Add("Mul", {"normalized", "g"}, "h");
    Add("Mul", {"h", "half"}, "gelu");
  }

  // Of the rows' mean square, then of a group of all channels; on the way there and back to a
  // matrix.
  void AddNormalizations(const std::string& from, const std::string& to) {
    Add("Pow", {from, "two"}, "square_of");
    Add("ReduceMean", {"square_of"}, "mean_square", {{"axes", Ints{-1}}});
    Add("Add", {"mean_square", "epsilon"}, "shifted");
    Add("Sqrt", {"shifted"}, "rms");
    Add("Div", {from, "rms"}, "over_rms");
    Add("Mul", {"over_rms", "row"}, "rows");
    Add("Flatten", {"rows"}, "there");
    Add("Reshape", {"there", "image"}, "again");
    Add("Reshape", {"again", "groups"}, "grouped");
    Add("InstanceNormalization", {"grouped", "unit", "zero"}, "centred");
    Add("Reshape", {"centred", "image"}, "ungrouped");
    Add("Mul", {"ungrouped", "channel"}, "by_channel");
    Add("Add", {"by_channel", "channel"}, to);
  }

  // Every row of a channel looks at all of them; what it finds is multiplied by a matrix.
  void AddAttention(const std::string& from, const std::string& to) {
    Add("MatMul", {from, "square"}, "query");
    Add("Transpose", {from}, "keys", {{"perm", Ints{0, 1, 3, 2}}});
    Add("MatMul", {"query", "keys"}, "scores");
    Add("Mul", {"scores", "half"}, "scaled_scores");
    Add("Softmax", {"scaled_scores"}, "weights", {{"axis", int64_t{-1}}});
    Add("MatMul", {"weights", from}, "found");
    Add("Einsum", {"found", "square"}, to, {{"equation", std::string("nchw,wk->nchk")}});
  }

  // The largest of each column of a product whose left side an activation makes, its right side
  // dequantised.
  void AddProduct(const std::string& from, const std::string& to) {
    builder_.Initializer("bytes", test::RandomBytes<int8_t>({7, 7}, 50));
    Add("Tanh", {from}, "bent");
    Add("DequantizeLinear", {"bytes", "step"}, "weight");
    Add("MatMul", {"bent", "weight"}, "product");
    Add("ReduceMax", {"product"}, "highest", {{"axes", Ints{-2}}});
    Add("Add", {from, "highest"}, to);
  }

  // A branch of a known condition, one of a condition that a run decides, and a loop of two turns
  // whose body adds what two constants make.
  void AddControlFlow(const std::string& from, const std::string& to) {
    AddIf("yes", from, "known");
    Add("ReduceMax", {"known"}, "most", {{"keepdims", int64_t{0}}});
    Add("Greater", {"most", "one"}, "large");
    AddIf("large", "known", "either");
    Add("Loop", {"twice", "", "either"}, to);
    ModelBuilder body(14);
    body.Input("turn", DType::kInt64, {}).Input("on", DType::kBool, {}).Input("state");
    body.Node("Add", {"half", "one"}, {"step"}, {}, NameOf("step"))
        .Node("Add", {"state", "step"}, {"next"}, {}, NameOf("next"))
        .Node("Identity", {"on"}, {"still"}, {}, NameOf("still"))
        .Output("still")
        .Output("next");
    builder_.Body("body", body);
  }

  void AddIf(const std::string& condition, const std::string& from, const std::string& to) {
    Add("If", {condition}, to);
    for (const bool taken : {true, false}) {
      ModelBuilder branch(14);
      const std::string result = to + (taken ? "_then" : "_else");
      branch.Node(taken ? "Softmax" : "Neg", {from}, {result}, {}, NameOf(result)).Output(result);
      builder_.Body(taken ? "then_branch" : "else_branch", branch);
    }
  }

  const Names names_;
  ModelBuilder builder_{14};
};

PlanReport ReportOf(const Model& model) {
  const auto report = model.Report(std::vector<NamedShape>{{"x", {2, 5, 6, 7}}});
  EXPECT_TRUE(report.ok()) << report.status();
  return report.ok() ? *report : PlanReport();
}

TEST(UnnamedNodes, ArePlannedAsNamedOnesAre) {
  const std::string named = Network(Names::kDistinct).Serialize();
  const Engine engine(EngineOptions{.threads = 1});
  const auto oracle = LoadModel(engine, named);
  ASSERT_NE(oracle, nullptr);
  const PlanReport expected = ReportOf(*oracle);
  for (const Names names : {Names::kNone, Names::kOne}) {
    const std::string bytes = Network(names).Serialize();
    ExpectMeans(bytes, {.oracle = named});
    const auto model = LoadModel(engine, bytes);
    ASSERT_NE(model, nullptr);
    const PlanReport report = ReportOf(*model);
    ASSERT_EQ(report.tasks.size(), expected.tasks.size());
    for (size_t i = 0; i < report.tasks.size(); ++i) {
      EXPECT_EQ(report.tasks[i].kernel, expected.tasks[i].kernel);
      EXPECT_EQ(report.tasks[i].epilogue, expected.tasks[i].epilogue);
    }
    ASSERT_EQ(report.passes.size(), expected.passes.size());
    for (size_t i = 0; i < report.passes.size(); ++i) {
      EXPECT_EQ(report.passes[i].changes, expected.passes[i].changes) << report.passes[i].pass;
      EXPECT_GT(report.passes[i].changes, 0) << report.passes[i].pass << " finds nothing";
    }
  }
}

TEST(UnnamedNodes, EveryPassAloneLeavesTheNumbers) {
  const std::string bytes = Network(Names::kNone).Serialize();
  const Engine plain(test::WithoutPasses());
  const auto oracle = LoadModel(plain, bytes);
  ASSERT_NE(oracle, nullptr);
  const auto inputs = test::InputsOf(*oracle, 2);
  const std::vector<std::string> all = test::WithoutPasses().disabled_passes;
  for (const std::string& pass : all) {
    SCOPED_TRACE(pass);
    EngineOptions options{.threads = 1, .disabled_passes = all};
    std::erase(options.disabled_passes, pass);
    const Engine engine(options);
    const auto model = LoadModel(engine, bytes);
    ASSERT_NE(model, nullptr);
    test::ExpectClose(test::Answers(*model, inputs), test::Answers(*oracle, inputs),
                      test::Reduction(90));
  }
}

TEST(UnnamedNodes, AreToldApartByReportAndProfile) {
  const Engine engine(test::WithoutPasses());
  const auto model = LoadModel(engine, Network(Names::kNone).Serialize());
  ASSERT_NE(model, nullptr);
  std::set<std::string> names;
  const PlanReport report = ReportOf(*model);
  for (const TaskReport& task : report.tasks) names.insert(task.name);
  EXPECT_EQ(names.size(), report.tasks.size());
  const auto run = model->Run(test::InputsOf(*model, 2), {.profile = true});
  ASSERT_TRUE(run.ok()) << run.status();
  names.clear();
  for (const TaskTime& task : run->profile) names.emplace(task.task);
  EXPECT_EQ(names.size(), report.tasks.size());
}

// Ports are omitted, or given as what an omitted port means.
enum class Ports { kOmitted, kGiven };

std::string ManyPorts(Ports ports) {
  const bool given = ports == Ports::kGiven;
  const auto port = [given](const std::string& name) { return given ? name : std::string(); };
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {kN, 4, 6, 8})
      .Initializer("w", RandomFloats({4, 4, 3, 3}, 1))
      .Initializer("zeros4", Tensor::Of<float>({4}, {0, 0, 0, 0}))
      .Initializer("low", Tensor::Scalar(std::numeric_limits<float>::lowest()))
      .Initializer("high", Tensor::Scalar(0.5F))
      .Initializer("scales", Tensor::Of<float>({4}, {1, 1, 2, 0.5F}))
      .Initializer("k", Tensor::Of<int64_t>({1}, {3}))
      .Initializer("starts", Tensor::Of<int64_t>({4}, {0, 1, 0, 2}))
      .Initializer("ends", Tensor::Of<int64_t>({4}, {99, 3, 4, 8}))
      .Initializer("axes", Tensor::Of<int64_t>({4}, {0, 1, 2, 3}))
      .Initializer("steps", Tensor::Of<int64_t>({4}, {1, 1, 1, 2}));
  builder.Node("Conv", {"x", "w", port("zeros4")}, {"c"}, {{"pads", Ints{1, 1, 1, 1}}})
      .Node("Clip", {"c", port("low"), "high"}, {"clipped"})
      .Node("Resize", {"clipped", "", "scales"}, {"resized"}, {{"mode", std::string("linear")}})
      .Node("Dropout", {"clipped"}, {"dropped", port("mask")})
      .Node("MaxPool", {"dropped"}, {"pooled", port("indices")}, {{"kernel_shape", Ints{2, 2}}})
      .Node("TopK", {"x", "k"}, {port("values"), "top"})
      .Node("Slice", {"x", "starts", "ends", port("axes"), "steps"}, {"sliced"})
      .Node("LayerNormalization", {"x", "eight", port("shift")},
            {"normalized", port("mean"), port("deviation")})
      .Node("Split", {"x"}, {port("first"), "second"}, {{"axis", int64_t{1}}})
      .Initializer("eight", RandomFloats({8}, 2))
      .Initializer("shift", Tensor::Of<float>({8}, {0, 0, 0, 0, 0, 0, 0, 0}));
  return builder.Output("resized", DType::kFloat, {kN, 4, 12, 4})
      .Output("pooled", DType::kFloat, {kN, 4, 5, 7})
      .Output("top", DType::kInt64, {kN, 4, 6, 3})
      .Output("sliced", DType::kFloat, {kN, 2, 4, 3})
      .Output("normalized", DType::kFloat, {kN, 4, 6, 8})
      .Output("second", DType::kFloat, {kN, 2, 6, 8})
      .Serialize();
}

TEST(UnnamedNodes, OmittedPortsMeanTheirDefaults) {
  ExpectMeans(ManyPorts(Ports::kOmitted), {.oracle = ManyPorts(Ports::kGiven)});
}

// A recurrent layer without lengths, initial states or, of its outputs, all but one.
TEST(UnnamedNodes, OmittedPortsOfARecurrentLayer) {
  const auto build = [](Ports ports) {
    const bool given = ports == Ports::kGiven;
    const auto port = [given](const std::string& name) { return given ? name : std::string(); };
    return ModelBuilder(17)
        .Input("x", DType::kFloat, {5, 2, 3})
        .Initializer("w", RandomFloats({1, 16, 3}, 1))
        .Initializer("r", RandomFloats({1, 16, 4}, 2))
        .Initializer("b", Tensor::Of<float>({1, 32}, std::vector<float>(32, 0)))
        .Initializer("h", Tensor::Of<float>({1, 2, 4}, std::vector<float>(8, 0)))
        .Initializer("lengths", Tensor::Of<int32_t>({2}, {5, 5}))
        .Node("LSTM", {"x", "w", "r", port("b"), port("lengths"), port("h"), port("h")},
              {port("all"), "last", port("cell")}, {{"hidden_size", int64_t{4}}})
        .Output("last", DType::kFloat, {1, 2, 4})
        .Serialize();
  };
  ExpectMeans(build(Ports::kOmitted), {.oracle = build(Ports::kGiven), .batches = {1}});
}

}  // namespace
}  // namespace tandem
