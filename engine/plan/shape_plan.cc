#include "engine/plan/shape_plan.h"

#include <algorithm>

#include "engine/base/check.h"
#include "engine/ops/evaluate.h"
#include "engine/plan/memory.h"

namespace tandem::plan {
namespace {

// Values of more elements are computed in every run even when shapes alone decide them. What reads
// constants alone was left by folding, and would be kept here once for every shape.
constexpr int64_t kMaxKnownElements = 65536;
constexpr int64_t kMaxKnownOfConstants = 1024;

class ShapePlanner {
 public:
  ShapePlanner(const Plan& plan, const Stage& stage, Isa isa, const Parallel& parallel)
      : plan_(plan), stage_(stage), isa_(isa), parallel_(parallel), is_input_(plan.values.size()) {
    result_->stage = &stage;
    for (const ValueIndex input : stage.inputs) is_input_[static_cast<size_t>(input)] = true;
    result_->values.resize(plan.values.size());
    result_->known.resize(plan.values.size());
    result_->tasks.resize(plan.tasks.size());
    facts_.resize(plan.values.size());
    for (size_t block = 0; block < plan.schedule.blocks.size(); ++block) {
      const std::vector<ScheduleItem>& items = plan.schedule.blocks[block].items;
      for (size_t item = 0; item < items.size(); ++item) {
        if (items[item].task >= 0) {
          places_[items[item].task] = {static_cast<int>(block), static_cast<int>(item)};
        }
      }
    }
  }

  StatusOr<std::shared_ptr<const ShapePlan>> Run(std::span<const Shape> inputs) {
    StartFacts(inputs);
    for (size_t task = 0; task < plan_.tasks.size(); ++task) {
      if (!Infers(static_cast<TaskIndex>(task))) continue;
      const Status inferred = InferTask(static_cast<TaskIndex>(task));
      if (!inferred.ok()) return Annotate(inferred, plan_.tasks[task].name);
    }
    for (size_t value = 0; value < facts_.size(); ++value) {
      AssignStorage(static_cast<ValueIndex>(value));
    }
    AssignOutputs();
    AllocateStrings();
    ShareInPlace();
    for (size_t task = 0; task < plan_.tasks.size(); ++task) {
      AssignMode(static_cast<TaskIndex>(task));
    }
    PlaceMemory();
    return std::shared_ptr<const ShapePlan>(std::move(result_));
  }

 private:
  // An item of a block.
  struct Place {
    int block = 0;
    int item = 0;
  };

  ValuePlace& At(ValueIndex value) { return result_->values[static_cast<size_t>(value)]; }
  const PlanValue& ValueAt(ValueIndex value) const {
    return plan_.values[static_cast<size_t>(value)];
  }
  ops::ValueFacts& FactsAt(ValueIndex value) { return facts_[static_cast<size_t>(value)]; }

  bool Runs(TaskIndex task) const { return stage_.runs[static_cast<size_t>(task)]; }

  // A stage that reads what another one leaves needs the shapes from the beginning on.
  bool Infers(TaskIndex task) const {
    return Runs(task) || stage_.inputs.size() > plan_.whole.inputs.size();
  }

  void StartFacts(std::span<const Shape> inputs) {
    for (size_t v = 0; v < plan_.values.size(); ++v) {
      const PlanValue& value = plan_.values[v];
      if (value.def >= 0) continue;
      if (value.constant != nullptr && value.layout == Layout::kNative) {
        facts_[v] = ops::FactsOf(*value.constant);
      } else {
        facts_[v].dtype = value.dtype;
        facts_[v].dims = value.dims;
      }
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      FactsAt(plan_.whole.inputs[i]).dims = graph::ToDims(inputs[i]);
    }
  }

  Status InferTask(TaskIndex index) {
    const Task& task = plan_.tasks[static_cast<size_t>(index)];
    std::vector<const ops::ValueFacts*> inputs;
    for (const ValueIndex input : task.inputs) {
      inputs.push_back(input == kOmitted ? nullptr : &FactsAt(input));
    }
    ops::InferContext context(task.node, inputs);
    RETURN_IF_ERROR(ops::OpOf(task.node).Infer(context));
    for (size_t port = 0; port < task.outputs.size(); ++port) {
      if (task.outputs[port] == kOmitted) continue;
      FactsAt(task.outputs[port]) = std::move(context.results()[port]);
    }
    RETURN_IF_ERROR(CheckView(task));
    return EvaluateIfKnown(task);
  }

