// Squeeze (ai.onnx, opset 1; axes as an input since 13): drops axes of extent 1.
#include <algorithm>

#include "engine/ops/extents.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

class Squeeze final : public Operator {
 public:
  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    auto op = std::make_shared<Squeeze>();
    if (reader.opset() >= 13) return op;
    if (reader.has("axes")) op->axes_ = reader.Ints("axes");
    if (reader.has_input(1)) {
      reader.Fail(InvalidArgument("opset {} takes axes as an attribute", reader.opset()));
    }
    return op;
  }

  Status Infer(InferContext& context) const override {
    const ValueFacts& x = context.input(0);
    std::optional<std::vector<int64_t>> axes = axes_;
    if (context.has_input(1)) {
      axes = context.Integers(1);
      if (!axes) return InferWithoutAxes(context);
    }
    if (!x.dims) {
      context.SetOutput(0, x.dtype, std::nullopt);
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const std::vector<bool> dropped, Dropped(*x.dims, axes));
    graph::DimVector dims;
    for (size_t axis = 0; axis < dropped.size(); ++axis) {
      if (!dropped[axis]) dims.push_back((*x.dims)[axis]);
    }
    context.SetOutput(0, x.dtype, std::move(dims));
    PassContent(context);
    return absl::OkStatus();
  }

  Traits traits() const override { return {.view = true}; }

  BatchAnswer Batch(const BatchQuery& query) const override { return BatchOfReshape(query); }

 private:
  static Status InferWithoutAxes(InferContext& context) {
    const ValueFacts& x = context.input(0);
    ASSIGN_OR_RETURN(const int count, RankFromVector(context, 1, "axes (input 1)"));
    // No extent would be left to ask what the axes are.
    const bool known = count >= 0 && x.dims && count < x.rank();
    context.SetOutput(0, x.dtype,
                      known ? std::optional(UnknownDims(x.rank() - count)) : std::nullopt);
    return absl::OkStatus();
  }

  static StatusOr<std::vector<bool>> Dropped(const graph::DimVector& dims,
                                             const std::optional<std::vector<int64_t>>& axes) {
    std::vector<bool> dropped(dims.size(), false);
    if (!axes) {
      for (size_t axis = 0; axis < dims.size(); ++axis) {
        if (!dims[axis].is_number()) {
          return InvalidArgument(
              "without axes, extent {} of {} must be known to tell whether it is 1", axis,
              graph::ToString(dims));
        }
        dropped[axis] = dims[axis].number() == 1;
      }
      return dropped;
    }
    ASSIGN_OR_RETURN(const std::vector<int> resolved,
                     ResolveAxes(*axes, static_cast<int>(dims.size()), "axes"));
    for (const int axis : resolved) {
      const graph::Dim& dim = dims[static_cast<size_t>(axis)];
      if (!MayEqual(dim, 1)) {
        return InvalidArgument("axis {} of {} has extent {} where 1 is expected", axis,
                               graph::ToString(dims), graph::ToString(dim));
      }
      dropped[static_cast<size_t>(axis)] = true;
    }
    return dropped;
  }

  std::optional<std::vector<int64_t>> axes_;
};

}  // namespace

void RegisterSqueeze(OpRegistry& registry) {
  registry.Add({.op_type = "Squeeze",
                .versions = {1, 11, 13, 21},
                .max_inputs = 2,
                .parse = Squeeze::Parse,
                .doc = "Drops axes of extent 1."});
}

}  // namespace tandem::ops
