// MatMulInteger (ai.onnx, opset 10): the product of matrices of 8-bit integers
// in int32, after their zero points have been taken off. QLinearMatMul (opset
// 10): the same product, scaled and rounded back to 8 bits. Scales and zero
// points are one for all, or, of A, one for each row ([M] or [..., M, 1]), of
// B, one for each column ([N] or [..., 1, N]).
#include <algorithm>
#include <vector>

#include "engine/kernels/elementwise/cast.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/extents.h"
#include "engine/ops/integer_product.h"
#include "engine/ops/matrix_product.h"
#include "engine/ops/registry.h"
#include "engine/ops/scratch_plan.h"

namespace tandem::ops {
namespace {

// As kLinearPorts, without a bias.
constexpr IntegerPorts kLinearMatMulPorts{0, 3, 2, 5, 1, 4, 6, 7};

// The scales or zero points of one matrix of a batch: the first, and the step
// to the next.
struct Parameters {
  int64_t first = 0;
  int64_t step = 0;
};
Parameters ParametersOf(const Shape& shape, const ProductExtents& extents, int64_t matrix) {
  if (shape.elements() == 1) return {};
  if (shape.rank() == 1) return {0, 1};
  const Shape batch(shape.dims().first(static_cast<size_t>(shape.rank() - 2)));
  const int64_t own = shape.Product(shape.rank() - 2, shape.rank());
  return {BatchIndex(batch, extents.batch, matrix) * own, 1};
}

class MatMulIntegerStep final : public Step {
 public:
  static StatusOr<std::unique_ptr<Step>> Make(const IntegerPorts& ports, BindContext& context);

  std::string kernel() const override {
    return fmt::format("{} {}{}",
                       pack_ == nullptr ? "gemm.integer packing at run time" : pack_->key,
                       IsaName(isa_), ports_.rounds_back() ? " to 8 bits" : "");
  }

  size_t ScratchBytes(const StepShapes& shapes) const override {
    const auto shape = [&shapes](int port) {
      return port < 0 ? Shape() : shapes.inputs[static_cast<size_t>(port)];
    };
    const Shape& b = b_shape_ ? *b_shape_ : shapes.inputs[static_cast<size_t>(ports_.w)];
    return Layout({ResolveProduct({}, shape(ports_.x), b), shape(ports_.x_zero),
                   shape(ports_.x_scale), shape(ports_.w_zero), shape(ports_.w_scale)},
                  nullptr)
        .bytes;
  }

  Status Run(StepContext& context) const override;

 private:
  // Extents, and the shapes of what the scratch depends on.
  struct Sizes {
    ProductExtents extents;
    Shape a_zero;
    Shape a_scale;
    Shape b_zero;
    Shape b_scale;

    // Zero points and scales of A are one for all its rows.
    bool even_rows() const { return a_zero.elements() == 1 && a_scale.elements() == 1; }
    // Those of B are the same for all of a batch.
    bool even_batch() const { return b_zero.rank() <= 2 && b_scale.rank() <= 2; }
  };
  // Parts of the scratch memory; null where nothing is packed or scaled.
  struct Parts {
    std::byte* packed = nullptr;
    std::byte* kernel = nullptr;
    float* multipliers = nullptr;
    float* a_scales = nullptr;
    float* b_scales = nullptr;
    int32_t* sums = nullptr;  // of rows that are scaled one by one
    size_t bytes = 0;
  };

  Parts Layout(const Sizes& sizes, std::byte* base) const;
  Sizes SizesOf(const StepContext& context) const;
  kernels::QuantizedOperand OperandOf(const StepContext& context, int port,
                                      const ProductExtents& extents, int64_t matrix) const;
  void Multiply(StepContext& context, const Sizes& sizes, const Parts& parts, int64_t matrix) const;
  void FillMultipliers(const StepContext& context, const Sizes& sizes, const Parts& parts,
                       int64_t matrix, int64_t row) const;
  void RoundBack(StepContext& context, const Sizes& sizes, const Parts& parts,
                 int64_t matrix) const;

