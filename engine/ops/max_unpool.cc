// MaxUnpool (ai.onnx, opset 9): puts every element of X where its index says,
// zeros elsewhere. The indices are MaxPool's: they count through an output of
// (in - 1) * stride + kernel - pads along each spatial axis; a larger
// output_shape adds zeros behind it.
#include <algorithm>

#include "engine/ops/extents.h"
#include "engine/ops/movement.h"
#include "engine/ops/registry.h"
#include "engine/ops/window.h"

namespace tandem::ops {
namespace {

constexpr int kX = 0;
constexpr int kIndices = 1;
constexpr int kOutputShape = 2;

class MaxUnpool final : public Operator {
 public:
  explicit MaxUnpool(WindowAttributes window) : window_(std::move(window)) {}

  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    return std::make_shared<const MaxUnpool>(
        ReadWindow(reader, kWindowKernelRequired | kWindowNoAutoPad));
  }

  Status Infer(InferContext& context) const override {
    const ValueFacts& x = context.input(kX);
    RETURN_IF_ERROR(CheckMovable(x.dtype));
    if (context.input(kIndices).dtype != DType::kInt64) {
      return InvalidArgument("the indices (input 1) are {} where int64 is expected",
                             DTypeName(context.input(kIndices).dtype));
    }
    context.SetOutput(0, x.dtype, std::nullopt);
    if (!x.dims) return absl::OkStatus();
    if (x.dims->size() != window_.kernel.size() + 2) {
      return InvalidArgument("X has shape {} where {} spatial axes after N and C are expected",
                             graph::ToString(*x.dims), window_.kernel.size());
    }
    if (!context.has_input(kOutputShape)) {
      context.SetOutput(0, x.dtype, PooledFrom(*x.dims));
      return absl::OkStatus();
    }
    const std::optional<graph::DimVector> wanted = context.Content(kOutputShape);
    if (!wanted) {
      context.SetOutput(0, x.dtype, UnknownDims(x.rank()));
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(CheckWanted(*x.dims, *wanted));
    context.SetOutput(0, x.dtype, *wanted);
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    return MakeMoveStep(context, "move.max_unpool",
                        [op = *this](StepContext& run, std::span<const MutableTensorView> outputs) {
                          return op.Run(run, outputs[0]);
                        });
  }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    return CostOfMove(shapes, dtype);
  }

  BatchAnswer Batch(const BatchQuery&) const override {
    return BatchAnswer::Decline("the indices count through the whole batch");
  }

 private:
  // The shape that MaxPool had pooled to x.
  graph::DimVector PooledFrom(const graph::DimVector& x) const {
    graph::DimVector dims(x.begin(), x.begin() + 2);
    const size_t axes = window_.kernel.size();
    for (size_t i = 0; i < axes; ++i) {
      const int64_t stride = window_.strides.empty() ? 1 : window_.strides[i];
      const int64_t pads = window_.pads.empty() ? 0 : window_.pads[i] + window_.pads[i + axes];
      const int64_t rest = window_.kernel[i] - stride - pads;
      const graph::Dim most = x[i + 2] * graph::Dim(stride);
      dims.push_back(rest == 0 ? most : most + graph::Dim(rest));
    }
    return dims;
  }

  Status CheckWanted(const graph::DimVector& x, const graph::DimVector& wanted) const {
    const graph::DimVector pooled = PooledFrom(x);
    bool fits = wanted.size() == pooled.size();
    for (size_t i = 0; fits && i < pooled.size(); ++i) {
      if (!wanted[i].is_number() || !pooled[i].is_number()) continue;
      fits = i < 2 ? wanted[i].SameAs(pooled[i]) : wanted[i].number() >= pooled[i].number();
    }
    if (fits) return absl::OkStatus();
    return InvalidArgument("the output shape (input 2) is {} where {} or more is expected",
                           graph::ToString(wanted), graph::ToString(pooled));
  }

  Status Run(StepContext& run, const MutableTensorView& y) const {
    const TensorView& x = run.input(kX);
    const TensorView& indices = run.input(kIndices);
    if (indices.shape() != x.shape()) {
      return InvalidArgument("the indices have shape {} where {}, that of X, is expected",
                             ToString(indices.shape()), ToString(x.shape()));
    }
    const std::optional<Shape> pooled = graph::ToShape(PooledFrom(graph::ToDims(x.shape())));
    const Dims from = pooled->Strides();
    const Dims to = y.shape().Strides();
    return WithElement(x.dtype(), [&](auto element) -> Status {
      using T = decltype(element);
      const T* values = static_cast<const T*>(x.raw());
      T* target = static_cast<T*>(y.mutable_raw());
      std::fill_n(target, y.elements(), T{});
      for (int64_t i = 0; i < x.elements(); ++i) {
        ASSIGN_OR_RETURN(int64_t rest, CheckIndex(indices.data<int64_t>()[i], pooled->elements(),
                                                  fmt::format("index {} of the indices", i)));
        int64_t place = 0;
        for (size_t axis = 0; axis < from.size(); ++axis) {
          place += rest / from[axis] * to[axis];
          rest %= from[axis];
        }
        target[place] = values[i];
      }
      return absl::OkStatus();
    });
  }

  WindowAttributes window_;
};

}  // namespace

void RegisterMaxUnpool(OpRegistry& registry) {
  registry.Add({.op_type = "MaxUnpool",
                .versions = {9, 11, 22},
                .min_inputs = 2,
                .max_inputs = 3,
                .parse = MaxUnpool::Parse,
                .doc = "Elements where MaxPool found them, zeros elsewhere."});
}

}  // namespace tandem::ops
