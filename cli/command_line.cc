#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>

#include "server/config/flags.h"

namespace tandem::cli {
namespace {

using server::FlagGroup;

// An application with the model as its first argument and the flags that load it.
struct ModelApp {
  CLI::App app;
  std::string path;
  server::ComputeFlags compute;
  std::vector<std::string> disabled_passes;

  ModelApp(const std::string& description, const std::string& name) : app(description, name) {
    app.set_help_flag("-h,--help", "Print this and exit");
    app.add_option("MODEL", path, "The ONNX file")->required()->option_text(" ");
    FlagGroup group(app, "How it computes");
    server::AddComputeFlags(group, compute);
    group.AddList("--disable-pass", disabled_passes, "NAME",
                  "A pass of the optimizer to leave out; explain lists them");
  }

  StatusOr<ModelConfig> Resolve() const {
    ModelConfig config{.path = path};
    config.engine.threads = compute.threads;
    config.engine.disabled_passes = disabled_passes;
    ASSIGN_OR_RETURN(config.engine.isa, server::ResolveCpu(compute));
    ASSIGN_OR_RETURN(config.engine.precision, server::ResolvePrecision(compute));
    return config;
  }
};

// NAME=VALUE; `flag` and `form` ("NAME=FILE") are for the error.
StatusOr<std::pair<std::string, std::string>> SplitPair(std::string_view flag,
                                                        std::string_view form,
                                                        const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    return InvalidArgument("{} is '{}'; {} is expected", flag, text, form);
  }
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

// No tensor of more elements is planned for.
constexpr int64_t kMaxElements = int64_t{1} << 40;

// "1x3x224x224"; "scalar" for a shape without axes.
StatusOr<Shape> ParseShape(const std::string& text) {
  Shape shape;
  if (text == "scalar") return shape;
  const char* next = text.data();
  const char* const end = next + text.size();
  while (true) {
    int64_t extent = 0;
    const auto [rest, error] = std::from_chars(next, end, extent);
    if (error != std::errc() || extent < 0) break;
    shape.Append(extent);
    if (rest == end) {
      if (CheckedElements(shape.dims()).value_or(kMaxElements + 1) <= kMaxElements) return shape;
      return InvalidArgument("--shape has '{}', which is more than {} elements", text,
                             kMaxElements);
    }
    if (*rest != 'x') break;
    next = rest + 1;
  }
  return InvalidArgument("--shape has '{}' where extents like 1x3x224x224 or scalar are expected",
                         text);
}

struct ShapeFlags {
  int64_t batch = 1;
  std::vector<std::string> shapes;

  void AddTo(FlagGroup group) {
    group.Add("--batch", batch, "ITEMS", "The first extent of inputs that leave it open")
        ->check(CLI::Range(int64_t{0}, int64_t{1} << 20));
    group.AddList("--shape", shapes, "NAME=EXTENTS",
                  "Extents of an input, as in --shape=x=1x3x224x224; what stays open is 1");
  }

  StatusOr<ShapeConfig> Resolve() const {
    ShapeConfig config{.batch = batch};
    for (const std::string& text : shapes) {
      ASSIGN_OR_RETURN(const auto pair, SplitPair("--shape", "NAME=EXTENTS", text));
      ASSIGN_OR_RETURN(Shape shape, ParseShape(pair.second));
      config.shapes.push_back({pair.first, std::move(shape)});
    }
    return config;
  }
};

constexpr const char* kInputHelp = "A tensor, as a NumPy .npy or a serialized TensorProto .pb";

StatusOr<std::vector<InputFile>> ResolveInputs(const std::vector<std::string>& texts) {
  std::vector<InputFile> inputs;
  for (const std::string& text : texts) {
    ASSIGN_OR_RETURN(auto pair, SplitPair("--input", "NAME=FILE", text));
    inputs.push_back({std::move(pair.first), std::move(pair.second)});
  }
  return inputs;
}

// The plan that --diff compares with: another file, other options, or both.
struct OtherPlanFlags {
  std::string path;
  std::string cpu;
  std::vector<std::string> disabled_passes;

