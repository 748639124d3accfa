// Floats between DequantizeLinear (DQ) and QuantizeLinear (Q), computed on the 8-bit integers:
//
//   Q(Conv(DQ(x), DQ(w), DQ(b)))    -> QLinearConv(x, w, b)
//   Q(Gemm(DQ(x), DQ(w), DQ(b)))    -> Squeeze(QLinearConv(Unsqueeze(x), w, b)), w transposed
//   Q(MatMul(DQ(a), DQ(b)))         -> QLinearMatMul(a, b), b a constant matrix
//   Q(Add(DQ(a), DQ(b)))            -> QLinearAdd(a, b)
//   Q(op(DQ(x)))                    -> op(x), op a MaxPool or one that moves elements
//   Q(Relu(p)), Q(Clip(p, l, h))    -> Clip(Q(p), Q(l), Q(h)), p one of the above
//
// The last is exact as Q is monotone; products round once where the floats are rounded three times.
// Guards: nothing else reads the floats from the product to Q, and they are no graph output;
// scales, zero points and bounds are constant; scales are positive and normal; one scale for a
// tensor, but for weights by output channel; the bias is int32 in steps of x's scale times w's;
// what moves elements has the same scale and zero point on both sides.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/optimizer/match.h"
#include "engine/optimizer/rewrite.h"

namespace tandem::optimizer {
namespace {

using graph::kNoNode;
using graph::kNoValue;
using graph::NodeId;
using graph::ValueId;

bool IsByte(DType dtype) { return dtype == DType::kInt8 || dtype == DType::kUint8; }

int32_t LowestOf(DType byte) { return byte == DType::kInt8 ? -128 : 0; }

// Integers and what they mean: the inputs of a DQ, or the outputs and parameters of a Q.
struct Quantised {
  ValueId integers = kNoValue;
  ValueId scale = kNoValue;
  ValueId zero_point = kNoValue;  // kNoValue: 0
  DType dtype = DType::kUndefined;
  int64_t axis = 1;
  graph::ConstantRef scales;
  graph::ConstantRef zero_points;  // null: 0

  bool per_tensor() const { return scales->elements() == 1; }
  float scale_at(int64_t i) const { return scales->view().data<float>()[per_tensor() ? 0 : i]; }
  int32_t zero() const {
    if (zero_points == nullptr) return 0;
    const TensorView& view = zero_points->view();
    return dtype == DType::kInt8 ? view.data<int8_t>()[0] : view.data<uint8_t>()[0];
  }
};

bool AreUsable(const TensorView& scales) {
  return std::ranges::all_of(scales.span<float>(),
                             [](float scale) { return std::isnormal(scale) && scale > 0; });
}

// What a Q or DQ node says of its integers; nothing where the floats or the scales are not float32,
// or the parameters not constant or in blocks.
std::optional<Quantised> ParametersOf(const graph::Graph& graph, const graph::Node& node,
                                      ValueId integers, ValueId floats) {
  if (graph.value(floats).type.dtype != DType::kFloat) return std::nullopt;
  Quantised quantised;
  quantised.integers = integers;
  quantised.dtype = graph.value(integers).type.dtype;
  quantised.axis = IntAttribute(node, "axis", 1);
  quantised.scale = node.inputs[1];
  quantised.scales = graph.constant_input(node, 1);
  if (quantised.scales == nullptr || quantised.scales->dtype() != DType::kFloat)
    return std::nullopt;
  if (!AreUsable(quantised.scales->view()) || IntAttribute(node, "block_size", 0) != 0) {
    return std::nullopt;
  }
  if (node.inputs.size() > 2 && node.inputs[2] != kNoValue) {
    quantised.zero_point = node.inputs[2];
    quantised.zero_points = graph.constant_input(node, 2);
    if (quantised.zero_points == nullptr) return std::nullopt;
  }
  return quantised;
}

// The integers of which `id` is the DQ.
std::optional<Quantised> DequantisedFrom(const graph::Graph& graph, ValueId id) {
  const NodeId maker = id == kNoValue ? kNoNode : Maker(graph, id, "DequantizeLinear");
  if (maker == kNoNode) return std::nullopt;
  const graph::Node& node = graph.node(maker);
  return ParametersOf(graph, node, node.inputs[0], node.outputs[0]);
}

// A Q node, the bounded values before it and what computes them.
struct Match {
  NodeId root = kNoNode;
  Quantised y;
  int32_t low = 0;
  int32_t high = 0;
  NodeId producer = kNoNode;
  std::vector<NodeId> nodes;  // of the formula, readers first, DQs left out

