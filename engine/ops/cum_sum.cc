// CumSum (ai.onnx, opset 11): running sums along an axis, which is a scalar input and need not be
// constant; exclusive leaves out an element's own value, reverse starts at the end.
#include "engine/kernels/reduce/reduce.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

using kernels::CumSumShape;
using kernels::FindCumSum;

enum class Own : uint8_t { kIncluded, kExcluded };
enum class Start : uint8_t { kFront, kBack };

Status CheckAxis(int64_t axis, int64_t rank) {
  if (axis >= -rank && axis < rank) return absl::OkStatus();
  return InvalidArgument("axis {} is outside of {} to {}, the axes of an input of rank {}", axis,
                         -rank, rank - 1, rank);
}

class CumSumStep final : public Step {
 public:
  CumSumStep(std::string kernel, kernels::CumSumFunction function, Own own, Start start)
      : kernel_(std::move(kernel)), function_(function), own_(own), start_(start) {}

  std::string kernel() const override { return kernel_; }

  Status Run(StepContext& context) const override {
    const TensorView& x = context.input(0);
    const TensorView& given = context.input(1);
    const int64_t axis =
        given.dtype() == DType::kInt32 ? *given.data<int32_t>() : *given.data<int64_t>();
    const int rank = x.shape().rank();
    RETURN_IF_ERROR(CheckAxis(axis, rank));
    const auto along = static_cast<int>(axis < 0 ? axis + rank : axis);
    CumSumShape shape{x.shape().Product(0, along), x.shape()[along],
                      x.shape().Product(along + 1, rank), 0, own_ == Own::kExcluded ? 1 : 0};
    if (shape.length == 0) return absl::OkStatus();
    if (start_ == Start::kBack) shape.first = shape.length - 1;
    const void* from = x.raw();
    void* to = context.output(0).mutable_raw();
    context.parallel().For(
        shape.outer * shape.inner, GrainOf(kGrainSlowElements, shape.length),
        [&](int64_t begin, int64_t end) { function_(shape, from, to, begin, end); });
    return absl::OkStatus();
  }

 private:
  std::string kernel_;
  kernels::CumSumFunction function_;
  Own own_;
  Start start_;
};

class CumSum final : public Operator {
 public:
  CumSum(Own own, Start start) : own_(own), start_(start) {}

  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    const Own own = reader.Flag("exclusive", false) ? Own::kExcluded : Own::kIncluded;
    const Start start = reader.Flag("reverse", false) ? Start::kBack : Start::kFront;
    return std::make_shared<const CumSum>(own, start);
  }

  Status Infer(InferContext& context) const override {
    RETURN_IF_ERROR(
        CheckDType(context, 0, [](DType dtype) { return FindCumSum(dtype) != nullptr; }));
    RETURN_IF_ERROR(CheckDType(
        context, 1, [](DType dtype) { return dtype == DType::kInt32 || dtype == DType::kInt64; }));
    const ValueFacts& x = context.input(0);
    const graph::DimVector* dims = context.dims(1);
    const bool one = dims == nullptr || dims->empty() ||
                     (dims->size() == 1 && !((*dims)[0].is_number() && (*dims)[0].number() != 1));
    if (!one) {
      return InvalidArgument("axis has shape {} where a scalar is expected",
                             graph::ToString(*dims));
    }
    const auto axis = context.Integers(1);
    if (axis && x.dims) RETURN_IF_ERROR(CheckAxis(axis->front(), x.rank()));
    context.SetOutput(0, x.dtype, x.dims);
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    const DType dtype = context.input(0).dtype;
    return std::make_unique<CumSumStep>(fmt::format("cumsum {}", DTypeName(dtype)),
                                        FindCumSum(dtype), own_, start_);
  }

  Traits traits() const override { return {.in_place = true}; }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    return ElementwiseCost(shapes, dtype, 1);
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    if (!query.axes[0] || query.axes[1]) return BatchAnswer::Decline("the axis carries the batch");
    const int rank = query.inputs[0]->rank();
    const auto axis = IntegersOf(*query.inputs[1]);
    if (!axis || axis->size() != 1 || rank < 0) {
      return BatchAnswer::Decline("the axis is not known before a run");
    }
    const int64_t along = axis->front() < 0 ? axis->front() + rank : axis->front();
    if (along == *query.axes[0]) {
      return BatchAnswer::Decline(fmt::format("it sums along the batch axis {}", along));
    }
    return BatchAnswer::All(query, query.axes[0]);
  }

 private:
  Own own_;
  Start start_;
};

}  // namespace

void RegisterCumSum(OpRegistry& registry) {
  registry.Add({.op_type = "CumSum",
                .versions = {11, 14},
                .min_inputs = 2,
                .max_inputs = 2,
                .parse = CumSum::Parse,
                .doc = "Running sums along an axis."});
}

}  // namespace tandem::ops
