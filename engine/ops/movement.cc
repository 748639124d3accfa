#include "engine/ops/movement.h"

#include "engine/kernels/elementwise/cast.h"
#include "engine/ops/extents.h"

namespace tandem::ops {
namespace {

class MoveStep final : public Step {
 public:
  MoveStep(const graph::Node& node, std::string kernel, MoveBody body)
      : kernel_(std::move(kernel)), body_(std::move(body)) {
    node_.op_type = node.op_type;
    node_.opset = node.opset;
    node_.inputs = node.inputs;
    node_.outputs = node.outputs;
    node_.op = node.op;
  }

  std::string kernel() const override { return kernel_; }

  Status Run(StepContext& context) const override {
    std::vector<MutableTensorView> outputs;
    bool complete = true;
    for (size_t port = 0; port < node_.outputs.size(); ++port) {
      const bool wanted = node_.outputs[port] != graph::kNoValue;
      outputs.push_back(wanted ? context.output(static_cast<int>(port)) : MutableTensorView());
      complete = complete && (!wanted || outputs.back().dtype() != DType::kUndefined);
    }
    if (!complete) RETURN_IF_ERROR(AllocateMissing(context, outputs));
    return body_(context, outputs);
  }

 private:
  Status AllocateMissing(StepContext& context, std::vector<MutableTensorView>& outputs) const {
    std::vector<ValueFacts> facts(node_.inputs.size());
    std::vector<const ValueFacts*> inputs(facts.size(), nullptr);
    for (size_t port = 0; port < facts.size(); ++port) {
      if (node_.inputs[port] == graph::kNoValue) continue;
      const TensorView& view = context.input(static_cast<int>(port));
      facts[port] = FactsOf(Tensor::Share(nullptr, view.dtype(), view.shape(), view.raw()));
      inputs[port] = &facts[port];
    }
    InferContext infer(node_, std::move(inputs));
    RETURN_IF_ERROR(OpOf(node_).Infer(infer));
    for (size_t port = 0; port < outputs.size(); ++port) {
      if (node_.outputs[port] == graph::kNoValue) continue;
      if (outputs[port].dtype() != DType::kUndefined) continue;
      const std::optional<Shape> shape = infer.results()[port].shape();
      CHECK(shape.has_value(), "shape of output {} of {} is unknown", port, node_.op_type);
      ASSIGN_OR_RETURN(outputs[port], context.AllocateOutput(static_cast<int>(port), *shape));
    }
    return absl::OkStatus();
  }

  graph::Node node_;  // without attributes: its operator has read them
  std::string kernel_;
  MoveBody body_;
};

class DataStep final : public Step {
 public:
  DataStep(std::string kernel, DataBody body)
      : kernel_(std::move(kernel)), body_(std::move(body)) {}
  std::string kernel() const override { return kernel_; }
  Status Run(StepContext& context) const override { return body_(context); }

