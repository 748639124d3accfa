// The optimizer: an explicit, ordered pipeline of passes that rewrites a resolved graph to a fixed
// point. Passes know operator traits, never a kernel.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "engine/base/cpu.h"
#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace tandem::optimizer {

// Why a pass left something as it was.
struct Decline {
  std::string pass;
  std::string node;     // graph::Describe
  std::string role;     // "epilogue Relu", "input 1 (W)"
  std::string rule;     // "grows the model beyond its budget"
  std::string numbers;  // "4194304 > 4194303 bytes"
};

struct PassReport {
  std::string pass;
  int changes = 0;  // patches committed
  std::chrono::nanoseconds time{0};
};

struct OptimizeReport {
  std::vector<PassReport> passes;  // in pipeline order
  std::vector<Decline> declines;   // of the last sweep of each pass
  int rounds = 0;
  int folded_nodes = 0;
  size_t folded_bytes = 0;  // made by folding
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
  // Elements of work of all folds together.
  int64_t elements = 100'000'000;
};

struct OptimizeOptions {
  std::set<std::string> disabled_passes;
  FoldBudget fold;
  // Initializers that are graph inputs, too, may be given with a request: nothing is folded from
  // them. Off: they are constants as any other.
  bool overridable_inputs = false;
  Isa isa = Isa::kReference;  // of the kernels that folding evaluates with
  const Parallel* parallel = nullptr;
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
