// BatchNormalization (ai.onnx, opset 7) at inference: y = (x - mean) / sqrt(var + epsilon) * scale
// + B, with scale, B, mean and var per channel (axis 1; an input of rank 1 is one channel).
// Computes in float32, or in double for inputs of that type, whatever the parameters' types.
// Training, which is what further outputs ask for, is refused.
#include <cmath>

#include "engine/kernels/elementwise/batch_norm.h"
#include "engine/kernels/elementwise/broadcast.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

constexpr const char* kPortNames[] = {"X", "scale", "B", "mean", "var"};

double ElementOf(const TensorView& view, int64_t index) {
  switch (view.dtype()) {
    case DType::kDouble:
      return view.data<double>()[index];
    case DType::kFloat16:
      return ToFloat(view.data<Float16>()[index]);
    case DType::kBfloat16:
      return ToFloat(view.data<Bfloat16>()[index]);
    default:
      return view.data<float>()[index];
  }
}

class BatchNormStep final : public Step {
 public:
  BatchNormStep(std::string kernel, kernels::RowFunction row, float epsilon)
      : kernel_(std::move(kernel)), row_(row), epsilon_(epsilon) {}

  std::string kernel() const override { return kernel_; }

  // Mean, factor and shift of every channel, each from a new cache line on.
  size_t ScratchBytes(const StepShapes& shapes) const override {
    return 3 * AlignUp(static_cast<size_t>(shapes.inputs[1].elements()) * sizeof(double));
  }

  Status Run(StepContext& context) const override {
    if (context.input(0).dtype() == DType::kDouble) return RunWith<double>(context);
    return RunWith<float>(context);
  }

 private:
  template <typename A>
  Status RunWith(StepContext& context) const {
    const TensorView& x = context.input(0);
    const MutableTensorView& y = context.output(0);
    const int64_t channels = context.input(1).elements();
    const size_t stride = context.scratch().size() / 3 / kBufferAlignment * kBufferAlignment;
    A* mean = reinterpret_cast<A*>(context.scratch().data());
    A* factor = reinterpret_cast<A*>(context.scratch().data() + stride);
    A* shift = reinterpret_cast<A*>(context.scratch().data() + 2 * stride);
    for (int64_t c = 0; c < channels; ++c) {
      mean[c] = static_cast<A>(ElementOf(context.input(3), c));
      const double variance = ElementOf(context.input(4), c);
      factor[c] = static_cast<A>(ElementOf(context.input(1), c) /
                                 std::sqrt(variance + static_cast<double>(epsilon_)));
      shift[c] = static_cast<A>(ElementOf(context.input(2), c));
    }
    const Shape physical = PhysicalShape(y.shape(), y.layout());
    const int rank = physical.rank();
    kernels::BroadcastOperand data{x.raw(), DTypeBits(x.dtype()) / 8, {}};
    for (const int64_t step : physical.Strides()) data.strides.push_back(step);
    kernels::BroadcastOperand channel{mean, sizeof(A), kernels::Extents(data.strides.size(), 0)};
    const int axis = y.layout() == Layout::kChannelsLast ? rank - 1 : 1;
    if (rank > 1) channel.strides[static_cast<size_t>(axis)] = 1;
    kernels::BroadcastOperand operands[] = {std::move(data), channel, channel, channel};
    operands[2].data = factor;
    operands[3].data = shift;
    const kernels::BroadcastLoop loop(physical.dims(), operands);
    loop.Run([this](const kernels::RowArgs& args) { row_(args, {}); }, y.mutable_raw(),
             DTypeBits(y.dtype()) / 8, context.parallel());
    return absl::OkStatus();
  }

  std::string kernel_;
  kernels::RowFunction row_;
  float epsilon_;
};

class BatchNormalization final : public Operator {
 public:
  explicit BatchNormalization(float epsilon) : epsilon_(epsilon) {}

  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    reader.Ignore("momentum");  // of the running statistics, which only training updates
    if (reader.opset() >= 14 && reader.Flag("training_mode", false)) {
      reader.Fail(Unimplemented("attribute 'training_mode' is 1; only inference is supported"));
    }
    if (reader.opset() < 9 && !reader.Flag("spatial", true)) {
      reader.Fail(
          Unimplemented("attribute 'spatial' is 0; only statistics per channel are supported"));
    }
    const auto& outputs = reader.node().outputs;
    for (size_t port = 1; port < outputs.size(); ++port) {
      if (outputs[port] == graph::kNoValue) continue;
      reader.Fail(
          Unimplemented("output {} is asked for, which only training has; only inference is "
                        "supported",
                        port));
    }
    return std::make_shared<const BatchNormalization>(reader.Float("epsilon", 1e-5f));
  }

  Status Infer(InferContext& context) const override {
    for (int port = 0; port < 5; ++port) {
      RETURN_IF_ERROR(CheckDType(context, port, [](DType dtype) { return IsFloating(dtype); }));
    }
    if (context.node().opset < 14) {
      for (int port = 1; port < 5; ++port) RETURN_IF_ERROR(CheckSameDType(context, port, 0));
    }
    RETURN_IF_ERROR(CheckSameDType(context, 2, 1));
    RETURN_IF_ERROR(CheckSameDType(context, 4, 3));
    const ValueFacts& x = context.input(0);
    if (x.dims && x.dims->empty()) {
      return InvalidArgument("X is a scalar where rank 1 or more is expected");
    }
    for (int port = 1; port < 5; ++port) RETURN_IF_ERROR(CheckChannels(context, port));
    context.SetOutput(0, x.dtype, x.dims);
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    const DType dtype = context.input(0).dtype;
    return std::make_unique<BatchNormStep>(
        fmt::format("batch_norm {} {}", DTypeName(dtype), IsaName(context.isa())),
        kernels::FindBatchNorm(dtype, context.isa()), epsilon_);
  }

  Traits traits() const override { return {.in_place = true, .layout = LayoutRule::kFollow}; }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    return ElementwiseCost(shapes, dtype, 2);
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    for (size_t port = 1; port < query.axes.size(); ++port) {
      if (query.axes[port]) {
        return BatchAnswer::Decline(fmt::format("{} carries the batch", kPortNames[port]));
      }
    }
    if (query.axes[0] == 1) return BatchAnswer::Decline("the batch lies on the channel axis");
    return BatchAnswer::All(query, query.axes[0]);
  }

 private:
  static Status CheckChannels(const InferContext& context, int port) {
    const graph::DimVector* x = context.dims(0);
    const graph::DimVector* dims = context.dims(port);
    if (x == nullptr || dims == nullptr) return absl::OkStatus();
    const graph::Dim channels = x->size() > 1 ? (*x)[1] : graph::Dim(1);
    const bool fits = dims->size() == 1 && (!channels.is_number() || !(*dims)[0].is_number() ||
                                            channels.SameAs((*dims)[0]));
    if (fits) return absl::OkStatus();
    return InvalidArgument("{} has shape {} where [{}], the channels of X {}, is expected",
                           kPortNames[port], graph::ToString(*dims), graph::ToString(channels),
                           graph::ToString(*x));
  }

  float epsilon_;
};

}  // namespace

void RegisterBatchNormalization(OpRegistry& registry) {
  registry.Add({.op_type = "BatchNormalization",
                .versions = {7, 9, 14, 15},
                .min_inputs = 5,
                .max_inputs = 5,
                .max_outputs = 5,
                .parse = BatchNormalization::Parse,
                .doc = "Every channel normalised by given statistics (inference only)."});
}

}  // namespace tandem::ops
