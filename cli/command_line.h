// The command lines of the subcommands: text in, plain structs out.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/engine.h"

namespace tandem::cli {

struct ModelConfig {
  std::string path;
  EngineOptions engine;
};

// What open extents are: axis 0 is the batch, all others are 1 unless a shape is given.
struct ShapeConfig {
  int64_t batch = 1;
  std::vector<NamedShape> shapes;
};

struct InputFile {
  std::string name;
  std::string path;
};

enum class PlanFormat { kText, kJson, kDot, kHtml };

struct ExplainConfig {
  ModelConfig model;
  ShapeConfig shapes;
  PlanFormat format = PlanFormat::kText;
};

// Two plans: of two models, or of one with two sets of options.
struct DiffConfig {
  ModelConfig before;
  ModelConfig after;
  ShapeConfig shapes;
};

// The optimized plan against the plain one, on inputs from files or made up.
struct BisectConfig {
  ModelConfig model;
  ShapeConfig shapes;
  std::vector<InputFile> inputs;
  double tolerance = 1e-3;  // of the largest magnitude of each value
};

struct BenchConfig {
  ModelConfig model;
  ShapeConfig shapes;
  std::vector<InputFile> inputs;  // those that are not here get made-up elements
  int warmup = 5;
  int iterations = 50;
  bool profile = false;
};

enum class TensorFormat { kNpy, kPb };

struct RunConfig {
  ModelConfig model;
  std::vector<InputFile> inputs;
  std::vector<std::string> outputs;  // empty: all
  std::string output_directory;      // empty: outputs are printed
  TensorFormat format = TensorFormat::kNpy;
};

struct ExportConfig {
  ModelConfig model;
  std::string output;
};

// Text to print, with nothing else to do: --help.
struct HelpText {
  std::string text;
};

using Command = std::variant<ExplainConfig, DiffConfig, BisectConfig, BenchConfig, RunConfig,
                             ExportConfig, HelpText>;

inline constexpr std::string_view kCommands[] = {"explain", "bench", "run", "export"};

// The arguments behind `command`, one of kCommands. InvalidArgument names the flag, what came and
// what is expected.
StatusOr<Command> ParseCommand(std::string_view command, std::span<const std::string> arguments);

}  // namespace tandem::cli
