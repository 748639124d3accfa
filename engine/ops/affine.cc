// Affine and ImageScaler (ai.onnx, opset 1, experimental, gone in opset 10):
//
//   Affine       y = alpha * x + beta
//   ImageScaler  y = scale * x + bias[channel]
#include <algorithm>

#include "engine/kernels/elementwise/batch_norm.h"
#include "engine/kernels/elementwise/broadcast.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

// y = factor * x + shift.
struct AffineMap {
  float factor = 1;
  std::vector<float> shifts;  // one, or one for each channel
  enum class Shifts : uint8_t { kOne, kPerChannel } kind = Shifts::kOne;

  bool per_channel() const { return kind == Shifts::kPerChannel; }
};

class AffineStep final : public Step {
 public:
  AffineStep(std::string kernel, kernels::RowFunction row, AffineMap map)
      : kernel_(std::move(kernel)), row_(row), map_(std::move(map)) {}

  std::string kernel() const override { return kernel_; }

  Status Run(StepContext& context) const override {
    if (context.input(0).dtype() == DType::kDouble) {
      RunWith<double>(context);
    } else {
      RunWith<float>(context);
    }
    return absl::OkStatus();
  }

  // Means of 0, factors and shifts in the type that is computed with.
  size_t ScratchBytes(const StepShapes&) const override {
    return 3 * map_.shifts.size() * sizeof(double);
  }

 private:
  template <typename A>
  void RunWith(StepContext& context) const {
    const TensorView& x = context.input(0);
    const MutableTensorView& y = context.output(0);
    A* means = reinterpret_cast<A*>(context.scratch().data());
    A* factors = std::fill_n(means, map_.shifts.size(), A{0});
    A* shifts = std::fill_n(factors, map_.shifts.size(), static_cast<A>(map_.factor));
    std::copy(map_.shifts.begin(), map_.shifts.end(), shifts);
    const Shape physical = PhysicalShape(y.shape(), y.layout());
    const size_t bytes = DTypeBits(x.dtype()) / 8;
    const Dims dense = physical.Strides();
    const kernels::Extents strides(dense.begin(), dense.end());
    kernels::BroadcastOperand channel{means, sizeof(A), kernels::Extents(strides.size(), 0)};
    const size_t axis = y.layout() == Layout::kChannelsLast ? strides.size() - 1 : 1;
    if (map_.per_channel()) channel.strides[axis] = 1;
    kernels::BroadcastOperand operands[] = {{x.raw(), bytes, strides}, channel, channel, channel};
    operands[2].data = factors;
    operands[3].data = shifts;
    const kernels::BroadcastLoop loop(physical.dims(), operands);
    loop.Run([this](const kernels::RowArgs& args) { row_(args, {}); }, y.mutable_raw(), bytes,
             context.parallel());
  }

  std::string kernel_;
  kernels::RowFunction row_;
  AffineMap map_;
};

class Affine final : public Operator {
 public:
  explicit Affine(AffineMap map) : map_(std::move(map)) {}

  static std::shared_ptr<const Operator> ParseAffine(NodeReader& reader) {
    CheckOpset(reader);
    const float alpha = reader.Float("alpha", 1);
    return std::make_shared<const Affine>(AffineMap{alpha, {reader.Float("beta", 0)}});
  }
  static std::shared_ptr<const Operator> ParseImageScaler(NodeReader& reader) {
    CheckOpset(reader);
    const float scale = reader.Float("scale", 1);
    std::vector<float> bias = reader.Floats("bias");
    if (bias.empty()) return std::make_shared<const Affine>(AffineMap{scale, {0}});
    return std::make_shared<const Affine>(
        AffineMap{scale, std::move(bias), AffineMap::Shifts::kPerChannel});
  }

  Status Infer(InferContext& context) const override {
    RETURN_IF_ERROR(CheckDType(context, 0, [](DType dtype) { return IsFloating(dtype); }));
    const ValueFacts& x = context.input(0);
    context.SetOutput(0, x.dtype, x.dims);
    if (!x.dims || !map_.per_channel()) return absl::OkStatus();
    const auto channels = static_cast<int64_t>(map_.shifts.size());
    if (x.rank() >= 2 && (!(*x.dims)[1].is_number() || (*x.dims)[1].number() == channels)) {
      return absl::OkStatus();
    }
    return InvalidArgument("attribute 'bias' has {} values, which are not the channels of {}",
                           channels, ToString(x));
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    const DType dtype = context.input(0).dtype;
    return std::make_unique<AffineStep>(
        fmt::format("affine {} {}", DTypeName(dtype), IsaName(context.isa())),
        kernels::FindBatchNorm(dtype, context.isa()), map_);
  }

  Traits traits() const override { return {.in_place = true, .layout = LayoutRule::kFollow}; }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    return ElementwiseCost(shapes, dtype, 2);
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    if (map_.per_channel() && query.axes[0] == 1) {
      return BatchAnswer::Decline("the batch lies on the channel axis");
    }
    return BatchAnswer::All(query, query.axes[0]);
  }

 private:
  static void CheckOpset(NodeReader& reader) {
    if (reader.opset() < 10) return;
    reader.Fail(Unimplemented("opset {} has no {}, which is gone since opset 10", reader.opset(),
                              reader.node().op_type));
  }

  AffineMap map_;
};

}  // namespace

void RegisterAffine(OpRegistry& registry) {
  registry.Add({.op_type = "Affine",
                .versions = {1},
                .parse = Affine::ParseAffine,
                .doc = "alpha * x + beta (before opset 10)."});
  registry.Add({.op_type = "ImageScaler",
                .versions = {1},
                .parse = Affine::ParseImageScaler,
                .doc = "scale * x + bias of the channel (before opset 10)."});
}

}  // namespace tandem::ops
