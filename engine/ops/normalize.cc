#include "engine/ops/normalize.h"

#include <algorithm>

#include "engine/kernels/elementwise/cast.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/extents.h"

namespace tandem::ops {
namespace {

// Converts `n` floating elements; both sides are dense.
void Convert(DType from, const void* source, DType to, void* target, int64_t n) {
  const int64_t step = 1;
  kernels::FindCast(from, to)({&source, &step, 1, target, n}, {});
}

class NormStep final : public Step {
 public:
  NormStep(std::string kernel, NormRequest request, const BindContext& context)
      : kernel_(std::move(kernel)),
        request_(std::move(request)),
        inputs_(static_cast<int>(context.node().inputs.size())) {
    const DType in = context.input(0).dtype;
    // A scale has the type of the output.
    const DType out = context.has_input(1) ? context.input(1).dtype : in;
    compute_ = kernels::NormComputeType(in, out);
    function_ = kernels::FindNorm(in, out, context.isa());
  }

  std::string kernel() const override { return kernel_; }

  // Parameters in the type that is computed with, and statistics before they are written in the
  // type of their outputs.
  size_t ScratchBytes(const StepShapes& shapes) const override {
    size_t bytes = 0;
    for (size_t port = 1; port < shapes.inputs.size(); ++port) {
      bytes += PartBytes(shapes.inputs[port]);
    }
    for (const int port : {request_.mean_port, request_.inverse_port}) {
      if (port < 0 || static_cast<size_t>(port) >= shapes.outputs.size()) continue;
      bytes += PartBytes(shapes.outputs[static_cast<size_t>(port)]);
    }
    return bytes;
  }

  Status Run(StepContext& context) const override {
    std::byte* scratch = context.scratch().data();
    const auto take = [this, &scratch](const Shape& shape) {
      std::byte* part = scratch;
      scratch += PartBytes(shape);
      return part;
    };
    const auto parameter = [&](int port) -> const void* {
      if (port >= inputs_ || !context.has_input(port)) return nullptr;
      const TensorView& view = context.input(port);
      if (view.dtype() == compute_) return view.raw();
      std::byte* part = take(view.shape());
      Convert(view.dtype(), view.raw(), compute_, part, view.elements());
      return part;
    };
    const auto statistics = [&](int port) -> void* {
      const MutableTensorView* view = OutputOf(context, port);
      if (view == nullptr) return nullptr;
      return view->dtype() == compute_ ? view->mutable_raw() : take(view->shape());
    };
    kernels::NormCall call{request_.kind, request_.epsilon, {}, {}};
    call.data.x = context.input(0).raw();
    call.data.y = context.output(0).mutable_raw();
    call.data.scale = parameter(1);
    call.data.bias = parameter(2);
    call.data.mean = statistics(request_.mean_port);
    call.data.inverse = statistics(request_.inverse_port);
    call.plan = kernels::MakeNormPlan(request_.axes(context.input(0), InputShapes(context)));
    kernels::RunNorm(function_, call, context.parallel());
    WriteStatistics(context, request_.mean_port, call.data.mean);
    WriteStatistics(context, request_.inverse_port, call.data.inverse);
    return absl::OkStatus();
  }

 private:
  size_t PartBytes(const Shape& shape) const {
    return AlignUp(DTypeBytes(compute_, shape.elements()));
  }

  static const MutableTensorView* OutputOf(const StepContext& context, int port) {
    if (port < 0 || context.output(port).dtype() == DType::kUndefined) return nullptr;
    return &context.output(port);
  }

  std::vector<Shape> InputShapes(const StepContext& context) const {
    std::vector<Shape> shapes;
    for (int port = 0; port < inputs_; ++port) shapes.push_back(context.input(port).shape());
    return shapes;
  }

  void WriteStatistics(const StepContext& context, int port, const void* computed) const {
    const MutableTensorView* view = OutputOf(context, port);
    if (view == nullptr || view->raw() == computed) return;
    Convert(compute_, computed, view->dtype(), view->mutable_raw(), view->elements());
  }

