// What the subcommands answer, on small models.
#include "cli/commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "cli/tensor_file.h"
#include "engine/optimizer/optimizer.h"
#include "tests/support/compare.h"
#include "tests/support/model_builder.h"
#include "tests/support/random_tensor.h"
#include "tests/support/temp_directory.h"

namespace tandem::cli {
namespace {

using test::ModelBuilder;
using testing::HasSubstr;

const graph::Dim kN = graph::Dim::Symbol("N");

// x[N,4,16,16], bias[4,1,1] -> y[N,8,16,16] = relu(conv(x + bias)), z = N as a number
ModelBuilder SmallModel() {
  ModelBuilder model(17);
  model.Input("x", DType::kFloat, {kN, 4, 16, 16})
      .Input("bias", DType::kFloat, {4, 1, 1})
      .Initializer("w", test::RandomFloats({8, 4, 3, 3}, 1))
      .Node("Add", {"x", "bias"}, {"s"}, {}, "sum")
      .Node("Conv", {"s", "w"}, {"c"}, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}}, "filter")
      .Node("Relu", {"c"}, {"y"}, {}, "positive")
      .Node("Shape", {"x"}, {"z"}, {{"end", int64_t{1}}})
      .Output("y", DType::kFloat, {kN, 8, 16, 16})
      .Output("z", DType::kInt64, {1});
  return model;
}

class CommandsTest : public testing::Test {
 protected:
  CommandsTest() {
    SmallModel().WriteFile(directory_ / "m.onnx");
    EXPECT_TRUE(WriteTensorFile(directory_ / "x.npy", x_, "x").ok());
    EXPECT_TRUE(WriteTensorFile(directory_ / "bias.pb", bias_, "bias").ok());
  }

  template <typename Config>
  Config ConfigFor(const std::string& model = "m.onnx") const {
    Config config;
    config.model.path = directory_ / model;
    config.model.engine.threads = 1;
    return config;
  }
  RunConfig RunIt() const {
    auto config = ConfigFor<RunConfig>();
    config.inputs = {{"x", directory_ / "x.npy"}, {"bias", directory_ / "bias.pb"}};
    return config;
  }
  template <typename Config>
  std::string Answer(const Config& config) const {
    const StatusOr<std::string> text = Execute(config);
    EXPECT_TRUE(text.ok()) << text.status();
    return text.ok() ? *text : "";
  }
  template <typename Config>
  std::string ErrorOf(const Config& config) const {
    const StatusOr<std::string> text = Execute(config);
    EXPECT_FALSE(text.ok());
    return std::string(Message(text.status()));
  }

  test::TempDirectory directory_;
  const Tensor x_ = test::RandomFloats({2, 4, 16, 16}, 2);
  const Tensor bias_ = test::RandomFloats({4, 1, 1}, 3);
};

TEST_F(CommandsTest, ExplainShowsTasksLayoutsShapesAndBytes) {
  auto config = ConfigFor<ExplainConfig>();
  config.shapes.batch = 3;
  const std::string text = Answer(config);
  EXPECT_THAT(text, HasSubstr("node 'filter' (Conv)"));
  EXPECT_THAT(text, HasSubstr("+Relu"));
  EXPECT_THAT(text, HasSubstr("float[N,4,16,16] = [3,4,16,16]"));
  EXPECT_THAT(text, HasSubstr("channels_last"));
  EXPECT_THAT(text, HasSubstr("pass fuse_epilogue: 1 changes"));
  EXPECT_THAT(text, testing::ContainsRegex("weights [0-9]+ bytes, 1 packs of [0-9]+ bytes, arena"));
}

