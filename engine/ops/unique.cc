// Unique (ai.onnx, opset 11): the different elements of the flattened input, or the different
// entries of an axis, in rising order or in that of their first occurrence; where each first
// occurs, which of them each entry of the input is, and how often it occurs. All NaN are the same
// and come last.
#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "engine/kernels/order/order.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/extents.h"
#include "engine/ops/movement.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

enum Port { kY = 0, kIndices = 1, kInverse = 2, kCounts = 3 };
enum class Order : uint8_t { kRising, kFirstOccurrence };

using Integers = std::vector<int64_t>;

// What is different among `length` entries.
struct Groups {
  Integers first;    // by group: the first entry in it
  Integers inverse;  // by entry: its group
  Integers counts;   // by group
};

Groups GroupEntries(const kernels::EntryShape& shape, const TensorView& x, Order order) {
  const kernels::CompareEntries compare = kernels::FindCompareEntries(x.dtype());
  Integers sorted(static_cast<size_t>(shape.length));
  std::iota(sorted.begin(), sorted.end(), 0);
  std::ranges::stable_sort(sorted,
                           [&](int64_t a, int64_t b) { return compare(shape, x.raw(), a, b) < 0; });
  Groups groups;
  groups.inverse.resize(sorted.size());
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (i == 0 || compare(shape, x.raw(), sorted[i - 1], sorted[i]) != 0) {
      groups.first.push_back(sorted[i]);
      groups.counts.push_back(0);
    }
    ++groups.counts.back();
    groups.inverse[static_cast<size_t>(sorted[i])] = std::ssize(groups.first) - 1;
  }
  if (order == Order::kRising) return groups;
  // Renumber the groups by their first entry.
  Integers by_first(groups.first.size());
  std::iota(by_first.begin(), by_first.end(), 0);
  std::ranges::sort(by_first, {}, [&](int64_t g) { return groups.first[static_cast<size_t>(g)]; });
  Groups renumbered;
  Integers number(by_first.size());
  for (size_t i = 0; i < by_first.size(); ++i) {
    const auto old = static_cast<size_t>(by_first[i]);
    number[old] = static_cast<int64_t>(i);
    renumbered.first.push_back(groups.first[old]);
    renumbered.counts.push_back(groups.counts[old]);
  }
  for (const int64_t group : groups.inverse) {
    renumbered.inverse.push_back(number[static_cast<size_t>(group)]);
  }
  return renumbered;
}

class Unique final : public Operator {
 public:
  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    auto op = std::make_shared<Unique>();
    if (reader.has("axis")) op->axis_ = reader.Int("axis", 0);
    if (!reader.Flag("sorted", true)) op->order_ = Order::kFirstOccurrence;
    return op;
  }

  Status Infer(InferContext& context) const override {
    RETURN_IF_ERROR(CheckDType(
        context, 0, [](DType dtype) { return kernels::FindCompareEntries(dtype) != nullptr; }));
    const ValueFacts& x = context.input(0);
    std::optional<graph::DimVector> dims = axis_ ? x.dims : UnknownDims(1);
    graph::Dim entries;
    if (axis_ && dims) {
      ASSIGN_OR_RETURN(const int axis, ResolveAxis(*axis_, x.rank(), "attribute 'axis'"));
      graph::Dim& extent = (*dims)[static_cast<size_t>(axis)];
      entries = extent;
      extent = graph::Dim();
    } else if (x.dims && !axis_) {
      entries = graph::Product(*x.dims, 0, x.rank());
    }
    context.SetOutput(kY, x.dtype, std::move(dims));
    context.SetOutput(kIndices, DType::kInt64, UnknownDims(1));
    context.SetOutput(kInverse, DType::kInt64, graph::DimVector{entries});
    context.SetOutput(kCounts, DType::kInt64, UnknownDims(1));
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    const Unique self = *this;
    std::vector<bool> wanted;
    for (int port = 0; port <= kCounts; ++port) wanted.push_back(context.has_output(port));
    return MakeDataStep("order.unique",
                        [self, wanted](StepContext& run) { return self.Run(run, wanted); });
  }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    Cost cost = CostOfMove(shapes, dtype);
    cost.multiply_adds = 16 * static_cast<double>(shapes.inputs[0].elements());
    return cost;
  }

 private:
  Status Run(StepContext& run, const std::vector<bool>& wanted) const {
    ASSIGN_OR_RETURN(const AxisView along, AlongAxis(run.input(0), axis_));
    const auto& [x, axis] = along;
    Shape shape = x.shape();
    const kernels::EntryShape entries{shape.Product(0, axis), shape[axis],
                                      shape.Product(axis + 1, shape.rank())};
    const Groups groups = GroupEntries(entries, x, order_);
    if (wanted[kY]) {
      shape[axis] = std::ssize(groups.first);
      ASSIGN_OR_RETURN(const MutableTensorView y, Output(run, kY, shape));
      CopyEntries(groups.first, axis, x, y);
    }
    const Integers* lists[] = {&groups.first, &groups.inverse, &groups.counts};
    for (int port = kIndices; port <= kCounts; ++port) {
      if (!wanted[static_cast<size_t>(port)]) continue;
      const Integers& list = *lists[port - kIndices];
      ASSIGN_OR_RETURN(const MutableTensorView out, Output(run, port, Shape{std::ssize(list)}));
      std::ranges::copy(list, out.mutable_data<int64_t>());
    }
    return absl::OkStatus();
  }

  static StatusOr<MutableTensorView> Output(StepContext& run, int port, const Shape& shape) {
    if (run.output(port).dtype() != DType::kUndefined) return run.output(port);
    return run.AllocateOutput(port, shape);
  }

  std::optional<int64_t> axis_;
  Order order_ = Order::kRising;
};

}  // namespace

void RegisterUnique(OpRegistry& registry) {
  registry.Add({.op_type = "Unique",
                .versions = {11},
                .max_outputs = 4,
                .parse = Unique::Parse,
                .doc = "The different elements of a tensor, or entries of an axis."});
}

}  // namespace tandem::ops
