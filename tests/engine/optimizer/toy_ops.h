// Operators made for the tests of the optimizer: their traits and rules are the test's to choose.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/ops/operator.h"
#include "engine/optimizer/pass.h"

namespace tandem::optimizer::test {

// y[i] = apply(inputs[.][i]) over float tensors, with inputs broadcast when they have one element;
// then the node's epilogue (Add, Sub, Mul, Relu).
struct ToyBehaviour {
  std::function<float(const std::vector<float>&)> apply;
  ops::Traits traits;
  bool takes_epilogue = false;
  int data_inputs = 1;       // inputs of the operator itself; those behind are operands of stages
  int64_t grows = 1;         // elements of the output for each element of input 0, along axis 0
  int outputs = 1;           // each has the same content
  double multiply_adds = 0;  // what EstimateCost says
};

std::shared_ptr<const ops::Operator> MakeToy(ToyBehaviour behaviour);

// A graph of toy nodes over float values of one shape.
class ToyGraph {
 public:
  explicit ToyGraph(graph::DimVector dims = {4}) : dims_(std::move(dims)) {}

  graph::ValueId Input(const std::string& name);
  graph::ValueId Constant(const std::string& name, Tensor tensor);
  // The first of the node's outputs, which are named `name`, `name`1 ...
  graph::ValueId Node(const std::string& op_type, std::vector<graph::ValueId> inputs,
                      const std::string& name, ToyBehaviour behaviour);
  void Output(graph::ValueId id) { graph.AddOutput(graph.value(id).name, id); }

  graph::Graph graph;
  graph::ConstantStore constants;
  bool named_nodes = true;

 private:
  graph::DimVector dims_;
};

ToyBehaviour Double();    // y = 2x, no traits
ToyBehaviour Producer();  // y = 2x + 1, takes an epilogue
ToyBehaviour Residual();  // y = x0 + x1, elementwise
ToyBehaviour Rectify();   // y = max(x, 0), elementwise

}  // namespace tandem::optimizer::test
