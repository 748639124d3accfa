#include <algorithm>

#include "engine/ops/einsum.h"

namespace tandem::ops {
namespace {

using graph::Dim;
using graph::DimVector;

bool Contains(const Labels& labels, int label) {
  return std::ranges::find(labels, label) != labels.end();
}

Labels operator+(Labels a, const Labels& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Labels of `from` that are, or are not, in `other`.
Labels In(const Labels& from, const Labels& other) {
  Labels kept;
  std::ranges::copy_if(from, std::back_inserter(kept),
                       [&](int label) { return Contains(other, label); });
  return kept;
}
Labels NotIn(const Labels& from, const Labels& other) {
  Labels kept;
  std::ranges::copy_if(from, std::back_inserter(kept),
                       [&](int label) { return !Contains(other, label); });
  return kept;
}

// A value on its way through the new nodes.
struct Operand {
  graph::ValueId id;
  Labels labels;
};

// Collects new nodes; the last one that is made defines the output of the node it replaces.
class Chain {
 public:
  Chain(const graph::Graph& graph, graph::NodeId id) : graph_(graph), id_(id), patch_(graph) {}

  graph::ValueId Add(std::string op_type, std::vector<graph::ValueId> inputs,
                     graph::Attributes attributes) {
    graph::Node node;
    node.name = graph_.node(id_).name;
    node.origin = graph_.node(id_).origin;
    node.op_type = std::move(op_type);
    node.opset = graph_.node(id_).opset;
    node.inputs = std::move(inputs);
    node.attributes = std::move(attributes);
    node.outputs = {patch_.NewValue(graph_.value(graph_.node(id_).outputs[0]).name, {})};
    nodes_.push_back(std::move(node));
    return nodes_.back().outputs[0];
  }

  graph::ValueId Permuted(const Operand& x, const Labels& order) {
    if (x.labels == order) return x.id;
    std::vector<int64_t> perm;
    for (const int label : order) {
      perm.push_back(std::ranges::find(x.labels, label) - x.labels.begin());
    }
    return Add("Transpose", {x.id}, {{"perm", std::move(perm)}});
  }

  // Nothing when a shape tensor cannot say what is wanted.
  std::optional<graph::ValueId> Reshaped(graph::ValueId x, const DimVector& from,
                                         const DimVector& to) {
    std::vector<int64_t> shape;
    bool inferred = false;
    for (size_t axis = 0; axis < to.size(); ++axis) {
      if (to[axis].is_number()) {
        if (to[axis].number() == 0) return std::nullopt;
        shape.push_back(to[axis].number());
      } else if (axis < from.size() && to[axis].SameAs(from[axis])) {
        shape.push_back(0);
      } else if (!inferred) {
        inferred = true;
        shape.push_back(-1);
      } else {
        return std::nullopt;
      }
    }
    const Tensor tensor = Tensor::Of<int64_t>({std::ssize(shape)}, std::span<const int64_t>(shape));
    const graph::ValueId constant = patch_.NewConstant(
        "shape", std::make_shared<const graph::Constant>(tensor, graph::HashTensor(tensor.view())));
    return Add("Reshape", {x, constant}, {});
  }

  graph::Patch Finish() {
    nodes_.back().outputs = {graph_.node(id_).outputs[0]};
    for (graph::Node& node : nodes_) patch_.AddNode(std::move(node));
    patch_.RemoveNode(id_);
    return std::move(patch_);
  }

 private:
  const graph::Graph& graph_;
  graph::NodeId id_;
  graph::Patch patch_;
  std::vector<graph::Node> nodes_;
};

// The equation as a matrix product: output [batch, rows, columns] sums over `inner`.
struct Product {
  Labels batch;
  Labels rows;
  Labels columns;
  Labels inner;
};

std::optional<Product> ProductOf(const Subscripts& subscripts) {
  const Labels& a = subscripts.operands[0];
  const Labels& b = subscripts.operands[1];
  for (const Labels* labels : {&a, &b}) {
    for (const int label : *labels) {
      if (std::ranges::count(*labels, label) > 1) return std::nullopt;  // a diagonal
    }
  }
  const Labels both = In(a, b);
  Product product{In(subscripts.output, both), NotIn(a, b), NotIn(b, a),
                  NotIn(both, subscripts.output)};
  // An axis that one operand sums alone.
  if (!NotIn(product.rows + product.columns, subscripts.output).empty()) return std::nullopt;
  return product;
}

class MatrixForm {
 public:
  MatrixForm(const graph::Graph& graph, graph::NodeId id, const Subscripts& subscripts)
      : graph_(graph), node_(graph.node(id)), subscripts_(subscripts), chain_(graph, id) {}

  std::optional<graph::Patch> Make(const Product& product) {
    if (!SameExtents(product.inner) || !SameExtents(product.batch)) return std::nullopt;
    const Group batch = Apart(product.batch);
    // Rows stay apart where B has no batch that would have to lie between them.
    const bool apart = product.batch.empty() && !product.rows.empty();
    const Group rows = apart ? Apart(product.rows) : Merged(product.rows);
    const Group columns = Merged(product.columns);
    const Group inner = Merged(product.inner);
    const auto a = Matrix(0, {batch, rows, inner});
    const auto b = Matrix(1, {batch, inner, columns});
    if (!a || !b) return std::nullopt;
    graph::ValueId y = chain_.Add("MatMul", {*a, *b}, {});
    const Groups result = {batch, rows, columns};
    if (!AsTheyAre(result)) {
      const auto reshaped = chain_.Reshaped(y, DimsOf(result), DimsOf(LabelsOf(result)));
      if (!reshaped) return std::nullopt;
      y = *reshaped;
    }
    chain_.Permuted({y, LabelsOf(result)}, subscripts_.output);
    return chain_.Finish();
  }

 private:
  // Labels that are axes of their own, or one axis together (of extent 1 without labels).
  struct Group {
    Labels labels;
    DimVector dims;
  };
  using Groups = std::vector<Group>;

  std::vector<const DimVector*> AllDims() const {
    std::vector<const DimVector*> dims;
    for (const graph::ValueId input : node_.inputs) dims.push_back(&*graph_.value(input).type.dims);
    return dims;
  }

  DimVector DimsOf(const Labels& labels) const {
    DimVector dims;
    for (const int label : labels) dims.push_back(*ExtentOf(label, subscripts_, AllDims()));
    return dims;
  }

  Group Apart(const Labels& labels) const { return {labels, DimsOf(labels)}; }
  Group Merged(const Labels& labels) const {
    const DimVector dims = DimsOf(labels);
    return {labels, {graph::Product(dims, 0, static_cast<int>(dims.size()))}};
  }

  static bool AsTheyAre(const Groups& groups) {
    return std::ranges::all_of(
        groups, [](const Group& group) { return group.labels.size() == group.dims.size(); });
  }
  static Labels LabelsOf(const Groups& groups) {
    Labels labels;
    for (const Group& group : groups) labels = labels + group.labels;
    return labels;
  }
  static DimVector DimsOf(const Groups& groups) {
    DimVector dims;
    for (const Group& group : groups) {
      dims.insert(dims.end(), group.dims.begin(), group.dims.end());
    }
    return dims;
  }

  // No operand broadcasts along these labels.
  bool SameExtents(const Labels& labels) const {
    const std::vector<const DimVector*> dims = AllDims();
    return std::ranges::all_of(labels, [&](int label) {
      const auto at = [&](size_t k) -> const Dim& {
        const Labels& own = subscripts_.operands[k];
        return (*dims[k])[static_cast<size_t>(std::ranges::find(own, label) - own.begin())];
      };
      return at(0).SameAs(at(1));
    });
  }

  // Operand `k` with one axis or several for each group.
  std::optional<graph::ValueId> Matrix(size_t k, const Groups& groups) {
    const Labels order = LabelsOf(groups);
    const graph::ValueId x = chain_.Permuted({node_.inputs[k], subscripts_.operands[k]}, order);
    return AsTheyAre(groups) ? x : chain_.Reshaped(x, DimsOf(order), DimsOf(groups));
  }

  const graph::Graph& graph_;
  const graph::Node& node_;
  const Subscripts& subscripts_;
  Chain chain_;
};

std::optional<graph::Patch> CombineFirstTwo(const graph::Graph& graph, graph::NodeId id,
                                            const Subscripts& subscripts) {
  // What the others or the output still want of the first two.
  Labels wanted = subscripts.output;
  for (size_t k = 2; k < subscripts.operands.size(); ++k) wanted = wanted + subscripts.operands[k];
  const Labels& a = subscripts.operands[0];
  Labels kept;
  for (const int label : a + subscripts.operands[1]) {
    if (Contains(wanted, label) && !Contains(kept, label)) kept.push_back(label);
  }
  const auto first = Spell({{a, subscripts.operands[1]}, kept});
  Subscripts rest{{kept}, subscripts.output};
  rest.operands.insert(rest.operands.end(), subscripts.operands.begin() + 2,
                       subscripts.operands.end());
  const auto second = Spell(rest);
  if (!first || !second) return std::nullopt;
  const std::vector<graph::ValueId>& inputs = graph.node(id).inputs;
  Chain chain(graph, id);
  std::vector<graph::ValueId> others = {
      chain.Add("Einsum", {inputs[0], inputs[1]}, {{"equation", *first}})};
  others.insert(others.end(), inputs.begin() + 2, inputs.end());
  chain.Add("Einsum", std::move(others), {{"equation", *second}});
  return chain.Finish();
}

}  // namespace

std::optional<graph::Patch> LowerEinsum(const graph::Graph& graph, graph::NodeId id,
                                        const Subscripts& subscripts) {
  if (subscripts.operands.size() > 2) return CombineFirstTwo(graph, id, subscripts);
  if (subscripts.operands.size() < 2) return std::nullopt;
  if (!IsFloating(graph.value(graph.node(id).inputs[0]).type.dtype)) return std::nullopt;
  const std::optional<Product> product = ProductOf(subscripts);
  if (!product) return std::nullopt;
  return MatrixForm(graph, id, subscripts).Make(*product);
}

}  // namespace tandem::ops