  bool bounded() const {
    const int32_t lowest = LowestOf(y.dtype);
    return low > lowest || high < lowest + 255;
  }
  // The integer of the number `x`.
  int32_t Bound(float x) const {
    const float lowest = static_cast<float>(LowestOf(y.dtype));
    const float rounded = std::nearbyint(x / y.scale_at(0)) + static_cast<float>(y.zero());
    return static_cast<int32_t>(std::clamp(rounded, lowest, lowest + 255));
  }
};

struct Bounds {
  float low = std::numeric_limits<float>::lowest();
  float high = std::numeric_limits<float>::max();
};

// The bounds that a node Relu or Clip keeps its input within.
std::optional<Bounds> BoundsOf(const graph::Graph& graph, const graph::Node& node) {
  if (!node.domain.empty() || !node.epilogue.empty()) return std::nullopt;
  if (node.op_type == "Relu") return Bounds{0, std::numeric_limits<float>::max()};
  if (node.op_type != "Clip") return std::nullopt;
  Bounds bounds;
  bounds.low = FloatAttribute(node, "min", bounds.low);
  bounds.high = FloatAttribute(node, "max", bounds.high);
  for (size_t port = 1; port < node.inputs.size(); ++port) {
    if (node.inputs[port] == kNoValue) continue;
    const graph::ConstantRef bound = graph.constant_input(node, static_cast<int>(port));
    if (bound == nullptr || bound->dtype() != DType::kFloat || bound->elements() != 1) {
      return std::nullopt;
    }
    (port == 1 ? bounds.low : bounds.high) = bound->view().data<float>()[0];
  }
  if (!(bounds.low <= bounds.high)) return std::nullopt;
  return bounds;
}

// Nothing where `root` is no Q of one scale to bytes; a match without producer where the floats
// before it are read elsewhere.
std::optional<Match> MatchQuantize(const graph::Graph& graph, NodeId root) {
  const graph::Node& node = graph.node(root);
  if (!node.domain.empty() || node.op_type != "QuantizeLinear") return std::nullopt;
  const std::optional<Quantised> y = ParametersOf(graph, node, node.outputs[0], node.inputs[0]);
  if (!y || !IsByte(y->dtype) || !y->per_tensor()) return std::nullopt;
  Match match;
  match.root = root;
  match.y = *y;
  match.low = LowestOf(y->dtype);
  match.high = match.low + 255;
  match.nodes = {root};
  ValueId floats = node.inputs[0];
  while (SoleReader(graph, floats) && graph.value(floats).def != kNoNode) {
    const NodeId def = graph.value(floats).def;
    const std::optional<Bounds> bounds = BoundsOf(graph, graph.node(def));
    match.nodes.push_back(def);
    if (!bounds) {
      match.producer = def;
      return match;
    }
    // These bounds apply first.
    const int32_t low = std::clamp(match.Bound(bounds->low), match.low, match.high);
    match.high = std::clamp(match.Bound(bounds->high), match.low, match.high);
    match.low = low;
    floats = graph.node(def).inputs[0];
  }
  return match;
}

// Builds what stands in the place of a match.
class Replacement {
 public:
  Replacement(const graph::Graph& graph, const Match& match, PassContext& context)
      : graph_(graph), match_(match), context_(context), patch_(graph) {}

  ValueId Constant(std::string_view name, Tensor tensor) {
    return patch_.NewConstant(name, context_.constants().Intern(std::move(tensor)));
  }
  ValueId Value(std::string_view name, DType dtype, std::optional<graph::DimVector> dims) {
    graph::ValueType type;
    type.dtype = dtype;
    type.dims = std::move(dims);
    return patch_.NewValue(name, std::move(type));
  }
  ValueId Scalar(DType byte, int32_t value) {
    return Constant("zero_point", byte == DType::kInt8
                                      ? Tensor::Scalar(static_cast<int8_t>(value))
                                      : Tensor::Scalar(static_cast<uint8_t>(value)));
  }
  // Integers, scale and zero point.
  void Append(std::vector<ValueId>& inputs, const Quantised& quantised) {
    inputs.push_back(quantised.integers);
    AppendParameters(inputs, quantised);
  }
  void AppendParameters(std::vector<ValueId>& inputs, const Quantised& quantised) {
    inputs.push_back(quantised.scale);
    inputs.push_back(quantised.zero_point != kNoValue ? quantised.zero_point
                                                      : Scalar(quantised.dtype, 0));
  }

