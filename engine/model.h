// The Model that Engine::Load returns: a plan, the session that runs it, and what it says of
// itself.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/graph/graph.h"
#include "engine/runtime/session.h"

namespace tandem {

// What a model borrows from its engine, with what keeps it alive.
struct SharedParts {
  std::shared_ptr<const void> owner;
  const Parallel& parallel;
  runtime::ArenaPool& arenas;
};

// Ports of an imported graph; batching and bytes are filled in when the plan is there.
ModelInfo DescribePorts(const graph::Graph& graph, std::string producer);

// The plans of a model.
struct CompiledPlans {
  std::unique_ptr<const plan::Plan> fixed;  // inputs with a default are constants
  std::unique_ptr<const plan::Plan> open;   // none of them is; null where requests replace none
};

class CompiledModel final : public Model {
 public:
  CompiledModel(ModelInfo info, CompiledPlans plans, const runtime::SessionOptions& options,
                SharedParts parts);

  const ModelInfo& info() const override { return info_; }
  Status Validate(std::span<const NamedTensor> inputs) const override;
  StatusOr<RunResult> Run(std::span<const NamedTensor> inputs,
                          const RunOptions& options) const override;
  StatusOr<std::vector<RunResult>> RunBatch(std::span<const BatchItem> items,
                                            const std::function<bool()>& stopped) const override;
  std::string Explain() const override;
  StatusOr<PlanReport> Report(std::span<const NamedShape> inputs) const override;

 private:
  // A plan with what runs it.
  struct Runner {
    Runner(std::unique_ptr<const plan::Plan> runs, const runtime::SessionOptions& options,
           const SharedParts& parts)
        : plan(std::move(runs)), session(*plan, options, parts.parallel, parts.arenas) {}

    std::unique_ptr<const plan::Plan> plan;
    runtime::Session session;
  };

  bool ReplacesDefaults(std::span<const NamedTensor> inputs) const;
  // What a request with these inputs runs on.
  const Runner& RunnerOf(std::span<const NamedTensor> inputs) const {
    return ReplacesDefaults(inputs) ? *open_ : fixed_;
  }
  // InvalidArgument: a name that is no input, or none that a request may give, or given twice.
  Status CheckNames(std::span<const NamedTensor> inputs) const;
  // Joined items, none of which replaces a default; results by item.
  StatusOr<std::vector<RunResult>> RunJoined(std::span<const BatchItem> items,
                                             const std::function<bool()>& stopped) const;
  // Indices into the plan's outputs of the names asked for; all when none are.
  StatusOr<std::vector<size_t>> OutputIndices(const std::vector<std::string>& names) const;
  // One input's tensors of all items, one below the other.
  StatusOr<Tensor> Join(std::span<const BatchItem> items, const std::string& name) const;

  ModelInfo info_;
  SharedParts parts_;
  Runner fixed_;
  std::unique_ptr<const Runner> open_;  // null where requests replace no default
};

}  // namespace tandem
