// QuantizeLinear (ai.onnx, opset 10): y = saturate(round(x / scale) + zero
// point). DequantizeLinear (opset 10): y = (x - zero point) * scale. Scale and
// zero point are one for the tensor, a vector along `axis` (opset 13), or, with
// block_size (opset 21), of x's rank with one element for as many neighbours
// along `axis`. Integers of 2, 4, 8 and 16 bits; int32 comes in only. Floats of
// 8 and 4 bits are refused.
#include <algorithm>
#include <cmath>

#include "engine/kernels/elementwise/cast.h"
#include "engine/kernels/quant/packed.h"
#include "engine/kernels/quant/quantize.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/extents.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

constexpr int kX = 0;
constexpr int kScale = 1;
constexpr int kZeroPoint = 2;

enum class Direction : uint8_t { kQuantize, kDequantize };

struct Quantization {
  Direction direction = Direction::kQuantize;
  int64_t axis = 1;
  int64_t block_size = 0;            // 0: per tensor or per axis
  DType output = DType::kUndefined;  // the attribute output_dtype
};

// What of x shares a scale: element (o, a, i) of `outer` x `extent` x `inner`
// has the scale of a, or, in blocks, that of (o, a / block, i).
struct ScaleExtents {
  int64_t outer = 1;
  int64_t extent = 1;
  int64_t inner = 1;
  int64_t block = 1;
  bool blocks = false;
};

ScaleExtents ExtentsOf(const Quantization& quantization, const TensorView& x) {
  const Shape physical = PhysicalShape(x.shape(), x.layout());
  const int rank = physical.rank();
  auto axis =
      static_cast<int>(quantization.axis < 0 ? quantization.axis + rank : quantization.axis);
  if (x.layout() == Layout::kChannelsLast && axis > 0) axis = axis == 1 ? rank - 1 : axis - 1;
  ScaleExtents extents;
  extents.outer = physical.Product(0, axis);
  extents.extent = physical[axis];
  extents.inner = physical.Product(axis + 1, rank);
  extents.blocks = quantization.block_size > 0;
  if (extents.blocks) extents.block = quantization.block_size;
  return extents;
}

// For any steps, and for one scale and zero point; the latter may be null.
struct RowFunctions {
  kernels::RowFunction any = nullptr;
  kernels::RowFunction one_scale = nullptr;
};

class QuantizationStep final : public Step {
 public:
  QuantizationStep(std::string kernel, RowFunctions row, Quantization quantization)
      : kernel_(std::move(kernel)), row_(row), quantization_(quantization) {}

  std::string kernel() const override { return kernel_; }

  // The scales in float; packed integers, x or y and the zero points, in a byte
  // each.
  size_t ScratchBytes(const StepShapes& shapes) const override {
    const auto scales = static_cast<size_t>(shapes.inputs[kScale].elements());
    return AlignUp(scales * sizeof(float)) + AlignUp(scales) +
           static_cast<size_t>(shapes.inputs[kX].elements());
  }

  Status Run(StepContext& context) const override {
    const Memory memory = Open(context);
    RunAll(context, memory);
    const MutableTensorView& y = context.output(0);
    if (memory.y != y.mutable_raw()) {
      kernels::PackBits(y.dtype(), memory.y, y.elements(), y.mutable_raw());
    }
    return absl::OkStatus();
  }

 private:
  // Where the operands are in elements of whole bytes; zero_points may be null.
  struct Memory {
    const std::byte* x = nullptr;
    const float* scales = nullptr;
    const std::byte* zero_points = nullptr;
    std::byte* y = nullptr;
    size_t x_bytes = 0;
    size_t y_bytes = 0;
  };

  // Neighbouring elements, and the scale of the first.
  struct Stretch {
    int64_t first;
    int64_t n;
    int64_t scale;
    int64_t scale_step;
  };