  IntegerPorts ports_;
  Isa isa_ = Isa::kReference;
  DType b_dtype_ = DType::kInt8;
  std::vector<graph::EpilogueStage> epilogue_;
  PackRef pack_;                  // null: packed in each run
  std::optional<Shape> b_shape_;  // of packed weights: one matrix
};

kernels::ConvGeometry GeometryOf(const ProductExtents& extents) {
  return kernels::ProductGeometry(extents.m, extents.n, extents.k);
}

StatusOr<std::unique_ptr<Step>> MatMulIntegerStep::Make(const IntegerPorts& ports,
                                                        BindContext& context) {
  auto step = std::make_unique<MatMulIntegerStep>();
  step->ports_ = PresentPorts(ports, context);
  step->isa_ = context.isa();
  step->b_dtype_ = context.input(ports.w).dtype;
  step->epilogue_ = context.node().epilogue;
  const graph::ConstantRef weights = context.constant(ports.w);
  if (weights == nullptr || step->isa_ == Isa::kReference) return step;
  const Shape& b = weights->shape();
  const ProductExtents extents = ResolveProduct({}, {1, b[std::max(0, b.rank() - 2)]}, b);
  if (extents.b_batch.elements() != 1) return step;
  step->b_shape_ = b;
  const PackSpec spec =
      IntegerPackSpec(step->isa_, context.input(ports.x).dtype, GeometryOf(extents),
                      [n = extents.n](const TensorView& native) {
                        return kernels::MatrixWeights(native.dtype(), native.raw(), n);
                      });
  ASSIGN_OR_RETURN(step->pack_, context.MakePack(ports.w, spec));
  return step;
}

MatMulIntegerStep::Parts MatMulIntegerStep::Layout(const Sizes& sizes, std::byte* base) const {
  const ProductExtents& e = sizes.extents;
  const kernels::ConvGeometry geometry = GeometryOf(e);
  ScratchPlan plan(base);
  Parts parts;
  if (pack_ == nullptr) {
    parts.packed = plan.Take(static_cast<int64_t>(kernels::PackedIntegerBytes(isa_, geometry)), 1);
  }
  parts.kernel =
      plan.Take(static_cast<int64_t>(kernels::IntegerConvScratchBytes(isa_, geometry)), 1);
  if (ports_.rounds_back()) {
    parts.multipliers = plan.TakeFloats(e.n + kernels::kMultiplierSlack);
    parts.a_scales = plan.TakeFloats(sizes.a_scale.elements());
    parts.b_scales = plan.TakeFloats(sizes.b_scale.elements());
    if (!sizes.even_rows()) {
      parts.sums = reinterpret_cast<int32_t*>(plan.Take(e.m * e.n, sizeof(int32_t)));
    }
  }
  parts.bytes = plan.bytes();
  return parts;
}

MatMulIntegerStep::Sizes MatMulIntegerStep::SizesOf(const StepContext& context) const {
  const auto shape = [&context](int port) {
    return port < 0 ? Shape() : context.input(port).shape();
  };
  const Shape& b = b_shape_ ? *b_shape_ : context.input(ports_.w).shape();
  return {ResolveProduct({}, shape(ports_.x), b), shape(ports_.x_zero), shape(ports_.x_scale),
          shape(ports_.w_zero), shape(ports_.w_scale)};
}

kernels::QuantizedOperand MatMulIntegerStep::OperandOf(const StepContext& context, int port,
                                                       const ProductExtents& extents,
                                                       int64_t matrix) const {
  const bool left = port == ports_.x;
  const int zero_port = left ? ports_.x_zero : ports_.w_zero;
  kernels::QuantizedOperand operand{left ? context.input(port).dtype() : b_dtype_};
  if (left || pack_ == nullptr) {
    const int64_t elements = left ? extents.m * extents.k : extents.k * extents.n;
    const int64_t own = BatchIndex(left ? extents.a_batch : extents.b_batch, extents.batch, matrix);
    operand.data = static_cast<const std::byte*>(context.input(port).raw()) + own * elements;
  }
  if (zero_port < 0) return operand;
  const TensorView& zeros = context.input(zero_port);
  const Parameters parameters = ParametersOf(zeros.shape(), extents, matrix);
  operand.zero_points = static_cast<const std::byte*>(zeros.raw()) + parameters.first;
  operand.zero_point_step = parameters.step;
  return operand;
}

void AsFloats(const TensorView& view, float* floats) {
  const void* from = view.raw();
  const int64_t step = 1;
  kernels::FindCast(view.dtype(), DType::kFloat)({&from, &step, 1, floats, view.elements()}, {});
}

// Those of one row of A.
void MatMulIntegerStep::FillMultipliers(const StepContext& context, const Sizes& sizes,
                                        const Parts& parts, int64_t matrix, int64_t row) const {
  const ProductExtents& e = sizes.extents;
  const Parameters left = ParametersOf(sizes.a_scale, e, matrix);
  const Parameters right = ParametersOf(sizes.b_scale, e, matrix);
  const float a_scale = parts.a_scales[left.first + row * left.step];
  const float* b_scales = parts.b_scales + right.first;
  float y_scale = 0;
  AsFloats(context.input(ports_.y_scale), &y_scale);
  for (int64_t n = 0; n < e.n; ++n) {
    parts.multipliers[n] = a_scale * b_scales[n * right.step] / y_scale;
  }
  std::fill_n(parts.multipliers + e.n, kernels::kMultiplierSlack, 0.0f);
}

void MatMulIntegerStep::Multiply(StepContext& context, const Sizes& sizes, const Parts& parts,
                                 int64_t matrix) const {
  const ProductExtents& e = sizes.extents;
  const MutableTensorView& y = context.output(0);
  kernels::IntegerConvData data{
      OperandOf(context, ports_.x, e, matrix), OperandOf(context, ports_.w, e, matrix), {}};
  data.result.dtype = parts.sums == nullptr ? y.dtype() : DType::kInt32;
  data.result.y = parts.sums;
  if (parts.sums == nullptr) {
    const size_t bytes = DTypeBytes(y.dtype(), e.m * e.n);
    data.result.y = static_cast<std::byte*>(y.mutable_raw()) + static_cast<size_t>(matrix) * bytes;
    if (ports_.rounds_back()) {
      FillMultipliers(context, sizes, parts, matrix, 0);
      data.result.multipliers = parts.multipliers;
      data.result.zero_point = ByteAt(context.input(ports_.y_zero), 0);
      const ByteRange range = ByteRangeOf(y.dtype(), epilogue_);
      data.result.low = range.low;
      data.result.high = range.high;
    }
  }
  const kernels::ConvGeometry geometry = GeometryOf(e);
  const std::byte* packed = pack_ == nullptr ? parts.packed : pack_->buffer.data();
  if (pack_ == nullptr) {
    kernels::PackIntegerWeights(isa_, data.x.dtype, geometry,
                                kernels::MatrixWeights(b_dtype_, data.w.data, e.n), parts.packed);
  }
  kernels::IntegerConv(isa_, geometry, {packed, parts.kernel}, data, context.parallel());
}

void MatMulIntegerStep::RoundBack(StepContext& context, const Sizes& sizes, const Parts& parts,
                                  int64_t matrix) const {
  const ProductExtents& e = sizes.extents;
  const MutableTensorView& y = context.output(0);
  const ByteRange range = ByteRangeOf(y.dtype(), epilogue_);
  auto* to = static_cast<std::byte*>(y.mutable_raw()) + matrix * e.m * e.n;
  for (int64_t m = 0; m < e.m; ++m) {
    FillMultipliers(context, sizes, parts, matrix, m);
    kernels::Requantize({parts.sums + m * e.n, parts.multipliers, e.n,
                         ByteAt(context.input(ports_.y_zero), 0), range.low, range.high},
                        y.dtype(), to + m * e.n);
  }
}

Status MatMulIntegerStep::Run(StepContext& context) const {
  Sizes sizes = SizesOf(context);
  ProductExtents& e = sizes.extents;
  const Parts parts = Layout(sizes, context.scratch().data());
  if (ports_.rounds_back()) {
    AsFloats(context.input(ports_.x_scale), parts.a_scales);
    AsFloats(context.input(ports_.w_scale), parts.b_scales);
  }
  // One packed B and rows that are alike: one product of all rows.
  if (pack_ != nullptr && sizes.even_rows() && sizes.even_batch()) {
    e.m *= e.batch.elements();
    e.a_batch = e.b_batch = e.batch = Shape();
  }
  for (int64_t matrix = 0; matrix < e.batch.elements(); ++matrix) {
    Multiply(context, sizes, parts, matrix);
    if (parts.sums != nullptr) RoundBack(context, sizes, parts, matrix);
  }
  return absl::OkStatus();
}

class MatMulInteger final : public Operator {
 public:
  explicit MatMulInteger(const IntegerPorts& ports) : ports_(ports) {}

