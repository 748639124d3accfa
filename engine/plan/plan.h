// A plan: a model compiled once. Tasks with their kernels bound and weights packed, the layout of
// every value, and the schedule of independent branches. Immutable and shared by all runs; what
// depends on concrete shapes is a ShapePlan (shape_plan.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/ops/operator.h"
#include "engine/optimizer/optimizer.h"
#include "engine/plan/batch.h"
#include "engine/plan/pack_store.h"
#include "engine/plan/schedule.h"

namespace tandem::plan {

using ValueIndex = int32_t;
inline constexpr ValueIndex kOmitted = -1;

// A value in one layout. A value of the graph that is read in two layouts is two of these.
struct PlanValue {
  std::string name;
  DType dtype = DType::kUndefined;
  std::optional<graph::DimVector> dims;
  Layout layout = Layout::kNative;
  graph::ConstantRef constant;     // its content lies in `layout`; null when only packs are read
  std::optional<Hash128> content;  // of a constant, even when only packs are read
  TaskIndex def = -1;              // -1: an input or a constant
  std::vector<TaskIndex> readers;
  ValueIndex view_of = kOmitted;  // same memory as that value
  bool is_output = false;
  BatchRole role = BatchRole::kShared;
};

struct Plan;

// One step of the plan: a node with its kernel, or a view, which costs nothing.
struct Task {
  std::string name;    // as graph::Describe of the node it came from
  std::string kernel;  // Step::kernel(), or "view"
  graph::Node node;    // infers shapes; its inputs and outputs are those of the graph
  std::unique_ptr<const ops::Step> step;            // null for a view
  std::vector<ValueIndex> inputs;                   // by port
  std::vector<ValueIndex> outputs;                  // by port
  std::vector<bool> packed;                         // by input port: the step holds a pack instead
  std::vector<std::shared_ptr<const Plan>> bodies;  // as graph::BodiesOf(node)
  double seconds = 0;                               // estimated for one item
};

// Tasks that run in one go, from inputs that the caller binds to outputs that the caller gets.
struct Stage {
  std::vector<bool> runs;  // by task
  std::vector<ValueIndex> inputs;
  std::vector<ValueIndex> outputs;
  double seconds = 0;  // estimated for one item on one thread
};

// A plan whose batch cannot be cut from end to end, cut as far as it can: what `front` computes
// from an item depends on no other one, so it may run part by part; its outputs hold the items as
// rows, and `rest` reads all of them after the inputs of the plan. Tasks that only compute with
// shapes may belong to both.
struct Cut {
  Stage front;
  Stage rest;
};

struct Plan {
  std::vector<PlanValue> values;
  std::vector<Task> tasks;  // every value is defined before it is read
  Stage whole;
  std::optional<Cut> cut;  // where the batch ends on the way and something comes before
  // By input of the whole: what it is where a request does not name it, the same for all its items;
  // null for those that every request names.
  std::vector<graph::ConstantRef> defaults;
  std::vector<std::string> input_names;
  std::vector<std::string> output_names;
  Schedule schedule;
  BatchAnalysis batch;
  optimizer::OptimizeReport optimized;
  std::vector<Decline> declines;    // of the file and the schedule, with those of bodies
  std::vector<ops::PackRef> packs;  // all that steps hold, those of bodies included, each once
  size_t constant_bytes = 0;  // of the constants in `values`, `defaults` and bodies, each once
  size_t pack_bytes = 0;
};

struct PlanOptions {
  Isa isa = Isa::kReference;
  Precision precision = Precision::kF32Plain;
  ForkGate fork_gate;
  // Of inputs of the graph (graph::TakeDefaults).
  graph::Defaults defaults;
  // Asked before every node; true ends the build with Cancelled.
  std::function<bool()> stopped;
};

// Binds every node of `graph`, which is optimized, resolved and inferred; weights of which packs
// are made go with it as soon as they can, where nobody else holds them. Each body of control flow
// becomes a plan of its own; its requests do not join, as the node's do not. Unimplemented or
// InvalidArgument lists every node that has no kernel, with the path to it, not the first one only;
// Cancelled when it was stopped.
StatusOr<std::unique_ptr<Plan>> BuildPlan(graph::Graph graph, const PlanOptions& options,
                                          graph::ConstantStore& constants, PackStore& packs);

// What is known of the plan before any shapes are.
PlanReport Report(const Plan& plan);

// The index among the inputs of the first that holds the items of a request; nothing when none
// does.
std::optional<size_t> FirstOfItems(const Plan& plan);

// What several plans hold together, each constant and each pack once.
struct HeldBytes {
  size_t constants = 0;
  size_t packs = 0;
};
HeldBytes BytesOf(const std::vector<const Plan*>& plans);

}  // namespace tandem::plan
