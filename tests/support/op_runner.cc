#include "tests/support/op_runner.h"

#include <gtest/gtest.h>

#include "engine/base/check.h"
#include "engine/ops/registry.h"
#include "tests/support/fine_parallel.h"

namespace tandem::test {

StatusOr<std::vector<Tensor>> RunOp(const OpCall& call, const std::vector<Tensor>& inputs) {
  graph::Node node;
  node.op_type = call.op_type;
  node.domain = call.domain;
  node.opset = call.opset;
  node.attributes = call.attributes;
  for (size_t i = 0; i < inputs.size(); ++i) {
    node.inputs.push_back(inputs[i].valid() ? static_cast<graph::ValueId>(i) : graph::kNoValue);
  }
  for (int i = 0; i < call.outputs; ++i) node.outputs.push_back(1000 + i);
  ASSIGN_OR_RETURN(node.op, ops::ParseNode(node));
  if (call.threads == 1) return ops::Evaluate(node, inputs, call.isa, SequentialParallel());
  return ops::Evaluate(node, inputs, call.isa, FineParallel(call.threads));
}

Tensor Apply(const OpCall& call, const std::vector<Tensor>& inputs) {
  const StatusOr<std::vector<Tensor>> outputs = RunOp(call, inputs);
  EXPECT_TRUE(outputs.ok()) << call.op_type << ": " << outputs.status();
  return outputs.ok() ? outputs->front() : Tensor();
}

std::vector<Isa> IsaLevels() {
  std::vector<Isa> levels;
  for (const Isa isa : {Isa::kReference, Isa::kBaseline, Isa::kAvx2, Isa::kAvx512, Isa::kVnni}) {
    if (isa <= DetectIsa()) levels.push_back(isa);
  }
  return levels;
}

GraphBuilder& GraphBuilder::Input(const std::string& name, DType dtype, graph::DimVector dims) {
  graph::ValueType type;
  type.dtype = dtype;
  type.dims = std::move(dims);
  graph_.AddInput(name, std::move(type));
  return *this;
}

GraphBuilder& GraphBuilder::Constant(const std::string& name, Tensor tensor) {
  graph_.AddConstant(name, constants_.Intern(std::move(tensor)));
  return *this;
}

GraphBuilder& GraphBuilder::Node(const std::string& op_type, const std::vector<std::string>& inputs,
                                 const std::vector<std::string>& outputs,
                                 graph::Attributes attributes, const std::string& name,
                                 const std::string& domain) {
  graph::Node node;
  node.name = name;
  node.op_type = op_type;
  node.domain = domain;
  node.opset = opset_;
  node.attributes = std::move(attributes);
  for (const std::string& input : inputs) {
    graph::ValueId id = graph::kNoValue;
    if (!input.empty()) {
      id = graph_.FindValue(input);
      CHECK(id != graph::kNoValue, "no value is named '{}'", input);
    }
    node.inputs.push_back(id);
  }
  for (const std::string& output : outputs) {
    node.outputs.push_back(output.empty() ? graph::kNoValue : graph_.AddValue(output, {}));
  }
  graph_.AddNode(std::move(node));
  return *this;
}

GraphBuilder& GraphBuilder::Output(const std::string& name) {
  const graph::ValueId id = graph_.FindValue(name);
  CHECK(id != graph::kNoValue, "no value is named '{}'", name);
  graph_.AddOutput(name, id);
  return *this;
}

graph::Graph GraphBuilder::BuildRaw() {
  const Status sorted = graph_.Sort();
  CHECK(sorted.ok(), "{}", Message(sorted));
  return graph_;
}

graph::Graph GraphBuilder::Build() {
  graph::Graph graph = BuildRaw();
  const Status resolved = ops::ResolveAll(graph);
  CHECK(resolved.ok(), "{}", Message(resolved));
  const Status inferred = ops::InferAll(graph);
  CHECK(inferred.ok(), "{}", Message(inferred));
  return graph;
}

}  // namespace tandem::test