  // A view has the elements of what it is a view of, whatever the operator believes.
  Status CheckView(const Task& task) {
    if (task.step != nullptr) return absl::OkStatus();
    const std::optional<Shape> from = FactsAt(task.inputs[0]).shape();
    const std::optional<Shape> to = FactsAt(task.outputs[0]).shape();
    if (!from || !to || from->elements() == to->elements()) return absl::OkStatus();
    return InvalidArgument("shape {} does not have the elements of shape {}", ToString(*to),
                           ToString(*from));
  }

  // Computes a task now when everything it reads is known: the arithmetic of shapes.
  Status EvaluateIfKnown(const Task& task) {
    const ops::Traits traits = ops::OpOf(task.node).traits();
    if (!traits.deterministic || task.inputs.empty() || !task.bodies.empty()) {
      return absl::OkStatus();
    }
    std::vector<Tensor> inputs;
    int64_t most = kMaxKnownOfConstants;
    for (const ValueIndex input : task.inputs) {
      if (input != kOmitted && ValueAt(input).constant == nullptr) most = kMaxKnownElements;
      if (input != kOmitted && !FactsAt(input).value) return absl::OkStatus();
      inputs.push_back(input == kOmitted ? Tensor() : *FactsAt(input).value);
    }
    for (const ValueIndex output : task.outputs) {
      if (output == kOmitted) continue;
      if (ValueAt(output).layout != Layout::kNative) return absl::OkStatus();
      const std::optional<Shape> shape = FactsAt(output).shape();
      if (!shape || shape->elements() > most) return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const std::vector<Tensor> outputs,
                     ops::Evaluate(task.node, inputs, isa_, parallel_));
    for (size_t port = 0; port < task.outputs.size(); ++port) {
      if (task.outputs[port] != kOmitted) FactsAt(task.outputs[port]) = ops::FactsOf(outputs[port]);
    }
    return absl::OkStatus();
  }

  bool LiesInDynamic(const PlanValue& value) {
    return value.view_of != kOmitted && At(value.view_of).storage == Storage::kDynamic;
  }

  void AssignStorage(ValueIndex index) {
    const PlanValue& value = ValueAt(index);
    ValuePlace& place = At(index);
    const ops::ValueFacts& facts = FactsAt(index);
    const std::optional<Shape> shape = facts.shape();
    if (shape) place.shape = *shape;
    if (value.constant != nullptr) {
      place.storage = Storage::kConstant;
    } else if (is_input_[static_cast<size_t>(index)]) {
      place.storage = Storage::kInput;
    } else if (value.def < 0 || !Runs(value.def)) {
      place.storage = Storage::kUnused;
    } else if (facts.value && value.layout == Layout::kNative) {
      place.storage = Storage::kKnown;
      result_->known[static_cast<size_t>(index)] = *facts.value;
    } else if (!shape || LiesInDynamic(value)) {
      place.storage = Storage::kDynamic;
    } else if (value.view_of != kOmitted && At(value.view_of).storage != Storage::kUnused) {
      place.storage = Storage::kView;
    } else {
      place.storage = Storage::kArena;
    }
  }

  // The value whose memory this one lies in.
  ValueIndex Root(ValueIndex index) const {
    while (true) {
      const ValuePlace& place = result_->values[static_cast<size_t>(index)];
      if (place.storage == Storage::kView) {
        index = ValueAt(index).view_of;
      } else if (place.storage == Storage::kShared) {
        index = place.in_place_of;
      } else {
        return index;
      }
    }
  }

  // A value computed for an output of the stage is written straight into the output's buffer.
  void AssignOutputs() {
    for (size_t i = 0; i < stage_.outputs.size(); ++i) {
      const ValueIndex value = stage_.outputs[i];
      if (At(value).storage == Storage::kDynamic) continue;
      ValuePlace& root = At(Root(value));
      if (root.storage == Storage::kArena) {
        root.storage = Storage::kOutput;
        root.output = static_cast<int>(i);
      } else {
        result_->copied_outputs.push_back(static_cast<int>(i));
      }
    }
  }

  // Strings own memory of their own: they are made and ended one by one, which no arena does.
  void AllocateStrings() {
    for (size_t v = 0; v < plan_.values.size(); ++v) {
      ValuePlace& place = At(static_cast<ValueIndex>(v));
      const bool string = plan_.values[v].dtype == DType::kString;
      const bool view = place.storage == Storage::kView && LiesInDynamic(plan_.values[v]);
      if (view || (string && place.storage == Storage::kArena)) place.storage = Storage::kDynamic;
    }
  }

  bool DynamicTask(const Task& task) const {
    const auto dynamic = [this](ValueIndex value) {
      return value != kOmitted &&
             result_->values[static_cast<size_t>(value)].storage == Storage::kDynamic;
    };
    return std::ranges::any_of(task.inputs, dynamic) || std::ranges::any_of(task.outputs, dynamic);
  }

