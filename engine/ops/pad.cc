// Pad (ai.onnx, opset 2; pads as an input since 11, axes since 18, wrap since 19): adds or, with
// negative pads, removes elements at the ends of axes.
#include <algorithm>

#include "engine/ops/extents.h"
#include "engine/ops/movement.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

enum Port { kPads = 1, kValue = 2, kAxes = 3 };
enum class Mode : uint8_t { kConstant, kReflect, kEdge, kWrap };

struct AxisPads {
  int64_t begin = 0;
  int64_t end = 0;
};

// The input place of output place `place` (already shifted by the pad) outside [0, extent).
int64_t Mirror(Mode mode, int64_t place, int64_t extent) {
  if (place >= 0 && place < extent) return place;
  if (mode == Mode::kEdge) return std::clamp<int64_t>(place, 0, extent - 1);
  const int64_t period = mode == Mode::kWrap ? extent : std::max<int64_t>(1, 2 * (extent - 1));
  const int64_t rest = (place % period + period) % period;
  return rest < extent ? rest : period - rest;
}

class Pad final : public Operator {
 public:
  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    auto op = std::make_shared<Pad>();
    op->mode_ = ReadMode(reader);
    if (reader.opset() < 11) {
      op->pads_ = reader.Ints("pads");
      op->value_ = reader.Float("value", 0);
      if (!reader.has("pads")) reader.Fail(InvalidArgument("attribute 'pads' is missing"));
    } else if (!reader.has_input(kPads)) {
      reader.Fail(InvalidArgument("input 1 (pads) is missing"));
    }
    const int most = reader.opset() < 11 ? 1 : (reader.opset() < 18 ? 3 : 4);
    if (reader.inputs() > most) {
      reader.Fail(InvalidArgument("it has {} inputs where opset {} has at most {}", reader.inputs(),
                                  reader.opset(), most));
    }
    return op;
  }

  Status Infer(InferContext& context) const override {
    const ValueFacts& x = context.input(0);
    if (context.has_input(kValue) && context.input(kValue).dtype != x.dtype) {
      return InvalidArgument("constant_value is {} where input 0 is {}",
                             DTypeName(context.input(kValue).dtype), DTypeName(x.dtype));
    }
    if (!x.dims) {
      context.SetOutput(0, x.dtype, std::nullopt);
      return absl::OkStatus();
    }
    const auto pads = pads_ ? pads_ : context.Integers(kPads);
    const auto axes = context.Integers(kAxes);
    if (!pads || (context.has_input(kAxes) && !axes)) {
      context.SetOutput(0, x.dtype, UnknownDims(x.rank()));
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const std::vector<AxisPads> by_axis, ByAxis(x.rank(), *pads, axes));
    graph::DimVector dims = *x.dims;
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      ASSIGN_OR_RETURN(dims[axis], Extent(dims[axis], by_axis[axis]));
    }
    context.SetOutput(0, x.dtype, std::move(dims));
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    const DType dtype = context.input(0).dtype;
    if (pads_ && mode_ == Mode::kConstant && !IsFloating(dtype)) {
      return Unimplemented("opset {} of Pad takes floating types, not {}", context.node().opset,
                           DTypeName(dtype));
    }
    const Pad self = *this;
    return MakeMoveStep(context, "move.pad",
                        [self](StepContext& run, std::span<const MutableTensorView> outputs) {
                          return self.Run(run, outputs[0]);
                        });
  }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    return CostOfMove(shapes, dtype);
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    const ValueFacts& x = *query.inputs[0];
    if (!query.axes[0] || !x.dims) return BatchAnswer::Decline("the batch is not input 0's");
    const auto integers = [&query](size_t port) -> std::optional<std::vector<int64_t>> {
      if (port >= query.inputs.size() || query.inputs[port] == nullptr) return std::nullopt;
      return IntegersOf(*query.inputs[port]);
    };
    const auto pads = pads_ ? pads_ : integers(kPads);
    const bool has_axes = query.inputs.size() > kAxes && query.inputs[kAxes] != nullptr;
    const auto axes = integers(kAxes);
    if (!pads || (has_axes && !axes)) return BatchAnswer::Decline("its pads are not constant");
    const StatusOr<std::vector<AxisPads>> by_axis = ByAxis(x.rank(), *pads, axes);
    if (!by_axis.ok()) return BatchAnswer::Decline(std::string(Message(by_axis.status())));
    const AxisPads& batch = (*by_axis)[static_cast<size_t>(*query.axes[0])];
    if (batch.begin != 0 || batch.end != 0) return BatchAnswer::Decline("it pads the batch");
    return BatchAnswer::All(query, query.axes[0]);
  }

 private:
  static Mode ReadMode(NodeReader& reader) {
    const std::string mode = reader.String("mode", "constant");
    if (mode == "constant") return Mode::kConstant;
    if (mode == "reflect") return Mode::kReflect;
    if (mode == "edge") return Mode::kEdge;
    if (mode == "wrap" && reader.opset() >= 19) return Mode::kWrap;
    reader.Fail(
        InvalidArgument("attribute 'mode' is '{}' where constant, reflect, edge{} is "
                        "expected",
                        mode, reader.opset() >= 19 ? " or wrap" : ""));
    return Mode::kConstant;
  }

  static StatusOr<std::vector<AxisPads>> ByAxis(int rank, const std::vector<int64_t>& pads,
                                                const std::optional<std::vector<int64_t>>& axes) {
    std::vector<int64_t> all;
    for (int axis = 0; axis < rank; ++axis) all.push_back(axis);
    ASSIGN_OR_RETURN(const std::vector<int> resolved,
                     ResolveAxes(axes ? *axes : all, rank, "axes"));
    if (pads.size() != 2 * resolved.size()) {
      return InvalidArgument("pads has {} elements where {} are expected", pads.size(),
                             2 * resolved.size());
    }
    std::vector<AxisPads> by_axis(static_cast<size_t>(rank));
    for (size_t i = 0; i < resolved.size(); ++i) {
      by_axis[static_cast<size_t>(resolved[i])] = {pads[i], pads[i + resolved.size()]};
    }
    return by_axis;
  }

  StatusOr<graph::Dim> Extent(const graph::Dim& in, const AxisPads& pads) const {
    const std::optional<int64_t> sum = CheckedAdd(pads.begin, pads.end);
    if (!sum) {
      return InvalidArgument("pads {} and {} pass the size that can be counted", pads.begin,
                             pads.end);
    }
    if (!in.is_number()) return in + graph::Dim(*sum);
    const std::optional<int64_t> out = CheckedAdd(in.number(), *sum);
    if (!out || *out < 0) {
      return InvalidArgument("an axis of extent {} cannot have pads {} and {}", in.number(),
                             pads.begin, pads.end);
    }
    if (mode_ != Mode::kConstant && in.number() == 0 && *out > 0) {
      return InvalidArgument("an axis without elements can only be padded with a constant");
    }
    return graph::Dim(*out);
  }

  Status Run(StepContext& run, const MutableTensorView& out) const {
    const TensorView& x = run.input(0);
    std::optional<std::vector<int64_t>> axes;
    if (run.has_input(kAxes)) axes = ReadIntegers(run.input(kAxes));
    ASSIGN_OR_RETURN(
        const std::vector<AxisPads> pads,
        ByAxis(x.shape().rank(), pads_ ? *pads_ : ReadIntegers(run.input(kPads)), axes));
    if (out.elements() == 0) return absl::OkStatus();
    if (mode_ != Mode::kConstant) {
      RunMirrored(run, pads, out);
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(FillWithValue(run, out));
    const Dims in_strides = x.shape().Strides();
    const Dims out_strides = out.shape().Strides();
    Region region;
    for (size_t k = 0; k < pads.size(); ++k) {
      const int64_t extent = x.shape()[static_cast<int>(k)];
      const int64_t first = std::max<int64_t>(0, -pads[k].begin);
      const int64_t last = extent - std::max<int64_t>(0, -pads[k].end);
      if (last <= first) return absl::OkStatus();
      region.in_offset += first * in_strides[k];
      region.out_offset += std::max<int64_t>(0, pads[k].begin) * out_strides[k];
      region.axes.push_back({last - first, in_strides[k], out_strides[k]});
    }
    CopyRegion(region, x, out, run.parallel());
    return absl::OkStatus();
  }

  Status FillWithValue(StepContext& run, const MutableTensorView& out) const {
    if (run.has_input(kValue)) {
      const TensorView& value = run.input(kValue);
      if (value.elements() != 1) {
        return InvalidArgument("constant_value has shape {} where one element is expected",
                               ToString(value.shape()));
      }
      Fill(value, out, run.parallel());
      return absl::OkStatus();
    }
    const DType dtype = out.dtype();
    StatusOr<Tensor> value = Tensor::Allocate(dtype, Shape());
    RETURN_IF_ERROR(value.status());
    if (dtype == DType::kFloat) {
      *value->mutable_data<float>() = value_;
    } else if (dtype == DType::kDouble) {
      *value->mutable_data<double>() = value_;
    } else if (dtype == DType::kFloat16) {
      *value->mutable_data<Float16>() = ToFloat16(value_);
    } else if (dtype == DType::kBfloat16) {
      *value->mutable_data<Bfloat16>() = ToBfloat16(value_);
    } else if (dtype != DType::kString) {
      std::ranges::fill(value->mutable_view().mutable_bytes(), std::byte{0});
    }
    Fill(value->view(), out, run.parallel());
    return absl::OkStatus();
  }

  void RunMirrored(StepContext& run, const std::vector<AxisPads>& pads,
                   const MutableTensorView& out) const {
    const TensorView& x = run.input(0);
    const Dims in_strides = x.shape().Strides();
    const Shape& shape = out.shape();
    const int rank = shape.rank();
    // Per axis: the offset of the input element that each output place shows.
    std::vector<std::vector<int64_t>> offsets(static_cast<size_t>(rank));
    for (int axis = 0; axis < rank; ++axis) {
      const auto k = static_cast<size_t>(axis);
      for (int64_t o = 0; o < shape[axis]; ++o) {
        offsets[k].push_back(Mirror(mode_, o - pads[k].begin, x.shape()[axis]) * in_strides[k]);
      }
    }
    const std::vector<int64_t> single = {0};
    const std::vector<int64_t>& row = rank == 0 ? single : offsets.back();
    const auto length = static_cast<int64_t>(row.size());
    const int64_t rows = shape.elements() / length;
    WithElement(x.dtype(), [&](auto element) {
      using T = decltype(element);
      const T* in = static_cast<const T*>(x.raw());
      T* to = static_cast<T*>(out.mutable_raw());
      run.parallel().For(rows, GrainOf(kGrainElements, length), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          int64_t rest = r;
          int64_t from = 0;
          for (int axis = rank - 2; axis >= 0; --axis) {
            const auto k = static_cast<size_t>(axis);
            from += offsets[k][static_cast<size_t>(rest % shape[axis])];
            rest /= shape[axis];
          }
          for (int64_t j = 0; j < length; ++j) {
            to[r * length + j] = in[from + row[static_cast<size_t>(j)]];
          }
        }
      });
    });
  }

  Mode mode_ = Mode::kConstant;
  std::optional<std::vector<int64_t>> pads_;  // opset 2
  float value_ = 0;
};

}  // namespace

void RegisterPad(OpRegistry& registry) {
  registry.Add({.op_type = "Pad",
                .versions = {2, 11, 13, 18, 19, 21, 23, 24},
                .max_inputs = 4,
                .parse = Pad::Parse,
                .doc = "Adds elements at the ends of axes, or removes them."});
}

}  // namespace tandem::ops