  std::string kernel_;
  NormRequest request_;
  int inputs_;
  DType compute_;
  kernels::NormFunction function_;
};

kernels::NormAxis AxisOf(const std::vector<bool>& reduced, const Shape& shape, int axis) {
  kernels::NormAxis result{shape[axis]};
  if (reduced[static_cast<size_t>(axis)]) result.role = kernels::NormAxisRole::kReduced;
  return result;
}

}  // namespace

std::unique_ptr<Step> MakeNormStep(const BindContext& context, NormRequest request) {
  std::string kernel =
      fmt::format("norm {} {}", DTypeName(context.input(0).dtype), IsaName(context.isa()));
  return std::make_unique<NormStep>(std::move(kernel), std::move(request), context);
}

Dims BroadcastStrides(const Shape& shape, int rank) {
  Dims strides(static_cast<size_t>(rank), 0);
  const Dims own = shape.Strides();
  const int missing = rank - shape.rank();
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == 1) continue;
    strides[static_cast<size_t>(axis + missing)] = own[static_cast<size_t>(axis)];
  }
  return strides;
}

kernels::NormAxes BroadcastNormAxes(const std::vector<bool>& reduced, const TensorView& x,
                                    std::span<const Shape> inputs) {
  const int rank = x.shape().rank();
  const Dims none(static_cast<size_t>(rank), 0);
  const Dims scale = inputs.size() > 1 ? BroadcastStrides(inputs[1], rank) : none;
  const Dims bias = inputs.size() > 2 ? BroadcastStrides(inputs[2], rank) : none;
  kernels::NormAxes axes;
  for (int axis = 0; axis < rank; ++axis) {
    axes.push_back(AxisOf(reduced, x.shape(), axis));
    axes.back().scale = scale[static_cast<size_t>(axis)];
    axes.back().bias = bias[static_cast<size_t>(axis)];
  }
  return axes;
}

kernels::NormAxes PlainNormAxes(const std::vector<bool>& reduced, const TensorView& x) {
  const int rank = x.shape().rank();
  kernels::NormAxes axes;
  for (int axis = 0; axis < rank; ++axis) axes.push_back(AxisOf(reduced, x.shape(), axis));
  if (x.layout() == Layout::kChannelsLast)
    std::rotate(axes.begin() + 1, axes.begin() + 2, axes.end());
  return axes;
}

StatusOr<std::vector<bool>> AxisFlags(std::span<const int64_t> axes, int rank) {
  ASSIGN_OR_RETURN(const std::vector<int> resolved, ResolveAxes(axes, rank, "attribute 'axes'"));
  std::vector<bool> flags(static_cast<size_t>(rank), false);
  for (const int axis : resolved) flags[static_cast<size_t>(axis)] = true;
  return flags;
}

DType ReadStashType(NodeReader& reader) {
  const int64_t number = reader.Int("stash_type", static_cast<int64_t>(DType::kFloat));
  const auto narrow = static_cast<int32_t>(number);
  if (narrow == number && IsKnownDType(narrow) && IsFloating(static_cast<DType>(narrow))) {
    return static_cast<DType>(narrow);
  }
  reader.Fail(
      InvalidArgument("attribute 'stash_type' is {} where a floating type is expected", number));
  return DType::kFloat;
}

Cost NormCost(const StepShapes& shapes, DType dtype) {
  constexpr double kPerElement = 4;
  return ElementwiseCost(shapes, dtype, kPerElement);
}

std::optional<BatchAnswer> ParametersCarryBatch(const BatchQuery& query) {
  for (size_t port = 1; port < query.axes.size(); ++port) {
    if (query.axes[port]) {
      return BatchAnswer::Decline(fmt::format("input {} carries the batch", port));
    }
  }
  return std::nullopt;
}

}  // namespace tandem::ops
