#include "engine/ops/evaluate.h"

#include "engine/base/check.h"

namespace tandem::ops {
namespace {

// Binds a node to tensors that are all known: every input is a constant, packs live in the step.
class EvaluateBindContext final : public BindContext {
 public:
  EvaluateBindContext(const graph::Node& node, const std::vector<Tensor>& tensors,
                      const std::vector<ValueFacts>& outputs, Isa isa)
      : node_(node), isa_(isa), tensors_(tensors), outputs_(outputs) {
    for (const Tensor& tensor : tensors) {
      inputs_.push_back(tensor.valid() ? FactsOf(tensor) : ValueFacts());
    }
  }

  const graph::Node& node() const override { return node_; }
  Isa isa() const override { return isa_; }
  const ValueFacts& input(int port) const override { return At(inputs_, port); }
  const ValueFacts& output(int port) const override { return At(outputs_, port); }
  Layout input_layout(int) const override { return Layout::kNative; }
  Layout output_layout(int) const override { return Layout::kNative; }
  graph::ConstantRef constant(int port) const override {
    if (!has_input(port)) return nullptr;
    return std::make_shared<const graph::Constant>(tensors_[static_cast<size_t>(port)], Hash128());
  }
  StatusOr<PackRef> MakePack(int port, const PackSpec& spec) override {
    ASSIGN_OR_RETURN(Buffer buffer, Buffer::Allocate(spec.bytes));
    spec.fill(tensors_[static_cast<size_t>(port)].view(), buffer.bytes());
    return std::make_shared<const Pack>(Pack{spec.kernel, std::move(buffer)});
  }

 private:
  static const ValueFacts& At(const std::vector<ValueFacts>& facts, int port) {
    static const ValueFacts omitted;
    return static_cast<size_t>(port) < facts.size() ? facts[static_cast<size_t>(port)] : omitted;
  }

  const graph::Node& node_;
  Isa isa_;
  const std::vector<Tensor>& tensors_;
  const std::vector<ValueFacts>& outputs_;
  std::vector<ValueFacts> inputs_;
};

class EvaluateStepContext final : public StepContext {
 public:
  EvaluateStepContext(const graph::Node& node, const std::vector<Tensor>& inputs,
                      std::vector<Tensor>& outputs, Isa isa, const Parallel& parallel)
      : node_(node), outputs_(outputs), isa_(isa), parallel_(parallel) {
    for (const Tensor& input : inputs) inputs_.push_back(input.view());
    for (const Tensor& output : outputs) output_views_.push_back(ViewOf(output));
  }

  const TensorView& input(int port) const override {
    static const TensorView omitted;
    return static_cast<size_t>(port) < inputs_.size() ? inputs_[static_cast<size_t>(port)]
                                                      : omitted;
  }
  const MutableTensorView& output(int port) const override {
    static const MutableTensorView omitted;
    return static_cast<size_t>(port) < output_views_.size()
               ? output_views_[static_cast<size_t>(port)]
               : omitted;
  }
  StatusOr<MutableTensorView> AllocateOutput(int port, const Shape& shape) override {
    Tensor& output = outputs_[static_cast<size_t>(port)];
    const DType dtype = dtypes_[static_cast<size_t>(port)];
    ASSIGN_OR_RETURN(output, Tensor::Allocate(dtype, shape));
    return output.mutable_view();
  }
  StatusOr<std::vector<Tensor>> RunBody(int index, std::span<const TensorView> formal,
                                        std::vector<Tensor> memory) override;
  std::span<std::byte> scratch() const override { return scratch_; }
  const Parallel& parallel() const override { return parallel_; }

  void set_scratch(std::span<std::byte> scratch) { scratch_ = scratch; }
  void set_dtypes(std::vector<DType> dtypes) { dtypes_ = std::move(dtypes); }

 private:
  static MutableTensorView ViewOf(const Tensor& tensor) {
    return tensor.valid() ? tensor.mutable_view() : MutableTensorView();
  }