  Memory Open(const StepContext& context) const;
  void RunAll(const StepContext& context, const Memory& memory) const;
  void RunRow(const Memory& memory, const Stretch& stretch) const;

  std::string kernel_;
  RowFunctions row_;
  Quantization quantization_;
};

// `view` itself, or its packed elements unpacked to `bytes`.
const std::byte* Unpacked(const TensorView& view, std::byte* bytes) {
  if (DTypeBits(view.dtype()) >= 8) return static_cast<const std::byte*>(view.raw());
  kernels::UnpackBits(view.dtype(), view.raw(), view.elements(), bytes);
  return bytes;
}

QuantizationStep::Memory QuantizationStep::Open(const StepContext& context) const {
  const TensorView& x = context.input(kX);
  const TensorView& scale = context.input(kScale);
  const MutableTensorView& y = context.output(0);
  const auto scales = static_cast<size_t>(scale.elements());
  std::byte* scratch = context.scratch().data();
  std::byte* narrow_zeros = scratch + AlignUp(scales * sizeof(float));
  std::byte* narrow = narrow_zeros + AlignUp(scales);
  Memory memory;
  memory.x = Unpacked(x, narrow);
  memory.x_bytes = std::max<size_t>(8, DTypeBits(x.dtype())) / 8;
  memory.scales = static_cast<const float*>(scale.raw());
  if (scale.dtype() != DType::kFloat) {
    const void* from = scale.raw();
    const int64_t step = 1;
    kernels::FindCast(scale.dtype(), DType::kFloat)({&from, &step, 1, scratch, scale.elements()},
                                                    {});
    memory.scales = reinterpret_cast<const float*>(scratch);
  }
  if (context.has_input(kZeroPoint)) {
    memory.zero_points = Unpacked(context.input(kZeroPoint), narrow_zeros);
  }
  memory.y_bytes = std::max<size_t>(8, DTypeBits(y.dtype())) / 8;
  memory.y = DTypeBits(y.dtype()) < 8 ? narrow : static_cast<std::byte*>(y.mutable_raw());
  return memory;
}

void QuantizationStep::RunAll(const StepContext& context, const Memory& memory) const {
  const TensorView& x = context.input(kX);
  if (context.input(kScale).elements() == 1) {
    context.parallel().For(x.elements(), kGrainSlowElements, [&](int64_t begin, int64_t end) {
      RunRow(memory, {begin, end - begin, 0, 0});
    });
    return;
  }
  const ScaleExtents extents = ExtentsOf(quantization_, x);
  if (extents.inner == 1 && !extents.blocks) {
    const int64_t grain = GrainOf(kGrainSlowElements, extents.extent);
    context.parallel().For(extents.outer, grain, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        RunRow(memory, {row * extents.extent, extents.extent, 0, 1});
      }
    });
    return;
  }
  const int64_t rows = extents.outer * extents.extent;
  const int64_t grain = GrainOf(kGrainSlowElements, extents.inner);
  const int64_t per_outer = (extents.extent + extents.block - 1) / extents.block;
  context.parallel().For(rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t block = row % extents.extent / extents.block;
      const int64_t outer = extents.blocks ? row / extents.extent * per_outer : 0;
      const int64_t width = extents.blocks ? extents.inner : 1;
      RunRow(memory, {row * extents.inner, extents.inner, (outer + block) * width,
                      extents.blocks ? int64_t{1} : int64_t{0}});
    }
  });
}

