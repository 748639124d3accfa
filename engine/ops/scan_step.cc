#include "engine/ops/scan_step.h"

#include <cstring>

#include "engine/ops/body.h"
#include "engine/ops/movement.h"

namespace tandem::ops {
namespace {

Shape Without(const Shape& shape, int axis) {
  Shape result;
  for (int k = 0; k < shape.rank(); ++k) {
    if (k != axis) result.Append(shape[k]);
  }
  return result;
}

Shape With(const Shape& shape, int axis, int64_t extent) {
  Shape result;
  for (int k = 0; k <= shape.rank(); ++k) {
    if (k == axis) result.Append(extent);
    if (k < shape.rank()) result.Append(shape[k]);
  }
  return result;
}

Tensor Borrow(const TensorView& view) {
  return Tensor::Share(nullptr, view.dtype(), view.shape(), view.raw());
}

TensorView PartOf(const TensorView& view, Shape shape, int64_t first) {
  const auto* data = static_cast<const std::byte*>(view.raw());
  return {view.dtype(), std::move(shape), data + DTypeBytes(view.dtype(), first)};
}

// Zeros; strings are empty already.
void Clear(const TensorView& view) {
  if (view.dtype() == DType::kString || view.elements() == 0) return;
  std::memset(const_cast<void*>(view.raw()), 0, view.byte_size());
}

// Item `index` of a tensor with a batch.
TensorView ItemOf(const TensorView& view, int64_t index) {
  Shape shape = Without(view.shape(), 0);
  const int64_t elements = shape.elements();
  return PartOf(view, std::move(shape), index * elements);
}

// The slices of a tensor along one axis.
class Slices {
 public:
  Slices(const TensorView& whole, int axis)
      : whole_(whole),
        shape_(Without(whole.shape(), axis)),
        strides_(whole.shape().Strides()),
        distance_(strides_[static_cast<size_t>(axis)]),
        dense_(whole.shape().Product(0, axis) == 1) {
    strides_.erase(strides_.begin() + axis);
  }

  // The slice where it lies in one piece, else no tensor.
  Tensor Dense(int64_t index) const {
    return dense_ ? Borrow(PartOf(whole_, shape_, index * distance_)) : Tensor();
  }

  // The slice: in place, or a copy.
  StatusOr<Tensor> Read(int64_t index, const Parallel& parallel) const {
    if (dense_) return Dense(index);
    ASSIGN_OR_RETURN(Tensor copy, Tensor::Allocate(whole_.dtype(), shape_));
    CopyRegion({.axes = MakeAxes(shape_.dims(), strides_, shape_.Strides()),
                .in_offset = index * distance_},
               whole_, copy.mutable_view(), parallel);
    return copy;
  }

  // Writes the slice unless `slice` is its memory already.
  void Write(int64_t index, const Tensor& slice, const Parallel& parallel) const {
    if (dense_ && slice.view().raw() == Dense(index).view().raw()) return;
    CopyRegion({.axes = MakeAxes(shape_.dims(), shape_.Strides(), strides_),
                .out_offset = index * distance_},
               slice.view(), Borrow(whole_).mutable_view(), parallel);
  }

 private:
  TensorView whole_;
  Shape shape_;
  Dims strides_;
  int64_t distance_;
  bool dense_;
};

// One walk along the axes.
struct Sequence {
  std::vector<TensorView> states;
  std::vector<TensorView> inputs;
  int64_t steps = 0;
  int64_t length = 0;          // of the steps, those that are run
  std::vector<Tensor> memory;  // where results may be written, by output; else no tensor
};

class ScanStep final : public Step {
 public:
  ScanStep(ScanOptions options, std::vector<ScanResult> no_step)
      : options_(std::move(options)), no_step_(std::move(no_step)) {}

  std::string kernel() const override { return "scan"; }

  Status Run(StepContext& context) const override {
    return options_.has_batch() ? RunBatch(context) : RunAll(context);
  }

 private:
  int outputs() const { return options_.states + static_cast<int>(options_.outputs.size()); }

