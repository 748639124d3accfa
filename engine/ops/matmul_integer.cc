// MatMulInteger (ai.onnx, opset 10): the product of matrices of 8-bit integers
// in int32, after their zero points have been taken off. QLinearMatMul (opset
// 10): the same product, scaled and rounded back to 8 bits. Scales and zero
// points are one for all, or, of A, one for each row ([M] or [..., M, 1]), of
// B, one for each column ([N] or [..., 1, N]).
#include <algorithm>
#include <vector>

#include "engine/kernels/elementwise/cast.h"
#include "engine/kernels/quant/integer.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/extents.h"
#include "engine/ops/matrix_product.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

// Where the inputs of an operator are; -1 where it has none.
struct IntegerPorts {
  int a = 0;
  int b = 1;
  int a_zero = 2;
  int b_zero = 3;
  int a_scale = -1;
  int b_scale = -1;
  int y_scale = -1;
  int y_zero = -1;

  bool rounds_back() const { return y_scale >= 0; }
};
constexpr IntegerPorts kPlainPorts;
constexpr IntegerPorts kLinearPorts{0, 3, 2, 5, 1, 4, 6, 7};

bool IsByte(DType dtype) { return dtype == DType::kInt8 || dtype == DType::kUint8; }

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
  MatMulIntegerStep(const IntegerPorts& ports, const BindContext& context)
      : ports_(ports),
        has_a_zero_(context.has_input(ports.a_zero)),
        has_b_zero_(context.has_input(ports.b_zero)) {}

  std::string kernel() const override {
    return ports_.rounds_back() ? "integer_gemm to 8 bits" : "integer_gemm";
  }

  // For rounding back: the sums of one matrix, the multipliers of a row, scales
  // as float.
  size_t ScratchBytes(const StepShapes& shapes) const override {
    if (!ports_.rounds_back()) return 0;
    const auto input = [&shapes](int port) { return shapes.inputs[static_cast<size_t>(port)]; };
    const ProductExtents e = ResolveProduct({}, input(ports_.a), input(ports_.b));
    return Bytes(e.m * e.n) + Bytes(e.n) + Bytes(input(ports_.a_scale).elements()) +
           Bytes(input(ports_.b_scale).elements());
  }

  Status Run(StepContext& context) const override {
    const TensorView& a = context.input(ports_.a);
    const TensorView& b = context.input(ports_.b);
    const ProductExtents extents = ResolveProduct({}, a.shape(), b.shape());
    std::byte* scratch = context.scratch().data();
    auto* sums = reinterpret_cast<int32_t*>(scratch);
    for (int64_t matrix = 0; matrix < extents.batch.elements(); ++matrix) {
      if (!ports_.rounds_back()) {
        sums = context.output(0).mutable_data<int32_t>() + matrix * extents.m * extents.n;
      }
      kernels::IntegerGemm(
          {extents.m, extents.n, extents.k},
          OperandOf(context, ports_.a, has_a_zero_ ? ports_.a_zero : -1, extents, matrix),
          OperandOf(context, ports_.b, has_b_zero_ ? ports_.b_zero : -1, extents, matrix), sums,
          context.parallel());
      if (ports_.rounds_back()) RoundBack(context, extents, matrix);
    }
    return absl::OkStatus();
  }

 private:
  static size_t Bytes(int64_t words) { return AlignUp(static_cast<size_t>(words) * 4); }

  kernels::QuantizedOperand OperandOf(const StepContext& context, int port, int zero_port,
                                      const ProductExtents& extents, int64_t matrix) const {
    const TensorView& view = context.input(port);
    const bool left = port == ports_.a;
    const int64_t elements = left ? extents.m * extents.k : extents.k * extents.n;
    const int64_t own = BatchIndex(left ? extents.a_batch : extents.b_batch, extents.batch, matrix);
    kernels::QuantizedOperand operand{view.dtype(),
                                      static_cast<const std::byte*>(view.raw()) + own * elements};
    if (zero_port < 0) return operand;
    const TensorView& zeros = context.input(zero_port);
    const Parameters parameters = ParametersOf(zeros.shape(), extents, matrix);
    operand.zero_points = static_cast<const std::byte*>(zeros.raw()) + parameters.first;
    operand.zero_point_step = parameters.step;
    return operand;
  }

  static const float* ScalesOf(const TensorView& view, std::byte* memory) {
    const void* from = view.raw();
    const int64_t step = 1;
    kernels::FindCast(view.dtype(), DType::kFloat)({&from, &step, 1, memory, view.elements()}, {});
    return reinterpret_cast<const float*>(memory);
  }

  void RoundBack(StepContext& context, const ProductExtents& extents, int64_t matrix) const {
    const TensorView& a_scale = context.input(ports_.a_scale);
    const TensorView& b_scale = context.input(ports_.b_scale);
    std::byte* memory = context.scratch().data();
    const auto* sums = reinterpret_cast<const int32_t*>(memory);
    memory += Bytes(extents.m * extents.n);
    auto* multipliers = reinterpret_cast<float*>(memory);
    memory += Bytes(extents.n);
    const Parameters left = ParametersOf(a_scale.shape(), extents, matrix);
    const Parameters right = ParametersOf(b_scale.shape(), extents, matrix);
    const float* a_scales = ScalesOf(a_scale, memory) + left.first;
    const float* b_scales = ScalesOf(b_scale, memory + Bytes(a_scale.elements())) + right.first;
    float y_scale = 0;
    ScalesOf(context.input(ports_.y_scale), reinterpret_cast<std::byte*>(&y_scale));
    const MutableTensorView& y = context.output(0);
    auto* to = static_cast<std::byte*>(y.mutable_raw()) + matrix * extents.m * extents.n;
    for (int64_t m = 0; m < extents.m; ++m) {
      for (int64_t n = 0; n < extents.n; ++n) {
        multipliers[n] = a_scales[m * left.step] * b_scales[n * right.step] / y_scale;
      }
      kernels::Requantize({sums + m * extents.n, nullptr, 0, multipliers, 1, extents.n},
                          context.input(ports_.y_zero).raw(), y.dtype(), to + m * extents.n);
    }
  }

  IntegerPorts ports_;
  bool has_a_zero_;
  bool has_b_zero_;
};