  graph::Node NodeLike(const graph::Node& model, std::string op_type) const {
    graph::Node node;
    node.op_type = std::move(op_type);
    node.opset = model.opset;
    node.origin = OriginOf(graph_, {match_.nodes.rbegin(), match_.nodes.rend()});
    return node;
  }
  void Add(graph::Node node) { patch_.AddNode(std::move(node)); }

  // The value that the last node before the bounds makes, of these extents.
  ValueId Result() {
    if (!match_.bounded()) return match_.y.integers;
    return Value("quantised", match_.y.dtype, graph_.value(match_.y.integers).type.dims);
  }
  graph::Patch Finish(ValueId result) {
    if (match_.bounded()) {
      graph::Node clip = NodeLike(graph_.node(match_.root), "Clip");
      clip.opset = std::max(clip.opset, 12);
      clip.inputs = {result, Scalar(match_.y.dtype, match_.low),
                     Scalar(match_.y.dtype, match_.high)};
      clip.outputs = {match_.y.integers};
      Add(std::move(clip));
    }
    for (const NodeId node : match_.nodes) patch_.RemoveNode(node);
    return std::move(patch_);
  }

 private:
  const graph::Graph& graph_;
  const Match& match_;
  PassContext& context_;
  graph::Patch patch_;
};

std::nullopt_t Decline(const graph::Graph& graph, const Match& match, std::string role,
                       std::string rule, PassContext& context) {
  context.Refuse(graph, match.producer, std::move(role), std::move(rule));
  return std::nullopt;
}

// Scales and zero points by output channel, on `axis` of `rank`, or one for all.
bool IsWeight(const Quantised& w, int64_t axis, size_t rank) {
  if (!IsByte(w.dtype)) return false;
  const int64_t own = w.axis < 0 ? w.axis + static_cast<int64_t>(rank) : w.axis;
  return w.per_tensor() || own == axis;
}

// An int32 bias in steps of x's scale times w's.
bool IsBias(const Quantised& bias, const Quantised& x, const Quantised& w) {
  if (bias.dtype != DType::kInt32) return false;
  if (bias.zero_points != nullptr) {
    const auto zeros = bias.zero_points->view().span<int32_t>();
    if (std::ranges::any_of(zeros, [](int32_t zero) { return zero != 0; })) return false;
  }
  const int64_t scales = std::max(bias.scales->elements(), w.scales->elements());
  if (!bias.per_tensor() && !w.per_tensor() && bias.scales->elements() != w.scales->elements()) {
    return false;
  }
  for (int64_t i = 0; i < scales; ++i) {
    if (!IsAbout(bias.scale_at(i), x.scale_at(0) * w.scale_at(i))) return false;
  }
  return true;
}

// The operands of a product, or nothing with the reason recorded.
struct Operands {
  Quantised x;
  Quantised w;
  ValueId bias = kNoValue;
};
std::optional<Operands> OperandsOf(const graph::Graph& graph, const Match& match, int64_t w_axis,
                                   PassContext& context) {
  const graph::Node& node = graph.node(match.producer);
  const std::optional<Quantised> x = DequantisedFrom(graph, node.inputs[0]);
  const std::optional<Quantised> w = DequantisedFrom(graph, node.inputs[1]);
  if (!x || !w) return std::nullopt;
  if (!IsByte(x->dtype) || !x->per_tensor()) {
    return Decline(graph, match, "input 0", "it has not one scale and 8 bits", context);
  }
  const auto& dims = graph.value(w->integers).type.dims;
  if (!dims || !IsWeight(*w, w_axis < 0 ? w_axis + static_cast<int64_t>(dims->size()) : w_axis,
                         dims->size())) {
    return Decline(graph, match, "input 1", "its scales are not those of output channels", context);
  }
  Operands operands{*x, *w};
  if (node.inputs.size() > 2 && node.inputs[2] != kNoValue) {
    const std::optional<Quantised> bias = DequantisedFrom(graph, node.inputs[2]);
    if (!bias || !IsBias(*bias, *x, *w)) {
      return Decline(graph, match, "input 2",
                     "the bias is not int32 in steps of the scales' product", context);
    }
    operands.bias = bias->integers;
  }
  return operands;
}

// x, w and y with their parameters, and the bias.
graph::Node LinearNode(Replacement& replacement, const Match& match, const Operands& operands,
                       graph::Node node) {
  replacement.Append(node.inputs, operands.x);
  replacement.Append(node.inputs, operands.w);
  replacement.AppendParameters(node.inputs, match.y);
  if (operands.bias != kNoValue) node.inputs.push_back(operands.bias);
  return node;
}

std::optional<graph::Patch> FuseConv(const graph::Graph& graph, const Match& match,
                                     PassContext& context) {
  const std::optional<Operands> operands = OperandsOf(graph, match, 0, context);
  if (!operands) return std::nullopt;
  Replacement replacement(graph, match, context);
  const graph::Node& conv = graph.node(match.producer);
  graph::Node node = replacement.NodeLike(conv, "QLinearConv");
  node.attributes = conv.attributes;
  node = LinearNode(replacement, match, *operands, std::move(node));
  const ValueId result = replacement.Result();
  node.outputs = {result};
  replacement.Add(std::move(node));
  return replacement.Finish(result);
}

std::optional<graph::Patch> FuseMatMul(const graph::Graph& graph, const Match& match,
                                       PassContext& context) {
  const std::optional<Operands> operands = OperandsOf(graph, match, -1, context);
  if (!operands) return std::nullopt;
  const graph::Value& w = graph.value(operands->w.integers);
  if (w.constant == nullptr || w.constant->shape().rank() != 2) {
    return Decline(graph, match, "input 1", "it is not one constant matrix", context);
  }
  Replacement replacement(graph, match, context);
  graph::Node node = LinearNode(replacement, match, *operands,
                                replacement.NodeLike(graph.node(match.producer), "QLinearMatMul"));
  const ValueId result = replacement.Result();
  node.outputs = {result};
  replacement.Add(std::move(node));
  return replacement.Finish(result);
}

// `to` = op(`from`) on the axis that rows lack as images.
void AddAxisNode(Replacement& replacement, graph::Node node, ValueId from, ValueId to) {
  node.opset = std::max(node.opset, 13);
  node.inputs = {from, replacement.Constant("axis", Tensor::Of<int64_t>({1}, {2}))};
  node.outputs = {to};
  replacement.Add(std::move(node));
}

std::optional<graph::Patch> FuseGemm(const graph::Graph& graph, const Match& match,
                                     PassContext& context) {
  const graph::Node& gemm = graph.node(match.producer);
  if (!DequantisedFrom(graph, gemm.inputs[0])) return std::nullopt;
  if (IntAttribute(gemm, "transA", 0) != 0 || IntAttribute(gemm, "transB", 0) == 0 ||
      FloatAttribute(gemm, "alpha", 1) != 1 || FloatAttribute(gemm, "beta", 1) != 1) {
    return Decline(graph, match, "node", "only x * w transposed + bias is a product of integers",
                   context);
  }
  std::optional<Operands> operands = OperandsOf(graph, match, 0, context);
  if (!operands) return std::nullopt;
  const graph::ConstantRef weights = graph.value(operands->w.integers).constant;
  const auto& x_dims = graph.value(operands->x.integers).type.dims;
  const auto& bias_dims = operands->bias == kNoValue ? std::optional<graph::DimVector>()
                                                     : graph.value(operands->bias).type.dims;
  if (weights == nullptr || weights->is_view()) {
    return Decline(graph, match, "input 1", "the weight is not constant as it is stored", context);
  }
  if (!x_dims) return Decline(graph, match, "input 0", "its rank is unknown", context);
  if (operands->bias != kNoValue &&
      (!bias_dims || bias_dims->size() != 1 || !(*bias_dims)[0].SameAs(weights->shape()[0]))) {
    return Decline(graph, match, "input 2", "the bias is not one for each column", context);
  }
  Replacement replacement(graph, match, context);
  const graph::Dim rows = (*x_dims)[0];
  const graph::Dim columns = weights->shape()[0];
  const ValueId image =
      replacement.Value("rows", operands->x.dtype, graph::DimVector{rows, (*x_dims)[1], 1});
  AddAxisNode(replacement, replacement.NodeLike(gemm, "Unsqueeze"), operands->x.integers, image);
  operands->x.integers = image;
  operands->w.integers = replacement.Constant(
      "filters", weights->tensor().Reshaped({weights->shape()[0], weights->shape()[1], 1}));
  graph::Node node =
      LinearNode(replacement, match, *operands, replacement.NodeLike(gemm, "QLinearConv"));
  const ValueId product =
      replacement.Value("product", match.y.dtype, graph::DimVector{rows, columns, 1});
  node.outputs = {product};
  replacement.Add(std::move(node));
  const ValueId result = replacement.Result();
  AddAxisNode(replacement, replacement.NodeLike(gemm, "Squeeze"), product, result);
  return replacement.Finish(result);
}

std::optional<graph::Patch> FuseAdd(const graph::Graph& graph, const Match& match,
                                    PassContext& context) {
  const graph::Node& add = graph.node(match.producer);
  const std::optional<Quantised> a = DequantisedFrom(graph, add.inputs[0]);
  const std::optional<Quantised> b = DequantisedFrom(graph, add.inputs[1]);
  if (!a || !b) return std::nullopt;
  for (const Quantised* operand : {&*a, &*b}) {
    if (!IsByte(operand->dtype) || !operand->per_tensor() || operand->dtype != match.y.dtype) {
      return Decline(graph, match, "operands", "they have not one scale and the result's type",
                     context);
    }
  }
  Replacement replacement(graph, match, context);
  graph::Node node = replacement.NodeLike(add, "QLinearAdd");
  node.domain = "com.microsoft";
  node.opset = 1;
  replacement.Append(node.inputs, *a);
  replacement.Append(node.inputs, *b);
  replacement.AppendParameters(node.inputs, match.y);
  const ValueId result = replacement.Result();
  node.outputs = {result};
  replacement.Add(std::move(node));
  return replacement.Finish(result);
}

// MaxPool, and operators that move the elements of their first input.
bool MovesElements(const graph::Node& node) {
  constexpr std::string_view kOps[] = {"MaxPool", "Reshape",   "Flatten", "Transpose",
                                       "Squeeze", "Unsqueeze", "Slice",   "DepthToSpace"};
  return std::ranges::find(kOps, node.op_type) != std::end(kOps) && node.outputs.size() == 1;
}

std::optional<graph::Patch> FuseMovement(const graph::Graph& graph, const Match& match,
                                         PassContext& context) {
  const graph::Node& move = graph.node(match.producer);
  const std::optional<Quantised> x = DequantisedFrom(graph, move.inputs[0]);
  if (!x) return std::nullopt;
  const bool same = x->dtype == match.y.dtype && x->per_tensor() &&
                    x->scale_at(0) == match.y.scale_at(0) && x->zero() == match.y.zero();
  if (!same) {
    return Decline(graph, match, "input 0", "scale and zero point change on the way", context);
  }
  Replacement replacement(graph, match, context);
  graph::Node node = replacement.NodeLike(move, move.op_type);
  node.attributes = move.attributes;
  node.inputs = move.inputs;
  node.inputs[0] = x->integers;
  if (node.op_type == "MaxPool") node.opset = std::max(node.opset, 12);
  const ValueId result = replacement.Result();
  node.outputs = {result};
  replacement.Add(std::move(node));
  return replacement.Finish(result);
}

}  // namespace

std::optional<graph::Patch> FuseQdq(const graph::Graph& graph, NodeId anchor,
                                    PassContext& context) {
  const std::optional<Match> match = MatchQuantize(graph, anchor);
  if (!match || match->producer == kNoNode) return std::nullopt;
  const graph::Node& producer = graph.node(match->producer);
  if (!producer.domain.empty() || !producer.prologue.empty() || !producer.epilogue.empty()) {
    return std::nullopt;
  }
  if (producer.op_type == "Conv") return FuseConv(graph, *match, context);
  if (producer.op_type == "Gemm") return FuseGemm(graph, *match, context);
  if (producer.op_type == "MatMul") return FuseMatMul(graph, *match, context);
  if (producer.op_type == "Add") return FuseAdd(graph, *match, context);
  if (MovesElements(producer)) return FuseMovement(graph, *match, context);
  return std::nullopt;
}

}  // namespace tandem::optimizer