  const graph::Node& node_;
  std::vector<TensorView> inputs_;
  std::vector<Tensor>& outputs_;
  std::vector<MutableTensorView> output_views_;
  std::vector<DType> dtypes_;
  std::span<std::byte> scratch_;
  const Isa isa_;
  const Parallel& parallel_;
};

StatusOr<std::vector<Tensor>> EvaluateStepContext::RunBody(int index,
                                                           std::span<const TensorView> formal,
                                                           std::vector<Tensor>) {
  const std::vector<graph::Body> bodies = graph::BodiesOf(node_);
  std::vector<Tensor> inputs;
  const auto borrow = [&inputs](const TensorView& view) {
    inputs.push_back(Tensor::Share(nullptr, view.dtype(), view.shape(), view.raw()));
  };
  for (const TensorView& view : formal) borrow(view);
  auto port = node_.inputs.size() - static_cast<size_t>(node_.captures);
  for (int i = 0; i < index; ++i) {
    port += static_cast<size_t>(bodies[static_cast<size_t>(i)].graph->captures());
  }
  const graph::Graph& body = *bodies[static_cast<size_t>(index)].graph;
  for (int i = 0; i < body.captures(); ++i) borrow(inputs_[port + static_cast<size_t>(i)]);
  ASSIGN_OR_RETURN(std::vector<Tensor> outputs, EvaluateGraph(body, inputs, isa_, parallel_));
  for (Tensor& output : outputs) {
    if (output.owner() != nullptr) continue;
    ASSIGN_OR_RETURN(output, Tensor::Copy(output.view()));
  }
  return outputs;
}

StatusOr<std::vector<ValueFacts>> InferOutputs(const graph::Node& node,
                                               const std::vector<Tensor>& inputs) {
  std::vector<ValueFacts> facts;
  facts.reserve(inputs.size());
  for (const Tensor& input : inputs) facts.push_back(input.valid() ? FactsOf(input) : ValueFacts());
  std::vector<const ValueFacts*> pointers;
  for (size_t port = 0; port < inputs.size(); ++port) {
    pointers.push_back(inputs[port].valid() ? &facts[port] : nullptr);
  }
  InferContext context(node, std::move(pointers));
  RETURN_IF_ERROR(OpOf(node).Infer(context));
  return std::move(context.results());
}

// `context` has the inputs and outputs.
Status RunStep(const Step& step, const std::vector<Tensor>& inputs,
               const std::vector<ValueFacts>& facts, const std::vector<Tensor>& outputs,
               EvaluateStepContext& context) {
  std::vector<Shape> input_shapes;
  input_shapes.reserve(inputs.size());
  for (const Tensor& input : inputs) input_shapes.push_back(input.shape());
  std::vector<Shape> output_shapes;
  std::vector<DType> dtypes;
  for (size_t port = 0; port < outputs.size(); ++port) {
    output_shapes.push_back(outputs[port].shape());
    dtypes.push_back(facts[port].dtype);
  }
  const StepShapes shapes{input_shapes, output_shapes, context.parallel().threads()};
  ASSIGN_OR_RETURN(Buffer scratch, Buffer::Allocate(step.ScratchBytes(shapes)));
  context.set_scratch(scratch.bytes());
  context.set_dtypes(std::move(dtypes));
  return step.Run(context);
}

}  // namespace

StatusOr<std::vector<Tensor>> Evaluate(const graph::Node& node, const std::vector<Tensor>& inputs,
                                       Isa isa, const Parallel& parallel) {
  ASSIGN_OR_RETURN(const std::vector<ValueFacts> facts, InferOutputs(node, inputs));
  std::vector<Tensor> outputs(node.outputs.size());
  const Operator& op = OpOf(node);
  if (op.traits().view) {
    const std::optional<Shape> shape = facts[0].shape();
    CHECK(shape.has_value(), "a view of a known tensor has a known shape");
    outputs[0] = inputs[0].Reshaped(*shape);
    return outputs;
  }
  bool all_known = true;
  for (size_t port = 0; port < outputs.size(); ++port) {
    if (node.outputs[port] == graph::kNoValue) continue;
    if (facts[port].value) {
      outputs[port] = *facts[port].value;
      continue;
    }
    all_known = false;
    if (const std::optional<Shape> shape = facts[port].shape()) {
      ASSIGN_OR_RETURN(outputs[port], Tensor::Allocate(facts[port].dtype, *shape));
    }
  }
  if (all_known) return outputs;
  EvaluateBindContext bind(node, inputs, facts, isa);
  ASSIGN_OR_RETURN(const std::unique_ptr<Step> step, op.Bind(bind));
  EvaluateStepContext context(node, inputs, outputs, isa, parallel);
  RETURN_IF_ERROR(RunStep(*step, inputs, facts, outputs, context));
  return outputs;
}

StatusOr<std::vector<Tensor>> EvaluateGraph(const graph::Graph& graph, std::vector<Tensor> inputs,
                                            Isa isa, const Parallel& parallel) {
  std::vector<Tensor> values(static_cast<size_t>(graph.value_limit()));
  for (graph::ValueId id = 0; id < graph.value_limit(); ++id) {
    const graph::Value& value = graph.value(id);
    if (value.constant != nullptr) values[static_cast<size_t>(id)] = value.constant->tensor();
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].valid()) values[static_cast<size_t>(graph.inputs()[i])] = std::move(inputs[i]);
  }
  for (const graph::ValueId id : graph.inputs()) {
    if (!values[static_cast<size_t>(id)].valid()) {
      return InvalidArgument("input '{}' is missing", graph.value(id).name);
    }
  }
  for (const graph::NodeId id : graph.order()) {
    const graph::Node& node = graph.node(id);
    std::vector<Tensor> arguments;
    for (const graph::ValueId input : node.inputs) {
      arguments.push_back(input == graph::kNoValue ? Tensor() : values[static_cast<size_t>(input)]);
    }
    StatusOr<std::vector<Tensor>> results = Evaluate(node, arguments, isa, parallel);
    if (!results.ok()) return Annotate(results.status(), graph::Describe(graph, id));
    for (size_t port = 0; port < node.outputs.size(); ++port) {
      if (node.outputs[port] == graph::kNoValue) continue;
      values[static_cast<size_t>(node.outputs[port])] = (*results)[port];
    }
  }
  std::vector<Tensor> outputs;
  for (const graph::ValueId id : graph.outputs()) {
    outputs.push_back(values[static_cast<size_t>(id)]);
  }
  return outputs;
}

}  // namespace tandem::ops
