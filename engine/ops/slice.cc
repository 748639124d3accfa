// Slice (ai.onnx, opset 1 with attributes, opset 10 with inputs): starts, ends and steps along
// axes, as numpy's basic slicing; ends beyond the axis are clamped.
#include <algorithm>

#include "engine/ops/extents.h"
#include "engine/ops/movement.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

enum Port { kStarts = 1, kEnds = 2, kAxes = 3, kSteps = 4 };

// What is asked along one axis, clamped to its extent.
struct Cut {
  int64_t start = 0;
  int64_t step = 1;
  int64_t length = 0;
};

Cut Clamp(int64_t start, int64_t end, int64_t step, int64_t extent) {
  if (extent == 0) return {};
  constexpr int64_t kFar = int64_t{1} << 62;
  step = std::clamp(step, -kFar, kFar);
  const int64_t low = step > 0 ? 0 : -1;  // the place before the first element, going backwards
  const int64_t high = step > 0 ? extent : extent - 1;
  start = std::clamp(start < 0 ? start + extent : start, step > 0 ? 0 : low, high);
  end = std::clamp(end < 0 ? end + extent : end, low, high);
  const int64_t way = step > 0 ? end - start : start - end;
  const int64_t pace = step > 0 ? step : -step;
  return {start, step, way <= 0 ? 0 : (way - 1) / pace + 1};
}

// The four lists; nothing where an input is not known yet.
struct Lists {
  std::optional<graph::DimVector> starts;
  std::optional<graph::DimVector> ends;
  std::optional<std::vector<int64_t>> axes;
  std::optional<std::vector<int64_t>> steps;
};

graph::DimVector ToDimList(const std::vector<int64_t>& values) {
  return {values.begin(), values.end()};
}