  static std::shared_ptr<const Operator> ParsePlain(NodeReader&) {
    return std::make_shared<const MatMulInteger>(kPlainPorts);
  }
  static std::shared_ptr<const Operator> ParseLinear(NodeReader&) {
    return std::make_shared<const MatMulInteger>(kLinearMatMulPorts);
  }

  Status Infer(InferContext& context) const override {
    for (const int port : {ports_.x, ports_.w}) {
      RETURN_IF_ERROR(CheckDType(context, port, IsByte));
    }
    if (context.has_input(ports_.x_zero)) {
      RETURN_IF_ERROR(CheckSameDType(context, ports_.x_zero, ports_.x));
    }
    if (context.has_input(ports_.w_zero)) {
      RETURN_IF_ERROR(CheckSameDType(context, ports_.w_zero, ports_.w));
    }
    DType output = DType::kInt32;
    if (ports_.rounds_back()) {
      for (const int port : {ports_.x_scale, ports_.w_scale, ports_.y_scale}) {
        RETURN_IF_ERROR(CheckDType(context, port, [](DType dtype) {
          return IsFloating(dtype) && dtype != DType::kDouble;
        }));
      }
      RETURN_IF_ERROR(CheckDType(context, ports_.y_zero, IsByte));
      output = context.input(ports_.y_zero).dtype;
      RETURN_IF_ERROR(CheckOneElement(context, ports_.y_scale));
      RETURN_IF_ERROR(CheckOneElement(context, ports_.y_zero));
    }
    const graph::DimVector* a = context.dims(ports_.x);
    const graph::DimVector* b = context.dims(ports_.w);
    context.SetOutput(0, output, std::nullopt);
    if (a == nullptr || b == nullptr) return absl::OkStatus();
    ASSIGN_OR_RETURN(graph::DimVector dims, MatMulDims(*a, *b));
    const graph::Dim rows = a->size() > 1 ? (*a)[a->size() - 2] : graph::Dim(1);
    const graph::Dim columns = b->size() > 1 ? b->back() : graph::Dim(1);
    for (const int port : {ports_.x_zero, ports_.x_scale}) {
      RETURN_IF_ERROR(CheckParameters(context, port, {rows, graph::Dim(1)}));
    }
    for (const int port : {ports_.w_zero, ports_.w_scale}) {
      RETURN_IF_ERROR(CheckParameters(context, port, {graph::Dim(1), columns}));
    }
    context.SetOutput(0, output, std::move(dims));
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    return MatMulIntegerStep::Make(ports_, context);
  }

