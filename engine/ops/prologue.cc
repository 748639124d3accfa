#include "engine/ops/prologue.h"

#include <algorithm>

#include "engine/kernels/gemm/fusion.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/epilogue.h"
#include "engine/ops/matrix_product.h"

namespace tandem::ops {
namespace {

// The operator of a stage that keeps its element type, or null.
const ElementwiseOperator* ChainableOf(const graph::EpilogueStage& stage) {
  const auto* op = dynamic_cast<const ElementwiseOperator*>(stage.resolved.get());
  return op == nullptr || op->is_predicate() ? nullptr : op;
}

// One element for all of A, or one for each of its columns.
bool FitsColumns(const PrologueRequest& request) {
  for (size_t i = 0; i < request.stages.size(); ++i) {
    if (request.stages[i].operand < 0) continue;
    if (request.operands[i] == nullptr || request.inputs[0] == nullptr) return false;
    const kernels::OperandForm form =
        OperandFormOf(*request.operands[i], *request.inputs[0], ColumnAxis::kLast);
    if (form != kernels::OperandForm::kScalar && form != kernels::OperandForm::kColumn) {
      return false;
    }
  }
  return true;
}

// Columns of the product, or -1.
int64_t ColumnsOf(const ProductOptions& options, const PrologueRequest& request) {
  const graph::DimVector* b = request.inputs.size() > 1 ? request.inputs[1] : nullptr;
  if (b == nullptr || b->empty()) return -1;
  if (b->size() == 1) return 1;
  const graph::Dim& columns = options.trans_b ? (*b)[0] : b->back();
  return columns.is_number() ? columns.number() : -1;
}

}  // namespace

Decision TryFuseProductPrologue(const ProductOptions& options, const PrologueRequest& request) {
  kernels::PrologueQuery query;
  query.has_kernels = std::ranges::all_of(
      request.stages, [](const auto& stage) { return ChainableOf(stage) != nullptr; });
  query.is_float32 = request.dtype == DType::kFloat;
  query.is_transposed = options.trans_a;
  query.fits_columns = FitsColumns(request);
  query.columns = ColumnsOf(options, request);
  kernels::FusionAnswer answer = kernels::TryFusePrologue(query);
  if (answer.accepted) return Decision::Accept();
  return Decision::Decline(std::move(answer.rule), std::move(answer.numbers));
}

StatusOr<BoundPrologue> BindPrologue(const graph::Node& node, Isa isa) {
  BoundPrologue bound;
  for (const graph::EpilogueStage& fused : node.prologue) {
    const ElementwiseOperator* op = ChainableOf(fused);
    const kernels::RowKernel row =
        op == nullptr ? kernels::RowKernel() : op->Row(DType::kFloat, isa);
    if (row.function == nullptr) {
      return Internal("{} has no prologue stage {}", node.op_type, fused.op);
    }
    bound.push_back({{row, -1, fused.operand_is_first}, fused.operand});
  }
  return bound;
}

kernels::Prologue RunPrologue(const BoundPrologue& bound, const StepContext& context) {
  kernels::Prologue prologue;
  for (const BoundPrologueStage& each : bound) {
    kernels::ChainStage stage = each.stage;
    if (each.port >= 0) {
      const TensorView& operand = context.input(each.port);
      stage.operand = static_cast<int>(prologue.operands.size());
      prologue.operands.push_back({operand.data<float>(), operand.elements() == 1 ? 0 : 1});
    }
    prologue.stages.push_back(stage);
  }
  return prologue;
}

}  // namespace tandem::ops
