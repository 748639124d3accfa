// Transpose (ai.onnx, opset 1): permutes axes; without `perm` their order is reversed.
#include <algorithm>
#include <numeric>

#include "engine/kernels/move/permute.h"
#include "engine/ops/extents.h"
#include "engine/ops/movement.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

class Transpose final : public Operator {
 public:
  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    auto op = std::make_shared<Transpose>();
    if (!reader.has("perm")) return op;
    op->order_ = reader.Ints("perm");
    std::vector<int64_t> sorted = *op->order_;
    std::ranges::sort(sorted);
    for (size_t axis = 0; axis < sorted.size(); ++axis) {
      if (sorted[axis] == static_cast<int64_t>(axis)) continue;
      reader.Fail(
          InvalidArgument("attribute 'perm' does not name each of {} axes once: axis {} "
                          "is missing or out of range",
                          sorted.size(), axis));
      break;
    }
    return op;
  }

  Status Infer(InferContext& context) const override {
    const ValueFacts& x = context.input(0);
    if (!x.dims) {
      context.SetOutput(
          0, x.dtype,
          order_ ? std::optional(UnknownDims(static_cast<int>(order_->size()))) : std::nullopt);
      return absl::OkStatus();
    }
    if (order_ && order_->size() != x.dims->size()) {
      return InvalidArgument("attribute 'perm' has {} axes where input {} has {}", order_->size(),
                             ToString(x), x.dims->size());
    }
    graph::DimVector dims;
    for (const int axis : OrderFor(x.rank())) dims.push_back((*x.dims)[static_cast<size_t>(axis)]);
    context.SetOutput(0, x.dtype, std::move(dims));
    if (x.rank() <= 1) PassContent(context);
    return absl::OkStatus();
  }

  std::optional<StridedTensor> ViewOf(std::span<const graph::ConstantRef> inputs,
                                      const Shape& shape) const override {
    return inputs[0]->strided().Permuted(OrderFor(shape.rank()));
  }

  ConstantUse UseOfConstant(int, DType) const override { return ConstantUse::kViewed; }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    const Transpose self = *this;
    return MakeMoveStep(context, "move.transpose",
                        [self](StepContext& run, std::span<const MutableTensorView> outputs) {
                          const TensorView& x = run.input(0);
                          const std::vector<int> order = self.OrderFor(x.shape().rank());
                          CopyRegion({.axes = kernels::PermutationAxes(x.shape().dims(), order)}, x,
                                     outputs[0], run.parallel());
                          return absl::OkStatus();
                        });
  }

  Traits traits() const override {
    const int last = order_ ? static_cast<int>(order_->size()) - 1 : 0;
    if (Moves(1, last)) return {.layout = LayoutRule::kFromChannelsLast};
    if (Moves(last, 1)) return {.layout = LayoutRule::kToChannelsLast};
    return {};
  }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    return CostOfMove(shapes, dtype);
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    const int batch = *query.axes[0];
    const int rank = query.inputs[0]->rank();
    if (rank < 0) return BatchAnswer::Decline("the input's rank is unknown");
    const std::vector<int> order = OrderFor(rank);
    const auto moved = std::ranges::find(order, batch);
    return BatchAnswer::All(query, static_cast<int>(moved - order.begin()));
  }

 private:
  // True when axis `from` is moved to place `to`, and all others of at least three keep their
  // order.
  bool Moves(int from, int to) const {
    if (!order_ || order_->size() < 3) return false;
    std::vector<int64_t> axes(order_->size());
    std::iota(axes.begin(), axes.end(), 0);
    axes.erase(axes.begin() + from);
    axes.insert(axes.begin() + to, from);
    return axes == *order_;
  }

  std::vector<int> OrderFor(int rank) const {
    if (order_) return {order_->begin(), order_->end()};
    std::vector<int> reversed;
    for (int axis = rank - 1; axis >= 0; --axis) reversed.push_back(axis);
    return reversed;
  }

  std::optional<std::vector<int64_t>> order_;
};

}  // namespace

void RegisterTranspose(OpRegistry& registry) {
  registry.Add({.op_type = "Transpose",
                .versions = {1, 13, 21, 23, 24},
                .parse = Transpose::Parse,
                .doc = "Permutes the axes of the input."});
}

}  // namespace tandem::ops
