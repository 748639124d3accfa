// InstanceNormalization (ai.onnx, opset 6) and GroupNormalization (opset 18): every channel, or
// every group of neighbouring channels, of every item is normalised over the spatial axes. scale
// and bias are per channel; in opset 18 of GroupNormalization per group. Statistics are computed in
// float32 at least, whatever stash_type asks for.
#include "engine/ops/elementwise.h"
#include "engine/ops/extents.h"
#include "engine/ops/normalize.h"

namespace tandem::ops {
namespace {

using kernels::NormAxis;
using kernels::NormAxisRole;

// What scale and bias have one element for.
enum class PerWhat : uint8_t { kChannel, kGroup };

class InstanceNormalization final : public Operator {
 public:
  InstanceNormalization(float epsilon, int64_t groups, PerWhat per)
      : epsilon_(epsilon), groups_(groups), per_(per) {}

  static std::shared_ptr<const Operator> ParseInstance(NodeReader& reader) {
    return std::make_shared<const InstanceNormalization>(reader.Float("epsilon", 1e-5f), 0,
                                                         PerWhat::kChannel);
  }
  static std::shared_ptr<const Operator> ParseGroup(NodeReader& reader) {
    const int64_t groups = reader.RequiredInt("num_groups");
    if (groups < 1) {
      reader.Fail(
          InvalidArgument("attribute 'num_groups' is {} where at least 1 is expected", groups));
    }
    const PerWhat per = reader.opset() >= 21 ? PerWhat::kChannel : PerWhat::kGroup;
    if (reader.opset() >= 21) ReadStashType(reader);
    return std::make_shared<const InstanceNormalization>(reader.Float("epsilon", 1e-5f), groups,
                                                         per);
  }

  Status Infer(InferContext& context) const override {
    for (int port = 0; port < 3; ++port) {
      RETURN_IF_ERROR(CheckDType(context, port, [](DType dtype) { return IsFloating(dtype); }));
      RETURN_IF_ERROR(CheckSameDType(context, port, 0));
    }
    const ValueFacts& x = context.input(0);
    context.SetOutput(0, x.dtype, x.dims);
    if (!x.dims) return absl::OkStatus();
    if (x.rank() < 2) {
      return InvalidArgument("X is {} where axes N and C are expected", ToString(x));
    }
    const graph::Dim& channels = (*x.dims)[1];
    if (groups_ > 0 && channels.is_number() && channels.number() % groups_ != 0) {
      return InvalidArgument("{} channels of X {} are not {} groups of equal size",
                             channels.number(), ToString(x), groups_);
    }
    const graph::Dim expected = per_ == PerWhat::kGroup ? graph::Dim(groups_) : channels;
    for (int port = 1; port < 3; ++port) {
      const graph::DimVector* dims = context.dims(port);
      if (dims == nullptr || (dims->size() == 1 && MayEqual((*dims)[0], expected))) continue;
      return InvalidArgument("input {} has shape {} where [{}], the {} of X {}, is expected", port,
                             graph::ToString(*dims), graph::ToString(expected),
                             per_ == PerWhat::kGroup ? "groups" : "channels", ToString(x));
    }
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    NormRequest request{.kind = kernels::NormKind::kStandard, .epsilon = epsilon_};
    request.axes = [groups = groups_, per = per_](const TensorView& x, std::span<const Shape>) {
      return AxesOf(x, groups == 0 ? x.shape()[1] : groups, per);
    };
    return MakeNormStep(context, std::move(request));
  }

  Traits traits() const override { return {.in_place = true, .layout = LayoutRule::kFollow}; }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    return NormCost(shapes, dtype);
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    if (auto declined = ParametersCarryBatch(query)) return *std::move(declined);
    if (query.axes[0] == 0) return BatchAnswer::All(query, 0);
    return BatchAnswer::Decline(
        fmt::format("axis {} is normalised or holds channels", *query.axes[0]));
  }

 private:
  // N, groups, channels of a group and all spatial axes as one, in the order of the layout.
  static kernels::NormAxes AxesOf(const TensorView& x, int64_t groups, PerWhat per) {
    const Shape& shape = x.shape();
    const int64_t members = groups == 0 ? 0 : shape[1] / groups;
    const int64_t of_channel = per == PerWhat::kChannel ? 1 : 0;
    const int64_t of_group = per == PerWhat::kChannel ? members : 1;
    const NormAxis items{shape[0]};
    const NormAxis group{groups, NormAxisRole::kKept, of_group, of_group};
    const NormAxis member{members, NormAxisRole::kReduced, of_channel, of_channel};
    const NormAxis spatial{shape.Product(2, shape.rank()), NormAxisRole::kReduced};
    if (x.layout() == Layout::kChannelsLast) return {items, spatial, group, member};
    return {items, group, member, spatial};
  }

  float epsilon_;
  int64_t groups_;  // 0: every channel is one
  PerWhat per_;
};

}  // namespace

void RegisterInstanceNormalization(OpRegistry& registry) {
  registry.Add({.op_type = "InstanceNormalization",
                .versions = {6, 22},
                .min_inputs = 3,
                .max_inputs = 3,
                .parse = InstanceNormalization::ParseInstance,
                .doc = "Every channel of every item normalised, scaled and shifted."});
  registry.Add({.op_type = "GroupNormalization",
                .versions = {18, 21},
                .min_inputs = 3,
                .max_inputs = 3,
                .parse = InstanceNormalization::ParseGroup,
                .doc = "Every group of channels of every item normalised, scaled and shifted."});
}

}  // namespace tandem::ops
