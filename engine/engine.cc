#include "engine/engine.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <vector>

#include "engine/base/memory.h"
#include "engine/base/reasons.h"
#include "engine/graph/defaults.h"
#include "engine/model.h"
#include "engine/onnx/export.h"
#include "engine/onnx/import.h"
#include "engine/onnx/input_layouts.h"
#include "engine/ops/registry.h"
#include "engine/optimizer/optimizer.h"
#include "engine/plan/plan.h"
#include "engine/runtime/arena_pool.h"
#include "engine/runtime/parallel_tbb.h"

namespace tandem {
namespace {

std::unique_ptr<Parallel> MakeParallel(int threads) {
#ifdef TANDEM_TBB
  return runtime::MakeTbbParallel(threads);
#else
  return MakeThreadParallel(threads);
#endif
}

optimizer::OptimizeOptions OptimizeOptionsOf(const EngineOptions& options, Isa isa,
                                             const Parallel& parallel,
                                             const std::function<bool()>& stopped) {
  optimizer::OptimizeOptions result;
  result.stopped = stopped;
  result.disabled_passes.insert(options.disabled_passes.begin(), options.disabled_passes.end());
  result.fold = {options.fold_growth_bytes, options.model_growth_share, options.model_growth_bytes,
                 options.fold_live_bytes,   options.view_bytes,         options.fold_elements};
  result.isa = isa;
  result.parallel = &parallel;
  return result;
}

// Branches run at the same time where a share of a task is short beside what it costs to cut it for
// the threads and to wait for them.
plan::ForkGate ForkGateOf(const EngineOptions& options, const Parallel& parallel) {
  if (!options.towers) return {.least_seconds = std::numeric_limits<double>::infinity()};
  return {.least_seconds = 20e-6, .most_task_seconds = 25e-6 * std::max(2, parallel.threads())};
}

// True when no shape is both: the ranks differ, or two extents that are numbers. Names of extents
// may differ.
bool Contradict(const graph::DimVector& a, const graph::DimVector& b) {
  if (a.size() != b.size()) return true;
  for (size_t axis = 0; axis < a.size(); ++axis) {
    const bool numbers = a[axis].is_number() && b[axis].is_number();
    if (numbers && a[axis].number() != b[axis].number()) return true;
  }
  return false;
}

// A graph whose operators are resolved and whose types are inferred.
struct Resolved {
  onnx_import::ImportedModel model;
  std::vector<Decline> contradictions;  // outputs that are not what the file declares
};

// What is inferred of outputs counts: exporters are known to declare shapes that they do not have.
std::vector<Decline> Contradictions(const graph::Graph& graph,
                                    const std::vector<std::optional<graph::DimVector>>& declared) {
  std::vector<Decline> contradictions;
  for (size_t i = 0; i < declared.size(); ++i) {
    const auto& dims = graph.value(graph.outputs()[i]).type.dims;
    if (!declared[i] || !dims || !Contradict(*declared[i], *dims)) continue;
    contradictions.push_back({"types", fmt::format("graph output '{}'", graph.output_names()[i]),
                              "declared shape", "it cannot have it, and what is inferred counts",
                              fmt::format("{} is inferred, not {}", graph::ToString(*dims),
                                          graph::ToString(*declared[i]))});
  }
  return contradictions;
}

// What is compiled for requests that replace defaults; no plan for a model that has none.
struct OpenPlan {
  std::unique_ptr<const plan::Plan> plan;
  std::vector<Port> outputs;
};

Status CheckStopped(const std::function<bool()>& stopped) {
  return stopped && stopped() ? Cancelled("loading was stopped") : absl::OkStatus();
}

}  // namespace

// Everything models share. Immutable but for the stores, which are thread-safe.
class Engine::Impl : public std::enable_shared_from_this<Engine::Impl> {
 public:
  explicit Impl(EngineOptions options)
      : options_(std::move(options)),
        isa_(options_.prepack ? std::min(options_.isa.value_or(Isa::kAmx), DetectIsa())
                              : Isa::kReference),
        parallel_(MakeParallel(options_.threads > 0 ? options_.threads : AvailableCpus())) {}

  static StatusOr<Resolved> Resolve(StatusOr<onnx_import::ImportedModel> imported) {
    RETURN_IF_ERROR(imported.status());
    Resolved result{*std::move(imported), {}};
    graph::Graph& graph = result.model.graph;
    std::vector<std::optional<graph::DimVector>> declared;
    for (const graph::ValueId id : graph.outputs()) declared.push_back(graph.value(id).type.dims);
    // Inference passes over what is not resolved, so that a model is told all its reasons at once.
    const Status resolved = ops::ResolveAll(graph);
    RETURN_IF_ERROR(AllReasons({resolved, ops::InferAll(graph)}));
    result.contradictions = Contradictions(graph, declared);
    return result;
  }

  StatusOr<ExportedModel> Export(const std::string& path) {
    ASSIGN_OR_RETURN(Resolved resolved, Resolve(onnx_import::ImportFile(path, {}, constants_)));
    optimizer::OptimizeOptions options = OptimizeOptionsOf(options_, isa_, *parallel_, {});
    const auto opset = resolved.model.opsets.find("");
    if (opset != resolved.model.opsets.end()) options.written_opset = opset->second;
    ASSIGN_OR_RETURN(optimizer::OptimizeReport report,
                     optimizer::Optimize(resolved.model.graph, constants_, options));
    ExportedModel exported;
    ASSIGN_OR_RETURN(exported.bytes, onnx_import::SerializeModel(resolved.model));
    std::ranges::copy_if(
        report.declines, std::back_inserter(exported.written_out),
        [](const Decline& decline) { return decline.role == optimizer::kWrittenOpset; });
    return exported;
  }

