#include "engine/ops/epilogue.h"

#include <fmt/ranges.h>

#include <limits>

#include "engine/base/check.h"
#include "engine/kernels/gemm/gemm.h"
#include "engine/ops/reduce.h"

namespace tandem::ops {
namespace {

using kernels::EpilogueOp;
using kernels::EpilogueStage;
using kernels::OperandForm;
using kernels::OperandKind;

float FloatOf(const graph::Attributes& attributes, std::string_view name, float fallback) {
  const auto found = attributes.find(name);
  if (found == attributes.end()) return fallback;
  const float* value = found->second.get_if<float>();
  return value == nullptr ? fallback : *value;
}

EpilogueStage Plain(EpilogueOp op, float alpha = 0, float beta = 0) {
  return {op, OperandKind::kNone, alpha, beta};
}

std::optional<EpilogueStage> GeluStage(const graph::Attributes& attributes) {
  const auto found = attributes.find("approximate");
  if (found == attributes.end()) return Plain(EpilogueOp::kGeluErf);
  const std::string* form = found->second.get_if<std::string>();
  if (form != nullptr && *form == "tanh") return Plain(EpilogueOp::kGeluTanh);
  if (form != nullptr && *form == "none") return Plain(EpilogueOp::kGeluErf);
  return std::nullopt;
}

bool IsBinary(EpilogueOp op) { return op <= kernels::kLastBinaryOp; }

size_t ColumnIndex(size_t rank, ColumnAxis columns) {
  return columns == ColumnAxis::kChannels ? 1 : rank - 1;
}

bool IsOne(const graph::Dim& dim) { return dim.is_number() && dim.number() == 1; }

}  // namespace

std::optional<EpilogueStage> StageOf(std::string_view op, const graph::Attributes& attributes) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  if (op == "Add") return Plain(EpilogueOp::kAdd);
  if (op == "Sub") return Plain(EpilogueOp::kSub);
  if (op == "Mul") return Plain(EpilogueOp::kMul);
  if (op == "PRelu") return Plain(EpilogueOp::kPRelu);
  if (op == "Relu") return Plain(EpilogueOp::kRelu);
  if (op == "Sigmoid") return Plain(EpilogueOp::kSigmoid);
  if (op == "Tanh") return Plain(EpilogueOp::kTanh);
  if (op == "HardSwish") return Plain(EpilogueOp::kHardSwish);
  if (op == "Mish") return Plain(EpilogueOp::kMish);
  if (op == "Gelu") return GeluStage(attributes);
  if (op == "Clip") {
    return Plain(EpilogueOp::kClip, FloatOf(attributes, "min", -kLargest),
                 FloatOf(attributes, "max", kLargest));
  }
  if (op == "LeakyRelu") {
    return Plain(EpilogueOp::kLeakyRelu, FloatOf(attributes, "alpha", 0.01f));
  }
  if (op == "HardSigmoid") {
    return Plain(EpilogueOp::kHardSigmoid, FloatOf(attributes, "alpha", 0.2f),
                 FloatOf(attributes, "beta", 0.5f));
  }
  if (op == "Swish" && FloatOf(attributes, "alpha", 1) == 1) return Plain(EpilogueOp::kSilu);
  return std::nullopt;
}

OperandForm OperandFormOf(const graph::DimVector& operand, const graph::DimVector& result,
                          ColumnAxis columns) {
  if (operand.size() > result.size()) return OperandForm::kOther;
  const size_t offset = result.size() - operand.size();
  const size_t column = result.empty() ? 0 : ColumnIndex(result.size(), columns);
  bool scalar = true;
  bool per_column = true;
  bool full = offset == 0;
  for (size_t i = 0; i < operand.size(); ++i) {
    const bool same = operand[i].SameAs(result[offset + i]);
    scalar = scalar && IsOne(operand[i]);
    per_column = per_column && (offset + i == column ? same : IsOne(operand[i]));
    full = full && same;
  }
  if (scalar) return OperandForm::kScalar;
  if (per_column) return OperandForm::kColumn;
  return full ? OperandForm::kFull : OperandForm::kOther;
}

namespace {

const graph::Attributes& AttributesOf(const EpilogueRequest& request) {
  static const graph::Attributes none;
  return request.attributes == nullptr ? none : *request.attributes;
}

Decision DecisionOf(kernels::FusionAnswer answer) {
  if (answer.accepted) return Decision::Accept();
  return Decision::Decline(std::move(answer.rule), std::move(answer.numbers));
}

Decision TryFuseReduction(const EpilogueRequest& request, kernels::ReduceOp op) {
  kernels::ReductionRequest plain;
  plain.known_reduction = kernels::HasRowReduction(op);
  plain.is_float32 = request.dtype == DType::kFloat;
  plain.readers = request.readers;
  plain.is_output = request.is_output;
  plain.has_matrices = request.result != nullptr && request.inputs.size() >= 2;
  for (size_t port = 0; port < 2 && plain.has_matrices; ++port) {
    const graph::DimVector* side = request.inputs[port];
    plain.has_matrices = side != nullptr && side->size() >= 2;
  }
  const auto axes = AttributesOf(request).find("axes");
  if (plain.has_matrices && axes != AttributesOf(request).end()) {
    const auto rank = static_cast<int64_t>(request.result->size());
    const auto& list = axes->second.get<std::vector<int64_t>>();
    plain.reduces_rows = list.size() == 1 && (list[0] == -2 || list[0] == rank - 2);
    plain.axes_text = fmt::format("axes=[{}] rank={}", fmt::join(list, ","), rank);
  }
  return DecisionOf(kernels::TryFuseReduction(plain));
}

}  // namespace

