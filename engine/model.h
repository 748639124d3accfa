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

class CompiledModel final : public Model {
 public:
  CompiledModel(ModelInfo info, std::unique_ptr<const plan::Plan> plan,
                const runtime::SessionOptions& options, SharedParts parts);

  const ModelInfo& info() const override { return info_; }
  Status Validate(std::span<const NamedTensor> inputs) const override;
  StatusOr<RunResult> Run(std::span<const NamedTensor> inputs,
                          const RunOptions& options) const override;
  StatusOr<std::vector<RunResult>> RunBatch(std::span<const BatchItem> items,
                                            const std::function<bool()>& stopped) const override;
  std::string Explain() const override { return ToText(plan::Report(*plan_)); }
  StatusOr<PlanReport> Report(std::span<const NamedShape> inputs) const override;

 private:
  // Indices into the plan's outputs of the names asked for; all when none are.
  StatusOr<std::vector<size_t>> OutputIndices(const std::vector<std::string>& names) const;
  std::vector<TaskTime> Profile(const runtime::TaskRuns& runs) const;
  // One input's tensors of all items, one below the other.
  StatusOr<Tensor> Join(std::span<const BatchItem> items, const std::string& name) const;

  ModelInfo info_;
  SharedParts parts_;
  std::unique_ptr<const plan::Plan> plan_;
  runtime::Session session_;
};

}  // namespace tandem
