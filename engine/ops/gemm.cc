// Gemm (ai.onnx, opsets 7, 9, 11, 13): Y = alpha * op(A) * op(B) + beta * C, where op transposes or
// not and C is broadcast to Y.
#include "engine/ops/epilogue.h"
#include "engine/ops/matrix_product.h"
#include "engine/ops/reduce.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

constexpr int kA = 0;
constexpr int kB = 1;
constexpr int kC = 2;
constexpr int kOwnInputs = 3;

class Gemm final : public Operator {
 public:
  explicit Gemm(ProductOptions options) : options_(options) {}

  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    ProductOptions options;
    options.trans_a = reader.Int("transA", 0) != 0;
    options.trans_b = reader.Int("transB", 0) != 0;
    options.alpha = reader.Float("alpha", 1);
    options.beta = reader.Float("beta", 1);
    if (reader.has_input(kC)) {
      options.c_port = kC;
    } else if (reader.opset() < 11) {
      reader.Fail(InvalidArgument(
          "input C is omitted, which opset {} does not allow; opset 11 does", reader.opset()));
    }
    return std::make_shared<const Gemm>(options);
  }

  Status Infer(InferContext& context) const override;

  std::optional<graph::Patch> Lower(const graph::Graph& graph, graph::NodeId id) const override;

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    return BindProduct(options_, context);
  }

  ConstantUse UseOfConstant(int port, DType dtype) const override {
    return port == kB && dtype == DType::kFloat ? ConstantUse::kPacked : ConstantUse::kNative;
  }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    const ProductExtents e = ResolveProduct(options_, shapes.inputs[kA], shapes.inputs[kB]);
    return {.multiply_adds =
                static_cast<double>(e.m) * static_cast<double>(e.n) * static_cast<double>(e.k),
            .bytes = static_cast<double>(e.m * e.k + e.k * e.n + e.m * e.n) *
                     static_cast<double>(DTypeBits(dtype)) / 8};
  }

  Decision TryFuseEpilogue(const EpilogueRequest& request) const override {
    return TryFuseStage(request, ColumnAxis::kLast);
  }

  Decision TryFusePrologue(const PrologueRequest& request) const override {
    return TryFuseProductPrologue(options_, request);
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    if (query.axes[kB]) return BatchAnswer::Decline("B of Gemm carries the batch");
    if (query.axes[kA] != (options_.trans_a ? 1 : 0)) {
      return BatchAnswer::Decline("the batch is not on the rows of Gemm's A");
    }
    if (RowReductionOf(query.node)) {
      return BatchAnswer::Decline("Gemm's epilogue reduces the batch axis");
    }
    if (std::optional<std::string> reason = OperandsMixBatch(query, kC, 0, 2)) {
      return BatchAnswer::Decline(*std::move(reason));
    }
    return BatchAnswer::All(query, 0);
  }

 private:
  Status CheckDTypes(const InferContext& context) const;
  Status CheckC(const graph::DimVector& c, const graph::DimVector& out) const;

  ProductOptions options_;
};

// `node` in terms of a node that makes one of its inputs.
graph::Node MakerOfInput(const graph::Node& node, std::string op_type,
                         std::vector<graph::ValueId> inputs, graph::ValueId output) {
  graph::Node maker;
  maker.name = node.name;
  maker.origin = node.origin;
  maker.op_type = std::move(op_type);
  maker.opset = node.opset;
  maker.inputs = std::move(inputs);
  maker.outputs = {output};
  return maker;
}

