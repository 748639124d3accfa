#include "tests/engine/optimizer/toy_ops.h"

#include <algorithm>

#include "engine/kernels/epilogue.h"

namespace tandem::optimizer::test {
namespace {

kernels::EpilogueStage KernelStage(const graph::EpilogueStage& stage) {
  using kernels::EpilogueOp;
  kernels::EpilogueStage made;
  made.op = stage.op == "Relu"  ? EpilogueOp::kRelu
            : stage.op == "Mul" ? EpilogueOp::kMul
            : stage.op == "Sub"
                ? (stage.operand_is_first ? EpilogueOp::kReverseSub : EpilogueOp::kSub)
                : EpilogueOp::kAdd;
  return made;
}

float At(const TensorView& view, int64_t i) {
  return view.data<float>()[view.elements() == 1 ? 0 : i];
}

class ToyStep final : public ops::Step {
 public:
  ToyStep(ToyBehaviour behaviour, graph::Node node)
      : behaviour_(std::move(behaviour)), node_(std::move(node)) {}

  std::string kernel() const override { return "toy"; }

  Status Run(ops::StepContext& context) const override {
    for (size_t port = 0; port < node_.outputs.size(); ++port) {
      if (node_.outputs[port] == graph::kNoValue) continue;
      const MutableTensorView& y = context.output(static_cast<int>(port));
      for (int64_t i = 0; i < y.elements(); ++i) y.mutable_data<float>()[i] = Element(context, i);
    }
    return absl::OkStatus();
  }

 private:
  float Element(const ops::StepContext& context, int64_t i) const {
    std::vector<float> arguments;
    arguments.reserve(static_cast<size_t>(behaviour_.data_inputs));
    for (int port = 0; port < behaviour_.data_inputs; ++port) {
      arguments.push_back(At(context.input(port), i / behaviour_.grows));
    }
    float value = behaviour_.apply(arguments);
    for (const graph::EpilogueStage& stage : node_.epilogue) {
      const float operand = stage.operand < 0 ? 0 : At(context.input(stage.operand), i);
      value = kernels::ApplyStage(KernelStage(stage), value, operand);
    }
    return value;
  }

  ToyBehaviour behaviour_;
  graph::Node node_;
};

class Toy final : public ops::Operator {
 public:
  explicit Toy(ToyBehaviour behaviour) : behaviour_(std::move(behaviour)) {}

  Status Infer(ops::InferContext& context) const override {
    graph::DimVector dims = {4};
    if (context.has_input(0)) dims = *context.input(0).dims;
    if (context.has_input(1) && behaviour_.data_inputs > 1 &&
        context.input(1).dims->size() > dims.size()) {
      dims = *context.input(1).dims;
    }
    if (!dims.empty()) dims[0] = dims[0] * behaviour_.grows;
    for (int port = 0; port < context.outputs(); ++port) {
      context.SetOutput(port, DType::kFloat, dims);
    }
    return absl::OkStatus();
  }

  StatusOr<std::vector<ops::ValueFacts>> BodyInputs(const ops::InferContext&, int) const override {
    return std::vector<ops::ValueFacts>();
  }

  StatusOr<std::unique_ptr<ops::Step>> Bind(ops::BindContext& context) const override {
    return std::make_unique<ToyStep>(behaviour_, context.node());
  }

  ops::Traits traits() const override { return behaviour_.traits; }

  ops::Cost EstimateCost(const ops::StepShapes&, DType) const override {
    return {.multiply_adds = behaviour_.multiply_adds};
  }

  ops::Decision TryFuseEpilogue(const ops::EpilogueRequest& request) const override {
    if (!behaviour_.takes_epilogue) return {};
    if (request.op == "Exp") return ops::Decision::Decline("no Exp in this kernel", "op=Exp");
    return ops::Decision::Accept();
  }

 private:
  ToyBehaviour behaviour_;
};

}  // namespace

std::shared_ptr<const ops::Operator> MakeToy(ToyBehaviour behaviour) {
  return std::make_shared<const Toy>(std::move(behaviour));
}

graph::ValueId ToyGraph::Input(const std::string& name) {
  return graph.AddInput(name, {.dtype = DType::kFloat, .dims = dims_});
}

graph::ValueId ToyGraph::Constant(const std::string& name, Tensor tensor) {
  return graph.AddConstant(name, constants.Intern(std::move(tensor)));
}

graph::ValueId ToyGraph::Node(const std::string& op_type, std::vector<graph::ValueId> inputs,
                              const std::string& name, ToyBehaviour behaviour) {
  graph::Node node;
  if (named_nodes) node.name = "node_" + name;
  node.op_type = op_type;
  node.opset = 17;
  node.inputs = std::move(inputs);
  graph::DimVector dims = dims_;
  if (!node.inputs.empty()) dims = *graph.value(node.inputs[0]).type.dims;
  if (!dims.empty()) dims[0] = dims[0] * behaviour.grows;
  for (int port = 0; port < behaviour.outputs; ++port) {
    node.outputs.push_back(graph.AddValue(port == 0 ? name : fmt::format("{}{}", name, port),
                                          {.dtype = DType::kFloat, .dims = dims}));
  }
  const graph::ValueId first = node.outputs[0];
  node.op = MakeToy(std::move(behaviour));
  graph.AddNode(std::move(node));
  return first;
}

ToyBehaviour Double() {
  return {.apply = [](const std::vector<float>& x) { return 2 * x[0]; }};
}

ToyBehaviour Producer() {
  return {.apply = [](const std::vector<float>& x) { return 2 * x[0] + 1; },
          .takes_epilogue = true};
}

ToyBehaviour Residual() {
  return {.apply = [](const std::vector<float>& x) { return x[0] + x[1]; },
          .traits = {.elementwise = true},
          .data_inputs = 2};
}

ToyBehaviour Rectify() {
  return {.apply = [](const std::vector<float>& x) { return std::max(x[0], 0.0f); },
          .traits = {.elementwise = true}};
}

}  // namespace tandem::optimizer::test
