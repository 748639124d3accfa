// Split (ai.onnx, opset 2; sizes as an input since 13, num_outputs since 18): cuts the input along
// one axis.
#include <numeric>

#include "engine/ops/extents.h"
#include "engine/ops/movement.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

class Split final : public Operator {
 public:
  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    auto op = std::make_shared<Split>();
    op->axis_ = reader.Int("axis", 0);
    op->parts_ = static_cast<int64_t>(reader.node().outputs.size());
    if (reader.opset() < 13) {
      if (reader.has("split")) op->sizes_ = reader.Ints("split");
      if (reader.has_input(1)) {
        reader.Fail(InvalidArgument("opset {} takes the sizes as an attribute", reader.opset()));
      }
    }
    if (reader.opset() >= 18) op->ReadNumOutputs(reader);
    return op;
  }

  Status Infer(InferContext& context) const override {
    const ValueFacts& x = context.input(0);
    int axis = 0;
    if (x.dims) {
      ASSIGN_OR_RETURN(axis, ResolveAxis(axis_, x.rank(), "attribute 'axis'"));
    }
    std::optional<std::vector<int64_t>> sizes = sizes_;
    const bool open = context.has_input(1) && !context.Integers(1);
    if (context.has_input(1)) sizes = context.Integers(1);
    graph::DimVector extents = UnknownDims(static_cast<int>(parts_));
    if (!open) {
      const graph::Dim extent = x.dims ? (*x.dims)[static_cast<size_t>(axis)] : graph::Dim();
      ASSIGN_OR_RETURN(extents, Extents(extent, sizes));
    }
    for (size_t port = 0; port < extents.size(); ++port) {
      std::optional<graph::DimVector> dims = x.dims;
      if (dims) (*dims)[static_cast<size_t>(axis)] = extents[port];
      context.SetOutput(static_cast<int>(port), x.dtype, std::move(dims));
    }
    if (x.content && x.rank() == 1) PassContents(context, extents);
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    const Split self = *this;
    return MakeMoveStep(context, "move.split",
                        [self](StepContext& run, std::span<const MutableTensorView> outputs) {
                          return self.Run(run, outputs);
                        });
  }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    return CostOfMove(shapes, dtype);
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    if (!query.axes[0]) return BatchAnswer::Decline("its sizes carry the batch");
    const int rank = query.inputs[0]->rank();
    if (rank < 0) return BatchAnswer::Decline("the input's rank is unknown");
    const int64_t axis = axis_ < 0 ? axis_ + rank : axis_;
    if (axis == *query.axes[0]) return BatchAnswer::Decline("it cuts the batch");
    return BatchAnswer::All(query, query.axes[0]);
  }

 private:
  void ReadNumOutputs(NodeReader& reader) {
    if (!reader.has("num_outputs")) {
      if (!reader.has_input(1)) {
        reader.Fail(InvalidArgument("neither input 1 (split) nor 'num_outputs' is given"));
      }
      return;
    }
    last_smaller_ = true;
    const int64_t wanted = reader.Int("num_outputs", parts_);
    if (reader.has_input(1)) {
      reader.Fail(InvalidArgument("attribute 'num_outputs' stands beside input 1 (split)"));
    } else if (wanted != parts_) {
      reader.Fail(InvalidArgument("attribute 'num_outputs' is {} where the node has {} outputs",
                                  wanted, parts_));
    }
  }

  StatusOr<graph::DimVector> Extents(const graph::Dim& extent,
                                     const std::optional<std::vector<int64_t>>& sizes) const {
    if (sizes) return FromSizes(extent, *sizes);
    const auto count = static_cast<size_t>(parts_);
    if (!extent.is_number()) return graph::DimVector(count, ExactDiv(extent, parts_));
    const int64_t whole = extent.number();
    const int64_t size = (whole + parts_ - 1) / parts_;
    const int64_t last = whole - size * (parts_ - 1);
    if (last < 0 || (!last_smaller_ && last != size)) {
      return InvalidArgument("extent {} cannot be split into {} parts", whole, parts_);
    }
    graph::DimVector extents(count, size);
    extents.back() = last;
    return extents;
  }

  StatusOr<graph::DimVector> FromSizes(const graph::Dim& extent,
                                       const std::vector<int64_t>& sizes) const {
    if (static_cast<int64_t>(sizes.size()) != parts_) {
      return InvalidArgument("there are {} split sizes where the node has {} outputs", sizes.size(),
                             parts_);
    }
    int64_t sum = 0;
    for (const int64_t size : sizes) {
      const std::optional<int64_t> next = CheckedAdd(sum, size);
      if (size < 0 || !next) {
        return InvalidArgument("a split size is {} where 0 or more is expected", size);
      }
      sum = *next;
    }
    if (!MayEqual(extent, sum)) {
      return InvalidArgument("the split sizes add up to {} where the axis has extent {}", sum,
                             graph::ToString(extent));
    }
    return graph::DimVector(sizes.begin(), sizes.end());
  }

  static void PassContents(InferContext& context, const graph::DimVector& extents) {
    auto begin = context.input(0).content->begin();
    for (size_t port = 0; port < extents.size(); ++port) {
      if (!extents[port].is_number()) return;
      const auto end = begin + extents[port].number();
      SetIntegers(context, static_cast<int>(port), {begin, end});
      begin = end;
    }
  }

  Status Run(StepContext& run, std::span<const MutableTensorView> outputs) const {
    const TensorView& x = run.input(0);
    ASSIGN_OR_RETURN(const int axis, ResolveAxis(axis_, x.shape().rank(), "attribute 'axis'"));
    std::optional<std::vector<int64_t>> sizes = sizes_;
    if (run.has_input(1)) sizes = ReadIntegers(run.input(1));
    ASSIGN_OR_RETURN(const graph::DimVector extents, Extents(x.shape()[axis], sizes));
    const Dims strides = x.shape().Strides();
    int64_t begin = 0;
    for (size_t port = 0; port < outputs.size(); ++port) {
      const MutableTensorView& part = outputs[port];
      if (part.dtype() != DType::kUndefined) {
        const Region region{.axes = MakeAxes(part.shape().dims(), strides, part.shape().Strides()),
                            .in_offset = begin * strides[static_cast<size_t>(axis)]};
        CopyRegion(region, x, part, run.parallel());
      }
      begin += extents[port].number();
    }
    return absl::OkStatus();
  }

  int64_t axis_ = 0;
  int64_t parts_ = 1;
  std::optional<std::vector<int64_t>> sizes_;
  bool last_smaller_ = false;
};

}  // namespace

void RegisterSplit(OpRegistry& registry) {
  registry.Add({.op_type = "Split",
                .versions = {2, 11, 13, 18},
                .max_inputs = 2,
                .max_outputs = kAnyNumber,
                .parse = Split::Parse,
                .doc = "Cuts the input along one axis."});
}

}  // namespace tandem::ops
