// Runs a suite of cases in the layout of ONNX's backend tests and compares the outcome with what is
// committed: passes/SUITE.txt and different.txt.
//
//   conformance SUITE FOLDER [--update] [--verbose] [--cpu=ISA] [--models[=TABLE]] [--exported]
//
// --models: the cases are whole networks; the table has the difference between two runs of one
// engine for those that need more room than others. --exported: what the engine writes of a model
// is loaded instead of the model. Exit codes: 0 as listed; 1 not so; 2 the command line or a list
// cannot be used.
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

#include "tests/conformance/manifest.h"

namespace tandem::conformance {
namespace {

const std::string kLists = TANDEM_SOURCE_DIR "/tests/conformance/";

struct Arguments {
  std::string suite;
  std::string folder;
  Strictness strictness = Strictness::kAsListed;
  bool update = false;
  bool verbose = false;
  Source source = Source::kFile;
  std::optional<Isa> isa;
  // The lists are those of float32 multiply-adds, which every machine has.
  Precision precision = Precision::kF32Plain;
  std::string lists = kLists;
  std::optional<std::string> models;  // the table of whole networks, or "" for none
};

StatusOr<Arguments> ParseArguments(std::span<char* const> arguments) {
  Arguments parsed;
  std::vector<std::string> names;
  for (const std::string argument : arguments) {
    const std::string value = argument.substr(std::min(argument.size(), argument.find('=') + 1));
    if (argument == "--exported") {
      parsed.source = Source::kExport;
      parsed.strictness = Strictness::kNoneWrong;
    } else if (argument == "--update") {
      parsed.update = true;
    } else if (argument == "--verbose") {
      parsed.verbose = true;
    } else if (argument.starts_with("--cpu=")) {
      ASSIGN_OR_RETURN(parsed.isa, ParseIsa(value));
    } else if (argument.starts_with("--precision=")) {
      ASSIGN_OR_RETURN(parsed.precision, ParsePrecision(value));
      parsed.strictness = Strictness::kNoneWrong;
    } else if (argument.starts_with("--lists=")) {
      parsed.lists = value + "/";
    } else if (argument == "--models") {
      parsed.models = "";
    } else if (argument.starts_with("--models=")) {
      parsed.models = value;
    } else if (argument.starts_with("-")) {
      return InvalidArgument("'{}' is no flag of this program", argument);
    } else {
      names.push_back(argument);
    }
  }
  if (names.size() != 2) return InvalidArgument("SUITE and FOLDER are expected");
  parsed.suite = names[0];
  parsed.folder = names[1];
  return parsed;
}

// Cases of `suite`, with the difference each may have.
class Tolerances {
 public:
  static StatusOr<Tolerances> Make(const Arguments& arguments) {
    Tolerances tolerances;
    if (arguments.models) tolerances.usual_ = kNetwork;
    if (arguments.models && !arguments.models->empty()) {
      RETURN_IF_ERROR(tolerances.ReadTable(*arguments.models));
    }
    return tolerances;
  }

  test::Tolerance Of(const std::string& name) const {
    const auto found = needed_.find(name);
    return found == needed_.end() ? usual_ : found->second;
  }

 private:
  // Columns by name in the first line; noopt_maxabs_over_scale is the difference of two runs.
  Status ReadTable(const std::string& path) {
    std::ifstream file(path);
    std::map<std::string, size_t> columns;
    for (std::string line; std::getline(file, line);) {
      std::vector<std::string> cells;
      std::istringstream stream(line);
      for (std::string cell; std::getline(stream, cell, '\t');) cells.push_back(cell);
      if (columns.empty()) {
        for (size_t i = 0; i < cells.size(); ++i) columns[cells[i]] = i;
        continue;
      }
      test::Tolerance tolerance = kNetwork;
      tolerance.relative =
          std::max(tolerance.relative, std::stod(cells.at(columns.at("noopt_maxabs_over_scale"))));
      needed_[cells.at(columns.at("key"))] = tolerance;
    }
    return columns.empty() ? NotFound("{} cannot be read", path) : absl::OkStatus();
  }