void QuantizationStep::RunRow(const Memory& memory, const Stretch& stretch) const {
  static constexpr int32_t kNoZeroPoint = 0;
  const bool given = memory.zero_points != nullptr;
  const size_t zero_bytes =
      quantization_.direction == Direction::kQuantize ? memory.y_bytes : memory.x_bytes;
  const auto at = [](auto* base, int64_t index, size_t bytes) {
    return base + static_cast<size_t>(index) * bytes;
  };
  const void* operands[] = {at(memory.x, stretch.first, memory.x_bytes),
                            memory.scales + stretch.scale, &kNoZeroPoint};
  if (given) operands[2] = at(memory.zero_points, stretch.scale, zero_bytes);
  const int64_t steps[] = {1, stretch.scale_step, given ? stretch.scale_step : 0};
  const bool one = row_.one_scale != nullptr && steps[1] == 0 && steps[2] == 0;
  const kernels::RowFunction row = one ? row_.one_scale : row_.any;
  row({operands, steps, 3, at(memory.y, stretch.first, memory.y_bytes), stretch.n}, {});
}

kernels::RowFunction FindRow(Direction direction, DType x, DType y) {
  x = kernels::UnpackedType(x);
  y = kernels::UnpackedType(y);
  return direction == Direction::kQuantize ? kernels::FindQuantize(x, y)
                                           : kernels::FindDequantize(x, y);
}

class QuantizeLinear final : public Operator {
 public:
  explicit QuantizeLinear(Quantization quantization) : quantization_(quantization) {}

  template <Direction kDirection>
  static std::shared_ptr<const Operator> Parse(NodeReader& reader);

  Status Infer(InferContext& context) const override;

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    const DType x = context.input(kX).dtype;
    const DType y = OutputType(context.input(kScale).dtype, context.has_input(kZeroPoint)
                                                                ? context.input(kZeroPoint).dtype
                                                                : DType::kUndefined);
    const bool quantizes = quantization_.direction == Direction::kQuantize;
    return std::make_unique<QuantizationStep>(
        fmt::format("{} {} to {}", quantizes ? "quantize" : "dequantize", DTypeName(x),
                    DTypeName(y)),
        RowFunctions{FindRow(quantization_.direction, x, y),
                     quantizes ? kernels::FindQuantizeSimd(x, y, context.isa())
                               : kernels::FindDequantizeSimd(x, y, context.isa())},
        quantization_);
  }

  // Of bytes with float scales that are not in blocks.
  std::optional<StridedTensor> ViewOf(std::span<const graph::ConstantRef> inputs,
                                      const Shape& shape) const override;

  Traits traits() const override { return {.layout = LayoutRule::kFollow}; }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    constexpr double kPerElement = 4;
    return ElementwiseCost(shapes, dtype, kPerElement);
  }

  BatchAnswer Batch(const BatchQuery& query) const override;

 private:
  DType OutputType(DType scale, DType zero_point) const {
    if (quantization_.output != DType::kUndefined) return quantization_.output;
    if (quantization_.direction == Direction::kDequantize) return scale;
    return zero_point == DType::kUndefined ? DType::kUint8 : zero_point;
  }

  Status CheckTypes(const InferContext& context, DType output) const;
  Status CheckShapes(const InferContext& context) const;

  Quantization quantization_;
};

template <Direction kDirection>
std::shared_ptr<const Operator> QuantizeLinear::Parse(NodeReader& reader) {
  Quantization quantization;
  quantization.direction = kDirection;
  if (reader.opset() >= 13) quantization.axis = reader.Int("axis", 1);
  constexpr bool kQuantizes = kDirection == Direction::kQuantize;
  // Of floats of 8 bits, which are refused.
  if (kQuantizes && reader.opset() >= 19) reader.Ignore("saturate");
  // Division is in float32 or finer.
  if (kQuantizes && reader.opset() >= 23) reader.Ignore("precision");
  if (reader.opset() >= 21) {
    quantization.block_size = reader.Int("block_size", 0);
    if (quantization.block_size < 0) {
      reader.Fail(InvalidArgument("attribute 'block_size' is {} where at least 0 is expected",
                                  quantization.block_size));
      quantization.block_size = 0;
    }
  }
  if (reader.opset() >= (kQuantizes ? 21 : 23)) {
    const int64_t number = reader.Int("output_dtype", 0);
    if (number != 0 &&
        !(number > 0 && number < 256 && IsKnownDType(static_cast<int32_t>(number)))) {
      reader.Fail(InvalidArgument("attribute 'output_dtype' is {}, which is no type", number));
    } else {
      quantization.output = static_cast<DType>(number);
    }
  }
  return std::make_shared<const QuantizeLinear>(quantization);
}

