// Chains that passes fuse: whichever value on the way is an output and whatever stands between two
// links, every output is there and has its value.
#include <gtest/gtest.h>

#include <map>

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
const graph::Attributes kLast = {{"axes", Ints{-1}}};

struct Link {
  std::string op;
  std::vector<std::string> inputs;
  std::string output;
  graph::Attributes attributes = {};
};

// From input x [N,5,6,7] through the links to the output of the last one.
struct Chain {
  std::string name;
  std::vector<Link> links;
  std::string pass;                           // that changes it
  test::Tolerance tolerance = test::Exact();  // of the fused form
};

std::vector<Chain> Chains() {
  return {
      {"normalized convolution with a residual",
       {{"Conv", {"x", "w"}, "a", kSame3},
        {"BatchNormalization", {"a", "scale", "shift", "mean", "var"}, "b"},
        {"Relu", {"b"}, "c"},
        {"Conv", {"c", "v"}, "d", kSame3},
        {"Add", {"d", "x"}, "e"},
        {"Clip", {"e", "low", "high"}, "y"}},
       "fold_batch_norm",
       test::Reduction(90)},
      {"convolution with a scale, a residual and an activation",
       {{"Conv", {"x", "w", "shift"}, "a", kSame3},
        {"Mul", {"a", "channel"}, "b"},
        {"Add", {"x", "b"}, "c"},
        {"Sub", {"half", "c"}, "d"},
        {"Tanh", {"d"}, "y"}},
       "fuse_epilogue"},
      {"two convolutions that meet in an Add",
       {{"Conv", {"x", "w"}, "a", kSame3},
        {"Conv", {"x", "v"}, "b", kSame3},
        {"Add", {"a", "b"}, "c"},
        {"Relu", {"c"}, "y"}},
       "fuse_epilogue"},
      {"an Add of a convolution to itself",
       {{"Conv", {"x", "w"}, "a", kSame3}, {"Add", {"a", "a"}, "b"}, {"Relu", {"b"}, "y"}},
       ""},
      {"a product with bias and activation",
       {{"MatMul", {"x", "square"}, "a"}, {"Add", {"row", "a"}, "b"}, {"Sigmoid", {"b"}, "y"}},
       "fuse_epilogue"},
      {"Gelu by the error function",
       {{"Div", {"x", "root"}, "a"},
        {"Erf", {"a"}, "b"},
        {"Add", {"b", "one"}, "c"},
        {"Mul", {"x", "c"}, "d"},
        {"Mul", {"d", "half"}, "y"}},
       "fuse_gelu",
       test::OfScale(1e-6)},
      {"Gelu by the hyperbolic tangent",
       {{"Pow", {"x", "three"}, "a"},
        {"Mul", {"a", "cubic"}, "b"},
        {"Add", {"x", "b"}, "c"},
        {"Mul", {"c", "slope"}, "d"},
        {"Tanh", {"d"}, "e"},
        {"Add", {"e", "one"}, "f"},
        {"Mul", {"x", "f"}, "g"},
        {"Mul", {"g", "half"}, "y"}},
       "fuse_gelu",
       test::OfScale(1e-6)},
      {"layer normalization",
       {{"ReduceMean", {"x"}, "a", kLast},
        {"Sub", {"x", "a"}, "b"},
        {"Pow", {"b", "two"}, "c"},
        {"ReduceMean", {"c"}, "d", kLast},
        {"Add", {"d", "epsilon"}, "e"},
        {"Sqrt", {"e"}, "f"},
        {"Div", {"b", "f"}, "g"},
        {"Mul", {"g", "row"}, "h"},
        {"Add", {"h", "row"}, "y"}},
       "fuse_layer_norm",
       test::Reduction(21)},
      {"Swish", {{"Sigmoid", {"x"}, "a"}, {"Mul", {"x", "a"}, "y"}}, "fuse_swish", test::Ulp(4)},
      {"HardSwish",
       {{"HardSigmoid", {"x"}, "a", {{"alpha", 1.0F / 6}, {"beta", 0.5F}}},
        {"Mul", {"x", "a"}, "y"}},
       "fuse_swish",
       test::Ulp(4)},
      {"root mean square normalization",
       {{"Pow", {"x", "two"}, "a"},
        {"ReduceMean", {"a"}, "b", kLast},
        {"Add", {"b", "epsilon"}, "c"},
        {"Sqrt", {"c"}, "d"},
        {"Div", {"x", "d"}, "e"},
        {"Mul", {"e", "row"}, "y"}},
       "fuse_rms_norm",
       test::Reduction(21)},
      {"group normalization",
       {{"Reshape", {"x", "groups"}, "a"},
        {"InstanceNormalization", {"a", "unit", "zero"}, "b"},
        {"Reshape", {"b", "image"}, "c"},
        {"Mul", {"c", "channel"}, "d"},
        {"Add", {"d", "offset"}, "y"}},
       "fuse_group_norm",
       test::Reduction(210)},
      {"attention of the rows of each channel",
       {{"Transpose", {"x"}, "a", {{"perm", Ints{0, 1, 3, 2}}}},
        {"MatMul", {"x", "a"}, "b"},
        {"Mul", {"b", "half"}, "c"},
        {"Add", {"c", "mask"}, "d"},
        {"Softmax", {"d"}, "e", {{"axis", int64_t{-1}}}},
        {"MatMul", {"e", "x"}, "y"}},
       "fuse_attention",
       test::OfScale(1e-6)},
      {"Gelu behind a product",
       {{"MatMul", {"x", "square"}, "m"},
        {"Div", {"m", "root"}, "a"},
        {"Erf", {"a"}, "b"},
        {"Add", {"b", "one"}, "c"},
        {"Mul", {"m", "c"}, "d"},
        {"Mul", {"d", "half"}, "y"}},
       "fuse_gelu",
       test::OfScale(1e-6)},
      {"a product of what an activation makes",
       {{"Exp", {"x"}, "a"}, {"Sub", {"half", "a"}, "b"}, {"MatMul", {"b", "square"}, "y"}},
       "fuse_prologue"},
      {"the greatest of the rows of a product, added back",
       {{"MatMul", {"x", "square"}, "a"},
        {"Tanh", {"a"}, "b"},
        {"ReduceMax", {"b"}, "c", {{"axes", Ints{-2}}}},
        {"Add", {"x", "c"}, "y"}},
       "fuse_reduction"},
  };
}

