// Softmax, LogSoftmax, Hardmax (ai.onnx). Up to opset 12 the input is taken as a matrix whose
// columns are all axes from `axis` (default 1) on; opset 13 normalises along `axis` (default -1)
// alone.
#include "engine/kernels/softmax/softmax.h"

#include "engine/ops/elementwise.h"
#include "engine/ops/extents.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

using kernels::FindSoftmax;
using kernels::SoftmaxOp;
using kernels::SoftmaxShape;

// A row runs along one axis, or along all axes from it on.
enum class Extent : uint8_t { kAxis, kToTheEnd };

class SoftmaxStep final : public Step {
 public:
  SoftmaxStep(std::string kernel, kernels::SoftmaxFunction function, int64_t axis, Extent extent)
      : kernel_(std::move(kernel)), function_(function), axis_(axis), extent_(extent) {}

  std::string kernel() const override { return kernel_; }

  Status Run(StepContext& context) const override {
    const TensorView& x = context.input(0);
    const int rank = x.shape().rank();
    const auto axis = static_cast<int>(axis_ < 0 ? axis_ + rank : axis_);
    const int next = extent_ == Extent::kAxis ? axis + 1 : rank;
    const SoftmaxShape shape{x.shape().Product(0, axis), x.shape().Product(axis, next),
                             x.shape().Product(next, rank)};
    kernels::RunSoftmax(function_, shape, x.raw(), context.output(0).mutable_raw(),
                        context.parallel());
    return absl::OkStatus();
  }

 private:
  std::string kernel_;
  kernels::SoftmaxFunction function_;
  int64_t axis_;
  Extent extent_;
};

class Softmax final : public Operator {
 public:
  Softmax(SoftmaxOp op, int64_t axis, Extent extent) : op_(op), axis_(axis), extent_(extent) {}

  template <SoftmaxOp kOp>
  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    if (reader.opset() >= 13) {
      return std::make_shared<const Softmax>(kOp, reader.Int("axis", -1), Extent::kAxis);
    }
    const int64_t axis = reader.Int("axis", 1);
    if (axis < 0 && reader.opset() < 11) {
      reader.Fail(InvalidArgument(
          "attribute 'axis' is {} where at least 0 is expected before opset 11", axis));
    }
    return std::make_shared<const Softmax>(kOp, axis, Extent::kToTheEnd);
  }

  Status Infer(InferContext& context) const override {
    RETURN_IF_ERROR(CheckDType(context, 0, [](DType dtype) { return IsFloating(dtype); }));
    const ValueFacts& x = context.input(0);
    if (x.dims) {
      const int64_t rank = x.rank();
      // A matrix may have no axis left for its columns.
      const int64_t last = extent_ == Extent::kAxis ? rank - 1 : rank;
      if (axis_ < -rank || axis_ > last) {
        return InvalidArgument("axis {} is outside of {} to {}, the axes of {}", axis_, -rank, last,
                               ToString(x));
      }
    }
    context.SetOutput(0, x.dtype, x.dims);
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    const DType dtype = context.input(0).dtype;
    std::string kernel = fmt::format("softmax {} {}", DTypeName(dtype), IsaName(context.isa()));
    return std::make_unique<SoftmaxStep>(std::move(kernel), FindSoftmax(op_, dtype, context.isa()),
                                         axis_, extent_);
  }

  Traits traits() const override { return {.in_place = true}; }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    return ElementwiseCost(shapes, dtype, 16);
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    const int batch = *query.axes[0];
    const int rank = query.inputs[0]->rank();
    if (rank < 0) return BatchAnswer::Decline("the rank of the input is unknown");
    const int64_t axis = axis_ < 0 ? axis_ + rank : axis_;
    const bool mixes = extent_ == Extent::kAxis ? batch == axis : batch >= axis;
    if (mixes) {
      return BatchAnswer::Decline(
          fmt::format("{} normalises along the batch axis {}", query.node.op_type, batch));
    }
    std::vector<bool> summed(static_cast<size_t>(rank), false);
    summed[static_cast<size_t>(axis)] = op_ != SoftmaxOp::kHardmax;
    if (auto reason = SumsDependOnItems(*query.inputs[0]->dims, batch, summed)) {
      return BatchAnswer::Decline(*std::move(reason));
    }
    return BatchAnswer::All(query, batch);
  }

 private:
  SoftmaxOp op_;
  int64_t axis_;
  Extent extent_;
};

}  // namespace

void RegisterSoftmax(OpRegistry& registry) {
  registry.Add({.op_type = "Softmax",
                .versions = {1, 11, 13},
                .parse = Softmax::Parse<SoftmaxOp::kSoftmax>,
                .doc = "exp(x) divided by its sum along an axis."});
  registry.Add({.op_type = "LogSoftmax",
                .versions = {1, 11, 13},
                .parse = Softmax::Parse<SoftmaxOp::kLogSoftmax>,
                .doc = "The logarithm of Softmax."});
  registry.Add({.op_type = "Hardmax",
                .versions = {1, 11, 13},
                .parse = Softmax::Parse<SoftmaxOp::kHardmax>,
                .doc = "1 at the first maximum along an axis, else 0."});
}

}  // namespace tandem::ops
