// What a compiled model says of its plan: plain data for people and tools, with or without the
// numbers that depend on the shapes of its inputs.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "engine/tensor/tensor.h"

namespace tandem {

// A value in one layout.
struct ValueReport {
  std::string name;
  DType dtype = DType::kUndefined;
  std::string extents;         // as far as known at load: "[N,3,224,224]"
  std::optional<Shape> shape;  // nothing where it depends on data, and without shapes
  Layout layout = Layout::kNative;
  std::string memory;   // where it lies: "arena", "view of 'x'", "packed" ...; "" without shapes
  size_t bytes = 0;     // of its elements; 0 where it has none of its own that are kept
  std::string content;  // hash of a constant's elements; "" for all others
};

struct PlanReport;

// One step of the plan. Ports hold indices of values, -1 where omitted.
struct TaskReport {
  std::string name;                   // of the nodes it was made of
  std::string kernel;                 // with instruction set and tile; "view" costs nothing
  std::vector<std::string> prologue;  // operators on input 0, as it is read
  std::vector<std::string> epilogue;  // operators on output 0, before it is written
  // Of the node, then of the stages of prologue and epilogue: "axis=1", "Clip.max=6",
  // "Sub.operand=2 first".
  std::vector<std::string> attributes;
  std::vector<int> inputs;
  std::vector<bool> packed;  // by input: the step holds a pack instead
  std::vector<int> outputs;
  // "run"; "once" where shapes decide it; "sized" while running, where data does; "" without
  // shapes.
  std::string mode;
  bool in_parts = false;  // of a batch that is cut on the way: see PlanReport::merged
  size_t scratch_bytes = 0;
  double estimated_seconds = 0;  // of one item on one thread
  // Work and bytes read and written; nothing for views, without shapes and where `cost_unknown`
  // says why.
  std::optional<double> multiply_adds;
  std::optional<double> moved_bytes;
  std::string cost_unknown;
  // Plans of the bodies of control flow, by the names of their attributes.
  std::vector<std::string> body_names;
  std::vector<PlanReport> bodies;
};

struct PackReport {
  std::string name;  // format, parameters and hash of the content
  size_t bytes = 0;
};

// A pass of the optimizer.
struct PassReport {
  std::string pass;
  int changes = 0;  // patches committed
  std::chrono::nanoseconds time{0};
};

// Why something was left as it was, or was not believed.
struct Decline {
  std::string pass;     // or "schedule", "types"
  std::string node;     // graph::Describe
  std::string role;     // "epilogue Relu", "input 1 (W)"
  std::string rule;     // "grows the model beyond its budget"
  std::string numbers;  // "4194304 > 4194303 bytes"; may be empty
};

// Either one task, or a fork whose branches (indices of blocks) may run at the same time.
struct ScheduleReport {
  int task = -1;
  std::vector<int> branches;
};

struct PlanReport {
  std::vector<int> inputs;   // values; of a body: those that it captures last
  std::vector<int> outputs;  // values
  std::vector<ValueReport> values;
  std::vector<TaskReport> tasks;
  std::vector<std::vector<ScheduleReport>> blocks;  // run in order; 0 is where a run starts
  int forks = 0;
  std::vector<PackReport> packs;
  std::vector<PassReport> passes;
  std::vector<Decline> declines;
  std::vector<std::string> folded_nodes;  // computed once, at load
  size_t folded_bytes = 0;                // of the constants made by that
  bool joinable = false;                  // see ModelInfo
  std::string not_joinable_reason;
  bool batch_fixed_at_one = false;
  size_t constant_bytes = 0;  // native constants that some step reads
  size_t pack_bytes = 0;
  // Values up to which a batch runs in parts that is cut on the way; the tasks before them say so.
  std::vector<int> merged;
  // A batch runs as so many parts; what is said of shapes and bytes holds for the first, or for the
  // whole batch where it is cut on the way.
  int64_t parts = 1;
  std::optional<size_t> arena_bytes;  // nothing without shapes
};

// Time that one task took in one run, with what led to it since the task before it ended on the
// same branch; a batch that ran in parts: in all of them.
struct TaskTime {
  std::string_view task;  // TaskReport::name; valid as long as the model
  std::string_view kernel;
  std::chrono::nanoseconds time{0};
  // The threads that started it, numbered from 0 as they came to the run; one but for parts.
  absl::InlinedVector<int, 1> threads;
};

// The kernel with what is fused into it: "gemm.f32 avx512 Exp+ +Add +Relu".
std::string KernelText(const TaskReport& task);

// "declined fuse_epilogue: node 'n' (Conv), epilogue Add: the result has other readers (readers=2)"
std::string ToText(const Decline& decline);

// What requests do: "join along axis 0", "run item by item: ..." or "do not join: ...", and why.
std::string JoinText(const PlanReport& report);

// The report as text, a line or more for each task.
std::string ToText(const PlanReport& report);

}  // namespace tandem
