#include "tests/conformance/case.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "engine/onnx/tensor_proto.h"

namespace tandem::conformance {
namespace {

namespace fs = std::filesystem;

StatusOr<Tensor> ReadTensor(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return NotFound("{} cannot be read", path.string());
  std::ostringstream bytes;
  bytes << file.rdbuf();
  StatusOr<Tensor> tensor = onnx_import::ParseTensor(bytes.view());
  if (!tensor.ok()) return Annotate(tensor.status(), path.filename().string());
  return tensor;
}

std::vector<fs::path> DataSets(const fs::path& folder) {
  std::vector<fs::path> sets;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with("test_data_set_")) {
      sets.push_back(entry.path());
    }
  }
  std::ranges::sort(sets);
  return sets;
}

// The worse of two outcomes is the higher one.
struct Comparison {
  Outcome outcome = Outcome::kPassed;
  std::string message;
};

std::string Text(const Status& status) { return std::string(Message(status)); }

Comparison Wrong(std::string_view message) { return {Outcome::kWrong, std::string(message)}; }

Comparison Compare(const NamedTensor& actual, const Tensor& expected,
                   const test::Tolerance& loose) {
  const testing::AssertionResult tight = test::Close(actual.tensor, expected, test::OtherRuntime());
  if (tight) return {};
  const testing::AssertionResult close = test::Close(actual.tensor, expected, loose);
  return {close ? Outcome::kPassedLoosely : Outcome::kWrong,
          fmt::format("output '{}': {}", actual.name, (close ? tight : close).message())};
}

StatusOr<std::vector<NamedTensor>> ReadInputs(const ModelInfo& info, const fs::path& folder) {
  std::vector<NamedTensor> inputs;
  for (const Port& port : info.inputs) {
    if (port.optional) continue;
    const fs::path path = folder / fmt::format("input_{}.pb", inputs.size());
    ASSIGN_OR_RETURN(Tensor tensor, ReadTensor(path));
    inputs.push_back({port.name, std::move(tensor)});
  }
  return inputs;
}

Comparison RunDataSet(const Model& model, const fs::path& folder, const test::Tolerance& loose) {
  const auto inputs = ReadInputs(model.info(), folder);
  if (!inputs.ok()) return Wrong(Message(inputs.status()));
  const StatusOr<RunResult> result = model.Run(*inputs);
  if (!result.ok()) return Wrong(Message(result.status()));
  if (result->outputs.size() != model.info().outputs.size()) {
    return Wrong(fmt::format("{} of {} outputs are answered", result->outputs.size(),
                             model.info().outputs.size()));
  }
  Comparison worst;
  for (size_t i = 0; i < result->outputs.size(); ++i) {
    const auto expected = ReadTensor(folder / fmt::format("output_{}.pb", i));
    if (!expected.ok()) return Wrong(Message(expected.status()));
    Comparison comparison = Compare(result->outputs[i], *expected, loose);
    if (comparison.outcome > worst.outcome) worst = std::move(comparison);
  }
  return worst;
}

}  // namespace

bool Passed(const CaseResult& result) { return result.outcome <= Outcome::kPassedLoosely; }

std::vector<std::string> CaseNames(const std::string& suite) {
  std::vector<std::string> names;
  std::error_code absent;
  for (const auto& entry : fs::directory_iterator(suite, absent)) {
    if (fs::exists(entry.path() / "model.onnx")) names.push_back(entry.path().filename());
  }
  std::ranges::sort(names);
  return names;
}

CaseResult RunCase(const Engine& engine, const std::string& folder, const CaseOptions& options) {
  const fs::path path = folder;
  CaseResult result{.name = path.filename()};
  auto model = engine.Load(path / "model.onnx");
  if (model.ok() && options.source == Source::kExport) {
    const StatusOr<ExportedModel> exported = engine.Export(path / "model.onnx");
    if (!exported.ok()) return {result.name, Outcome::kRefused, Text(exported.status())};
    model = engine.LoadBytes(exported->bytes);
    if (!model.ok()) return {result.name, Outcome::kWrong, Text(model.status())};
  }
  if (!model.ok()) return {result.name, Outcome::kRefused, Text(model.status())};
  const std::vector<fs::path> sets = DataSets(path);
  if (sets.empty()) return {result.name, Outcome::kWrong, "it has no data set"};
  for (const fs::path& set : sets) {
    const Comparison comparison = RunDataSet(**model, set, options.loose);
    if (comparison.outcome <= result.outcome) continue;
    result.outcome = comparison.outcome;
    result.message = fmt::format("{}: {}", set.filename().string(), comparison.message);
  }
  return result;
}

}  // namespace tandem::conformance
