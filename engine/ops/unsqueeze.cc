// Unsqueeze (ai.onnx, opset 1; axes as an input since 13): inserts axes of extent 1. Axes count in
// the output.
#include "engine/ops/extents.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

class Unsqueeze final : public Operator {
 public:
  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    auto op = std::make_shared<Unsqueeze>();
    if (reader.opset() < 13) {
      op->axes_ = reader.Ints("axes");
      if (!reader.has("axes")) reader.Fail(InvalidArgument("attribute 'axes' is missing"));
      if (reader.has_input(1)) {
        reader.Fail(InvalidArgument("opset {} takes axes as an attribute", reader.opset()));
      }
    } else if (!reader.has_input(1)) {
      reader.Fail(InvalidArgument("input 1 (axes) is missing"));
    }
    return op;
  }

  Status Infer(InferContext& context) const override {
    const ValueFacts& x = context.input(0);
    std::optional<std::vector<int64_t>> axes = axes_;
    if (context.has_input(1)) axes = context.Integers(1);
    if (!axes) {
      ASSIGN_OR_RETURN(const int count, RankFromVector(context, 1, "axes (input 1)"));
      const bool known = count >= 0 && x.dims;
      context.SetOutput(0, x.dtype,
                        known ? std::optional(UnknownDims(x.rank() + count)) : std::nullopt);
      return absl::OkStatus();
    }
    if (!x.dims) {
      context.SetOutput(0, x.dtype, std::nullopt);
      return absl::OkStatus();
    }
    const size_t rank = x.dims->size() + axes->size();
    ASSIGN_OR_RETURN(const std::vector<int> resolved,
                     ResolveAxes(*axes, static_cast<int>(rank), "axes"));
    std::vector<bool> inserted(rank, false);
    for (const int axis : resolved) inserted[static_cast<size_t>(axis)] = true;
    graph::DimVector dims;
    auto next = x.dims->begin();
    for (size_t axis = 0; axis < rank; ++axis) dims.push_back(inserted[axis] ? 1 : *next++);
    context.SetOutput(0, x.dtype, std::move(dims));
    PassContent(context);
    return absl::OkStatus();
  }

  Traits traits() const override { return {.view = true}; }

  BatchAnswer Batch(const BatchQuery& query) const override { return BatchOfReshape(query); }

 private:
  std::optional<std::vector<int64_t>> axes_;
};

}  // namespace

void RegisterUnsqueeze(OpRegistry& registry) {
  registry.Add({.op_type = "Unsqueeze",
                .versions = {1, 11, 13, 21},
                .max_inputs = 2,
                .parse = Unsqueeze::Parse,
                .doc = "Inserts axes of extent 1."});
}

}  // namespace tandem::ops
