#include <cstring>

#include "engine/base/check.h"
#include "engine/runtime/tensor_env.h"

namespace tandem::runtime {

using plan::Storage;
using plan::ValueIndex;

RunValues::RunValues(const plan::Plan& plan, const plan::ShapePlan& shape_plan,
                     std::span<std::byte> arena, MemoryBudget& budget)
    : plan_(plan),
      shape_plan_(shape_plan),
      arena_(arena),
      budget_(budget),
      views_(plan.values.size()),
      outputs_(shape_plan.stage->outputs.size()),
      dynamic_(plan.values.size()) {
  for (size_t v = 0; v < views_.size(); ++v) {
    const plan::ValuePlace& place = shape_plan.values[v];
    const auto value = static_cast<ValueIndex>(v);
    switch (place.storage) {
      case Storage::kConstant:
        SetMemory(value, plan.values[v].constant->view().raw());
        break;
      case Storage::kKnown:
        SetMemory(value, shape_plan.known[v].view().raw());
        break;
      case Storage::kArena:
        SetMemory(value, arena.data() + place.offset);
        break;
      default:
        break;  // bound, resolved or allocated later
    }
  }
}

void RunValues::SetMemory(ValueIndex value, const void* data) {
  const auto v = static_cast<size_t>(value);
  views_[v] = MutableTensorView(plan_.values[v].dtype, shape_plan_.values[v].shape,
                                const_cast<void*>(data), plan_.values[v].layout);
}

void RunValues::BindInput(size_t i, const TensorView& view) {
  SetMemory(shape_plan_.stage->inputs[i], view.raw());
}

void RunValues::BindOutput(size_t i, const MutableTensorView& view) {
  outputs_[i] = view;
  for (size_t v = 0; v < views_.size(); ++v) {
    const plan::ValuePlace& place = shape_plan_.values[v];
    if (place.storage == Storage::kOutput && place.output == static_cast<int>(i)) {
      SetMemory(static_cast<ValueIndex>(v), view.raw());
    }
  }
}

// Views follow the memory of their root, which is bound by now.
void RunValues::ResolveViews() {
  for (size_t v = 0; v < views_.size(); ++v) {
    const plan::ValuePlace& place = shape_plan_.values[v];
    if (place.storage == Storage::kShared || place.storage == Storage::kView) {
      SetMemory(static_cast<ValueIndex>(v), MemoryOf(static_cast<ValueIndex>(v)));
    }
  }
  resolved_ = true;
}

const void* RunValues::MemoryOf(ValueIndex value) const {
  while (true) {
    const plan::ValuePlace& place = shape_plan_.values[static_cast<size_t>(value)];
    if (place.storage == Storage::kView) {
      value = plan_.values[static_cast<size_t>(value)].view_of;
    } else if (place.storage == Storage::kShared) {
      value = place.in_place_of;
    } else {
      return At(value).raw();
    }
  }
}

StatusOr<MutableTensorView> RunValues::Allocate(ValueIndex value, const Shape& shape) {
  const auto v = static_cast<size_t>(value);
  CHECK(shape_plan_.values[v].storage == Storage::kDynamic, "'{}' has its memory already",
        plan_.values[v].name);
  const Status taken = budget_.Take(DTypeBytes(plan_.values[v].dtype, shape.elements()));
  if (!taken.ok()) {
    return Annotate(taken, fmt::format("'{}' of shape {}", plan_.values[v].name, ToString(shape)));
  }
  ASSIGN_OR_RETURN(dynamic_[v], Tensor::Allocate(plan_.values[v].dtype, shape));
  views_[v] = MutableTensorView(plan_.values[v].dtype, shape,
                                dynamic_[v].mutable_view().mutable_raw(), plan_.values[v].layout);
  return views_[v];
}

void RunValues::ShareDynamic(ValueIndex value, ValueIndex source, const Shape& shape) {
  const auto v = static_cast<size_t>(value);
  const TensorView& from = At(source);
  // Memory that the run does not own is copied by CopyOutputs when it becomes an output.
  dynamic_[v] = Tensor::Share(dynamic_[static_cast<size_t>(source)].owner(), plan_.values[v].dtype,
                              shape, from.raw());
  views_[v] = MutableTensorView(plan_.values[v].dtype, shape, const_cast<void*>(from.raw()),
                                plan_.values[v].layout);
}

void RunValues::TakeDynamic(ValueIndex value, const Tensor& tensor) {
  const auto v = static_cast<size_t>(value);
  CHECK(shape_plan_.values[v].storage == Storage::kDynamic && tensor.owner() != nullptr,
        "'{}' cannot take a tensor over", plan_.values[v].name);
  dynamic_[v] = tensor;
  views_[v] = MutableTensorView(tensor.dtype(), tensor.shape(), tensor.mutable_view().mutable_raw(),
                                plan_.values[v].layout);
}

Status RunValues::CopyOutputs() {
  for (const int output : shape_plan_.copied_outputs) {
    const auto i = static_cast<size_t>(output);
    const TensorView& from = At(shape_plan_.stage->outputs[i]);
    const MutableTensorView& to = outputs_[i];
    if (to.raw() == from.raw()) continue;  // what it is a view of was bound to the same memory
    if (from.dtype() == DType::kString) {
      std::ranges::copy(from.span<std::string>(), to.mutable_data<std::string>());
    } else if (from.byte_size() > 0) {
      std::memcpy(to.mutable_raw(), from.raw(), from.byte_size());
    }
  }
  for (const ValueIndex output : shape_plan_.stage->outputs) {
    const auto v = static_cast<size_t>(output);
    if (shape_plan_.values[v].storage != Storage::kDynamic) continue;
    if (dynamic_[v].owner() != nullptr) continue;
    RETURN_IF_ERROR(budget_.Take(At(output).byte_size()));
    ASSIGN_OR_RETURN(dynamic_[v], Tensor::Copy(At(output)));
  }
  return absl::OkStatus();
}

}  // namespace tandem::runtime
