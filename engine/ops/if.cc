// If (ai.onnx, opsets 1, 11, 13, 16, 19, 21, 23, 24): one of two bodies without formal inputs,
// chosen by a scalar. Where the branches give different extents, those of the result depend on
// data, unless the condition is known from shapes alone.
#include "engine/ops/body.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

constexpr int kCondition = 0;
// In the order of attribute names.
constexpr int kElse = 0;
constexpr int kThen = 1;

int BranchFor(bool condition) { return condition ? kThen : kElse; }

class IfStep final : public Step {
 public:
  explicit IfStep(int outputs) : outputs_(outputs) {}

  std::string kernel() const override { return "if"; }

  Status Run(StepContext& context) const override {
    ASSIGN_OR_RETURN(const bool condition, OneElement<bool>(context.input(kCondition), "cond"));
    ASSIGN_OR_RETURN(const std::vector<Tensor> results,
                     context.RunBody(BranchFor(condition), {}, OutputMemory(context, 0, outputs_)));
    for (int port = 0; port < outputs_; ++port) {
      RETURN_IF_ERROR(Emit(context, port, results[static_cast<size_t>(port)]));
    }
    return absl::OkStatus();
  }

 private:
  int outputs_;
};

class If final : public Operator {
 public:
  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    for (const std::string_view name : {"then_branch", "else_branch"}) {
      const std::shared_ptr<const graph::Graph> branch = reader.Body(name);
      if (branch == nullptr) {
        reader.Fail(InvalidArgument("attribute '{}' is missing", name));
        continue;
      }
      const size_t outputs = reader.node().outputs.size();
      if (branch->outputs().size() != outputs) {
        reader.Fail(InvalidArgument("{} has {} outputs where the node has {}", name,
                                    branch->outputs().size(), outputs));
      }
      if (FormalInputs(*branch) != 0) {
        reader.Fail(InvalidArgument("{} has {} inputs where none are expected", name,
                                    FormalInputs(*branch)));
      }
    }
    return std::make_shared<const If>();
  }

  StatusOr<std::vector<ValueFacts>> BodyInputs(const InferContext& context,
                                               int index) const override {
    return WithCaptures(context, index, {});
  }

  // A branch that is wrong for these inputs may be there for others: it fails when it is taken.
  // What is wrong in general is found when bodies are inferred by themselves.
  Status Infer(InferContext& context) const override {
    RETURN_IF_ERROR(CheckScalar(context, kCondition, DType::kBool, "cond"));
    if (const std::optional<Tensor>& condition = context.input(kCondition).value) {
      return SetTaken(context, BranchFor(*condition->data<bool>()));
    }
    const StatusOr<std::vector<ValueFacts>> when_false = InferBranch(context, kElse);
    if (!when_false.ok()) return SetTaken(context, kThen);
    const StatusOr<std::vector<ValueFacts>> when_true = InferBranch(context, kThen);
    if (!when_true.ok()) return SetTaken(context, kElse);
    for (int port = 0; port < context.outputs(); ++port) {
      const ValueFacts& a = (*when_true)[static_cast<size_t>(port)];
      const ValueFacts& b = (*when_false)[static_cast<size_t>(port)];
      if (a.dtype != b.dtype) {
        return InvalidArgument("output {} is {} in then_branch where it is {} in else_branch", port,
                               DTypeName(a.dtype), DTypeName(b.dtype));
      }
      context.SetOutput(port, a.dtype, CommonDims(a.dims, b.dims));
    }
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    return std::make_unique<IfStep>(static_cast<int>(context.node().outputs.size()));
  }

 private:
  static Status SetTaken(InferContext& context, int index) {
    ASSIGN_OR_RETURN(const std::vector<ValueFacts> results, InferBranch(context, index));
    for (int port = 0; port < context.outputs(); ++port) {
      const ValueFacts& result = results[static_cast<size_t>(port)];
      context.SetOutput(port, result.dtype, result.dims);
      if (result.content) context.SetContent(port, *result.content);
    }
    return absl::OkStatus();
  }

  static StatusOr<std::vector<ValueFacts>> InferBranch(const InferContext& context, int index) {
    const graph::Body body = graph::BodiesOf(context.node())[static_cast<size_t>(index)];
    StatusOr<std::vector<ValueFacts>> outputs =
        InferBody(*body.graph, WithCaptures(context, index, {}));
    if (!outputs.ok()) return Annotate(outputs.status(), body.attribute);
    return outputs;
  }
};

}  // namespace

void RegisterIf(OpRegistry& registry) {
  registry.Add({.op_type = "If",
                .versions = {1, 11, 13, 16, 19, 21, 23, 24},
                .max_outputs = kAnyNumber,
                .parse = If::Parse,
                .doc = "One of two bodies, by a condition."});
}

}  // namespace tandem::ops