  // An output may take over the memory of input 0 when nobody else ever reads that memory.
  void ShareInPlace() {
    std::vector<int> group_readers(plan_.values.size(), 0);
    for (size_t v = 0; v < plan_.values.size(); ++v) {
      if (At(static_cast<ValueIndex>(v)).storage == Storage::kDynamic) continue;
      group_readers[static_cast<size_t>(Root(static_cast<ValueIndex>(v)))] +=
          static_cast<int>(std::ranges::count_if(plan_.values[v].readers, [this](TaskIndex reader) {
            return Runs(reader) && plan_.tasks[static_cast<size_t>(reader)].step != nullptr;
          }));
    }
    for (size_t t = 0; t < plan_.tasks.size(); ++t) {
      const Task& task = plan_.tasks[t];
      if (!Runs(static_cast<TaskIndex>(t))) continue;
      if (task.step == nullptr || task.inputs.empty() || task.inputs[0] == kOmitted) continue;
      if (!ops::OpOf(task.node).traits().in_place || DynamicTask(task)) continue;
      const ValueIndex output = task.outputs[0];
      if (output == kOmitted || At(output).storage != Storage::kArena) continue;
      const ValueIndex root = Root(task.inputs[0]);
      if (At(root).storage != Storage::kArena || group_readers[static_cast<size_t>(root)] != 1) {
        continue;
      }
      if (ByteSize(task.inputs[0]) != ByteSize(output) ||
          ValueAt(task.inputs[0]).layout != ValueAt(output).layout) {
        continue;
      }
      At(output).storage = Storage::kShared;
      At(output).in_place_of = root;
      group_readers[static_cast<size_t>(root)] = group_readers[static_cast<size_t>(output)];
    }
  }

  size_t ByteSize(ValueIndex value) const {
    return DTypeBytes(ValueAt(value).dtype,
                      result_->values[static_cast<size_t>(value)].shape.elements());
  }

  void AssignMode(TaskIndex index) {
    const Task& task = plan_.tasks[static_cast<size_t>(index)];
    TaskPlace& place = result_->tasks[static_cast<size_t>(index)];
    const bool known = std::ranges::all_of(task.outputs, [this](ValueIndex value) {
      return value == kOmitted || At(value).storage == Storage::kKnown;
    });
    if (known || !Runs(index)) {
      place.mode = TaskMode::kSkip;
    } else if (DynamicTask(task)) {
      place.mode = TaskMode::kDynamic;
    } else if (task.step == nullptr) {
      place.mode = TaskMode::kSkip;
    } else {
      place.scratch_bytes = ScratchBytes(task);
    }
  }

  size_t ScratchBytes(const Task& task) const {
    const auto shapes = [this](const std::vector<ValueIndex>& values) {
      std::vector<Shape> list;
      for (const ValueIndex value : values) {
        list.push_back(value == kOmitted ? Shape()
                                         : result_->values[static_cast<size_t>(value)].shape);
      }
      return list;
    };
    const std::vector<Shape> inputs = shapes(task.inputs);
    const std::vector<Shape> outputs = shapes(task.outputs);
    return task.step->ScratchBytes({inputs, outputs, parallel_.threads()});
  }

  // Memory is placed block by block: what lives within one branch is placed in the branch's own
  // part of the arena, so branches never meet; a branch is one buffer of the block that forks.
  struct Request {
    ValueIndex value = kOmitted;  // a value's buffer
    TaskIndex scratch = -1;       // or a task's scratch
    int block = -1;               // or a whole branch
    Lifetime lifetime;
  };

  // The block in which both places lie, with the items that hold them there.
  struct Meeting {
    int block = 0;
    int first = 0;
    int second = 0;
  };
  Meeting Meet(Place a, Place b) const {
    const auto depth = [this](int block) {
      int steps = 0;
      for (; block != 0; block = plan_.schedule.blocks[static_cast<size_t>(block)].parent) ++steps;
      return steps;
    };
    const auto climb = [this](Place& place) {
      const Block& block = plan_.schedule.blocks[static_cast<size_t>(place.block)];
      place = {block.parent, block.parent_item};
    };
    int depth_a = depth(a.block);
    int depth_b = depth(b.block);
    while (a.block != b.block) {
      if (depth_a >= depth_b) {
        climb(a);
        --depth_a;
      } else {
        climb(b);
        --depth_b;
      }
    }
    return {a.block, a.item, b.item};
  }