void AddConstants(ModelBuilder& builder) {
  builder.Initializer("w", RandomFloats({5, 5, 3, 3}, 1))
      .Initializer("v", RandomFloats({5, 5, 3, 3}, 2))
      .Initializer("scale", RandomFloats({5}, 3, 0.5F, 2))
      .Initializer("shift", RandomFloats({5}, 4))
      .Initializer("mean", RandomFloats({5}, 5))
      .Initializer("var", RandomFloats({5}, 6, 0.5F, 2))
      .Initializer("channel", RandomFloats({1, 5, 1, 1}, 7))
      .Initializer("offset", RandomFloats({5, 1, 1}, 10))
      .Initializer("mask", RandomFloats({6, 6}, 11))
      .Initializer("unit", Tensor::Of<float>({1}, {1}))
      .Initializer("zero", Tensor::Of<float>({1}, {0}))
      .Initializer("groups", Tensor::Of<int64_t>({3}, {0, 1, -1}))
      .Initializer("image", Tensor::Of<int64_t>({4}, {0, 5, 6, 7}))
      .Initializer("square", RandomFloats({7, 7}, 8))
      .Initializer("row", RandomFloats({7}, 9))
      .Initializer("low", Tensor::Scalar(-1.0F))
      .Initializer("high", Tensor::Scalar(2.0F))
      .Initializer("half", Tensor::Scalar(0.5F))
      .Initializer("one", Tensor::Scalar(1.0F))
      .Initializer("two", Tensor::Scalar(2.0F))
      .Initializer("three", Tensor::Scalar(3.0F))
      .Initializer("root", Tensor::Scalar(1.4142135F))
      .Initializer("cubic", Tensor::Scalar(0.044715F))
      .Initializer("slope", Tensor::Scalar(0.7978846F))
      .Initializer("epsilon", Tensor::Scalar(1e-3F));
}

