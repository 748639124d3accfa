// Loading a model and making what it runs on.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "cli/command_line.h"
#include "engine/engine.h"

namespace tandem::cli {

// The error names the file.
StatusOr<std::shared_ptr<const Model>> Load(const Engine& engine, const std::string& path);

// A shape for every input without a default. InvalidArgument names shapes of inputs that are not
// there; whether they fit is Model::Validate's to say.
StatusOr<std::vector<NamedShape>> InputShapes(const ModelInfo& info, const ShapeConfig& config);

// InvalidArgument where the model has no input of that name, which came with `option`; it lists
// those there are.
Status CheckIsInput(const ModelInfo& info, std::string_view option, const std::string& name);

// The tensors of the files, in their order.
StatusOr<std::vector<NamedTensor>> ReadInputs(const std::vector<InputFile>& files);

// Reproducible elements: floats between -1 and 1, integers and bools 0 or 1, strings "a".
// Unimplemented for other types.
StatusOr<Tensor> MadeUp(DType dtype, const Shape& shape);

// The tensors of the files, and made-up ones for the other inputs without a default. What is no
// input is InvalidArgument; whether tensors fit is Model::Validate's to say.
StatusOr<std::vector<NamedTensor>> MakeInputs(const ModelInfo& info,
                                              const std::vector<InputFile>& files,
                                              const ShapeConfig& config);

// The plan for the shapes of these inputs.
StatusOr<PlanReport> ReportFor(const Model& model, const std::vector<NamedTensor>& inputs);

// How often a run does the work that the report gives for each task: where the whole batch runs in
// parts it is that of one, and the last part may have fewer items.
inline int64_t TimesOf(const PlanReport& report) {
  return report.merged.empty() ? report.parts : 1;
}

}  // namespace tandem::cli