Decision TryFuseStage(const EpilogueRequest& request, ColumnAxis columns) {
  if (!request.stages.empty() && ReduceOpOf(request.stages.back().op)) {
    return Decision::Decline("nothing follows the reduction that ends the epilogue");
  }
  if (const std::optional<kernels::ReduceOp> op = ReduceOpOf(request.op)) {
    if (columns == ColumnAxis::kLast) return TryFuseReduction(request, *op);
    return Decision::Decline("conv: the epilogue reduces no axis");
  }
  const std::optional<EpilogueStage> stage = StageOf(request.op, AttributesOf(request));
  if (stage && stage->op == EpilogueOp::kPRelu && request.operand_is_first) {
    return Decision::Decline("the result is the slope");
  }
  kernels::FusionRequest plain;
  plain.known_stage = stage.has_value();
  plain.is_float32 = request.dtype == DType::kFloat;
  plain.readers = request.readers;
  plain.is_output = request.is_output;
  plain.stages = request.stages.size();
  if (stage.has_value() && IsBinary(stage->op)) {
    plain.operand = OperandForm::kOther;
    plain.operand_text = "of unknown rank";
    if (request.operand != nullptr && request.result != nullptr) {
      plain.operand = OperandFormOf(*request.operand, *request.result, columns);
      plain.operand_text = fmt::format("{} against {}", graph::ToString(*request.operand),
                                       graph::ToString(*request.result));
    }
  }
  return DecisionOf(kernels::TryFuseStage(plain));
}

StatusOr<BoundStages> BindStages(const graph::Node& node) {
  return BindStages(node, node.epilogue);
}

StatusOr<BoundStages> BindStages(const graph::Node& node,
                                 std::span<const graph::EpilogueStage> stages) {
  BoundStages bound;
  for (const graph::EpilogueStage& fused : stages) {
    if (ReduceOpOf(fused.op)) continue;
    std::optional<EpilogueStage> stage = StageOf(fused.op, fused.attributes);
    if (stage && stage->op == EpilogueOp::kSub && fused.operand_is_first) {
      stage->op = EpilogueOp::kReverseSub;
    }
    if (!stage || IsBinary(stage->op) != (fused.operand >= 0)) {
      return Internal("{} has no epilogue stage {} with {} operand", node.op_type, fused.op,
                      fused.operand >= 0 ? "an" : "no");
    }
    bound.push_back({*stage, fused.operand});
  }
  return bound;
}

OperandKind OperandKindOf(const Shape& operand, const Shape& result, ColumnAxis columns) {
  switch (OperandFormOf(graph::ToDims(operand), graph::ToDims(result), columns)) {
    case OperandForm::kScalar:
      return OperandKind::kScalar;
    case OperandForm::kColumn:
      return OperandKind::kColumn;
    default:
      return OperandKind::kFull;
  }
}

void ExpandOperand(const TensorView& operand, const Shape& result, float scale, float* out) {
  Dims strides(static_cast<size_t>(result.rank()), 0);
  const Dims own = operand.shape().Strides();
  const int offset = result.rank() - operand.shape().rank();
  for (int i = 0; i < operand.shape().rank(); ++i) {
    if (operand.shape()[i] != 1) {
      strides[static_cast<size_t>(offset + i)] = own[static_cast<size_t>(i)];
    }
  }
  const float* data = operand.data<float>();
  const int64_t elements = result.elements();
  for (int64_t i = 0; i < elements; ++i) {
    int64_t rest = i;
    int64_t at = 0;
    for (int axis = result.rank() - 1; axis >= 0; --axis) {
      at += rest % result[axis] * strides[static_cast<size_t>(axis)];
      rest /= result[axis];
    }
    out[i] = scale * data[at];
  }
}

std::optional<std::string> OperandsMixBatch(const BatchQuery& query, int own_inputs, int axis,
                                            int rank) {
  for (size_t port = static_cast<size_t>(own_inputs); port < query.axes.size(); ++port) {
    const ValueFacts* facts = query.inputs[port];
    if (facts == nullptr) continue;
    if (!facts->dims) return fmt::format("the rank of operand {} is unknown", port);
    const int aligned = axis - (rank - facts->rank());
    if (query.axes[port]) {
      if (*query.axes[port] == aligned) continue;
      return fmt::format("operand {} carries the batch on axis {} where {} is expected", port,
                         *query.axes[port], aligned);
    }
    if (aligned < 0 || IsOne((*facts->dims)[static_cast<size_t>(aligned)])) continue;
    return fmt::format("operand {} has extent {} on the batch axis", port,
                       graph::ToString((*facts->dims)[static_cast<size_t>(aligned)]));
  }
  return std::nullopt;
}

}  // namespace tandem::ops