// A constant A is transposed, and a constant C multiplied by beta, by nodes that fold.
std::optional<graph::Patch> Gemm::Lower(const graph::Graph& graph, graph::NodeId id) const {
  graph::Node node = graph.node(id);
  const auto is_weight = [&](int port) {
    const graph::Value& value = graph.value(node.inputs[static_cast<size_t>(port)]);
    return value.constant != nullptr;
  };
  const bool transposes = options_.trans_a && is_weight(kA);
  const bool scales = options_.beta != 1 && options_.c_port == kC && is_weight(kC) &&
                      graph.value(node.inputs[kC]).type.dtype == DType::kFloat;
  if (!transposes && !scales) return std::nullopt;
  graph::Patch patch(graph);
  node.op = nullptr;
  if (transposes) {
    const graph::ValueId a = patch.NewValue(graph.value(node.inputs[kA]).name, {});
    patch.AddNode(MakerOfInput(node, "Transpose", {node.inputs[kA]}, a));
    node.inputs[kA] = a;
    node.attributes.erase("transA");
  }
  if (scales) {
    const Tensor beta = Tensor::Scalar(options_.beta);
    const graph::ValueId factor = patch.NewConstant(
        "beta", std::make_shared<const graph::Constant>(beta, graph::HashTensor(beta.view())));
    const graph::ValueId c = patch.NewValue(graph.value(node.inputs[kC]).name, {});
    patch.AddNode(MakerOfInput(node, "Mul", {node.inputs[kC], factor}, c));
    node.inputs[kC] = c;
    node.attributes.erase("beta");
  }
  patch.AddNode(std::move(node));
  patch.RemoveNode(id);
  return patch;
}

Status Gemm::CheckDTypes(const InferContext& context) const {
  const DType dtype = context.input(kA).dtype;
  if (!IsFloating(dtype) && !(IsInteger(dtype) && DTypeBits(dtype) >= 32)) {
    return InvalidArgument(
        "A is {} where a floating type, int32, int64, uint32 or uint64 is "
        "expected",
        DTypeName(dtype));
  }
  for (const int port : {kB, kC}) {
    if (!context.has_input(port) || context.input(port).dtype == dtype) continue;
    return InvalidArgument("input {} is {} where A is {}", port,
                           DTypeName(context.input(port).dtype), DTypeName(dtype));
  }
  return absl::OkStatus();
}

Status Gemm::CheckC(const graph::DimVector& c, const graph::DimVector& out) const {
  bool fits = c.size() <= out.size();
  for (size_t i = 0; fits && i < c.size(); ++i) {
    const graph::Dim& extent = c[i];
    const graph::Dim& expected = out[out.size() - c.size() + i];
    fits = !extent.is_number() || extent.number() == 1 || !expected.is_number() ||
           extent.number() == expected.number();
  }
  if (fits) return absl::OkStatus();
  return InvalidArgument("C has shape {}, which is not broadcast to {}", graph::ToString(c),
                         graph::ToString(out));
}

Status Gemm::Infer(InferContext& context) const {
  RETURN_IF_ERROR(CheckDTypes(context));
  const graph::DimVector* a = context.dims(kA);
  const graph::DimVector* b = context.dims(kB);
  for (const graph::DimVector* side : {a, b}) {
    if (side == nullptr || side->size() == 2) continue;
    return InvalidArgument("{} has shape {} where rank 2 is expected", side == a ? "A" : "B",
                           graph::ToString(*side));
  }
  graph::DimVector out(2);
  if (a != nullptr) out[0] = (*a)[options_.trans_a ? 1 : 0];
  if (b != nullptr) out[1] = (*b)[options_.trans_b ? 0 : 1];
  if (a != nullptr && b != nullptr) {
    const graph::Dim& left = (*a)[options_.trans_a ? 0 : 1];
    const graph::Dim& right = (*b)[options_.trans_b ? 1 : 0];
    if (left.is_number() && right.is_number() && left.number() != right.number()) {
      return InvalidArgument(
          "A of shape {} (transA {}) has inner extent {} where B of shape {} (transB {}) has {}",
          graph::ToString(*a), options_.trans_a ? 1 : 0, left.number(), graph::ToString(*b),
          options_.trans_b ? 1 : 0, right.number());
    }
  }
  if (const graph::DimVector* c = context.dims(kC)) RETURN_IF_ERROR(CheckC(*c, out));
  context.SetOutput(0, context.input(kA).dtype, WithRowsReduced(context.node(), std::move(out)));
  return absl::OkStatus();
}

}  // namespace

void RegisterGemm(OpRegistry& registry) {
  registry.Add({.op_type = "Gemm",
                .versions = {7, 9, 11, 13},
                .min_inputs = 2,
                .max_inputs = kOwnInputs,
                .parse = Gemm::Parse,
                .doc = "Product of two matrices, scaled, plus a scaled third one."});
}

}  // namespace tandem::ops
