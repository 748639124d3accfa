// MatMul (ai.onnx, opsets 1, 9, 13): the product of numpy.matmul. Leading axes are batches and
// broadcast; a vector A is a row, a vector B a column, and neither keeps that axis.
#include "engine/ops/epilogue.h"
#include "engine/ops/matrix_product.h"
#include "engine/ops/reduce.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

constexpr int kA = 0;
constexpr int kB = 1;

class MatMul final : public Operator {
 public:
  static std::shared_ptr<const Operator> Parse(NodeReader&) {
    return std::make_shared<const MatMul>();
  }

  Status Infer(InferContext& context) const override;

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    return BindProduct({}, context);
  }

  ConstantUse UseOfConstant(int port, DType dtype) const override {
    return port == kB && dtype == DType::kFloat ? ConstantUse::kPacked : ConstantUse::kNative;
  }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    const ProductExtents e = ResolveProduct({}, shapes.inputs[kA], shapes.inputs[kB]);
    const auto elements = static_cast<double>(
        shapes.inputs[kA].elements() + shapes.inputs[kB].elements() + shapes.outputs[0].elements());
    return {.multiply_adds =
                static_cast<double>(e.batch.elements() * e.m) * static_cast<double>(e.n * e.k),
            .bytes = elements * static_cast<double>(DTypeBits(dtype)) / 8};
  }

  Decision TryFuseEpilogue(const EpilogueRequest& request) const override {
    return TryFuseStage(request, ColumnAxis::kLast);
  }

  Decision TryFusePrologue(const PrologueRequest& request) const override {
    return TryFuseProductPrologue({}, request);
  }

  BatchAnswer Batch(const BatchQuery& query) const override;
};

Status MatMul::Infer(InferContext& context) const {
  const DType dtype = context.input(kA).dtype;
  if (context.input(kB).dtype != dtype) {
    return InvalidArgument("B is {} where A is {}", DTypeName(context.input(kB).dtype),
                           DTypeName(dtype));
  }
  if (!IsFloating(dtype) && !(IsInteger(dtype) && DTypeBits(dtype) >= 32)) {
    return InvalidArgument(
        "A is {} where a floating type, int32, int64, uint32 or uint64 is "
        "expected",
        DTypeName(dtype));
  }
  const graph::DimVector* a = context.dims(kA);
  const graph::DimVector* b = context.dims(kB);
  context.SetOutput(0, dtype, std::nullopt);
  if (a == nullptr || b == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(graph::DimVector dims, MatMulDims(*a, *b));
  context.SetOutput(0, dtype, WithRowsReduced(context.node(), std::move(dims)));
  return absl::OkStatus();
}

BatchAnswer MatMul::Batch(const BatchQuery& query) const {
  const int a_rank = query.inputs[kA]->rank();
  const int b_rank = query.inputs[kB]->rank();
  if (a_rank < 2 || b_rank < 1) {
    return BatchAnswer::Decline("a side of MatMul is a vector or of unknown rank");
  }
  if (!query.axes[kA]) return BatchAnswer::Decline("only B of MatMul carries the batch");
  const int axis = *query.axes[kA];
  if (axis == a_rank - 1) {
    return BatchAnswer::Decline("the batch is on the inner axis of MatMul");
  }
  // Counted from the end, where the batch axes of both sides meet.
  const int from_end = a_rank - axis;
  const int b_axis = b_rank - from_end;
  if (query.axes[kB]) {
    if (from_end <= 2 || *query.axes[kB] != b_axis) {
      return BatchAnswer::Decline("both sides of MatMul carry the batch on different axes");
    }
  } else if (from_end > 2 && b_axis >= 0) {
    const graph::Dim& extent = (*query.inputs[kB]->dims)[static_cast<size_t>(b_axis)];
    if (!extent.is_number() || extent.number() != 1) {
      return BatchAnswer::Decline(
          fmt::format("B of MatMul has extent {} on the batch axis", graph::ToString(extent)));
    }
  }
  const int rank = b_rank == 1 ? a_rank - 1 : std::max(a_rank, b_rank);
  const int out_axis = b_rank == 1 ? axis : rank - from_end;
  if (RowReductionOf(query.node) && from_end == 2) {
    return BatchAnswer::Decline("MatMul's epilogue reduces the batch axis");
  }
  if (std::optional<std::string> reason = OperandsMixBatch(query, 2, out_axis, rank)) {
    return BatchAnswer::Decline(*std::move(reason));
  }
  return BatchAnswer::All(query, out_axis);
}

}  // namespace

void RegisterMatmul(OpRegistry& registry) {
  registry.Add({.op_type = "MatMul",
                .versions = {1, 9, 13},
                .min_inputs = 2,
                .max_inputs = 2,
                .parse = MatMul::Parse,
                .doc = "Product of matrices, of batches of them, or of vectors."});
}

}  // namespace tandem::ops
