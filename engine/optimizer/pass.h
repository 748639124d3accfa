// What a pass is: one file, one pure function from a graph and an anchor node to a patch. The
// driver (driver.cc) walks the anchors in dataflow order and commits the patches; pipeline.cc lists
// the passes in their order.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/graph/patch.h"
#include "engine/ops/facts.h"
#include "engine/optimizer/declines.h"
#include "engine/optimizer/fold_budget.h"
#include "engine/optimizer/optimizer.h"

namespace tandem::optimizer {

// A body of control flow as a pass has left it: with the types of its inputs (for comparison), and
// why passes declined in it.
struct OptimizedBody {
  std::string inputs;
  std::vector<Decline> declines;
};

// What a pass may ask besides the graph, and where it says why it left something alone. Lives as
// long as one Optimize() call; everything but the declines and the cost is the driver's.
class PassContext {
 public:
  PassContext(const OptimizeOptions& options, graph::ConstantStore& constants,
              size_t initializer_bytes);

  const OptimizeOptions& options() const { return options_; }
  graph::ConstantStore& constants() { return constants_; }
  const Parallel& parallel() const;
  const FoldLedger& ledger() const { return ledger_; }

  // Records why the pass leaves `node` as it is.
  void Refuse(const graph::Graph& graph, graph::NodeId node, std::string role, std::string rule,
              std::string numbers = {});
  // Leaves a node that computes the same in every run to a later one that takes it along, and asks
  // whether the running sweep has left it.
  void Postpone(graph::NodeId node) { postponed_.insert(node); }
  bool postponed(graph::NodeId node) const { return postponed_.contains(node); }
  // Records reasons that were found elsewhere.
  void Report(Decline decline) { refusals_.push_back({graph::kNoNode, std::move(decline)}); }
  // The record of a body, or null.
  const OptimizedBody* FindBody(const std::shared_ptr<const graph::Graph>& body) const {
    const auto found = bodies_.find(body);
    return found == bodies_.end() ? nullptr : &found->second;
  }
  void RecordBody(std::shared_ptr<const graph::Graph> body, OptimizedBody record) {
    bodies_.insert_or_assign(std::move(body), std::move(record));
  }
  // What the returned patch computes; charged to the ledger when the patch is committed.
  void Charge(const FoldCost& cost) { cost_ = cost; }

  // Nodes on the longest path from an input or constant to the node, the node included. Nodes that
  // the running sweep added are counted, changes below them are not.
  int depth(graph::NodeId node) const { return depths_[static_cast<size_t>(node)]; }
  // What inference finds for the outputs of the anchor, by port; empty when the pass did not ask
  // for it (Pass::infers) or when inference failed.
  std::span<const ops::ValueFacts> inferred() const { return inferred_; }

 private:
  friend class Driver;

  const OptimizeOptions& options_;
  graph::ConstantStore& constants_;
  FoldLedger ledger_;
  std::string_view pass_;
  graph::NodeId anchor_ = graph::kNoNode;
  std::vector<Refusal> refusals_;
  std::set<graph::NodeId> postponed_;
  FoldCost cost_;
  std::vector<int> depths_;
  std::vector<ops::ValueFacts> inferred_;
  std::map<std::shared_ptr<const graph::Graph>, OptimizedBody> bodies_;
};

// Returns nothing when the pass does not apply at `anchor`, and never an empty patch. Looks at the
// graph only; running it twice gives the same patch.
using PassFunction = std::optional<graph::Patch> (*)(const graph::Graph& graph,
                                                     graph::NodeId anchor, PassContext& context);

struct Pass {
  std::string_view name;
  PassFunction run = nullptr;
  bool infers = false;  // wants PassContext::inferred()
  bool late = false;    // only runs when those before it have left the graph as it is
};

// All passes in the order in which a round runs them.
std::span<const Pass> Pipeline();

// Runs `passes` over `graph` as Optimize() runs Pipeline(): for tests of the driver and of one
// pass.
StatusOr<OptimizeReport> RunPasses(std::span<const Pass> passes, graph::Graph& graph,
                                   graph::ConstantStore& constants, const OptimizeOptions& options);

// The passes, each in the file of its name.
std::optional<graph::Patch> FoldConstants(const graph::Graph&, graph::NodeId, PassContext&);
std::optional<graph::Patch> InlineIf(const graph::Graph&, graph::NodeId, PassContext&);
std::optional<graph::Patch> DropIdentity(const graph::Graph&, graph::NodeId, PassContext&);
std::optional<graph::Patch> DropNoop(const graph::Graph&, graph::NodeId, PassContext&);
std::optional<graph::Patch> FoldBatchNorm(const graph::Graph&, graph::NodeId, PassContext&);
std::optional<graph::Patch> FuseQdq(const graph::Graph&, graph::NodeId, PassContext&);
std::optional<graph::Patch> FuseAttention(const graph::Graph&, graph::NodeId, PassContext&);
std::optional<graph::Patch> FuseGelu(const graph::Graph&, graph::NodeId, PassContext&);
std::optional<graph::Patch> FuseLayerNorm(const graph::Graph&, graph::NodeId, PassContext&);
std::optional<graph::Patch> FuseGroupNorm(const graph::Graph&, graph::NodeId, PassContext&);
std::optional<graph::Patch> FuseRmsNorm(const graph::Graph&, graph::NodeId, PassContext&);
std::optional<graph::Patch> FuseSwish(const graph::Graph&, graph::NodeId, PassContext&);
std::optional<graph::Patch> Lower(const graph::Graph&, graph::NodeId, PassContext&);
std::optional<graph::Patch> FuseEpilogue(const graph::Graph&, graph::NodeId, PassContext&);
std::optional<graph::Patch> FusePrologue(const graph::Graph&, graph::NodeId, PassContext&);
std::optional<graph::Patch> FuseDepthwise(const graph::Graph&, graph::NodeId, PassContext&);
std::optional<graph::Patch> FuseReduction(const graph::Graph&, graph::NodeId, PassContext&);
std::optional<graph::Patch> ViewQuantised(const graph::Graph&, graph::NodeId, PassContext&);
std::optional<graph::Patch> OptimizeBodies(const graph::Graph&, graph::NodeId, PassContext&);

}  // namespace tandem::optimizer
