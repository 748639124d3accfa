// MeanVarianceNormalization (ai.onnx, opset 9): (x - mean) / (sqrt(variance) + 1e-9) over `axes`.
// LpNormalization (opset 1): x divided by its L1 or L2 norm along `axis`; 0 where the norm is 0.
#include "engine/ops/elementwise.h"
#include "engine/ops/extents.h"
#include "engine/ops/normalize.h"

namespace tandem::ops {
namespace {

using kernels::NormKind;

class PlainNormalization final : public Operator {
 public:
  PlainNormalization(NormKind kind, std::vector<int64_t> axes)
      : kind_(kind), axes_(std::move(axes)) {}

  static std::shared_ptr<const Operator> ParseMeanVariance(NodeReader& reader) {
    return std::make_shared<const PlainNormalization>(NormKind::kDeviation,
                                                      reader.Ints("axes", {0, 2, 3}));
  }
  static std::shared_ptr<const Operator> ParseLp(NodeReader& reader) {
    const int64_t p = reader.Int("p", 2);
    if (p != 1 && p != 2) {
      reader.Fail(InvalidArgument("attribute 'p' is {} where 1 or 2 is expected", p));
    }
    return std::make_shared<const PlainNormalization>(p == 1 ? NormKind::kL1 : NormKind::kL2,
                                                      std::vector{reader.Int("axis", -1)});
  }

  Status Infer(InferContext& context) const override {
    RETURN_IF_ERROR(CheckDType(context, 0, [](DType dtype) { return IsFloating(dtype); }));
    const ValueFacts& x = context.input(0);
    context.SetOutput(0, x.dtype, x.dims);
    if (!x.dims) return absl::OkStatus();
    return AxisFlags(axes_, x.rank()).status();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    NormRequest request{.kind = kind_, .epsilon = kind_ == NormKind::kDeviation ? 1e-9 : 0};
    request.axes = [axes = axes_](const TensorView& x, std::span<const Shape>) {
      return PlainNormAxes(*AxisFlags(axes, x.shape().rank()), x);
    };
    return MakeNormStep(context, std::move(request));
  }

  Traits traits() const override { return {.in_place = true, .layout = LayoutRule::kFollow}; }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    return NormCost(shapes, dtype);
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    const int rank = query.inputs[0]->rank();
    if (rank < 0) return BatchAnswer::Decline("the rank of the input is unknown");
    const int batch = *query.axes[0];
    const auto flags = AxisFlags(axes_, rank);
    if (!flags.ok() || (*flags)[static_cast<size_t>(batch)]) {
      return BatchAnswer::Decline(
          fmt::format("{} normalises along the batch axis {}", query.node.op_type, batch));
    }
    if (auto reason = SumsDependOnItems(*query.inputs[0]->dims, batch, *flags)) {
      return BatchAnswer::Decline(*std::move(reason));
    }
    return BatchAnswer::All(query, batch);
  }

 private:
  NormKind kind_;
  std::vector<int64_t> axes_;
};

}  // namespace

void RegisterMeanVarianceNormalization(OpRegistry& registry) {
  registry.Add({.op_type = "MeanVarianceNormalization",
                .versions = {9, 13},
                .parse = PlainNormalization::ParseMeanVariance,
                .doc = "Normalised over axes."});
  registry.Add({.op_type = "LpNormalization",
                .versions = {1, 22},
                .parse = PlainNormalization::ParseLp,
                .doc = "Divided by the L1 or L2 norm along an axis."});
}

}  // namespace tandem::ops