struct Form {
  std::vector<std::string> visible = {};  // values on the way that are outputs, too
  int stranger = -1;  // behind this link stands a node that has nothing to do with the chain
};

std::string Build(const Chain& chain, const Form& form = {}) {
  ModelBuilder builder(14);
  builder.Input("x", DType::kFloat, {kN, 5, 6, 7});
  AddConstants(builder);
  for (size_t i = 0; i < chain.links.size(); ++i) {
    const Link& link = chain.links[i];
    builder.Node(link.op, link.inputs, {link.output}, link.attributes);
    if (form.stranger == static_cast<int>(i)) builder.Node("Softmax", {"x"}, {"stranger"});
  }
  builder.Output("y", DType::kFloat, {kN, 5, 6, 7});
  for (const Link& link : chain.links) {
    if (std::ranges::find(form.visible, link.output) == form.visible.end()) continue;
    builder.Output(link.output);
  }
  if (form.stranger >= 0) builder.Output("stranger", DType::kFloat, {kN, 5, 6, 7});
  return builder.Serialize();
}

PlanReport ReportOf(const std::string& bytes) {
  const Engine engine(EngineOptions{.threads = 1});
  const auto model = LoadModel(engine, bytes);
  if (model == nullptr) return {};
  const auto report = model->Report(std::vector<NamedShape>{{"x", {2, 5, 6, 7}}});
  EXPECT_TRUE(report.ok()) << report.status();
  return report.ok() ? *report : PlanReport();
}

std::map<std::string, int> ChangesOf(const PlanReport& report) {
  std::map<std::string, int> changes;
  for (const PassReport& pass : report.passes) changes[pass.pass] = pass.changes;
  return changes;
}

// Kernels and epilogues of all tasks but the stranger's, sorted.
std::vector<std::string> KernelsOf(PlanReport report) {
  std::erase_if(report.tasks, [](const TaskReport& task) {
    return task.name.find("'stranger'") != std::string::npos;
  });
  std::vector<std::string> kernels = test::KernelsOf(report);
  std::ranges::sort(kernels);
  return kernels;
}

std::vector<std::string> ValuesOnTheWay(const Chain& chain) {
  std::vector<std::string> values;
  for (const Link& link : chain.links) {
    if (link.output != "y") values.push_back(link.output);
  }
  return values;
}

TEST(FusedIntermediates, EveryChainFuses) {
  for (const Chain& chain : Chains()) {
    SCOPED_TRACE(chain.name);
    const std::string bytes = Build(chain);
    if (!chain.pass.empty()) {
      EXPECT_GT(ChangesOf(ReportOf(bytes))[chain.pass], 0);
    }
    ExpectMeans(bytes,
                {.oracle = bytes, .options = test::WithoutPasses(), .tolerance = chain.tolerance});
  }
}

TEST(FusedIntermediates, EachMayBeAnOutput) {
  for (const Chain& chain : Chains()) {
    for (const std::string& value : ValuesOnTheWay(chain)) {
      SCOPED_TRACE(chain.name + ", output " + value);
      const std::string bytes = Build(chain, {.visible = {value}});
      ExpectMeans(bytes, {.oracle = bytes,
                          .options = test::WithoutPasses(),
                          .tolerance = chain.tolerance,
                          .batches = {2}});
    }
  }
}

TEST(FusedIntermediates, AllMayBeOutputsAndThenNothingIsFused) {
  for (const Chain& chain : Chains()) {
    SCOPED_TRACE(chain.name);
    const std::string bytes = Build(chain, {.visible = ValuesOnTheWay(chain)});
    ExpectMeans(bytes, {.oracle = bytes, .options = test::WithoutPasses()});
    for (const auto& [pass, changes] : ChangesOf(ReportOf(bytes))) EXPECT_EQ(changes, 0) << pass;
  }
}

