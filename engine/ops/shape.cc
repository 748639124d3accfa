// Shape (ai.onnx, opset 1; start and end since 15): the extents of the input as an int64 vector.
#include <algorithm>

#include "engine/ops/extents.h"
#include "engine/ops/movement.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

class ShapeOp final : public Operator {
 public:
  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    auto op = std::make_shared<ShapeOp>();
    if (reader.opset() < 15) return op;
    op->start_ = reader.Int("start", 0);
    if (reader.has("end")) op->end_ = reader.Int("end", 0);
    return op;
  }

  Status Infer(InferContext& context) const override {
    const graph::DimVector* dims = context.dims(0);
    if (dims == nullptr) {
      context.SetOutput(0, DType::kInt64, UnknownDims(1));
      return absl::OkStatus();
    }
    const Range range = RangeFor(static_cast<int>(dims->size()));
    context.SetOutput(0, DType::kInt64, graph::DimVector{range.end - range.begin});
    SetIntegers(context, 0, {dims->begin() + range.begin, dims->begin() + range.end});
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext&) const override {
    const ShapeOp self = *this;
    return MakeDataStep("shape", [self](StepContext& run) -> Status {
      const Shape& shape = run.input(0).shape();
      const Range range = self.RangeFor(shape.rank());
      MutableTensorView out = run.output(0);
      if (out.dtype() == DType::kUndefined) {
        ASSIGN_OR_RETURN(out, run.AllocateOutput(0, Shape{range.end - range.begin}));
      }
      std::copy(shape.dims().begin() + range.begin, shape.dims().begin() + range.end,
                out.mutable_data<int64_t>());
      return absl::OkStatus();
    });
  }

  Traits traits() const override { return {.reads_shapes_only = true, .layout = LayoutRule::kAny}; }

  // The extents are those of the whole batch, which all items share.
  BatchAnswer Batch(const BatchQuery& query) const override {
    return BatchAnswer::All(query, std::nullopt);
  }

 private:
  struct Range {
    int64_t begin;
    int64_t end;
  };

  // Both ends count from the back when negative and are clamped into the rank.
  Range RangeFor(int64_t rank) const {
    const auto clamp = [rank](int64_t axis) {
      return std::clamp<int64_t>(axis < 0 ? axis + rank : axis, 0, rank);
    };
    const int64_t begin = clamp(start_);
    return {begin, std::max(begin, end_ ? clamp(*end_) : rank)};
  }

  int64_t start_ = 0;
  std::optional<int64_t> end_;
};

}  // namespace

void RegisterShape(OpRegistry& registry) {
  registry.Add({.op_type = "Shape",
                .versions = {1, 13, 15, 19, 21, 23, 24},
                .parse = ShapeOp::Parse,
                .doc = "The extents of the input."});
}

}  // namespace tandem::ops
