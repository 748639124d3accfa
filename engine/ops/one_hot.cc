// OneHot (ai.onnx, opset 9; negative indices count from the end since 11): a new axis of extent
// depth that holds the on value at the index and the off value elsewhere; everywhere where the
// index is out of range.
#include "engine/kernels/elementwise/cast.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/extents.h"
#include "engine/ops/movement.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

enum Port { kIndices = 0, kDepth = 1, kValues = 2 };
enum class Negative : uint8_t { kOutOfRange, kFromEnd };

bool IsNumber(DType dtype) { return IsFloating(dtype) || IsInteger(dtype); }

class OneHot final : public Operator {
 public:
  OneHot(int64_t axis, Negative negative) : axis_(axis), negative_(negative) {}

  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    return std::make_shared<const OneHot>(
        reader.Int("axis", -1), reader.opset() >= 11 ? Negative::kFromEnd : Negative::kOutOfRange);
  }

  Status Infer(InferContext& context) const override {
    RETURN_IF_ERROR(CheckDType(context, kIndices, IsNumber));
    RETURN_IF_ERROR(CheckDType(context, kDepth, IsNumber));
    RETURN_IF_ERROR(CheckCount(context, kDepth, 1, "depth"));
    RETURN_IF_ERROR(CheckCount(context, kValues, 2, "values"));
    const DType dtype = context.input(kValues).dtype;
    const graph::DimVector* indices = context.dims(kIndices);
    ASSIGN_OR_RETURN(const graph::Dim depth, DepthOf(context));
    if (indices == nullptr) {
      context.SetOutput(0, dtype, std::nullopt);
      return absl::OkStatus();
    }
    graph::DimVector dims = *indices;
    ASSIGN_OR_RETURN(const int axis,
                     ResolveAxis(axis_, static_cast<int>(dims.size()) + 1, "attribute 'axis'"));
    dims.insert(dims.begin() + axis, depth);
    context.SetOutput(0, dtype, std::move(dims));
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    RETURN_IF_ERROR(CheckMovable(context.input(kValues).dtype));
    const OneHot self = *this;
    return MakeMoveStep(context, "move.one_hot",
                        [self](StepContext& run, std::span<const MutableTensorView> outputs) {
                          self.Run(run, outputs[0]);
                          return absl::OkStatus();
                        });
  }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    return CostOfMove(shapes, dtype);
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    if (!query.axes[kIndices] || query.axes[kDepth] || query.axes[kValues]) {
      return BatchAnswer::Decline("depth or values carry the batch");
    }
    const int rank = query.inputs[kIndices]->rank();
    if (rank < 0) return BatchAnswer::Decline("a rank is unknown");
    const int64_t axis = axis_ < 0 ? axis_ + rank + 1 : axis_;
    const int batch = *query.axes[kIndices];
    return BatchAnswer::All(query, axis <= batch ? batch + 1 : batch);
  }

 private:
  static Status CheckCount(const InferContext& context, int port, int64_t count,
                           std::string_view name) {
    const graph::DimVector* dims = context.dims(port);
    if (dims == nullptr) return absl::OkStatus();
    const bool scalar = dims->empty() && count == 1;
    if (scalar || (dims->size() == 1 && MayEqual((*dims)[0], count))) return absl::OkStatus();
    return InvalidArgument("{} has shape {} where {} is expected", name, graph::ToString(*dims),
                           count == 1 ? "one element" : fmt::format("[{}]", count));
  }

  static StatusOr<graph::Dim> DepthOf(const InferContext& context) {
    graph::Dim depth;
    if (const std::optional<graph::DimVector> content = context.Content(kDepth)) {
      depth = content->front();
    } else if (context.input(kDepth).value) {
      depth = ReadInteger(context.input(kDepth).value->view());
    }
    if (!depth.is_number() || depth.number() >= 0) return depth;
    return InvalidArgument("depth is {} where a number >= 0 is expected", depth.number());
  }

  void Run(StepContext& run, const MutableTensorView& out) const {
    const Shape& shape = out.shape();
    const int rank = shape.rank();
    const auto axis = static_cast<int>(axis_ < 0 ? axis_ + rank : axis_);
    const int64_t depth = shape[axis];
    const int64_t inner = shape.Product(axis + 1, rank);
    const std::vector<int64_t> indices = ReadIntegers(run.input(kIndices));
    if (out.elements() == 0) return;
    const int64_t grain = GrainOf(kGrainElements, depth * inner);
    WithElement(out.dtype(), [&](auto element) {
      using T = decltype(element);
      const T* values = static_cast<const T*>(run.input(kValues).raw());
      T* to = static_cast<T*>(out.mutable_raw());
      run.parallel().For(shape.Product(0, axis), grain, [&](int64_t begin, int64_t end) {
        std::fill(to + begin * depth * inner, to + end * depth * inner, values[0]);
        for (int64_t i = begin * inner; i < end * inner; ++i) {
          int64_t index = indices[static_cast<size_t>(i)];
          if (index < 0 && negative_ == Negative::kFromEnd) index += depth;
          if (index < 0 || index >= depth) continue;
          to[(i / inner * depth + index) * inner + i % inner] = values[1];
        }
      });
    });
  }

  int64_t axis_;
  Negative negative_;
};

}  // namespace

void RegisterOneHot(OpRegistry& registry) {
  registry.Add({.op_type = "OneHot",
                .versions = {9, 11},
                .min_inputs = 3,
                .max_inputs = 3,
                .parse = OneHot::Parse,
                .doc = "A new axis that is on at the index and off elsewhere."});
}

}  // namespace tandem::ops