 private:
  std::string kernel_;
  DataBody body_;
};

void CopyStrings(const Region& region, const std::string* in, std::string* out) {
  const kernels::StridedAxis row =
      region.axes.empty() ? kernels::StridedAxis() : region.axes.back();
  kernels::ForEachRun(region.axes, [&](int64_t from, int64_t to) {
    for (int64_t i = 0; i < row.extent; ++i) {
      out[region.out_offset + to + i * row.out_stride] =
          in[region.in_offset + from + i * row.in_stride];
    }
  });
}

void Convert(const TensorView& view, DType to, void* out) {
  const kernels::RowFunction row = kernels::FindCast(view.dtype(), to);
  CHECK(row != nullptr, "no conversion from {} to {}", DTypeName(view.dtype()), DTypeName(to));
  const void* operand = view.raw();
  const int64_t step = 1;
  row({&operand, &step, 1, out, view.elements()}, {});
}

}  // namespace

Status CheckMovable(DType dtype) {
  if (dtype == DType::kString || DTypeBits(dtype) >= 8) return absl::OkStatus();
  return Unimplemented("elements of {} are packed and cannot be moved one by one",
                       DTypeName(dtype));
}

void CopyRegion(const Region& region, const TensorView& in, const MutableTensorView& out,
                const Parallel& parallel) {
  if (in.dtype() == DType::kString) {
    CopyStrings(region, in.data<std::string>(), out.mutable_data<std::string>());
    return;
  }
  const auto size = static_cast<int64_t>(DTypeBits(in.dtype()) / 8);
  kernels::StridedCopy(region.axes, static_cast<int>(size),
                       static_cast<const std::byte*>(in.raw()) + region.in_offset * size,
                       static_cast<std::byte*>(out.mutable_raw()) + region.out_offset * size,
                       parallel);
}

StatusOr<AxisView> AlongAxis(const TensorView& view, std::optional<int64_t> axis) {
  if (!axis) return AxisView{TensorView(view.dtype(), Shape{view.elements()}, view.raw()), 0};
  ASSIGN_OR_RETURN(const int along, ResolveAxis(*axis, view.shape().rank(), "attribute 'axis'"));
  return AxisView{view, along};
}

void CopyEntries(std::span<const int64_t> picked, int axis, const TensorView& in,
                 const MutableTensorView& out) {
  const Shape& shape = in.shape();
  const int64_t outer = shape.Product(0, axis);
  const int64_t inner = shape.Product(axis + 1, shape.rank());
  WithElement(in.dtype(), [&](auto element) {
    using T = decltype(element);
    const T* from = static_cast<const T*>(in.raw());
    T* to = static_cast<T*>(out.mutable_raw());
    for (int64_t o = 0; o < outer; ++o) {
      for (const int64_t entry : picked) {
        to = std::copy_n(from + (o * shape[axis] + entry) * inner, inner, to);
      }
    }
  });
}

void Fill(const TensorView& value, const MutableTensorView& out, const Parallel& parallel) {
  CopyRegion({.axes = {{out.elements(), 0, 1}}}, value, out, parallel);
}

kernels::StridedAxes MakeAxes(std::span<const int64_t> extents, std::span<const int64_t> in_strides,
                              std::span<const int64_t> out_strides) {
  kernels::StridedAxes axes;
  for (size_t k = 0; k < extents.size(); ++k) {
    axes.push_back({extents[k], in_strides[k], out_strides[k]});
  }
  return axes;
}

std::vector<int64_t> ReadIntegers(const TensorView& view) {
  std::vector<int64_t> integers(static_cast<size_t>(view.elements()));
  Convert(view, DType::kInt64, integers.data());
  return integers;
}

int64_t ReadInteger(const TensorView& view) {
  CHECK(view.elements() == 1, "{} elements where one is read", view.elements());
  int64_t value = 0;
  Convert(view, DType::kInt64, &value);
  return value;
}

double ReadNumber(const TensorView& view) {
  CHECK(view.elements() == 1, "{} elements where one is read", view.elements());
  double value = 0;
  Convert(view, DType::kDouble, &value);
  return value;
}

StatusOr<Tensor> Converted(const TensorView& view, DType to) {
  ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(to, view.shape()));
  Convert(view, to, tensor.mutable_view().mutable_raw());
  return tensor;
}

int64_t OffsetOf(int64_t index, std::span<const int64_t> extents,
                 std::span<const int64_t> strides) {
  int64_t offset = 0;
  for (size_t k = extents.size(); k-- > 0;) {
    offset += index % extents[k] * strides[k];
    index /= extents[k];
  }
  return offset;
}

StatusOr<int64_t> CheckIndex(int64_t index, int64_t extent, std::string_view what) {
  if (index >= -extent && index < extent) return index < 0 ? index + extent : index;
  if (extent == 0) return InvalidArgument("{} is {} where the axis has no elements", what, index);
  return InvalidArgument("{} is {} where {} to {} are expected for an axis of extent {}", what,
                         index, -extent, extent - 1, extent);
}

StatusOr<std::vector<int64_t>> ReadIndices(const TensorView& view, int64_t extent,
                                           std::string_view what) {
  std::vector<int64_t> indices = ReadIntegers(view);
  for (size_t i = 0; i < indices.size(); ++i) {
    StatusOr<int64_t> index = CheckIndex(indices[i], extent, what);
    if (!index.ok()) return Annotate(index.status(), fmt::format("element {}", i));
    indices[i] = *index;
  }
  return indices;
}

StatusOr<std::unique_ptr<Step>> MakeMoveStep(const BindContext& context, std::string kernel,
                                             MoveBody body) {
  RETURN_IF_ERROR(CheckMovable(context.input(0).dtype));
  return std::make_unique<MoveStep>(context.node(), std::move(kernel), std::move(body));
}

std::unique_ptr<Step> MakeDataStep(std::string kernel, DataBody body) {
  return std::make_unique<DataStep>(std::move(kernel), std::move(body));
}

Cost CostOfMove(const StepShapes& shapes, DType dtype) {
  double elements = 0;
  for (const Shape& shape : shapes.inputs) elements += static_cast<double>(shape.elements());
  for (const Shape& shape : shapes.outputs) elements += static_cast<double>(shape.elements());
  return {.bytes = elements * static_cast<double>(DTypeBytes(dtype, 1))};
}

}  // namespace tandem::ops
