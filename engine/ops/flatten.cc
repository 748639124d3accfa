// Flatten (ai.onnx, opset 1; negative axis since 11): a matrix of the axes before `axis` and those
// from it on.
#include "engine/ops/extents.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

class Flatten final : public Operator {
 public:
  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    auto op = std::make_shared<Flatten>();
    op->axis_ = reader.Int("axis", 1);
    if (reader.opset() < 11 && op->axis_ < 0) {
      reader.Fail(InvalidArgument("attribute 'axis' is {} where opset {} has no negative axes",
                                  op->axis_, reader.opset()));
    }
    return op;
  }

  Status Infer(InferContext& context) const override {
    const ValueFacts& x = context.input(0);
    if (!x.dims) {
      context.SetOutput(0, x.dtype, UnknownDims(2));
      return absl::OkStatus();
    }
    const int rank = x.rank();
    int axis = rank;  // the one axis that ResolveAxis does not know: all extents in front
    if (axis_ != rank) {
      ASSIGN_OR_RETURN(axis, ResolveAxis(axis_, rank, "attribute 'axis'"));
    }
    context.SetOutput(0, x.dtype,
                      graph::DimVector{Product(*x.dims, 0, axis), Product(*x.dims, axis, rank)});
    return absl::OkStatus();
  }

  Traits traits() const override { return {.view = true}; }

  BatchAnswer Batch(const BatchQuery& query) const override { return BatchOfReshape(query); }

 private:
  int64_t axis_ = 1;
};

}  // namespace

void RegisterFlatten(OpRegistry& registry) {
  registry.Add({.op_type = "Flatten",
                .versions = {1, 9, 11, 13, 21},
                .parse = Flatten::Parse,
                .doc = "The input as a matrix, cut before an axis."});
}

}  // namespace tandem::ops