  ConstantUse UseOfConstant(int port, DType) const override {
    return port == ports_.w ? ConstantUse::kPacked : ConstantUse::kNative;
  }

  Decision TryFuseEpilogue(const EpilogueRequest& request) const override {
    return ports_.rounds_back() ? TryFuseByteClip(request) : Decision();
  }

  Cost EstimateCost(const StepShapes& shapes, DType) const override {
    const Shape& a = shapes.inputs[static_cast<size_t>(ports_.x)];
    const Shape& b = shapes.inputs[static_cast<size_t>(ports_.w)];
    const auto outputs = static_cast<double>(shapes.outputs[0].elements());
    return {.multiply_adds = outputs * static_cast<double>(a.rank() > 0 ? a[a.rank() - 1] : 1),
            .bytes = static_cast<double>(a.elements() + b.elements()) + 4 * outputs};
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    for (size_t port = 0; port < query.axes.size(); ++port) {
      if (static_cast<int>(port) == ports_.x || !query.axes[port]) continue;
      return BatchAnswer::Decline(fmt::format("input {} carries the batch", port));
    }
    const auto rank = [&query](int port) {
      return query.inputs[static_cast<size_t>(port)]->rank();
    };
    for (const int port : {ports_.x_zero, ports_.x_scale}) {
      if (port < 0 || static_cast<size_t>(port) >= query.inputs.size()) continue;
      const ValueFacts* facts = query.inputs[static_cast<size_t>(port)];
      const std::optional<Shape> shape = facts == nullptr ? Shape() : facts->shape();
      if (!shape || shape->elements() != 1) {
        return BatchAnswer::Decline("scales or zero points may differ between rows of A");
      }
    }
    const int axis = *query.axes[static_cast<size_t>(ports_.x)];
    const int a_rank = rank(ports_.x);
    const int b_rank = rank(ports_.w);
    if (a_rank < 2 || b_rank != 2 || axis == a_rank - 1) {
      return BatchAnswer::Decline("the batch is not on rows of A beside one matrix B");
    }
    return BatchAnswer::All(query, axis);
  }