// The sum and one of its two sides are seen from outside, so that all three must be there.
TEST(FusedIntermediates, TheMiddleOfADiamondMayBeSeen) {
  for (const Chain& chain : Chains()) {
    if (chain.name != "two convolutions that meet in an Add") continue;
    for (const std::string side : {"a", "b"}) {
      SCOPED_TRACE(side);
      const std::string bytes = Build(chain, {.visible = {side, "c"}});
      ExpectMeans(bytes, {.oracle = bytes, .options = test::WithoutPasses()});
      const Engine engine(EngineOptions{.threads = 1});
      const auto model = LoadModel(engine, bytes);
      ASSERT_NE(model, nullptr);
      EXPECT_EQ(test::Answers(*model, test::InputsOf(*model, 3)).size(), 3u);
    }
  }
}

TEST(FusedIntermediates, AStrangerBetweenTwoLinksChangesNothing) {
  for (const Chain& chain : Chains()) {
    const PlanReport report = ReportOf(Build(chain));
    const Engine engine(EngineOptions{.threads = 1});
    const auto alone = LoadModel(engine, Build(chain));
    ASSERT_NE(alone, nullptr);
    for (int i = 0; i + 1 < static_cast<int>(chain.links.size()); ++i) {
      SCOPED_TRACE(fmt::format("{}, behind link {}", chain.name, i));
      const std::string bytes = Build(chain, {.stranger = i});
      for (const std::string& order : test::OrdersOf(bytes)) {
        EXPECT_EQ(ChangesOf(ReportOf(order)), ChangesOf(report));
        EXPECT_EQ(KernelsOf(ReportOf(order)), KernelsOf(report));
        const auto model = LoadModel(engine, order);
        ASSERT_NE(model, nullptr);
        const auto inputs = test::InputsOf(*model, 3);
        EXPECT_TRUE(test::Close(test::Answers(*model, inputs).at("y"),
                                test::Answers(*alone, inputs).at("y"), test::Exact()));
      }
    }
  }
}

TEST(FusedIntermediates, TheSameFileGivesTheSamePlan) {
  for (const Chain& chain : Chains()) {
    SCOPED_TRACE(chain.name);
    const PlanReport one = ReportOf(Build(chain));
    const PlanReport other = ReportOf(Build(chain));
    EXPECT_EQ(ChangesOf(one), ChangesOf(other));
    ASSERT_EQ(one.tasks.size(), other.tasks.size());
    for (size_t i = 0; i < one.tasks.size(); ++i) {
      EXPECT_EQ(one.tasks[i].name, other.tasks[i].name);
      EXPECT_EQ(one.tasks[i].kernel, other.tasks[i].kernel);
      EXPECT_EQ(one.tasks[i].epilogue, other.tasks[i].epilogue);
    }
    ASSERT_EQ(one.declines.size(), other.declines.size());
    for (size_t i = 0; i < one.declines.size(); ++i) {
      EXPECT_EQ(one.declines[i].node + one.declines[i].rule + one.declines[i].numbers,
                other.declines[i].node + other.declines[i].rule + other.declines[i].numbers);
    }
  }
}

// A residual of every form that broadcasts to the result of a convolution.
TEST(FusedIntermediates, AResidualMayBeOneNumberOneAChannelOrTheWholeImage) {
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{5, 1, 1}, Shape{1, 5, 1, 1},
                             Shape{1, 5, 6, 7}, Shape{7}, Shape{6, 1}}) {
    for (const bool constant : {true, false}) {
      for (const std::string visible : {"", "a", "b"}) {
        SCOPED_TRACE(ToString(shape) + " " + visible);
        ModelBuilder builder(17);
        builder.Input("x", DType::kFloat, {kN, 5, 6, 7})
            .Initializer("w", RandomFloats({5, 5, 3, 3}, 1));
        if (constant) {
          builder.Initializer("r", RandomFloats(shape, 2));
        } else {
          builder.Input("r", DType::kFloat, graph::ToDims(shape));
        }
        builder.Node("Conv", {"x", "w"}, {"a"}, kSame3)
            .Node("Add", {"a", "r"}, {"b"})
            .Node("Relu", {"b"}, {"y"})
            .Output("y", DType::kFloat, {kN, 5, 6, 7});
        if (!visible.empty()) builder.Output(visible, DType::kFloat, {kN, 5, 6, 7});
        const std::string bytes = builder.Serialize();
        ExpectMeans(bytes, {.oracle = bytes, .options = test::WithoutPasses()});
      }
    }
  }
}

}  // namespace
}  // namespace tandem