TEST_F(CommandsTest, ExplainShowsWhatWasDeclinedAndWhy) {
  ModelBuilder model(17);
  model.Input("x", DType::kFloat, {kN, 4})
      .Initializer("w", test::RandomFloats({4, 4}, 1))
      .Node("MatMul", {"x", "w"}, {"y"}, {}, "product")
      .Node("Relu", {"y"}, {"z"})
      .Output("y", DType::kFloat, {kN, 4})
      .Output("z", DType::kFloat, {kN, 4})
      .WriteFile(directory_ / "two.onnx");
  EXPECT_THAT(
      Answer(ConfigFor<ExplainConfig>("two.onnx")),
      HasSubstr("declined fuse_epilogue: node 'product' (MatMul), epilogue Relu: the result "
                "is a graph output"));
}

TEST_F(CommandsTest, ExplainNamesWhatWasFoldedAndHowRequestsRun) {
  ModelBuilder model(17);
  model.Input("x", DType::kFloat, {1, 4}).Initializer("w", test::RandomFloats({4}, 1));
  for (const auto& [from, to] : {std::pair("w", "a"), {"a", "b"}, {"b", "c"}, {"c", "d"}}) {
    model.Node("Sigmoid", {from}, {to}, {}, std::string("bend ") + to);
  }
  model.Node("Add", {"x", "d"}, {"y"}).Output("y", DType::kFloat, {1, 4});
  model.WriteFile(directory_ / "folds.onnx");
  auto config = ConfigFor<ExplainConfig>("folds.onnx");
  const std::string text = Answer(config);
  EXPECT_THAT(text, HasSubstr("folded 4 nodes into 64 bytes: bend a, bend b, bend c, ...\n"));
  EXPECT_THAT(text, HasSubstr("\nrequests run item by item: the model fixes its batch at 1\n"));
  config.format = PlanFormat::kJson;
  const std::string json = Answer(config);
  EXPECT_THAT(json, HasSubstr(R"("folded":["bend a","bend b","bend c","bend d"])"));
  EXPECT_THAT(json,
              HasSubstr(R"("joinable":true,"not_joinable_reason":"","batch_fixed_at_one":true)"));
}