 private:
  // One element, a vector along the matrix axis that is not 1 in `matrix`, or
  // batches of `matrix`.
  static Status CheckParameters(const InferContext& context, int port,
                                const std::array<graph::Dim, 2>& matrix) {
    const graph::DimVector* dims = port < 0 ? nullptr : context.dims(port);
    if (dims == nullptr) return absl::OkStatus();
    const graph::Dim elements = graph::Product(*dims, 0, static_cast<int>(dims->size()));
    if (elements.SameAs(1)) return absl::OkStatus();
    const graph::Dim along = matrix[0].SameAs(1) ? matrix[1] : matrix[0];
    const size_t rank = dims->size();
    const bool fits = rank == 1 ? MayEqual((*dims)[0], along)
                                : rank > 1 && MayEqual((*dims)[rank - 2], matrix[0]) &&
                                      MayEqual((*dims)[rank - 1], matrix[1]);
    if (fits) return absl::OkStatus();
    return InvalidArgument("input {} has shape {} where one element or [{}] is expected", port,
                           graph::ToString(*dims), graph::ToString(along));
  }

  IntegerPorts ports_;
};

}  // namespace

void RegisterMatmulInteger(OpRegistry& registry) {
  registry.Add({.op_type = "MatMulInteger",
                .versions = {10},
                .min_inputs = 2,
                .max_inputs = 4,
                .parse = MatMulInteger::ParsePlain,
                .doc = "Product of matrices of 8-bit integers, in int32."});
  registry.Add({.op_type = "QLinearMatMul",
                .versions = {10, 21},
                .min_inputs = 8,
                .max_inputs = 8,
                .parse = MatMulInteger::ParseLinear,
                .doc = "Product of quantised matrices, quantised."});
}

}  // namespace tandem::ops
