// TopK (ai.onnx, opset 1 with k as an attribute, opset 10 as an input; smallest and unsorted
// results since 11): the k largest or smallest elements along an axis and their indices, the best
// first. Of equal elements the lower index comes first; a NaN is larger than everything else.
#include "engine/kernels/order/order.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/extents.h"
#include "engine/ops/movement.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

using kernels::TopKOrder;

class TopK final : public Operator {
 public:
  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    auto op = std::make_shared<TopK>();
    op->axis_ = reader.Int("axis", -1);
    if (reader.opset() < 10) {
      op->k_ = reader.RequiredInt("k");
      if (reader.has_input(1)) {
        reader.Fail(InvalidArgument("opset {} takes k as an attribute", reader.opset()));
      }
      return op;
    }
    if (!reader.has_input(1)) reader.Fail(InvalidArgument("input 1 (K) is missing"));
    if (reader.opset() >= 11) {
      if (!reader.Flag("largest", true)) op->order_ = TopKOrder::kSmallestFirst;
      // Any order is right where none is asked for.
      reader.Flag("sorted", true);
    }
    return op;
  }

  Status Infer(InferContext& context) const override {
    RETURN_IF_ERROR(
        CheckDType(context, 0, [](DType dtype) { return kernels::FindTopK(dtype) != nullptr; }));
    const ValueFacts& x = context.input(0);
    ASSIGN_OR_RETURN(const graph::Dim k, KOf(context));
    std::optional<graph::DimVector> dims = x.dims;
    if (dims) {
      ASSIGN_OR_RETURN(const int axis, ResolveAxis(axis_, x.rank(), "attribute 'axis'"));
      graph::Dim& extent = (*dims)[static_cast<size_t>(axis)];
      if (k.is_number() && extent.is_number() && k.number() > extent.number()) {
        return InvalidArgument("k is {} where axis {} has {} elements", k.number(), axis,
                               extent.number());
      }
      extent = k;
    }
    context.SetOutput(0, x.dtype, dims);
    context.SetOutput(1, DType::kInt64, std::move(dims));
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    const TopK self = *this;
    const DType dtype = context.input(0).dtype;
    return MakeMoveStep(context, fmt::format("order.top_k {}", DTypeName(dtype)),
                        [self](StepContext& run, std::span<const MutableTensorView> outputs) {
                          return self.Run(run, outputs);
                        });
  }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    Cost cost = CostOfMove(shapes, dtype);
    cost.multiply_adds = static_cast<double>(shapes.inputs[0].elements());
    return cost;
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    const int rank = query.inputs[0]->rank();
    if (!query.axes[0] || (query.axes.size() > 1 && query.axes[1])) {
      return BatchAnswer::Decline("k carries the batch");
    }
    if (rank < 0) return BatchAnswer::Decline("the rank of the input is unknown");
    const int64_t axis = axis_ < 0 ? axis_ + rank : axis_;
    if (axis == *query.axes[0]) {
      return BatchAnswer::Decline(fmt::format("it searches along the batch axis {}", axis));
    }
    return BatchAnswer::All(query, query.axes[0]);
  }

 private:
  StatusOr<graph::Dim> KOf(const InferContext& context) const {
    graph::Dim k = k_ ? graph::Dim(*k_) : graph::Dim();
    if (!k_) {
      const ValueFacts& input = context.input(1);
      const bool one = !input.dims || input.dims->empty() ||
                       (input.rank() == 1 && MayEqual(input.dims->front(), int64_t{1}));
      if (input.dtype != DType::kInt64 || !one) {
        return InvalidArgument("input 1 (K) is {} where one int64 is expected", ToString(input));
      }
      if (const std::optional<graph::DimVector> content = context.Content(1)) k = content->front();
    }
    if (!k.is_number() || k.number() >= 0) return k;
    return InvalidArgument("k is {} where a number >= 0 is expected", k.number());
  }

  Status Run(StepContext& run, std::span<const MutableTensorView> outputs) const {
    const TensorView& x = run.input(0);
    const Shape& shape = x.shape();
    ASSIGN_OR_RETURN(const int axis, ResolveAxis(axis_, shape.rank(), "attribute 'axis'"));
    // An output that nobody reads is written all the same.
    const auto memory = [&](size_t port, DType dtype) -> StatusOr<Tensor> {
      if (port >= outputs.size() || outputs[port].dtype() == DType::kUndefined) {
        return Tensor::Allocate(dtype, OtherShape(outputs, port));
      }
      return Tensor::Share(nullptr, dtype, outputs[port].shape(), outputs[port].raw());
    };
    ASSIGN_OR_RETURN(const Tensor values, memory(0, x.dtype()));
    ASSIGN_OR_RETURN(const Tensor indices, memory(1, DType::kInt64));
    const kernels::TopKShape slices{shape.Product(0, axis), shape[axis],
                                    shape.Product(axis + 1, shape.rank()), values.shape()[axis],
                                    order_};
    kernels::FindTopK(x.dtype())(slices, x.raw(), values.mutable_view().mutable_raw(),
                                 indices.mutable_data<int64_t>(), run.parallel());
    return absl::OkStatus();
  }

  static Shape OtherShape(std::span<const MutableTensorView> outputs, size_t port) {
    return outputs[port == 0 ? 1 : 0].shape();
  }

  int64_t axis_ = -1;
  TopKOrder order_ = TopKOrder::kLargestFirst;
  std::optional<int64_t> k_;  // up to opset 9
};

}  // namespace

void RegisterTopK(OpRegistry& registry) {
  registry.Add({.op_type = "TopK",
                .versions = {1, 10, 11, 24},
                .max_inputs = 2,
                .max_outputs = 2,
                .parse = TopK::Parse,
                .doc = "The largest or smallest elements along an axis, and their indices."});
}

}  // namespace tandem::ops
