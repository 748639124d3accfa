// Concat (ai.onnx, opset 4): inputs of equal rank side by side along one axis.
#include "engine/base/check.h"
#include "engine/ops/extents.h"
#include "engine/ops/movement.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

// The axes of `shape` in the order in which they lie in memory.
Shape InMemory(Shape shape, Layout layout) {
  if (layout == Layout::kNative) return shape;
  Shape moved = {shape[0]};
  for (int axis = 2; axis < shape.rank(); ++axis) moved.Append(shape[axis]);
  moved.Append(shape[1]);
  return moved;
}

// Where `axis` is among them.
int PlaceInMemory(int axis, int rank, Layout layout) {
  if (layout == Layout::kNative || axis == 0) return axis;
  return axis == 1 ? rank - 1 : axis - 1;
}

class Concat final : public Operator {
 public:
  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    auto op = std::make_shared<Concat>();
    op->axis_ = reader.RequiredInt("axis");
    for (int port = 0; port < reader.inputs(); ++port) {
      if (!reader.has_input(port)) reader.Fail(InvalidArgument("input {} is omitted", port));
    }
    return op;
  }

  Status Infer(InferContext& context) const override {
    const DType dtype = context.input(0).dtype;
    std::optional<graph::DimVector> dims;
    bool all_known = true;
    int axis = 0;
    for (int port = 0; port < context.inputs(); ++port) {
      const ValueFacts& part = context.input(port);
      if (part.dtype != dtype) {
        return InvalidArgument("input {} is {} where input 0 is {}", port, DTypeName(part.dtype),
                               DTypeName(dtype));
      }
      all_known = all_known && part.dims.has_value();
      if (!part.dims) continue;
      if (dims) {
        RETURN_IF_ERROR(Join(port, *part.dims, axis, *dims));
        continue;
      }
      ASSIGN_OR_RETURN(axis, ResolveAxis(axis_, part.rank(), "attribute 'axis'"));
      dims = part.dims;
    }
    if (dims && !all_known) (*dims)[static_cast<size_t>(axis)] = graph::Dim();
    context.SetOutput(0, dtype, std::move(dims));
    if (all_known) PassContents(context);
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    const Concat self = *this;
    const auto inputs = static_cast<int>(context.node().inputs.size());
    return MakeMoveStep(context, "move.concat",
                        [=](StepContext& run, std::span<const MutableTensorView> outputs) {
                          return self.Run(run, inputs, outputs[0]);
                        });
  }

  Traits traits() const override { return {.layout = LayoutRule::kFollow}; }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    return CostOfMove(shapes, dtype);
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    for (size_t port = 0; port < query.axes.size(); ++port) {
      if (query.axes[port] != query.axes[0] || !query.axes[port]) {
        return BatchAnswer::Decline(
            fmt::format("input {} does not carry the batch as input 0 does", port));
      }
    }
    const int rank = query.inputs[0]->rank();
    if (rank < 0) return BatchAnswer::Decline("the inputs' rank is unknown");
    const int64_t axis = axis_ < 0 ? axis_ + rank : axis_;
    if (axis == *query.axes[0]) return BatchAnswer::Decline("it concatenates along the batch");
    return BatchAnswer::All(query, query.axes[0]);
  }

 private:
  // Adds `part` to the extents of the inputs before it.
  static Status Join(int port, const graph::DimVector& part, int axis, graph::DimVector& dims) {
    if (part.size() != dims.size()) {
      return InvalidArgument("input {} has shape {} where rank {} is expected", port,
                             graph::ToString(part), dims.size());
    }
    for (size_t k = 0; k < dims.size(); ++k) {
      if (static_cast<int>(k) == axis) {
        dims[k] = dims[k] + part[k];
        continue;
      }
      if (!MayEqual(dims[k], part[k])) {
        return InvalidArgument("input {} has shape {} where extent {} of axis {} is expected", port,
                               graph::ToString(part), graph::ToString(dims[k]), k);
      }
      if (!dims[k].is_number() && !part[k].is_unknown()) dims[k] = part[k];
    }
    return absl::OkStatus();
  }

  Status Run(StepContext& run, int inputs, const MutableTensorView& out) const {
    const Layout layout = out.layout();
    const int rank = out.shape().rank();
    ASSIGN_OR_RETURN(const int axis, ResolveAxis(axis_, rank, "attribute 'axis'"));
    const Dims strides = InMemory(out.shape(), layout).Strides();
    const int64_t stride = strides[static_cast<size_t>(PlaceInMemory(axis, rank, layout))];
    int64_t begin = 0;
    for (int port = 0; port < inputs; ++port) {
      const TensorView& part = run.input(port);
      CHECK(part.layout() == layout, "Concat from {} to {}", LayoutName(part.layout()),
            LayoutName(layout));
      const Shape shape = InMemory(part.shape(), layout);
      const Region region{.axes = MakeAxes(shape.dims(), shape.Strides(), strides),
                          .out_offset = begin * stride};
      CopyRegion(region, part, out, run.parallel());
      begin += part.shape()[axis];
    }
    return absl::OkStatus();
  }

  static void PassContents(InferContext& context) {
    graph::DimVector content;
    for (int port = 0; port < context.inputs(); ++port) {
      const std::optional<graph::DimVector> part = context.Content(port);
      if (!part || context.input(port).rank() != 1) return;
      content.insert(content.end(), part->begin(), part->end());
    }
    SetIntegers(context, 0, content);
  }

  int64_t axis_ = 0;
};

}  // namespace

void RegisterConcat(OpRegistry& registry) {
  registry.Add({.op_type = "Concat",
                .versions = {4, 11, 13},
                .max_inputs = kAnyNumber,
                .parse = Concat::Parse,
                .doc = "Joins inputs along one axis."});
}

}  // namespace tandem::ops
