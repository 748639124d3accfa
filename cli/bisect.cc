// `tandem explain --bisect`: where the optimized plan leaves the path of the plain one, which is an
// error as a difference is one for `cmp`.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "cli/commands.h"
#include "cli/model_inputs.h"

namespace tandem::cli {
namespace {

using Values = std::vector<NamedTensor>;

// The pass that replaces operators which have no kernel of their own.
constexpr std::string_view kNeededPass = "lower";

// What every task computes and the outputs, each name once: a value may be observed in two layouts,
// and as an output again.
StatusOr<Values> Observed(const Model& model, const std::vector<NamedTensor>& inputs) {
  Values values;
  std::set<std::string> names;
  const auto add = [&](const NamedTensor& value) {
    if (names.insert(value.name).second) values.push_back(value);
  };
  RunOptions options;
  options.observe = add;
  ASSIGN_OR_RETURN(const RunResult result, model.Run(inputs, options));
  std::ranges::for_each(result.outputs, add);
  return values;
}

double AsDouble(const Tensor& tensor, size_t i) {
  switch (tensor.dtype()) {
    case DType::kFloat:
      return tensor.span<float>()[i];
    case DType::kDouble:
      return tensor.span<double>()[i];
    case DType::kFloat16:
      return ToFloat(tensor.span<Float16>()[i]);
    case DType::kBfloat16:
      return ToFloat(tensor.span<Bfloat16>()[i]);
    default:
      return 0;
  }
}

// The largest difference as a share of the plain value's largest finite magnitude; for types that
// have no rounding 0 or infinity.
double Difference(const Tensor& plain, const Tensor& optimized) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (plain.dtype() != optimized.dtype() || plain.shape() != optimized.shape()) return kInfinity;
  if (plain.dtype() == DType::kString) {
    return std::ranges::equal(plain.span<std::string>(), optimized.span<std::string>()) ? 0
                                                                                        : kInfinity;
  }
  if (!IsFloating(plain.dtype())) {
    return std::ranges::equal(plain.view().bytes(), optimized.view().bytes()) ? 0 : kInfinity;
  }
  double scale = 0;
  double largest = 0;
  for (size_t i = 0; i < static_cast<size_t>(plain.elements()); ++i) {
    const double a = AsDouble(plain, i);
    const double b = AsDouble(optimized, i);
    if (std::isfinite(a)) scale = std::max(scale, std::abs(a));
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    const double apart = std::abs(a - b);
    if (!std::isfinite(apart)) return kInfinity;
    largest = std::max(largest, apart);
  }
  return largest == 0 ? 0 : largest / scale;
}

// The line of the report that says which task computes the value.
std::string TaskOf(const PlanReport& report, const std::string& value) {
  for (const TaskReport& task : report.tasks) {
    for (const int output : task.outputs) {
      if (output < 0 || report.values[static_cast<size_t>(output)].name != value) continue;
      return fmt::format("{}: {}", task.name, KernelText(task));
    }
  }
  return "no task of its own";
}

}  // namespace

StatusOr<std::string> Execute(const BisectConfig& config) {
  const Engine engine(config.model.engine);
  ASSIGN_OR_RETURN(const auto optimized, Load(engine, config.model.path));
  ASSIGN_OR_RETURN(const std::vector<NamedTensor> inputs,
                   MakeInputs(optimized->info(), config.inputs, config.shapes));
  ASSIGN_OR_RETURN(const PlanReport report, ReportFor(*optimized, inputs));
  EngineOptions plain_options = config.model.engine;
  plain_options.prepack = false;
  for (const PassReport& pass : report.passes) {
    if (pass.pass != kNeededPass) plain_options.disabled_passes.push_back(pass.pass);
  }
  const Engine plain_engine(plain_options);
  StatusOr<std::shared_ptr<const Model>> plain = Load(plain_engine, config.model.path);
  if (!plain.ok()) return Annotate(plain.status(), "without passes");

  ASSIGN_OR_RETURN(const Values optimized_values, Observed(*optimized, inputs));
  std::map<std::string, const Tensor*> by_name;
  for (const NamedTensor& value : optimized_values) by_name.emplace(value.name, &value.tensor);
  ASSIGN_OR_RETURN(const Values plain_values, Observed(**plain, inputs));
  int compared = 0;
  double largest = 0;
  for (const NamedTensor& value : plain_values) {
    const auto found = by_name.find(value.name);
    if (found == by_name.end()) continue;  // became part of another task, or a constant
    ++compared;
    const double difference = Difference(value.tensor, *found->second);
    if (difference > config.tolerance) {
      ASSIGN_OR_RETURN(const PlanReport plain_report, ReportFor(**plain, inputs));
      return FailedPrecondition(
          "'{}' is the first value that differs: by {:.2e} of its scale, {:.2e} is tolerated\n"
          "  plain      {}\n  optimized  {}\n{} values before it were compared, and they agree",
          value.name, difference, config.tolerance, TaskOf(plain_report, value.name),
          TaskOf(report, value.name), compared - 1);
    }
    largest = std::max(largest, difference);
  }
  const size_t others = plain_values.size() - static_cast<size_t>(compared);
  return fmt::format(
      "{} of {} values were compared, and all agree: the largest difference is {:.2e} of the "
      "scale{}\n",
      compared, plain_values.size(), largest,
      others == 0 ? ""
                  : fmt::format("; the other {} are constants or parts of other tasks in the "
                                "optimized plan",
                                others));
}

}  // namespace tandem::cli