Status QuantizeLinear::CheckTypes(const InferContext& context, DType output) const {
  const DType x = context.input(kX).dtype;
  const DType scale = context.input(kScale).dtype;
  const bool quantizes = quantization_.direction == Direction::kQuantize;
  if (FindRow(quantization_.direction, x, output) == nullptr) {
    return Unimplemented("{} of {} to {} is not supported", context.node().op_type, DTypeName(x),
                         DTypeName(output));
  }
  if (scale != DType::kFloat && scale != DType::kFloat16 && scale != DType::kBfloat16) {
    return InvalidArgument(
        "the scale (input 1) is {} where float, float16 or "
        "bfloat16 is expected",
        DTypeName(scale));
  }
  if (!context.has_input(kZeroPoint)) return absl::OkStatus();
  const DType zero_point = context.input(kZeroPoint).dtype;
  const DType expected = quantizes ? output : x;
  if (zero_point == expected) return absl::OkStatus();
  return InvalidArgument("the zero point (input 2) is {} where {} is expected",
                         DTypeName(zero_point), DTypeName(expected));
}

Status QuantizeLinear::CheckShapes(const InferContext& context) const {
  const graph::DimVector* x = context.dims(kX);
  const graph::DimVector* scale = context.dims(kScale);
  if (const graph::DimVector* zero = context.dims(kZeroPoint);
      zero != nullptr && scale != nullptr) {
    bool same = zero->size() == scale->size();
    for (size_t i = 0; same && i < zero->size(); ++i) same = MayEqual((*zero)[i], (*scale)[i]);
    const bool both_one = graph::Product(*zero, 0, static_cast<int>(zero->size())).SameAs(1) &&
                          graph::Product(*scale, 0, static_cast<int>(scale->size())).SameAs(1);
    if (!same && !both_one) {
      return InvalidArgument(
          "the zero point (input 2) has shape {} where {}, "
          "that of the scale, is "
          "expected",
          graph::ToString(*zero), graph::ToString(*scale));
    }
  }
  if (x == nullptr || scale == nullptr) return absl::OkStatus();
  const int rank = static_cast<int>(x->size());
  if (graph::Product(*scale, 0, static_cast<int>(scale->size())).SameAs(1) &&
      quantization_.block_size == 0) {
    return absl::OkStatus();  // the axis has no meaning
  }
  ASSIGN_OR_RETURN(const int axis, ResolveAxis(quantization_.axis, rank, "attribute 'axis'"));
  graph::DimVector expected = *x;
  graph::Dim& along = expected[static_cast<size_t>(axis)];
  if (quantization_.block_size == 0) {
    expected = {along};
  } else {
    const int64_t block = quantization_.block_size;
    along = along.is_number() ? graph::Dim((along.number() + block - 1) / block) : graph::Dim();
  }
  bool fits = scale->size() == expected.size();
  for (size_t i = 0; fits && i < expected.size(); ++i) fits = MayEqual((*scale)[i], expected[i]);
  if (fits) return absl::OkStatus();
  return InvalidArgument("the scale (input 1) has shape {} where {} is expected for x {}",
                         graph::ToString(*scale), graph::ToString(expected), graph::ToString(*x));
}

Status QuantizeLinear::Infer(InferContext& context) const {
  const DType output = OutputType(context.input(kScale).dtype, context.has_input(kZeroPoint)
                                                                   ? context.input(kZeroPoint).dtype
                                                                   : DType::kUndefined);
  RETURN_IF_ERROR(CheckTypes(context, output));
  RETURN_IF_ERROR(CheckShapes(context));
  context.SetOutput(0, output, context.input(kX).dims);
  return absl::OkStatus();
}

