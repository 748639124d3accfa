// What a plan needs to know about one set of input shapes: the shape of every value, the place of
// every buffer in one arena, and the values that follow from shapes alone. Small, immutable, cached
// per shape signature; it never packs a weight.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/plan/plan.h"

namespace tandem::plan {

// Where the memory of a value is.
enum class Storage : uint8_t {
  kInput,     // the caller's tensor
  kConstant,  // the plan's constant
  kKnown,     // computed with the shape plan
  kArena,     // at `offset` of the run's arena
  kOutput,    // the buffer of the stage's output `output`
  kView,      // that of PlanValue::view_of
  kShared,    // that of `in_place_of`, whose last reader defines this value
  kDynamic,   // allocated while running: its size depends on data, or its elements are strings
  kUnused,    // packed, or computed beforehand and not read, or of another stage
};

struct ValuePlace {
  Storage storage = Storage::kUnused;
  Shape shape;
  size_t offset = 0;
  int output = -1;
  ValueIndex in_place_of = kOmitted;
};

enum class TaskMode : uint8_t {
  kRun,      // all shapes known
  kSkip,     // a view, or known beforehand, or of another stage
  kDynamic,  // shapes of inputs or outputs appear while running
};

struct TaskPlace {
  TaskMode mode = TaskMode::kRun;
  size_t scratch_offset = 0;
  size_t scratch_bytes = 0;
};

struct ShapePlan {
  const Stage* stage = nullptr;     // of the plan
  std::vector<ValuePlace> values;   // by plan value
  std::vector<Tensor> known;        // by plan value; valid where storage is kKnown
  std::vector<TaskPlace> tasks;     // by task
  std::vector<int> copied_outputs;  // of the stage, whose value lies elsewhere: copied at the end
  size_t arena_bytes = 0;
};

// What is to run, and on what.
struct StageShapes {
  const Plan& plan;
  const Stage& stage;             // of the plan
  std::span<const Shape> inputs;  // of the plan; a stage that reads more has their shapes inferred
};

// InvalidArgument when the shapes do not fit the model (an operator says why, with its node).
StatusOr<std::shared_ptr<const ShapePlan>> BuildShapePlan(const StageShapes& shapes, Isa isa,
                                                          const Parallel& parallel);

// With the numbers of these shapes.
PlanReport Report(const Plan& plan, const ShapePlan& shape_plan);

}  // namespace tandem::plan