  Precision PrecisionOf(const LoadOptions& load) const {
    return load.precision.value_or(options_.precision);
  }

  // `defaults` have been taken from the inputs of the graph.
  StatusOr<std::unique_ptr<const plan::Plan>> PlanOf(Resolved resolved,
                                                     const graph::Defaults& defaults,
                                                     const LoadOptions& load) {
    graph::Graph& graph = resolved.model.graph;
    optimizer::OptimizeOptions options =
        OptimizeOptionsOf(options_, isa_, *parallel_, load.stopped);
    options.defaults = defaults;
    ASSIGN_OR_RETURN(optimizer::OptimizeReport report,
                     optimizer::Optimize(graph, constants_, options));
    plan::PlanOptions plan_options;
    plan_options.isa = isa_;
    plan_options.precision = PrecisionOf(load);
    plan_options.defaults = defaults;
    plan_options.stopped = load.stopped;
    plan_options.fork_gate = ForkGateOf(options_, *parallel_);
    ASSIGN_OR_RETURN(std::unique_ptr<plan::Plan> plan,
                     plan::BuildPlan(std::move(graph), plan_options, constants_, packs_));
    plan->optimized = std::move(report);
    std::ranges::move(resolved.contradictions, std::back_inserter(plan->declines));
    return plan;
  }

  // The plan for requests that replace defaults, where the model has some. Outputs are described as
  // such requests leave them: their extents may depend on what replaces a default.
  StatusOr<OpenPlan> OpenPlanOf(onnx_import::ImportedModel model, const LoadOptions& load) {
    const graph::Defaults defaults = graph::TakeDefaults(model.graph);
    if (defaults.empty()) return OpenPlan{};
    ASSIGN_OR_RETURN(Resolved resolved, Resolve(std::move(model)));
    OpenPlan open;
    open.outputs = DescribePorts(resolved.model.graph, "").outputs;
    ASSIGN_OR_RETURN(open.plan, PlanOf(std::move(resolved), defaults, load));
    return open;
  }

  StatusOr<std::shared_ptr<const Model>> Compile(StatusOr<onnx_import::ImportedModel> imported,
                                                 const LoadOptions& load) {
    RETURN_IF_ERROR(imported.status());
    RETURN_IF_ERROR(CheckStopped(load.stopped));
    RETURN_IF_ERROR(onnx_import::ApplyInputLayouts(load.input_layouts, imported->graph));
    std::optional<onnx_import::ImportedModel> open;
    if (load.input_defaults == InputDefaults::kReplaceable) open = *imported;
    ASSIGN_OR_RETURN(Resolved resolved, Resolve(std::move(imported)));
    // Ports are described as the file has them, before passes replace values.
    ModelInfo info = DescribePorts(resolved.model.graph, resolved.model.producer);
    info.precision = PrecisionOf(load);
    CompiledPlans plans;
    ASSIGN_OR_RETURN(plans.fixed, PlanOf(std::move(resolved), {}, load));
    if (open) {
      StatusOr<OpenPlan> second = OpenPlanOf(*std::move(open), load);
      if (!second.ok()) return Annotate(second.status(), "for requests that replace defaults");
      if (second->plan != nullptr) info.outputs = std::move(second->outputs);
      plans.open = std::move(second->plan);
    }
    const runtime::SessionOptions session_options{isa_, options_.shape_plans,
                                                  options_.max_run_bytes};
    return std::make_shared<const CompiledModel>(
        std::move(info), std::move(plans), session_options,
        SharedParts{shared_from_this(), *parallel_, arenas_});
  }

  const EngineOptions options_;
  const Isa isa_;
  const std::unique_ptr<Parallel> parallel_;
  graph::ConstantStore constants_;
  plan::PackStore packs_;
  runtime::ArenaPool arenas_;
};

Engine::Engine(EngineOptions options) : impl_(std::make_shared<Impl>(std::move(options))) {}

Engine::~Engine() = default;

StatusOr<std::shared_ptr<const Model>> Engine::Load(const std::string& path,
                                                    const LoadOptions& options) const {
  StatusOr<std::shared_ptr<const Model>> model =
      impl_->Compile(onnx_import::ImportFile(path, {}, impl_->constants_), options);
  // The file's messages and the graph took about as much as the model holds.
  ReleaseFreedMemory();
  return model;
}

StatusOr<std::shared_ptr<const Model>> Engine::LoadBytes(std::string_view bytes,
                                                         const LoadOptions& options) const {
  return impl_->Compile(onnx_import::ImportBytes(bytes, {}, impl_->constants_), options);
}

StatusOr<ExportedModel> Engine::Export(const std::string& path) const {
  return impl_->Export(path);
}

int Engine::threads() const { return impl_->parallel_->threads(); }

Isa Engine::isa() const { return impl_->isa_; }

EngineStats Engine::stats() const {
  const plan::PackStore::Stats packs = impl_->packs_.stats();
  return {packs.built, packs.shared, impl_->constants_.stats().bytes, packs.bytes,
          impl_->arenas_.bytes()};
}

const Parallel& Engine::parallel() const { return *impl_->parallel_; }

}  // namespace tandem
