#include "engine/engine.h"

#include <limits>

#include "engine/base/memory.h"
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
                                             const Parallel& parallel) {
  optimizer::OptimizeOptions result;
  result.disabled_passes.insert(options.disabled_passes.begin(), options.disabled_passes.end());
  result.fold = {options.fold_growth_bytes, options.model_growth_share, options.model_growth_bytes,
                 options.fold_live_bytes,   options.view_bytes,         options.fold_elements};
  result.isa = isa;
  result.parallel = &parallel;
  return result;
}

Status CheckStopped(const std::function<bool()>& stopped) {
  return stopped && stopped() ? Cancelled("loading was stopped") : absl::OkStatus();
}

// Both errors where both are; the code is the first one's.
Status Joined(const Status& first, const Status& second) {
  if (first.ok() || second.ok()) return first.ok() ? second : first;
  return MakeStatus(first.code(), fmt::format("{}; {}", Message(first), Message(second)));
}

}  // namespace

// Everything models share. Immutable but for the stores, which are thread-safe.
class Engine::Impl : public std::enable_shared_from_this<Engine::Impl> {
 public:
  explicit Impl(EngineOptions options)
      : options_(std::move(options)),
        isa_(options_.prepack ? options_.isa.value_or(DetectIsa()) : Isa::kReference),
        parallel_(MakeParallel(options_.threads > 0 ? options_.threads : AvailableCpus())) {}

  // The graph resolved, with the types of its values.
  static StatusOr<onnx_import::ImportedModel> Resolve(
      StatusOr<onnx_import::ImportedModel> imported) {
    RETURN_IF_ERROR(imported.status());
    // Inference passes over what is not resolved, so that a model is told all its reasons at once.
    const Status resolved = ops::ResolveAll(imported->graph);
    RETURN_IF_ERROR(Joined(resolved, ops::InferAll(imported->graph)));
    return imported;
  }

  StatusOr<optimizer::OptimizeReport> Optimize(graph::Graph& graph) {
    return optimizer::Optimize(graph, constants_, OptimizeOptionsOf(options_, isa_, *parallel_));
  }

  StatusOr<std::string> Export(const std::string& path) {
    ASSIGN_OR_RETURN(onnx_import::ImportedModel model,
                     Resolve(onnx_import::ImportFile(path, {}, constants_)));
    RETURN_IF_ERROR(Optimize(model.graph).status());
    return onnx_import::SerializeModel(model);
  }

  StatusOr<std::shared_ptr<const Model>> Compile(StatusOr<onnx_import::ImportedModel> imported,
                                                 const LoadOptions& load) {
    RETURN_IF_ERROR(imported.status());
    RETURN_IF_ERROR(CheckStopped(load.stopped));
    RETURN_IF_ERROR(onnx_import::ApplyInputLayouts(load.input_layouts, imported->graph));
    ASSIGN_OR_RETURN(onnx_import::ImportedModel model, Resolve(std::move(imported)));
    graph::Graph& graph = model.graph;
    // Ports are described as the file has them, before passes replace values.
    ModelInfo info = DescribePorts(graph, model.producer);
    ASSIGN_OR_RETURN(optimizer::OptimizeReport report, Optimize(graph));
    RETURN_IF_ERROR(CheckStopped(load.stopped));
    plan::PlanOptions plan_options;
    plan_options.isa = isa_;
    if (!options_.towers) plan_options.fork_gate_seconds = std::numeric_limits<double>::infinity();
    ASSIGN_OR_RETURN(std::unique_ptr<plan::Plan> plan,
                     plan::BuildPlan(graph, plan_options, constants_, packs_));
    plan->optimized = std::move(report);
    const runtime::SessionOptions session_options{isa_, options_.shape_plans,
                                                  options_.max_run_bytes};
    return std::make_shared<const CompiledModel>(
        std::move(info), std::move(plan), session_options,
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

StatusOr<std::string> Engine::Export(const std::string& path) const { return impl_->Export(path); }

int Engine::threads() const { return impl_->parallel_->threads(); }

Isa Engine::isa() const { return impl_->isa_; }

EngineStats Engine::stats() const {
  const plan::PackStore::Stats packs = impl_->packs_.stats();
  return {packs.built, packs.shared, impl_->constants_.stats().bytes, packs.bytes,
          impl_->arenas_.bytes()};
}

const Parallel& Engine::parallel() const { return *impl_->parallel_; }

}  // namespace tandem