  static constexpr test::Tolerance kNetwork = {.relative = 1e-4, .of_each = 1e-3};

  test::Tolerance usual_ = test::OnnxBackend();
  std::map<std::string, test::Tolerance> needed_;
};

// The case that runs, for a message when it brings the process down.
char running[256];

void SayWhichCaseDied(int signal) {
  constexpr std::string_view kText = "the process died in case ";
  (void)!write(STDERR_FILENO, kText.data(), kText.size());
  (void)!write(STDERR_FILENO, running, strlen(running));
  (void)!write(STDERR_FILENO, "\n", 1);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

StatusOr<std::vector<CaseResult>> RunAll(const Arguments& arguments, const Tolerances& tolerances) {
  const std::vector<std::string> names = CaseNames(arguments.folder);
  if (names.empty()) return NotFound("there are no cases in '{}'", arguments.folder);
  EngineOptions options;
  options.isa = arguments.isa;
  options.precision = arguments.precision;
  const Engine engine(options);
  for (const int signal : {SIGABRT, SIGSEGV, SIGFPE, SIGILL}) {
    std::signal(signal, SayWhichCaseDied);
  }
  std::vector<CaseResult> results;
  for (const std::string& name : names) {
    name.copy(running, sizeof(running) - 1);
    running[std::min(name.size(), sizeof(running) - 1)] = 0;
    results.push_back(
        RunCase(engine, arguments.folder + "/" + name, {tolerances.Of(name), arguments.source}));
    if (arguments.verbose && !Passed(results.back())) {
      const bool refused = results.back().outcome == Outcome::kRefused;
      fmt::print("{} {}: {}\n", refused ? "refused" : "wrong", name, results.back().message);
    }
  }
  return results;
}

// What an update changes, for people.
void PrintChanges(const std::map<std::string, Outcome>& before,
                  const std::vector<CaseResult>& results) {
  for (const CaseResult& result : results) {
    const auto listed = before.find(result.name);
    if (listed == before.end() ? !Passed(result) : listed->second == result.outcome) continue;
    fmt::print("{} {}{}{}\n", Passed(result) ? "+" : "-", result.name,
               result.message.empty() ? "" : ": ", result.message);
  }
}

StatusOr<int> Run(std::span<char* const> given) {
  ASSIGN_OR_RETURN(const Arguments arguments, ParseArguments(given));
  const std::string list = fmt::format("{}passes/{}.txt", arguments.lists, arguments.suite);
  Manifest manifest{.passing = ReadPassing(list)};
  ASSIGN_OR_RETURN(manifest.different,
                   ReadDifferent(arguments.lists + "different.txt", arguments.suite));
  ASSIGN_OR_RETURN(const Tolerances tolerances, Tolerances::Make(arguments));
  ASSIGN_OR_RETURN(const std::vector<CaseResult> results, RunAll(arguments, tolerances));
  const auto count = [&results](Outcome outcome) {
    return std::ranges::count(results, outcome, &CaseResult::outcome);
  };
  fmt::print("{}: {} cases, {} passed, {} refused at load, {} wrong\n", arguments.suite,
             results.size(), std::ranges::count_if(results, Passed), count(Outcome::kRefused),
             count(Outcome::kWrong));
  if (arguments.update) {
    PrintChanges(manifest.passing, results);
    RETURN_IF_ERROR(WritePassing(list, results));
    return 0;
  }
  const std::vector<std::string> faults = Faults(manifest, results, arguments.strictness);
  for (const std::string& fault : faults) fmt::print("{}\n", fault);
  return faults.empty() ? 0 : 1;
}

}  // namespace
}  // namespace tandem::conformance

int main(int argc, char** argv) {
  const tandem::StatusOr<int> code = tandem::conformance::Run({argv + 1, argv + argc});
  if (code.ok()) return *code;
  fmt::print(stderr, "conformance: {}\n", tandem::Message(code.status()));
  return 2;
}