  void PlaceMemory() {
    requests_.resize(plan_.schedule.blocks.size());
    for (size_t v = 0; v < plan_.values.size(); ++v) {
      if (At(static_cast<ValueIndex>(v)).storage == Storage::kArena) {
        RequestValue(static_cast<ValueIndex>(v));
      }
    }
    for (size_t t = 0; t < plan_.tasks.size(); ++t) {
      const TaskPlace& task = result_->tasks[t];
      if (task.scratch_bytes == 0) continue;
      const Place place = places_.at(static_cast<TaskIndex>(t));
      requests_[static_cast<size_t>(place.block)].push_back(
          {.scratch = static_cast<TaskIndex>(t),
           .lifetime = {task.scratch_bytes, place.item, place.item}});
    }
    // Children have higher numbers than their parents, so sizes rise from the back.
    std::vector<Placement> placements(plan_.schedule.blocks.size());
    for (size_t block = plan_.schedule.blocks.size(); block-- > 0;) {
      std::vector<Lifetime> lifetimes;
      for (const Request& request : requests_[block]) lifetimes.push_back(request.lifetime);
      placements[block] = PlaceBuffers(lifetimes);
      const Block& self = plan_.schedule.blocks[block];
      if (self.parent < 0) continue;
      requests_[static_cast<size_t>(self.parent)].push_back(
          {.block = static_cast<int>(block),
           .lifetime = {placements[block].bytes, self.parent_item, self.parent_item}});
    }
    result_->arena_bytes = placements[0].bytes;
    std::vector<size_t> base(plan_.schedule.blocks.size(), 0);
    for (size_t block = 0; block < requests_.size(); ++block) {
      for (size_t i = 0; i < requests_[block].size(); ++i) {
        const Request& request = requests_[block][i];
        const size_t offset = base[block] + placements[block].offsets[i];
        if (request.value != kOmitted) At(request.value).offset = offset;
        if (request.scratch >= 0) {
          result_->tasks[static_cast<size_t>(request.scratch)].scratch_offset = offset;
        }
        if (request.block >= 0) base[static_cast<size_t>(request.block)] = offset;
      }
    }
  }

  // A buffer lives from the item that defines its value to the last item that reads any value in
  // it, in the innermost block that holds them all.
  void RequestValue(ValueIndex root) {
    Place where = places_.at(ValueAt(root).def);
    int begin = where.item;
    int end = where.item;
    const auto include = [&](TaskIndex task) {
      const Meeting meeting = Meet(where, places_.at(task));
      if (meeting.block != where.block) {
        begin = end = meeting.first;
        where = {meeting.block, meeting.first};
      }
      begin = std::min(begin, meeting.second);
      end = std::max(end, meeting.second);
    };
    for (const ValueIndex member : Members(root)) {
      include(ValueAt(member).def);
      for (const TaskIndex reader : ValueAt(member).readers) {
        if (Runs(reader)) include(reader);
      }
    }
    requests_[static_cast<size_t>(where.block)].push_back(
        {.value = root, .lifetime = {ByteSize(root), begin, end}});
  }

  // All values in the memory of `root`, itself included.
  const std::vector<ValueIndex>& Members(ValueIndex root) {
    if (members_.empty()) {
      members_.resize(plan_.values.size());
      for (size_t v = 0; v < plan_.values.size(); ++v) {
        const auto value = static_cast<ValueIndex>(v);
        if (At(value).storage == Storage::kUnused || At(value).storage == Storage::kDynamic) {
          continue;
        }
        members_[static_cast<size_t>(Root(value))].push_back(value);
      }
    }
    return members_[static_cast<size_t>(root)];
  }

  const Plan& plan_;
  const Stage& stage_;
  const Isa isa_;
  const Parallel& parallel_;
  std::vector<bool> is_input_;  // by plan value
  std::shared_ptr<ShapePlan> result_ = std::make_shared<ShapePlan>();
  std::vector<ops::ValueFacts> facts_;
  absl::flat_hash_map<TaskIndex, Place> places_;
  std::vector<std::vector<Request>> requests_;  // by block
  std::vector<std::vector<ValueIndex>> members_;
};

}  // namespace

StatusOr<std::shared_ptr<const ShapePlan>> BuildShapePlan(const StageShapes& shapes, Isa isa,
                                                          const Parallel& parallel) {
  const std::vector<ValueIndex>& inputs = shapes.plan.whole.inputs;
  CHECK(shapes.inputs.size() == inputs.size(), "{} shapes for {} inputs", shapes.inputs.size(),
        inputs.size());
  return ShapePlanner(shapes.plan, shapes.stage, isa, parallel).Run(shapes.inputs);
}

}  // namespace tandem::plan