class Slice final : public Operator {
 public:
  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    auto op = std::make_shared<Slice>();
    if (reader.opset() >= 10) {
      if (!reader.has_input(kStarts) || !reader.has_input(kEnds)) {
        reader.Fail(InvalidArgument("input 1 (starts) or 2 (ends) is missing"));
      }
      return op;
    }
    op->from_attributes_ = true;
    op->starts_ = reader.Ints("starts");
    op->ends_ = reader.Ints("ends");
    if (reader.has("axes")) op->axes_ = reader.Ints("axes");
    if (!reader.has("starts") || !reader.has("ends")) {
      reader.Fail(InvalidArgument("attribute 'starts' or 'ends' is missing"));
    }
    if (reader.inputs() > 1) {
      reader.Fail(InvalidArgument("opset {} takes starts and ends as attributes", reader.opset()));
    }
    return op;
  }

  Status Infer(InferContext& context) const override {
    const ValueFacts& x = context.input(0);
    if (!x.dims) {
      context.SetOutput(0, x.dtype, std::nullopt);
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const Lists lists, ListsOf(context));
    if (!lists.axes || !lists.steps) {
      context.SetOutput(0, x.dtype, UnknownDims(x.rank()));
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const std::vector<int> axes, ResolveAxes(*lists.axes, x.rank(), "axes"));
    graph::DimVector dims = *x.dims;
    for (size_t i = 0; i < axes.size(); ++i) {
      graph::Dim& dim = dims[static_cast<size_t>(axes[i])];
      dim = Extent(dim, lists, i);
    }
    context.SetOutput(0, x.dtype, std::move(dims));
    if (x.content && x.rank() == 1) PassSliced(context, lists);
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    const Slice self = *this;
    return MakeMoveStep(context, "move.slice",
                        [self](StepContext& run, std::span<const MutableTensorView> outputs) {
                          return self.Run(run, outputs[0]);
                        });
  }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    Cost cost = CostOfMove(shapes, dtype);
    cost.bytes = 2.0 * static_cast<double>(shapes.outputs[0].elements()) *
                 static_cast<double>(DTypeBytes(dtype, 1));
    return cost;
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    if (!query.axes[0]) return BatchAnswer::Decline("its bounds carry the batch");
    const int batch = *query.axes[0];
    const ValueFacts& x = *query.inputs[0];
    const auto integers = [&query](size_t port) -> std::optional<std::vector<int64_t>> {
      if (port >= query.inputs.size() || query.inputs[port] == nullptr) return std::nullopt;
      return IntegersOf(*query.inputs[port]);
    };
    const std::optional<std::vector<int64_t>> axes = from_attributes_ ? axes_ : integers(kAxes);
    if (!x.dims || !query.outputs[0]->dims) return BatchAnswer::Decline("a rank is unknown");
    if (axes) {
      const auto names_batch = [&](int64_t axis) {
        return (axis < 0 ? axis + x.rank() : axis) == batch;
      };
      if (std::ranges::none_of(*axes, names_batch)) return BatchAnswer::All(query, batch);
    }
    // The batch may be named as long as all of it is taken in order.
    const bool has_steps = query.inputs.size() > kSteps && query.inputs[kSteps] != nullptr;
    const std::optional<std::vector<int64_t>> steps = integers(kSteps);
    const bool forward =
        !has_steps ||
        (steps && std::ranges::all_of(*steps, [](int64_t step) { return step == 1; }));
    const auto b = static_cast<size_t>(batch);
    if (forward && (*query.outputs[0]->dims)[b].SameAs((*x.dims)[b])) {
      return BatchAnswer::All(query, batch);
    }
    return BatchAnswer::Decline("it cuts the batch or its axes are unknown");
  }

 private:
  StatusOr<Lists> ListsOf(InferContext& context) const {
    Lists lists;
    if (from_attributes_) {
      lists.starts = ToDimList(starts_);
      lists.ends = ToDimList(ends_);
      lists.axes = axes_;
    } else {
      lists.starts = context.Content(kStarts);
      lists.ends = context.Content(kEnds);
      lists.axes = context.Integers(kAxes);
      lists.steps = context.Integers(kSteps);
    }
    int count = lists.starts ? static_cast<int>(lists.starts->size()) : -1;
    if (count < 0) {
      ASSIGN_OR_RETURN(count, RankFromVector(context, kStarts, "starts (input 1)"));
    }
    return Complete(std::move(lists), {count, context.has_input(kAxes), context.has_input(kSteps)});
  }

  struct Given {
    int count = -1;  // of starts; -1 where unknown
    bool axes = false;
    bool steps = false;
  };

  // Fills in the defaults and checks that all lists are equally long.
  static StatusOr<Lists> Complete(Lists lists, const Given& given) {
    if (!lists.axes && !given.axes && given.count >= 0) {
      lists.axes.emplace();
      for (int axis = 0; axis < given.count; ++axis) lists.axes->push_back(axis);
    }
    if (!lists.steps && !given.steps && lists.axes) {
      lists.steps.emplace(lists.axes->size(), 1);
    }
    const auto check = [&given](std::string_view name, const auto& list) -> Status {
      if (!list || given.count < 0 || list->size() == static_cast<size_t>(given.count)) {
        return absl::OkStatus();
      }
      return InvalidArgument("{} has {} elements where starts has {}", name, list->size(),
                             given.count);
    };
    RETURN_IF_ERROR(check("ends", lists.ends));
    RETURN_IF_ERROR(check("axes", lists.axes));
    RETURN_IF_ERROR(check("steps", lists.steps));
    if (lists.steps && std::ranges::find(*lists.steps, 0) != lists.steps->end()) {
      return InvalidArgument("a step is 0");
    }
    return lists;
  }

  static graph::Dim Extent(const graph::Dim& in, const Lists& lists, size_t i) {
    if (!lists.starts || !lists.ends) return {};
    const graph::Dim& start = (*lists.starts)[i];
    const graph::Dim& end = (*lists.ends)[i];
    const int64_t step = (*lists.steps)[i];
    if (in.is_number() && start.is_number() && end.is_number()) {
      return Clamp(start.number(), end.number(), step, in.number()).length;
    }
    // An end at or beyond the extent, as exporters write "all the rest".
    constexpr int64_t kRest = (int64_t{1} << 31) - 1;
    const bool from_start = start.is_number() && start.number() == 0;
    const bool clips =
        in.is_number() && in.number() > 0 && end.is_symbol() && end.coefficient() > 0;
    if (from_start && step == 1 && clips) return graph::Dim::Clipped(end);
    const bool to_end = end.SameAs(in) || (end.is_number() && end.number() >= kRest);
    return from_start && to_end && step == 1 ? in : graph::Dim();
  }

  static void PassSliced(InferContext& context, const Lists& lists) {
    const graph::DimVector& content = *context.input(0).content;
    Cut cut{0, 1, static_cast<int64_t>(content.size())};
    if (lists.axes->size() == 1) {
      if (!lists.starts || !lists.ends) return;
      const graph::Dim& start = (*lists.starts)[0];
      const graph::Dim& end = (*lists.ends)[0];
      if (!start.is_number() || !end.is_number()) return;
      cut = Clamp(start.number(), end.number(), (*lists.steps)[0],
                  static_cast<int64_t>(content.size()));
    }
    graph::DimVector sliced;
    for (int64_t i = 0; i < cut.length; ++i) {
      sliced.push_back(content[static_cast<size_t>(cut.start + i * cut.step)]);
    }
    SetIntegers(context, 0, sliced);
  }

  StatusOr<Lists> ListsOf(StepContext& run) const {
    Lists lists;
    Given given;
    if (from_attributes_) {
      lists.starts = ToDimList(starts_);
      lists.ends = ToDimList(ends_);
      lists.axes = axes_;
    } else {
      lists.starts = ToDimList(ReadIntegers(run.input(kStarts)));
      lists.ends = ToDimList(ReadIntegers(run.input(kEnds)));
      if (run.has_input(kAxes)) lists.axes = ReadIntegers(run.input(kAxes));
      if (run.has_input(kSteps)) lists.steps = ReadIntegers(run.input(kSteps));
    }
    given.count = static_cast<int>(lists.starts->size());
    return Complete(std::move(lists), given);
  }

  Status Run(StepContext& run, const MutableTensorView& out) const {
    const TensorView& x = run.input(0);
    ASSIGN_OR_RETURN(const Lists lists, ListsOf(run));
    ASSIGN_OR_RETURN(const std::vector<int> axes,
                     ResolveAxes(*lists.axes, x.shape().rank(), "axes"));
    Dims strides = x.shape().Strides();
    Region region;
    for (size_t i = 0; i < axes.size(); ++i) {
      const auto axis = static_cast<size_t>(axes[i]);
      const Cut cut = Clamp((*lists.starts)[i].number(), (*lists.ends)[i].number(),
                            (*lists.steps)[i], x.shape()[axes[i]]);
      if (cut.length == 0) return absl::OkStatus();
      region.in_offset += cut.start * strides[axis];
      // With one element the step may be anything; its product could overflow.
      strides[axis] = cut.length > 1 ? strides[axis] * cut.step : 0;
    }
    region.axes = MakeAxes(out.shape().dims(), strides, out.shape().Strides());
    CopyRegion(region, x, out, run.parallel());
    return absl::OkStatus();
  }

  bool from_attributes_ = false;
  std::vector<int64_t> starts_;
  std::vector<int64_t> ends_;
  std::optional<std::vector<int64_t>> axes_;
};

}  // namespace

void RegisterSlice(OpRegistry& registry) {
  registry.Add({.op_type = "Slice",
                .versions = {1, 10, 11, 13},
                .max_inputs = 5,
                .parse = Slice::Parse,
                .doc = "A part of the input, with steps along its axes."});
}

}  // namespace tandem::ops
