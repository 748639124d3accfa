// Runs one operator on tensors, and builds small graphs in code.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/base/cpu.h"
#include "engine/graph/graph.h"
#include "engine/ops/evaluate.h"

namespace tandem::test {

// What to run: RunOp({.op_type = "Softmax", .opset = 13, .attributes = {{"axis", int64_t{1}}}},
// {x}).
struct OpCall {
  std::string op_type;
  int opset = 17;
  graph::Attributes attributes;
  int outputs = 1;
  std::string domain;
  Isa isa = DetectIsa();
  int threads = 1;
};

// Outputs of the operator; an invalid Tensor() stands for an omitted input.
StatusOr<std::vector<Tensor>> RunOp(const OpCall& call, const std::vector<Tensor>& inputs);

// The first output; when the operator fails, so does the test, and the tensor is invalid.
Tensor Apply(const OpCall& call, const std::vector<Tensor>& inputs);

// The instruction-set levels that kernels are compiled for and this machine has, rising.
std::vector<Isa> IsaLevels();

// Builds a graph node by node; names are the caller's.
class GraphBuilder {
 public:
  explicit GraphBuilder(int opset = 17) : opset_(opset) {}

  GraphBuilder& Input(const std::string& name, DType dtype, graph::DimVector dims);
  GraphBuilder& Constant(const std::string& name, Tensor tensor);
  // Inputs are names of values ("" omits one); outputs become new values.
  GraphBuilder& Node(const std::string& op_type, const std::vector<std::string>& inputs,
                     const std::vector<std::string>& outputs, graph::Attributes attributes = {},
                     const std::string& name = "", const std::string& domain = "");
  GraphBuilder& Output(const std::string& name);

  // Sorted, resolved and inferred; CHECKs that it is right.
  graph::Graph Build();
  // Sorted only, for tests of what resolving and inference refuse.
  graph::Graph BuildRaw();
  graph::ConstantStore& constants() { return constants_; }

 private:
  int opset_;
  graph::ConstantStore constants_;
  graph::Graph graph_;
};

}  // namespace tandem::test