  Status RunAll(StepContext& context) const;
  Status RunBatch(StepContext& context) const;
  StatusOr<Tensor> NoItems(const StepContext& context, int port) const;
  StatusOr<std::vector<int64_t>> Lengths(const StepContext& context, int64_t items,
                                         int64_t steps) const;
  StatusOr<int64_t> Steps(const std::vector<TensorView>& inputs) const;
  StatusOr<std::vector<Tensor>> RunSequence(StepContext& context, Sequence sequence) const;
  StatusOr<std::vector<Tensor>> RunStep(StepContext& context, const Sequence& sequence,
                                        const std::vector<Tensor>& states,
                                        const std::vector<Tensor>& results, int64_t step) const;
  StatusOr<Tensor> AllSteps(StepContext& context, const Sequence& sequence, size_t i,
                            const ScanResult& one) const;
  Status JoinItem(StepContext& context, int64_t items, int64_t item,
                  const std::vector<Tensor>& results, std::vector<Tensor>& all) const;
  // A result of an item that runs no step has no shape of its own: it is all zeros.
  bool HasNoShape(size_t i, int64_t length) const {
    return length == 0 && i >= static_cast<size_t>(options_.states);
  }

  ScanOptions options_;
  std::vector<ScanResult> no_step_;
};

StatusOr<int64_t> ScanStep::Steps(const std::vector<TensorView>& inputs) const {
  const auto steps = [&](size_t i) {
    return inputs[i].shape()[options_.inputs[i].AxisOf(inputs[i].shape().rank())];
  };
  for (size_t i = 1; i < inputs.size(); ++i) {
    if (steps(i) == steps(0)) continue;
    return InvalidArgument("scan input {} has {} steps where scan input 0 has {}", i, steps(i),
                           steps(0));
  }
  return steps(0);
}

Status ScanStep::RunAll(StepContext& context) const {
  Sequence sequence;
  for (int i = 0; i < options_.states; ++i) {
    sequence.states.push_back(context.input(options_.state_port(i)));
  }
  for (size_t i = 0; i < options_.inputs.size(); ++i) {
    sequence.inputs.push_back(context.input(options_.input_port(i)));
  }
  ASSIGN_OR_RETURN(sequence.steps, Steps(sequence.inputs));
  sequence.length = sequence.steps;
  sequence.memory = OutputMemory(context, 0, outputs());
  ASSIGN_OR_RETURN(const std::vector<Tensor> results, RunSequence(context, std::move(sequence)));
  for (int port = 0; port < outputs(); ++port) {
    RETURN_IF_ERROR(Emit(context, port, results[static_cast<size_t>(port)]));
  }
  return absl::OkStatus();
}

StatusOr<std::vector<int64_t>> ScanStep::Lengths(const StepContext& context, int64_t items,
                                                 int64_t steps) const {
  std::vector<int64_t> lengths(static_cast<size_t>(items), steps);
  if (!context.has_input(0)) return lengths;
  lengths = ReadIntegers(context.input(0));
  for (const int64_t length : lengths) {
    if (length >= 0 && length <= steps) continue;
    return InvalidArgument("sequence_lens holds {} where 0 to {}, the steps, are expected", length,
                           steps);
  }
  return lengths;
}

// An output of a batch without items.
StatusOr<Tensor> ScanStep::NoItems(const StepContext& context, int port) const {
  if (port < options_.states) {
    const TensorView& state = context.input(options_.state_port(port));
    return Tensor::Allocate(state.dtype(), state.shape());
  }
  const auto i = static_cast<size_t>(port - options_.states);
  const int axis = options_.outputs[i].AxisOf(no_step_[i].shape.rank() + 1);
  return Tensor::Allocate(no_step_[i].dtype, With(With(no_step_[i].shape, axis, 0), 0, 0));
}

Status ScanStep::RunBatch(StepContext& context) const {
  const int64_t items = context.input(options_.input_port(0)).shape()[0];
  std::vector<Tensor> all = OutputMemory(context, 0, outputs());
  std::vector<int64_t> ran;  // steps, by item
  int64_t steps = 0;
  for (int64_t item = 0; item < items; ++item) {
    Sequence sequence;
    for (int i = 0; i < options_.states; ++i) {
      sequence.states.push_back(ItemOf(context.input(options_.state_port(i)), item));
    }
    for (size_t i = 0; i < options_.inputs.size(); ++i) {
      sequence.inputs.push_back(ItemOf(context.input(options_.input_port(i)), item));
    }
    ASSIGN_OR_RETURN(sequence.steps, Steps(sequence.inputs));
    ASSIGN_OR_RETURN(const std::vector<int64_t> lengths, Lengths(context, items, sequence.steps));
    sequence.length = lengths[static_cast<size_t>(item)];
    for (const Tensor& output : all) {
      sequence.memory.push_back(output.valid() ? Borrow(ItemOf(output.view(), item)) : Tensor());
    }
    steps = sequence.steps;
    ran.push_back(sequence.length);
    ASSIGN_OR_RETURN(std::vector<Tensor> results, RunSequence(context, std::move(sequence)));
    for (size_t i = 0; i < results.size(); ++i) {
      if (HasNoShape(i, ran.back())) results[i] = Tensor();
    }
    RETURN_IF_ERROR(JoinItem(context, items, item, results, all));
  }
  for (size_t i = 0; i < all.size(); ++i) {
    if (i >= static_cast<size_t>(options_.states) && items > 0 && !all[i].valid()) {
      // No item ran a step.
      const ScanResult& one = no_step_[i - static_cast<size_t>(options_.states)];
      const int axis =
          options_.outputs[i - static_cast<size_t>(options_.states)].AxisOf(one.shape.rank() + 1);
      ASSIGN_OR_RETURN(all[i],
                       Tensor::Allocate(one.dtype, With(With(one.shape, axis, steps), 0, items)));
    }
    for (size_t item = 0; item < ran.size(); ++item) {
      if (HasNoShape(i, ran[item])) Clear(ItemOf(all[i].view(), static_cast<int64_t>(item)));
    }
  }
  for (int port = 0; port < outputs(); ++port) {
    Tensor& output = all[static_cast<size_t>(port)];
    if (!output.valid()) {
      ASSIGN_OR_RETURN(output, NoItems(context, port));
    }
    RETURN_IF_ERROR(Emit(context, port, output));
  }
  return absl::OkStatus();
}

// Puts the results of one item, those that are tensors, to their place among those of all items.
Status ScanStep::JoinItem(StepContext& context, int64_t items, int64_t item,
                          const std::vector<Tensor>& results, std::vector<Tensor>& all) const {
  for (size_t i = 0; i < all.size(); ++i) {
    if (!results[i].valid()) continue;
    if (!all[i].valid()) {
      const Shape shape = With(results[i].shape(), 0, items);
      RETURN_IF_ERROR(context.TakeBytes(DTypeBytes(results[i].dtype(), shape.elements())));
      ASSIGN_OR_RETURN(all[i], Tensor::Allocate(results[i].dtype(), shape));
      Clear(all[i].view());
    }
    const Shape expected = Without(all[i].shape(), 0);
    if (results[i].shape() != expected) {
      return InvalidArgument("output {} of item {} has shape {} where other items have {}", i, item,
                             ToString(results[i].shape()), ToString(expected));
    }
    Slices(all[i].view(), 0).Write(item, results[i], context.parallel());
  }
  return absl::OkStatus();
}

// Memory for the results of all steps, of which `one` is a single one; 0 where none is run.
StatusOr<Tensor> ScanStep::AllSteps(StepContext& context, const Sequence& sequence, size_t i,
                                    const ScanResult& one) const {
  const int axis = options_.outputs[i].AxisOf(one.shape.rank() + 1);
  const Shape shape = With(one.shape, axis, sequence.steps);
  Tensor all = sequence.memory[static_cast<size_t>(options_.result_port(i))];
  if (!all.valid() || all.shape() != shape) {
    RETURN_IF_ERROR(context.TakeBytes(DTypeBytes(one.dtype, shape.elements())));
    ASSIGN_OR_RETURN(all, Tensor::Allocate(one.dtype, shape));
  }
  if (sequence.length < sequence.steps) Clear(all.view());
  return all;
}

StatusOr<std::vector<Tensor>> ScanStep::RunStep(StepContext& context, const Sequence& sequence,
                                                const std::vector<Tensor>& states,
                                                const std::vector<Tensor>& results,
                                                int64_t step) const {
  std::vector<TensorView> formal;
  std::vector<Tensor> slices;
  for (const Tensor& state : states) formal.push_back(state.view());
  for (size_t i = 0; i < sequence.inputs.size(); ++i) {
    const TensorView& input = sequence.inputs[i];
    const ScanTrack& track = options_.inputs[i];
    ASSIGN_OR_RETURN(slices.emplace_back(),
                     Slices(input, track.AxisOf(input.shape().rank()))
                         .Read(track.Place(step, sequence.length), context.parallel()));
    formal.push_back(slices.back().view());
  }
  // The last states are written to their place at once; in between they must not be there, as an
  // output may lie in the memory of nothing the body reads.
  std::vector<Tensor> memory(states.size());
  if (step + 1 == sequence.length) {
    std::copy_n(sequence.memory.begin(), states.size(), memory.begin());
  }
  for (size_t i = 0; i < results.size(); ++i) {
    memory.emplace_back();
    if (!results[i].valid()) continue;
    const ScanTrack& track = options_.outputs[i];
    memory.back() = Slices(results[i].view(), track.AxisOf(results[i].shape().rank()))
                        .Dense(track.Place(step, sequence.steps));
  }
  return context.RunBody(0, formal, std::move(memory));
}

// Final states, then results of all steps.
StatusOr<std::vector<Tensor>> ScanStep::RunSequence(StepContext& context, Sequence sequence) const {
  std::vector<Tensor> states;
  for (const TensorView& state : sequence.states) {
    ASSIGN_OR_RETURN(states.emplace_back(), Tensor::Copy(state));
  }
  std::vector<Tensor> results(options_.outputs.size());
  for (int64_t step = 0; step < sequence.length; ++step) {
    ASSIGN_OR_RETURN(std::vector<Tensor> made, RunStep(context, sequence, states, results, step));
    for (size_t i = 0; i < states.size(); ++i) {
      if (made[i].shape() != sequence.states[i].shape()) {
        return InvalidArgument("state {} has shape {} after a step where it had {}", i,
                               ToString(made[i].shape()), ToString(sequence.states[i].shape()));
      }
      states[i] = std::move(made[i]);
    }
    for (size_t i = 0; i < results.size(); ++i) {
      const Tensor& one = made[states.size() + i];
      if (!results[i].valid()) {
        ASSIGN_OR_RETURN(results[i], AllSteps(context, sequence, i, {one.dtype(), one.shape()}));
      }
      const ScanTrack& track = options_.outputs[i];
      const int axis = track.AxisOf(one.shape().rank() + 1);
      if (With(one.shape(), axis, sequence.steps) != results[i].shape()) {
        return InvalidArgument("a step gives a result of shape {} where all have shape {}",
                               ToString(one.shape()), ToString(results[i].shape()));
      }
      Slices(results[i].view(), axis)
          .Write(track.Place(step, sequence.steps), one, context.parallel());
    }
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].valid()) continue;
    ASSIGN_OR_RETURN(results[i], AllSteps(context, sequence, i, no_step_[i]));
  }
  std::ranges::move(results, std::back_inserter(states));
  return states;
}

}  // namespace

std::unique_ptr<Step> MakeScanStep(ScanOptions options, std::vector<ScanResult> no_step) {
  return std::make_unique<ScanStep>(std::move(options), std::move(no_step));
}

}  // namespace tandem::ops
