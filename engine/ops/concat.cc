// Concat (ai.onnx, opset 4): inputs of equal rank side by side along one axis.
#include "engine/ops/extents.h"
#include "engine/ops/movement.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

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
    const int64_t wanted = axis_;
    const auto inputs = static_cast<int>(context.node().inputs.size());
    return MakeMoveStep(
        context, "move.concat",
        [wanted, inputs](StepContext& run, std::span<const MutableTensorView> outputs) -> Status {
          const Shape& shape = outputs[0].shape();
          const Dims strides = shape.Strides();
          ASSIGN_OR_RETURN(const int axis, ResolveAxis(wanted, shape.rank(), "attribute 'axis'"));
          int64_t begin = 0;
          for (int port = 0; port < inputs; ++port) {
            const TensorView& part = run.input(port);
            const Region region{
                .axes = MakeAxes(part.shape().dims(), part.shape().Strides(), strides),
                .out_offset = begin * strides[static_cast<size_t>(axis)]};
            CopyRegion(region, part, outputs[0], run.parallel());
            begin += part.shape()[axis];
          }
          return absl::OkStatus();
        });
  }

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
