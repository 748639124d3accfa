// The optimizer: an explicit, ordered pipeline of passes that rewrites a resolved graph to a fixed
// point. Passes know operator traits, never a kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/cpu.h"
#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "engine/graph/defaults.h"
#include "engine/graph/graph.h"
#include "engine/report.h"

namespace tandem::optimizer {

// What folding makes and frees, and its work.
struct FoldCost {
  size_t made_bytes = 0;           // of the constants that a fold makes
  size_t freed_bytes = 0;          // of the constants that nobody reads afterwards
  size_t view_bytes = 0;           // of the views that it makes, were they written out
  size_t spelled_bytes = 0;        // of the views that it reads, written out for its time only
  int64_t elements = 0;            // multiply-adds; or elements read, or written, if those are more
  std::vector<std::string> nodes;  // that are folded, as a person calls them

  FoldCost& operator+=(const FoldCost& other) {
    made_bytes += other.made_bytes;
    freed_bytes += other.freed_bytes;
    view_bytes += other.view_bytes;
    elements += other.elements;
    nodes.insert(nodes.end(), other.nodes.begin(), other.nodes.end());
    return *this;
  }
};

struct OptimizeReport {
  std::vector<PassReport> passes;  // in pipeline order
  std::vector<Decline> declines;   // of what no later sweep of the pass took, each once
  int rounds = 0;
  FoldCost folded;
};

// Budgets of everything that is computed from constants at load. A fold that would pass one is left
// to be computed in every run.
struct FoldBudget {
  // One fold makes at most the bytes of the constants it frees, or this many.
  size_t growth_bytes = size_t{4} << 20;
  // All folds together grow the model by at most this share of its constants plus this many bytes.
  double model_growth_share = 0.10;
  size_t model_growth_bytes = size_t{16} << 20;
  // At no time are more bytes alive than before folding plus these.
  size_t live_bytes = size_t{64} << 20;
  // Constants that repeat a smaller one (ConstantOfShape, Expand) stay views of no bytes and cost
  // none of the above; packed or read as they are they may take this much in all. Transposed
  // weights that are only packed are views, too, and cost nothing at all.
  size_t view_bytes = size_t{4} << 30;
  // Elements of work of all folds together.
  int64_t elements = 100'000'000;
};

// Role of the declines for OptimizeOptions::written_opset.
inline constexpr std::string_view kWrittenOpset = "written opset";

struct OptimizeOptions {
  std::set<std::string> disabled_passes;
  FoldBudget fold;
  // Of ai.onnx, where the graph is to be written as ONNX: formulas stay written out whose operator
  // is not in that opset or means something else there.
  std::optional<int> written_opset;
  // What was taken from the inputs of the graph, which requests may replace (TakeDefaults). Only
  // the declines tell: nodes that would fold from a default.
  graph::Defaults defaults;
  Isa isa = Isa::kReference;  // of the kernels that folding evaluates with
  const Parallel* parallel = nullptr;
  // Asked before every node of every sweep; true ends the passes with Cancelled.
  std::function<bool()> stopped;
  // Refuses to go on after as many rounds; a correct pipeline ends long before.
  int max_rounds = 32;
};

// Names of all passes in pipeline order.
std::vector<std::string> PassNames();

// Rewrites `graph`, whose operators must be resolved and types inferred. The graph is verified
// before and after each pass; an error names the pass. InvalidArgument when options name an unknown
// pass.
StatusOr<OptimizeReport> Optimize(graph::Graph& graph, graph::ConstantStore& constants,
                                  const OptimizeOptions& options);

}  // namespace tandem::optimizer
