// The command lines of the subcommands.
#include "cli/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::cli {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

template <typename Config>
Config Parsed(std::string_view command, const std::vector<std::string>& arguments) {
  const StatusOr<Command> parsed = ParseCommand(command, arguments);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  const auto* config = parsed.ok() ? std::get_if<Config>(&*parsed) : nullptr;
  EXPECT_NE(config, nullptr);
  return config == nullptr ? Config() : *config;
}

std::string ErrorOf(std::string_view command, const std::vector<std::string>& arguments) {
  const StatusOr<Command> parsed = ParseCommand(command, arguments);
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(Message(parsed.status()));
}

TEST(CommandLine, ExplainTakesAModelAndShapes) {
  const auto config = Parsed<ExplainConfig>(
      "explain",
      {"m.onnx", "--format=json", "--batch", "8", "--shape=x=1x3x224", "--shape", "y=scalar",
       "--cpu", "avx2", "--precision=bf16", "--threads=3", "--disable-pass", "fuse_epilogue"});
  EXPECT_EQ(config.model.path, "m.onnx");
  EXPECT_EQ(config.model.engine.isa, Isa::kAvx2);
  EXPECT_EQ(config.model.engine.precision, Precision::kBf16);
  EXPECT_EQ(config.model.engine.threads, 3);
  EXPECT_THAT(config.model.engine.disabled_passes, testing::ElementsAre("fuse_epilogue"));
  EXPECT_EQ(config.format, PlanFormat::kJson);
  EXPECT_EQ(config.shapes.batch, 8);
  ASSERT_EQ(config.shapes.shapes.size(), 2u);
  EXPECT_EQ(config.shapes.shapes[0].name, "x");
  EXPECT_EQ(config.shapes.shapes[0].shape, Shape({1, 3, 224}));
  EXPECT_EQ(config.shapes.shapes[1].shape, Shape());
}

TEST(CommandLine, ExplainComparesWithAnotherPlan) {
  const auto config = Parsed<DiffConfig>(
      "explain", {"a.onnx", "--cpu=avx2", "--threads=3", "--diff", "b.onnx", "--batch=2",
                  "--other-disable-pass=lower", "--other-cpu=baseline"});
  EXPECT_EQ(config.before.path, "a.onnx");
  EXPECT_EQ(config.before.engine.isa, Isa::kAvx2);
  EXPECT_EQ(config.after.path, "b.onnx");
  EXPECT_EQ(config.after.engine.isa, Isa::kBaseline);
  EXPECT_EQ(config.after.engine.threads, 3);
  EXPECT_THAT(config.after.engine.disabled_passes, testing::ElementsAre("lower"));
  EXPECT_EQ(config.shapes.batch, 2);
  EXPECT_THAT(ErrorOf("explain", {"a.onnx", "--diff", "b.onnx", "--other-cpu=z80"}),
              HasSubstr("z80"));
}

TEST(CommandLine, ExplainComparesWithThePlainPlan) {
  const auto config = Parsed<BisectConfig>(
      "explain", {"a.onnx", "--bisect", "--input=x=x.npy", "--tolerance=0.5", "--batch=2"});
  EXPECT_EQ(config.model.path, "a.onnx");
  ASSERT_EQ(config.inputs.size(), 1u);
  EXPECT_EQ(config.inputs[0].path, "x.npy");
  EXPECT_EQ(config.tolerance, 0.5);
  EXPECT_EQ(config.shapes.batch, 2);
  for (const char* tolerance : {"-1", "nan", "-nan", "inf"}) {
    EXPECT_EQ(ErrorOf("explain", {"a.onnx", "--bisect", "--tolerance", tolerance}),
              std::string("--tolerance is ") + tolerance + "; a number of at least 0 is expected");
  }
}

TEST(CommandLine, ExplainRefusesFlagsThatDoNotGoTogether) {
  const struct {
    std::vector<std::string> flags;
    const char* said;
  } rows[] = {
      {{"--bisect", "--diff=b.onnx"}, "--bisect and --diff do not go together"},
      {{"--bisect", "--format=json"}, "--format does not go together with --bisect"},
      {{"--diff=b.onnx", "--format=text"}, "--format does not go together with --diff"},
      {{"--input=x=x.npy"}, "--input goes with --bisect only"},
      {{"--diff=b.onnx", "--input=x=x.npy"}, "--input goes with --bisect only"},
      {{"--bisect=false", "--tolerance=1"}, "--tolerance goes with --bisect only"},
      {{"--other-cpu=avx2"}, "--other-cpu goes with --diff only"},
      {{"--bisect", "--other-disable-pass=lower"}, "--other-disable-pass goes with --diff only"},
  };
  for (const auto& row : rows) {
    std::vector<std::string> arguments = row.flags;
    arguments.emplace_back("a.onnx");
    EXPECT_EQ(ErrorOf("explain", arguments), row.said);
  }
  EXPECT_EQ(Parsed<ExplainConfig>("explain", {"a.onnx", "--bisect=false"}).model.path, "a.onnx");
}