class MatMulInteger final : public Operator {
 public:
  explicit MatMulInteger(const IntegerPorts& ports) : ports_(ports) {}

  static std::shared_ptr<const Operator> ParsePlain(NodeReader&) {
    return std::make_shared<const MatMulInteger>(kPlainPorts);
  }
  static std::shared_ptr<const Operator> ParseLinear(NodeReader&) {
    return std::make_shared<const MatMulInteger>(kLinearPorts);
  }

  Status Infer(InferContext& context) const override {
    for (const int port : {ports_.a, ports_.b}) {
      RETURN_IF_ERROR(CheckDType(context, port, IsByte));
    }
    if (context.has_input(ports_.a_zero)) {
      RETURN_IF_ERROR(CheckSameDType(context, ports_.a_zero, ports_.a));
    }
    if (context.has_input(ports_.b_zero)) {
      RETURN_IF_ERROR(CheckSameDType(context, ports_.b_zero, ports_.b));
    }
    DType output = DType::kInt32;
    if (ports_.rounds_back()) {
      for (const int port : {ports_.a_scale, ports_.b_scale, ports_.y_scale}) {
        RETURN_IF_ERROR(CheckDType(context, port, [](DType dtype) {
          return IsFloating(dtype) && dtype != DType::kDouble;
        }));
      }
      RETURN_IF_ERROR(CheckDType(context, ports_.y_zero, IsByte));
      output = context.input(ports_.y_zero).dtype;
      RETURN_IF_ERROR(CheckOneElement(context, ports_.y_scale));
      RETURN_IF_ERROR(CheckOneElement(context, ports_.y_zero));
    }
    const graph::DimVector* a = context.dims(ports_.a);
    const graph::DimVector* b = context.dims(ports_.b);
    context.SetOutput(0, output, std::nullopt);
    if (a == nullptr || b == nullptr) return absl::OkStatus();
    ASSIGN_OR_RETURN(graph::DimVector dims, MatMulDims(*a, *b));
    const graph::Dim rows = a->size() > 1 ? (*a)[a->size() - 2] : graph::Dim(1);
    const graph::Dim columns = b->size() > 1 ? b->back() : graph::Dim(1);
    for (const int port : {ports_.a_zero, ports_.a_scale}) {
      RETURN_IF_ERROR(CheckParameters(context, port, {rows, graph::Dim(1)}));
    }
    for (const int port : {ports_.b_zero, ports_.b_scale}) {
      RETURN_IF_ERROR(CheckParameters(context, port, {graph::Dim(1), columns}));
    }
    context.SetOutput(0, output, std::move(dims));
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    return std::make_unique<MatMulIntegerStep>(ports_, context);
  }

  Cost EstimateCost(const StepShapes& shapes, DType) const override {
    const Shape& a = shapes.inputs[static_cast<size_t>(ports_.a)];
    const Shape& b = shapes.inputs[static_cast<size_t>(ports_.b)];
    const auto outputs = static_cast<double>(shapes.outputs[0].elements());
    return {.multiply_adds = outputs * static_cast<double>(a.rank() > 0 ? a[a.rank() - 1] : 1),
            .bytes = static_cast<double>(a.elements() + b.elements()) + 4 * outputs};
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    for (size_t port = 0; port < query.axes.size(); ++port) {
      if (static_cast<int>(port) == ports_.a || !query.axes[port]) continue;
      return BatchAnswer::Decline(fmt::format("input {} carries the batch", port));
    }
    const auto rank = [&query](int port) {
      return query.inputs[static_cast<size_t>(port)]->rank();
    };
    for (const int port : {ports_.a_zero, ports_.a_scale}) {
      if (port < 0 || static_cast<size_t>(port) >= query.inputs.size()) continue;
      const ValueFacts* facts = query.inputs[static_cast<size_t>(port)];
      if (facts != nullptr && facts->rank() != 0) {
        return BatchAnswer::Decline("scales or zero points may differ between rows of A");
      }
    }
    const int axis = *query.axes[static_cast<size_t>(ports_.a)];
    const int a_rank = rank(ports_.a);
    const int b_rank = rank(ports_.b);
    if (a_rank < 2 || b_rank != 2 || axis == a_rank - 1) {
      return BatchAnswer::Decline("the batch is not on rows of A beside one matrix B");
    }
    return BatchAnswer::All(query, axis);
  }

 private:
  static Status CheckOneElement(const InferContext& context, int port) {
    const graph::DimVector* dims = context.dims(port);
    if (dims == nullptr) return absl::OkStatus();
    const graph::Dim elements = graph::Product(*dims, 0, static_cast<int>(dims->size()));
    if (MayEqual(elements, 1)) return absl::OkStatus();
    return InvalidArgument("input {} has shape {} where one element is expected", port,
                           graph::ToString(*dims));
  }

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