// `values` of a byte type, 128 less for uint8.
std::vector<float> CenteredBytes(const TensorView& values) {
  const int offset = values.dtype() == DType::kUint8 ? 128 : 0;
  std::vector<float> centered;
  for (int64_t i = 0; i < values.elements(); ++i) {
    const int value = offset == 0 ? values.data<int8_t>()[i] : values.data<uint8_t>()[i];
    centered.push_back(static_cast<float>(value - offset));
  }
  return centered;
}

std::optional<StridedTensor> QuantizeLinear::ViewOf(std::span<const graph::ConstantRef> inputs,
                                                    const Shape& shape) const {
  const graph::Constant& x = *inputs[kX];
  const graph::Constant& scale = *inputs[kScale];
  if (quantization_.direction == Direction::kQuantize || quantization_.block_size > 0) {
    return std::nullopt;
  }
  if (OutputType(scale.dtype(), DType::kUndefined) != DType::kFloat ||
      scale.dtype() != DType::kFloat) {
    return std::nullopt;
  }
  if (x.dtype() != DType::kInt8 && x.dtype() != DType::kUint8) return std::nullopt;
  const std::span<const float> scales = scale.view().span<float>();
  const bool has_zero_points = inputs.size() > kZeroPoint && inputs[kZeroPoint] != nullptr;
  auto quantised = std::make_shared<Quantised>();
  quantised->scales.assign(scales.begin(), scales.end());
  quantised->zero_points =
      has_zero_points
          ? CenteredBytes(inputs[kZeroPoint]->view())
          : std::vector<float>(scales.size(), x.dtype() == DType::kUint8 ? -128.0f : 0.0f);
  StridedTensor view = x.strided();
  view.dtype = DType::kFloat;
  view.quantised = std::move(quantised);
  const int64_t axis = quantization_.axis;
  view.quantised_axis = static_cast<int>(axis < 0 ? axis + shape.rank() : axis);
  return view;
}

BatchAnswer QuantizeLinear::Batch(const BatchQuery& query) const {
  for (size_t port = kScale; port < query.axes.size(); ++port) {
    if (query.axes[port]) return BatchAnswer::Decline("scales or zero points carry the batch");
  }
  const ValueFacts& x = *query.inputs[kX];
  const ValueFacts& scale = *query.inputs[kScale];
  if (DTypeBits(x.dtype) < 8 || DTypeBits(query.outputs[0]->dtype) < 8) {
    return BatchAnswer::Decline("packed elements of two items may share a byte");
  }
  if (!x.dims || !scale.dims) return BatchAnswer::Decline("a rank is unknown");
  const int batch = *query.axes[kX];
  const std::optional<Shape> shape = scale.shape();
  if (shape && shape->elements() == 1) return BatchAnswer::All(query, batch);
  const int64_t axis = quantization_.axis < 0 ? quantization_.axis + x.rank() : quantization_.axis;
  if (batch == axis || quantization_.block_size > 0) {
    return BatchAnswer::Decline("the scale differs between items");
  }
  return BatchAnswer::All(query, batch);
}

}  // namespace

void RegisterQuantizeLinear(OpRegistry& registry) {
  registry.Add({.op_type = "QuantizeLinear",
                .versions = {10, 13, 19, 21, 23, 24, 25},
                .min_inputs = 2,
                .max_inputs = 3,
                .parse = QuantizeLinear::Parse<Direction::kQuantize>,
                .doc = "Numbers as integers of 2 to 16 bits, by scale and zero point."});
  registry.Add({.op_type = "DequantizeLinear",
                .versions = {10, 13, 19, 21, 23, 24, 25},
                .min_inputs = 2,
                .max_inputs = 3,
                .parse = QuantizeLinear::Parse<Direction::kDequantize>,
                .doc = "Integers as numbers, by scale and zero point."});
}

}  // namespace tandem::ops