  void AddTo(CLI::App& app) {
    FlagGroup group(app, "Compared with another plan");
    app.add_option("--diff", path, "Show what the plan of this file does differently")
        ->option_text("FILE")
        ->group("Compared with another plan");
    app.add_option("--other-cpu", cpu, "As --cpu, for the other plan")
        ->option_text("ISA")
        ->group("Compared with another plan");
    group.AddList("--other-disable-pass", disabled_passes, "NAME",
                  "As --disable-pass, for the other plan");
  }

  StatusOr<ModelConfig> Resolve(const ModelConfig& first) const {
    ModelConfig other = first;
    other.path = path;
    other.engine.disabled_passes = disabled_passes;
    ASSIGN_OR_RETURN(other.engine.isa, server::ResolveCpu({.cpu = cpu}));
    return other;
  }
};

constexpr std::pair<std::string_view, PlanFormat> kPlanFormats[] = {{"text", PlanFormat::kText},
                                                                    {"json", PlanFormat::kJson},
                                                                    {"dot", PlanFormat::kDot},
                                                                    {"html", PlanFormat::kHtml}};

// Explain shows one plan, compares two, or compares results: flags of another use are errors.
Status CheckUse(const CLI::App& app) {
  const auto given = [&app](const char* flag) { return app.count(flag) > 0; };
  const bool bisects = given("--bisect") && app.get_option("--bisect")->as<bool>();
  const bool compares = given("--diff");
  if (bisects && compares) return InvalidArgument("--bisect and --diff do not go together");
  if (given("--format") && (bisects || compares)) {
    return InvalidArgument("--format does not go together with {}",
                           bisects ? "--bisect" : "--diff");
  }
  for (const char* flag : {"--input", "--tolerance"}) {
    if (given(flag) && !bisects) return InvalidArgument("{} goes with --bisect only", flag);
  }
  for (const char* flag : {"--other-cpu", "--other-disable-pass"}) {
    if (given(flag) && !compares) return InvalidArgument("{} goes with --diff only", flag);
  }
  return absl::OkStatus();
}

StatusOr<Command> ParseExplain(std::span<const std::string> arguments) {
  ModelApp model(
      "Shows the plan that a model is compiled into: tasks with their kernels, layouts and "
      "shapes,\npacked weights, bytes, and what passes declined to do and why.",
      "tandem explain");
  ShapeFlags shapes;
  shapes.AddTo({model.app, "For which inputs"});
  std::string format = "text";
  FlagGroup(model.app, "How it is shown")
      .Add("--format", format, "FORMAT", "text, json, dot (for Graphviz) or html")
      ->check(CLI::IsMember({"text", "json", "dot", "html"}));
  OtherPlanFlags other;
  other.AddTo(model.app);
  BisectConfig bisect;
  bool bisects = false;
  std::vector<std::string> inputs;
  FlagGroup against(model.app, "Compared with the plain plan");
  against.AddSwitch("--bisect", bisects,
                    "Run it, and without passes on reference kernels; name the first value that "
                    "differs");
  against.AddList("--input", inputs, "NAME=FILE", std::string(kInputHelp) + "; others are made up");
  against.Add("--tolerance", bisect.tolerance, "SHARE", "Of the largest magnitude of each value");
  ASSIGN_OR_RETURN(const auto help, server::ParseFlags(model.app, arguments));
  if (help) return HelpText{*help};
  RETURN_IF_ERROR(CheckUse(model.app));
  if (!std::isfinite(bisect.tolerance) || bisect.tolerance < 0) {
    return InvalidArgument("--tolerance is {}; a number of at least 0 is expected",
                           bisect.tolerance);
  }
  ASSIGN_OR_RETURN(bisect.model, model.Resolve());
  ASSIGN_OR_RETURN(bisect.shapes, shapes.Resolve());
  if (bisects) {
    ASSIGN_OR_RETURN(bisect.inputs, ResolveInputs(inputs));
    return bisect;
  }
  if (model.app.count("--diff") > 0) {
    ASSIGN_OR_RETURN(ModelConfig after, other.Resolve(bisect.model));
    return DiffConfig{bisect.model, std::move(after), bisect.shapes};
  }
  const auto chosen = std::ranges::find(kPlanFormats, format, [](auto pair) { return pair.first; });
  return ExplainConfig{bisect.model, bisect.shapes, chosen->second};
}

StatusOr<Command> ParseBench(std::span<const std::string> arguments) {
  ModelApp model("Measures a model without a server: one run after another, each on all threads.",
                 "tandem bench");
  ShapeFlags shapes;
  FlagGroup what(model.app, "On which inputs");
  shapes.AddTo(what);
  std::vector<std::string> inputs;
  what.AddList("--input", inputs, "NAME=FILE", std::string(kInputHelp) + "; others are made up");
  BenchConfig config;
  FlagGroup how(model.app, "How it is measured");
  how.Add("--iterations", config.iterations, "N", "Runs that count")
      ->check(CLI::Range(1, 100'000'000));
  how.Add("--warmup", config.warmup, "N", "Runs before those")->check(CLI::Range(0, 100'000'000));
  how.AddSwitch("--profile", config.profile, "Show the mean time of every task");
  ASSIGN_OR_RETURN(const auto help, server::ParseFlags(model.app, arguments));
  if (help) return HelpText{*help};
  ASSIGN_OR_RETURN(config.model, model.Resolve());
  ASSIGN_OR_RETURN(config.shapes, shapes.Resolve());
  ASSIGN_OR_RETURN(config.inputs, ResolveInputs(inputs));
  return config;
}

StatusOr<Command> ParseRun(std::span<const std::string> arguments) {
  ModelApp model("Runs a model once on tensors from files; prints or writes its outputs.",
                 "tandem run");
  RunConfig config;
  std::vector<std::string> inputs;
  FlagGroup in(model.app, "Inputs");
  in.AddList("--input", inputs, "NAME=FILE", kInputHelp);
  FlagGroup out(model.app, "Outputs");
  out.AddList("--output", config.outputs, "NAME", "An output to compute; without any: all");
  CLI::Option* const directory =
      model.app.add_option("--output-dir", config.output_directory,
                           "Write each output to a file here instead of printing it");
  directory->option_text("DIR")->group("Outputs");
  std::string format = "npy";
  out.Add("--output-format", format, "FORMAT", "Of the files written: npy or pb")
      ->check(CLI::IsMember({"npy", "pb"}))
      ->needs(directory);
  ASSIGN_OR_RETURN(const auto help, server::ParseFlags(model.app, arguments));
  if (help) return HelpText{*help};
  ASSIGN_OR_RETURN(config.model, model.Resolve());
  ASSIGN_OR_RETURN(config.inputs, ResolveInputs(inputs));
  config.format = format == "pb" ? TensorFormat::kPb : TensorFormat::kNpy;
  return config;
}

StatusOr<Command> ParseExport(std::span<const std::string> arguments) {
  ModelApp model(
      "Writes a model as ONNX as it is after all passes, before kernels are chosen. Its "
      "opset stays: what passes would make of newer operators is left as it is.",
      "tandem export");
  ExportConfig config;
  model.app.add_option("OUT", config.output, "The file to write")->required()->option_text(" ");
  ASSIGN_OR_RETURN(const auto help, server::ParseFlags(model.app, arguments));
  if (help) return HelpText{*help};
  ASSIGN_OR_RETURN(config.model, model.Resolve());
  return config;
}

}  // namespace

StatusOr<Command> ParseCommand(std::string_view command, std::span<const std::string> arguments) {
  if (command == "explain") return ParseExplain(arguments);
  if (command == "bench") return ParseBench(arguments);
  if (command == "run") return ParseRun(arguments);
  return ParseExport(arguments);
}

}  // namespace tandem::cli
