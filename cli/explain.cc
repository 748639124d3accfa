// `tandem explain`: the plan of a model, and what another one does differently.
#include "cli/commands.h"
#include "cli/model_inputs.h"
#include "cli/plan_formats.h"

namespace tandem::cli {
namespace {

StatusOr<PlanReport> ReportOf(const ModelConfig& config, const ShapeConfig& shape_config) {
  const Engine engine(config.engine);
  ASSIGN_OR_RETURN(const auto model, Load(engine, config.path));
  ASSIGN_OR_RETURN(const std::vector<NamedShape> shapes, InputShapes(model->info(), shape_config));
  return model->Report(shapes);
}

}  // namespace

StatusOr<std::string> Execute(const ExplainConfig& config) {
  ASSIGN_OR_RETURN(const PlanReport report, ReportOf(config.model, config.shapes));
  switch (config.format) {
    case PlanFormat::kText:
      return ToText(report);
    case PlanFormat::kJson:
      return ToJson(report);
    case PlanFormat::kDot:
      return ToDot(report);
    case PlanFormat::kHtml:
      return ToHtml(report, config.model.path);
  }
  return "";
}

StatusOr<std::string> Execute(const DiffConfig& config) {
  ASSIGN_OR_RETURN(const PlanReport before, ReportOf(config.before, config.shapes));
  ASSIGN_OR_RETURN(const PlanReport after, ReportOf(config.after, config.shapes));
  return DiffText(before, after);
}

}  // namespace tandem::cli