TEST(CommandLine, BenchTakesIterationsAndInputs) {
  const auto config = Parsed<BenchConfig>(
      "bench", {"--iterations=7", "--warmup=0", "--profile", "--input=x=a=b.npy", "m.onnx"});
  EXPECT_EQ(config.iterations, 7);
  EXPECT_EQ(config.warmup, 0);
  EXPECT_TRUE(config.profile);
  ASSERT_EQ(config.inputs.size(), 1u);
  EXPECT_EQ(config.inputs[0].name, "x");
  EXPECT_EQ(config.inputs[0].path, "a=b.npy");
  EXPECT_FALSE(Parsed<BenchConfig>("bench", {"m.onnx"}).profile);
}

TEST(CommandLine, RunTakesFilesAndADirectory) {
  const auto config =
      Parsed<RunConfig>("run", {"m.onnx", "--input", "x=x.npy", "--input", "y=y.pb", "--output=z",
                                "--output-dir=out", "--output-format=pb"});
  EXPECT_EQ(config.inputs.size(), 2u);
  EXPECT_THAT(config.outputs, testing::ElementsAre("z"));
  EXPECT_EQ(config.output_directory, "out");
  EXPECT_EQ(config.format, TensorFormat::kPb);
  EXPECT_THAT(ErrorOf("run", {"m.onnx", "--output-format=pb"}), HasSubstr("--output-dir"));
}

TEST(CommandLine, ExportTakesTwoFiles) {
  const auto config = Parsed<ExportConfig>("export", {"m.onnx", "out.onnx"});
  EXPECT_EQ(config.model.path, "m.onnx");
  EXPECT_EQ(config.output, "out.onnx");
  EXPECT_THAT(ErrorOf("export", {"m.onnx"}), HasSubstr("OUT is required"));
}

TEST(CommandLine, EveryCommandHasHelpThatNamesIt) {
  for (const std::string_view command : kCommands) {
    const auto help = Parsed<HelpText>(command, {"--help"});
    EXPECT_THAT(help.text, HasSubstr("Usage: tandem " + std::string(command)));
    EXPECT_THAT(help.text, HasSubstr("MODEL"));
    EXPECT_THAT(help.text, HasSubstr("--threads N [0]"));
    EXPECT_THAT(ErrorOf(command, {}), HasSubstr("MODEL is required"));
  }
}

TEST(CommandLine, WhatIsWrongIsNamed) {
  EXPECT_THAT(ErrorOf("run", {"m.onnx", "--input", "x"}),
              StartsWith("--input is 'x'; NAME=FILE is expected"));
  EXPECT_THAT(ErrorOf("run", {"m.onnx", "--input=x="}), StartsWith("--input is 'x='"));
  for (const char* extents :
       {"1x", "x1", "-1", "1,2", "", "9223372036854775807x2", "1048576x1048577"}) {
    const std::string shape = std::string("x=") + extents;
    EXPECT_THAT(ErrorOf("explain", {"m.onnx", "--shape", shape}), StartsWith("--shape ")) << shape;
  }
  EXPECT_THAT(ErrorOf("explain", {"m.onnx", "--shape=x=1048576x1048577"}),
              HasSubstr("more than 1099511627776 elements"));
  EXPECT_THAT(ErrorOf("explain", {"m.onnx", "--cpu=sse9"}), StartsWith("--cpu: "));
  EXPECT_THAT(ErrorOf("bench", {"m.onnx", "--precision=f16"}),
              testing::AllOf(StartsWith("--precision: "), HasSubstr("f32_strict")));
  EXPECT_THAT(ErrorOf("explain", {"m.onnx", "--format=xml"}), HasSubstr("xml"));
  EXPECT_THAT(ErrorOf("bench", {"m.onnx", "--iterations=0"}), HasSubstr("--iterations"));
  EXPECT_THAT(ErrorOf("bench", {"m.onnx", "--batch=many"}), HasSubstr("many"));
  EXPECT_THAT(ErrorOf("bench", {"m.onnx", "--nonsense"}), HasSubstr("--nonsense"));
  EXPECT_THAT(ErrorOf("bench", {"m.onnx", "n.onnx"}), HasSubstr("n.onnx"));
}

}  // namespace
}  // namespace tandem::cli