TEST_F(CommandsTest, ExplainSaysWhyBranchesDoNotFork) {
  ModelBuilder model(17);
  model.Input("a", DType::kFloat, {kN, 4})
      .Input("b", DType::kFloat, {kN, 4})
      .Node("Softmax", {"a"}, {"p"}, {}, "left")
      .Node("Softmax", {"b"}, {"q"}, {}, "right")
      .Node("MatMul", {"p", "q"}, {"y"})
      .Output("y", DType::kFloat, {kN, 4})
      .WriteFile(directory_ / "towers.onnx");
  auto config = ConfigFor<ExplainConfig>("towers.onnx");
  config.shapes.batch = 4;
  EXPECT_THAT(Answer(config),
              testing::ContainsRegex("declined schedule: node '(left|right)' \\(Softmax\\), branch "
                                     "of 1 tasks: costs less than a fork is worth \\(0.[0-9]+ us "
                                     "< 20.00 us\\)"));
  config.format = PlanFormat::kJson;
  EXPECT_THAT(Answer(config), HasSubstr(R"({"pass":"schedule","node":"node ')"));
}

TEST_F(CommandsTest, ExplainNamesShapesThatDoNotFit) {
  auto config = ConfigFor<ExplainConfig>();
  config.shapes.shapes = {{"y", {1}}};
  EXPECT_EQ(ErrorOf(config), "--shape names input 'y'; the model's inputs are 'x', 'bias'");
  config.shapes.shapes = {{"x", {1, 5, 16, 16}}};
  EXPECT_THAT(ErrorOf(config), HasSubstr("input 'x' has shape [1,5,16,16]"));
}

TEST_F(CommandsTest, ABatchThatNoInputTakesIsAnError) {
  ModelBuilder model(17);
  model.Input("x", DType::kFloat, {2, 4})
      .Node("Relu", {"x"}, {"y"})
      .Output("y", DType::kFloat, {2, 4})
      .WriteFile(directory_ / "fixed.onnx");
  auto config = ConfigFor<ExplainConfig>("fixed.onnx");
  EXPECT_TRUE(Execute(config).ok());
  config.shapes.batch = 2;
  EXPECT_EQ(ErrorOf(config), "--batch is 2, but no input leaves its first extent open");
}

TEST_F(CommandsTest, ASymbolThatAShapeSettlesHoldsForAllInputs) {
  const graph::Dim length = graph::Dim::Symbol("L");
  ModelBuilder model(17);
  model.Input("a", DType::kFloat, {kN, length})
      .Input("b", DType::kFloat, {kN, length})
      .Node("Add", {"a", "b"}, {"y"})
      .Output("y", DType::kFloat, {kN, length})
      .WriteFile(directory_ / "pair.onnx");
  auto config = ConfigFor<ExplainConfig>("pair.onnx");
  config.shapes.shapes = {{"a", {3, 7}}};
  EXPECT_THAT(Answer(config), HasSubstr("'b' float[N,L] = [3,7]"));
}

TEST_F(CommandsTest, BenchPrintsTimesAndTasksUnderTheNamesOfExplain) {
  auto config = ConfigFor<BenchConfig>();
  config.iterations = 9;
  config.warmup = 1;
  config.profile = true;
  const std::string text = Answer(config);
  for (const char* part : {"min ", "median ", "p90 ", "9 after 1 to warm up",
                           "'x' float[1,4,16,16], 'bias' float[4,1,1]",
                           "node 'sum' (Add): ", "all tasks", "the run"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(
      text, testing::ContainsRegex("mean ms +share +threads +GFLOP/s +GB/s +task\n"
                                   "( +[0-9.]+ +[0-9.]+%  +0 +[0-9.]* +[0-9.]+  (node|'x').*\n)+"));
}

TEST_F(CommandsTest, BenchMeasuresOnGivenInputs) {
  auto config = ConfigFor<BenchConfig>();
  config.iterations = 1;
  config.inputs = {{"x", directory_ / "x.npy"}};
  EXPECT_THAT(Answer(config), HasSubstr("'x' float[2,4,16,16]"));
  config.inputs = {{"nobody", directory_ / "x.npy"}};
  EXPECT_EQ(ErrorOf(config), "--input names input 'nobody'; the model's inputs are 'x', 'bias'");
}

TEST_F(CommandsTest, RunPrintsOutputs) {
  RunConfig config = RunIt();
  EXPECT_THAT(Answer(config), HasSubstr("y float[2,8,16,16]:"));
  EXPECT_THAT(Answer(config), HasSubstr(" ... 3096 more\nz int64[1]: 2\n"));
  config.outputs = {"z"};
  EXPECT_EQ(Answer(config), "z int64[1]: 2\n");
}

TEST_F(CommandsTest, RunWritesOutputsThatReadBackAlike) {
  RunConfig config = RunIt();
  config.output_directory = directory_ / "new/out";
  for (const TensorFormat format : {TensorFormat::kNpy, TensorFormat::kPb}) {
    config.format = format;
    Answer(config);
  }
  const auto npy = ReadTensorFile(config.output_directory + "/y.npy");
  const auto pb = ReadTensorFile(config.output_directory + "/y.pb");
  ASSERT_TRUE(npy.ok() && pb.ok());
  EXPECT_TRUE(test::Close(*npy, *pb, test::Exact()));
  EXPECT_EQ(npy->shape(), Shape({2, 8, 16, 16}));
}

TEST_F(CommandsTest, RunNamesEveryMissingInput) {
  RunConfig config = RunIt();
  config.inputs.clear();
  EXPECT_EQ(ErrorOf(config),
            "no --input NAME=FILE for 'x' (float[N,4,16,16]), 'bias' (float[4,1,1])");
}

// Before what is missing: a name that is spelled wrong is often both.
TEST_F(CommandsTest, RunNamesAnInputThatTheModelDoesNotHave) {
  RunConfig config = RunIt();
  ASSERT_EQ(config.inputs[0].name, "x");
  config.inputs[0].name = "X";
  EXPECT_EQ(ErrorOf(config), "--input names input 'X'; the model's inputs are 'x', 'bias'");
}

TEST_F(CommandsTest, RunNamesFilesThatCannotBeRead) {
  const auto error = [this](const std::string& file) {
    RunConfig config = RunIt();
    config.inputs[0].path = directory_ / file;
    return ErrorOf(config);
  };
  EXPECT_THAT(error("absent.npy"),
              testing::MatchesRegex("input 'x': there is no file '.*absent.npy'"));
  EXPECT_THAT(error("m.onnx"), HasSubstr("ends with '.onnx'; .npy or .pb is expected"));
  directory_.Write("empty.npy", "");
  EXPECT_THAT(error("empty.npy"), HasSubstr("empty.npy': it is no .npy file"));
  directory_.Write("damaged.pb", "\xFF\xFF");
  EXPECT_THAT(error("damaged.pb"), HasSubstr("damaged.pb': "));
  EXPECT_THAT(error("bias.pb"), HasSubstr("input 'x' has rank 3"));
}

TEST_F(CommandsTest, OutputNamesCannotLeaveTheDirectory) {
  ModelBuilder model(17);
  model.Input("x", DType::kFloat, {1})
      .Node("Relu", {"x"}, {"../up"})
      .Node("Neg", {"x"}, {"a/b"})
      .Node("Abs", {"x"}, {"a_b"})
      .Output("../up", DType::kFloat, {1})
      .Output("a/b", DType::kFloat, {1})
      .Output("a_b", DType::kFloat, {1})
      .WriteFile(directory_ / "odd.onnx");
  ASSERT_TRUE(WriteTensorFile(directory_ / "one.npy", Tensor::Of<float>({1}, {1}), "").ok());
  auto config = ConfigFor<RunConfig>("odd.onnx");
  config.inputs = {{"x", directory_ / "one.npy"}};
  config.output_directory = directory_ / "out";
  config.outputs = {"../up"};
  Answer(config);
  EXPECT_TRUE(std::filesystem::exists(directory_ / "out/_._up.npy"));
  config.outputs = {};
  EXPECT_THAT(ErrorOf(config), HasSubstr("output 'a_b' and another one would both be file"));
}

TEST_F(CommandsTest, ExportWritesAModelThatAnswersAlike) {
  auto config = ConfigFor<ExportConfig>();
  config.output = directory_ / "exported.onnx";
  Answer(config);
  RunConfig run = RunIt();
  const std::string before = Answer(run);
  run.model.path = config.output;
  EXPECT_EQ(Answer(run), before);
}

::onnx::GraphProto GraphIn(const std::string& path) {
  ::onnx::ModelProto model;
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(model.ParseFromIstream(&file)) << path;
  return model.graph();
}

std::multiset<std::string> OperatorsIn(const std::string& path) {
  std::multiset<std::string> operators;
  const ::onnx::GraphProto graph = GraphIn(path);
  for (const ::onnx::NodeProto& node : graph.node()) operators.insert(node.op_type());
  return operators;
}

// gelu(x) as it is written out where there is no Gelu.
ModelBuilder WrittenOutGelu(int opset) {
  ModelBuilder model(opset);
  model.Input("x", DType::kFloat, {kN, 8})
      .Initializer("root", Tensor::Scalar(1.4142135F))
      .Initializer("one", Tensor::Scalar(1.0F))
      .Initializer("half", Tensor::Scalar(0.5F))
      .Node("Div", {"x", "root"}, {"a"})
      .Node("Erf", {"a"}, {"e"})
      .Node("Add", {"e", "one"}, {"g"})
      .Node("Mul", {"x", "g"}, {"t"})
      .Node("Mul", {"t", "half"}, {"y"}, {}, "last")
      .Output("y", DType::kFloat, {kN, 8});
  return model;
}

TEST_F(CommandsTest, AnExportLeavesWrittenOutWhatItsOpsetDoesNotHave) {
  auto config = ConfigFor<ExportConfig>("gelu.onnx");
  config.output = directory_ / "exported.onnx";
  WrittenOutGelu(17).WriteFile(config.model.path);
  EXPECT_THAT(
      Answer(config),
      testing::EndsWith(" bytes\ndeclined fuse_gelu: node 'last' (Mul), written opset: Gelu "
                        "of opset 20 is not in it or not the same (the opset is 17)\n"));
  EXPECT_EQ(OperatorsIn(config.output),
            (std::multiset<std::string>{"Div", "Erf", "Add", "Mul", "Mul"}));
  WrittenOutGelu(20).WriteFile(config.model.path);
  EXPECT_THAT(Answer(config), testing::EndsWith(" bytes\n"));
  EXPECT_EQ(OperatorsIn(config.output), std::multiset<std::string>{"Gelu"});
}

TEST_F(CommandsTest, AnExportWithoutPassesHasTheNodesAndTheWeightsOfTheFile) {
  auto config = ConfigFor<ExportConfig>();
  config.output = directory_ / "exported.onnx";
  config.model.engine.disabled_passes = optimizer::PassNames();
  Answer(config);
  const ::onnx::GraphProto before = GraphIn(config.model.path);
  const ::onnx::GraphProto after = GraphIn(config.output);
  ASSERT_EQ(after.initializer_size(), 1);
  EXPECT_EQ(after.initializer(0).name(), "w");
  EXPECT_FALSE(after.initializer(0).raw_data().empty());
  EXPECT_EQ(after.initializer(0).raw_data(), before.initializer(0).raw_data());
  ASSERT_EQ(after.node_size(), before.node_size());
  for (const ::onnx::NodeProto& node : before.node()) {
    EXPECT_TRUE(std::ranges::any_of(after.node(), [&](const ::onnx::NodeProto& same) {
      return same.name() == node.name() && same.op_type() == node.op_type() &&
             same.output(0) == node.output(0);
    })) << node.name();
  }
}

TEST_F(CommandsTest, ModelsThatAreRefusedAreNamed) {
  ModelBuilder model(17);
  model.Input("x", DType::kFloat, {1})
      .Node("Nonsense", {"x"}, {"y"})
      .Output("y", DType::kFloat, {1})
      .WriteFile(directory_ / "bad.onnx");
  const std::string expected = "model '" + directory_ / "bad.onnx" + "': ";
  EXPECT_THAT(ErrorOf(ConfigFor<ExplainConfig>("bad.onnx")), testing::StartsWith(expected));
  EXPECT_THAT(ErrorOf(ConfigFor<BenchConfig>("bad.onnx")), HasSubstr("operator Nonsense"));
  EXPECT_THAT(ErrorOf(ConfigFor<RunConfig>("bad.onnx")), HasSubstr("operator Nonsense"));
  EXPECT_THAT(ErrorOf(ConfigFor<ExportConfig>("bad.onnx")), HasSubstr("operator Nonsense"));
  EXPECT_THAT(ErrorOf(ConfigFor<ExplainConfig>("absent.onnx")), HasSubstr("No such file"));
}

TEST_F(CommandsTest, FilesThatCannotBeWrittenAreNamed) {
  auto config = ConfigFor<ExportConfig>();
  config.output = directory_ / "no/such/folder.onnx";
  EXPECT_THAT(ErrorOf(config), HasSubstr("folder.onnx' cannot be written: No such file"));
  RunConfig run = RunIt();
  run.output_directory = directory_ / "m.onnx";
  EXPECT_THAT(ErrorOf(run), HasSubstr("--output-dir '"));
}

}  // namespace
}  // namespace tandem::cli
