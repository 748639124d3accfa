#include "loadtest/measure.h"

#include <fmt/format.h>

#include "cli/model_inputs.h"

namespace tandem::loadtest {

void AddOptions(CLI::App& app, Arguments& arguments) {
  app.add_option("--threads", arguments.threads, "threads that compute")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--batch", arguments.batch, "items of a request")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--iterations", arguments.iterations, "runs a median is taken of")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("models", arguments.models, "ONNX files")->required()->check(CLI::ExistingFile);
}

StatusOr<std::vector<NamedTensor>> MakeInputs(const Model& model, int batch) {
  ASSIGN_OR_RETURN(const std::vector<NamedShape> shapes,
                   cli::InputShapes(model.info(), {.batch = batch}));
  std::vector<NamedTensor> inputs;
  for (const auto& [name, shape] : shapes) {
    ASSIGN_OR_RETURN(Tensor tensor, cli::MadeUp(DType::kFloat, shape));
    inputs.push_back({name, std::move(tensor)});
  }
  RETURN_IF_ERROR(model.Validate(inputs));
  return inputs;
}

int MeasureAll(const std::vector<std::string>& models,
               const std::function<Status(const std::string&)>& measure) {
  int failures = 0;
  for (const std::string& path : models) {
    const Status measured = measure(path);
    if (measured.ok()) continue;
    ++failures;
    fmt::print("{:24} {}\n", path, Message(measured));
  }
  return failures;
}

}  // namespace tandem::loadtest
