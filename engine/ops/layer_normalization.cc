// LayerNormalization (ai.onnx, opset 17), RMSNormalization (opset 23) and ONNX Runtime's
// SimplifiedLayerNormalization (the same under an older name): all axes from `axis` on share their
// statistics. scale and B broadcast to X. Statistics and elements are computed in float32 at least,
// whatever stash_type asks for; it is the type of the outputs Mean and InvStdDev. RMSNormalization
// answers in the type of its scale.
#include "engine/ops/elementwise.h"
#include "engine/ops/extents.h"
#include "engine/ops/normalize.h"

namespace tandem::ops {
namespace {

using kernels::NormKind;

// What the operators of this file differ in.
struct LayerNormForm {
  NormKind kind = NormKind::kStandard;
  int mean_port = -1;
  int inverse_port = -1;
};

class LayerNormalization final : public Operator {
 public:
  LayerNormalization(LayerNormForm form, NodeReader& reader)
      : form_(form),
        axis_(reader.Int("axis", -1)),
        epsilon_(reader.Float("epsilon", 1e-5f)),
        stash_(ReadStashType(reader)) {}

  static std::shared_ptr<const Operator> ParseLayer(NodeReader& reader) {
    return std::make_shared<const LayerNormalization>(LayerNormForm{NormKind::kStandard, 1, 2},
                                                      reader);
  }
  static std::shared_ptr<const Operator> ParseRms(NodeReader& reader) {
    return std::make_shared<const LayerNormalization>(LayerNormForm{NormKind::kRootMeanSquare},
                                                      reader);
  }
  static std::shared_ptr<const Operator> ParseSimplified(NodeReader& reader) {
    return std::make_shared<const LayerNormalization>(
        LayerNormForm{NormKind::kRootMeanSquare, -1, 1}, reader);
  }

  Status Infer(InferContext& context) const override {
    for (int port = 0; port < context.inputs(); ++port) {
      if (!context.has_input(port)) continue;
      RETURN_IF_ERROR(CheckDType(context, port, [](DType dtype) { return IsFloating(dtype); }));
      if (form_.kind == NormKind::kStandard) RETURN_IF_ERROR(CheckSameDType(context, port, 0));
    }
    const ValueFacts& x = context.input(0);
    context.SetOutput(0, context.input(1).dtype, x.dims);
    for (const int port : {form_.mean_port, form_.inverse_port}) {
      if (port >= 0) context.SetOutput(port, stash_, std::nullopt);
    }
    if (!x.dims) return absl::OkStatus();
    ASSIGN_OR_RETURN(const int axis, ResolveAxis(axis_, x.rank(), "attribute 'axis'"));
    for (int port = 1; port < context.inputs(); ++port) {
      RETURN_IF_ERROR(CheckBroadcasts(context, port));
    }
    graph::DimVector statistics = *x.dims;
    std::fill(statistics.begin() + axis, statistics.end(), 1);
    for (const int port : {form_.mean_port, form_.inverse_port}) {
      if (port >= 0) context.SetOutput(port, stash_, statistics);
    }
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    NormRequest request{form_.kind, epsilon_, {}, form_.mean_port, form_.inverse_port};
    request.axes = [axis = axis_](const TensorView& x, std::span<const Shape> inputs) {
      const int rank = x.shape().rank();
      std::vector<bool> reduced(static_cast<size_t>(rank), false);
      std::fill(reduced.begin() + (axis < 0 ? axis + rank : axis), reduced.end(), true);
      return BroadcastNormAxes(reduced, x, inputs);
    };
    return MakeNormStep(context, std::move(request));
  }

  Traits traits() const override { return {.in_place = true}; }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    return NormCost(shapes, dtype);
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    if (auto declined = ParametersCarryBatch(query)) return *std::move(declined);
    const int rank = query.inputs[0]->rank();
    if (rank < 0) return BatchAnswer::Decline("the rank of the input is unknown");
    const int batch = *query.axes[0];
    if (batch >= (axis_ < 0 ? axis_ + rank : axis_)) {
      return BatchAnswer::Decline(
          fmt::format("{} normalises along the batch axis {}", query.node.op_type, batch));
    }
    // A parameter with an extent of its own on the batch axis belongs to single items.
    for (size_t port = 1; port < query.inputs.size(); ++port) {
      if (query.inputs[port] == nullptr) continue;
      const ValueFacts& facts = *query.inputs[port];
      if (!facts.dims) return BatchAnswer::Decline("the rank of a parameter is unknown");
      const int own = batch - (rank - facts.rank());
      if (own >= 0 && !(*facts.dims)[static_cast<size_t>(own)].SameAs(1)) {
        return BatchAnswer::Decline(fmt::format("input {} differs between items", port));
      }
    }
    return BatchAnswer::All(query, batch);
  }

 private:
  static Status CheckBroadcasts(const InferContext& context, int port) {
    const graph::DimVector* dims = context.dims(port);
    if (dims == nullptr) return absl::OkStatus();
    const graph::DimVector& x = *context.dims(0);
    bool fits = dims->size() <= x.size();
    for (size_t i = 1; fits && i <= dims->size(); ++i) {
      const graph::Dim& own = (*dims)[dims->size() - i];
      fits = own.SameAs(1) || MayEqual(own, x[x.size() - i]);
    }
    if (fits) return absl::OkStatus();
    return InvalidArgument("input {} has shape {}, which does not broadcast to X {}", port,
                           graph::ToString(*dims), graph::ToString(x));
  }

  LayerNormForm form_;
  int64_t axis_;
  float epsilon_;
  DType stash_;
};

}  // namespace

void RegisterLayerNormalization(OpRegistry& registry) {
  registry.Add({.op_type = "LayerNormalization",
                .versions = {17},
                .min_inputs = 2,
                .max_inputs = 3,
                .max_outputs = 3,
                .parse = LayerNormalization::ParseLayer,
                .doc = "Normalised over the last axes, scaled and shifted."});
  registry.Add({.op_type = "RMSNormalization",
                .versions = {23},
                .min_inputs = 2,
                .max_inputs = 2,
                .parse = LayerNormalization::ParseRms,
                .doc = "Divided by the root mean square over the last axes, and scaled."});
  registry.Add({.op_type = "SimplifiedLayerNormalization",
                .versions = {1},
                .min_inputs = 2,
                .max_inputs = 2,
                .max_outputs = 2,
                .parse = LayerNormalization::ParseSimplified,
                .doc = "ONNX Runtime's name for RMSNormalization."});
}

}  // namespace tandem::ops
