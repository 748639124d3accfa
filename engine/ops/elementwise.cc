#include "engine/ops/elementwise.h"

#include "absl/strings/ascii.h"
#include "engine/kernels/elementwise/broadcast.h"
#include "engine/ops/broadcast.h"

namespace tandem::ops {
namespace {

// Stages of a chain in one task: each is one more to look at for each stage that comes, and memory
// is read and written once for so many.
constexpr size_t kMostChainStages = 64;

}  // namespace

ElementwiseStep::ElementwiseStep(std::string name, kernels::RowKernel row,
                                 std::vector<RowOperand> operands,
                                 std::vector<kernels::ChainStage> stages)
    : name_(std::move(name)),
      row_(row),
      operands_(std::move(operands)),
      stages_(std::move(stages)),
      own_(static_cast<int>(operands_.size())) {
  for (const kernels::ChainStage& stage : stages_) own_ -= stage.operand >= 0 ? 1 : 0;
}

Status ElementwiseStep::Run(StepContext& context) const {
  const MutableTensorView& output = context.output(0);
  absl::InlinedVector<kernels::BroadcastOperand, 3> operands;
  for (const RowOperand& operand : operands_) {
    const bool given = context.has_input(operand.port);
    operands.push_back(
        OperandOf(given ? context.input(operand.port) : operand.fallback.view(), output));
  }
  const Shape physical = PhysicalShape(output.shape(), output.layout());
  const kernels::BroadcastLoop loop(physical.dims(), operands);
  const size_t bytes =
      output.dtype() == DType::kString ? sizeof(std::string) : DTypeBits(output.dtype()) / 8;
  loop.Run(
      [&](const kernels::RowArgs& args) {
        if (stages_.empty()) {
          row_.function(args, row_.params);
        } else {
          kernels::RunChain(row_, own_, stages_, bytes, args);
        }
      },
      output.mutable_raw(), bytes, context.parallel(), 1 + std::ssize(stages_));
  return absl::OkStatus();
}

std::string ElementwiseName(const BindContext& context) {
  std::string op = context.node().op_type;
  for (char& c : op) c = absl::ascii_tolower(static_cast<unsigned char>(c));
  return fmt::format("elementwise.{} {} {}", op, DTypeName(context.input(0).dtype),
                     IsaName(context.isa()));
}

std::unique_ptr<Step> MakeElementwiseStep(const BindContext& context, kernels::RowKernel row) {
  std::vector<RowOperand> operands;
  for (int port = 0; port < static_cast<int>(context.node().inputs.size()); ++port) {
    operands.push_back({port, Tensor()});
  }
  return std::make_unique<ElementwiseStep>(ElementwiseName(context), row, std::move(operands));
}

StatusOr<std::unique_ptr<Step>> ElementwiseOperator::Bind(BindContext& context) const {
  const DType dtype = context.input(0).dtype;
  const graph::Node& node = context.node();
  std::vector<RowOperand> operands;
  for (int port = 0; port < static_cast<int>(node.inputs.size()); ++port) {
    operands.push_back({port, Tensor()});
  }
  std::vector<kernels::ChainStage> stages;
  for (const graph::EpilogueStage& stage : node.epilogue) {
    const auto* op = dynamic_cast<const ElementwiseOperator*>(stage.resolved.get());
    if (op == nullptr) return Internal("epilogue stage {} is no element-wise operator", stage.op);
    stages.push_back({op->Row(dtype, context.isa()), stage.operand, stage.operand_is_first});
  }
  return std::make_unique<ElementwiseStep>(ElementwiseName(context), Row(dtype, context.isa()),
                                           std::move(operands), std::move(stages));
}

Decision ElementwiseOperator::TryFuseEpilogue(const EpilogueRequest& request) const {
  const auto* op = dynamic_cast<const ElementwiseOperator*>(request.resolved);
  if (op == nullptr) return Decision::Decline("the stage is no chainable operator", request.op);
  if (is_predicate() || op->is_predicate()) {
    return Decision::Decline("the element type changes on the way", request.op);
  }
  // The contents of integers are followed through inference, which sees no stages.
  if (!IsFloating(request.dtype)) {
    return Decision::Decline("only chains of floating types are fused",
                             std::string(DTypeName(request.dtype)));
  }
  if (request.stages.size() >= kMostChainStages) {
    return Decision::Decline("the chain has as many stages as one kernel takes",
                             fmt::format("{}", kMostChainStages));
  }
  int operands = 1;
  for (const graph::EpilogueStage& stage : request.stages) operands += stage.operand >= 0 ? 1 : 0;
  const int most = kernels::kMaxRowOperands - kernels::kMaxFixedOperands;
  if (operands > most) {
    return Decision::Decline("the chain reads too many operands",
                             fmt::format("{} > {}", operands, most));
  }
  return Decision::Accept();
}

BatchAnswer ElementwiseOperator::Batch(const BatchQuery& query) const {
  return BroadcastBatch(query);
}

std::string DTypeList(absl::FunctionRef<bool(DType)> supported) {
  std::string list;
  for (int32_t number = 1; IsKnownDType(number); ++number) {
    const auto dtype = static_cast<DType>(number);
    if (!supported(dtype)) continue;
    list += fmt::format("{}{}", list.empty() ? "" : ", ", DTypeName(dtype));
  }
  return list;
}

Status CheckDType(const InferContext& context, int port, absl::FunctionRef<bool(DType)> supported) {
  const DType dtype = context.input(port).dtype;
  if (supported(dtype)) return absl::OkStatus();
  return InvalidArgument("input {} is of type {} where one of {} is expected", port,
                         DTypeName(dtype), DTypeList(supported));
}

Status CheckSameDType(const InferContext& context, int port, int reference) {
  const DType dtype = context.input(port).dtype;
  const DType expected = context.input(reference).dtype;
  if (dtype == expected) return absl::OkStatus();
  return InvalidArgument("input {} is of type {} where {}, the type of input {}, is expected", port,
                         DTypeName(dtype), DTypeName(expected), reference);
}

Cost ElementwiseCost(const StepShapes& shapes, DType dtype, double per_element) {
  double elements = 0;
  for (const Shape& shape : shapes.inputs) elements += static_cast<double>(shape.elements());
  double written = 0;
  for (const Shape& shape : shapes.outputs) written += static_cast<double>(shape.elements());
  return {.multiply_adds = written * per_element,
          .bytes = (elements + written) * static_cast<double>(DTypeBits(dtype)) / 8};
}

}  // namespace tandem::ops
