// ReverseSequence (ai.onnx, opset 10): of each item of the batch the first sequence_lens[item]
// steps of time in reverse order, the others as they are. A length of 0 or 1 changes nothing.
#include "engine/ops/extents.h"
#include "engine/ops/movement.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

class ReverseSequence final : public Operator {
 public:
  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    auto op = std::make_shared<ReverseSequence>();
    op->batch_axis_ = static_cast<int>(reader.Flag("batch_axis", true));
    const int time_axis = static_cast<int>(reader.Flag("time_axis", false));
    if (op->batch_axis_ == time_axis) {
      reader.Fail(InvalidArgument(
          "attributes 'batch_axis' and 'time_axis' are both {} where 0 and 1 are expected",
          time_axis));
    }
    return op;
  }

  Status Infer(InferContext& context) const override {
    const ValueFacts& x = context.input(0);
    const ValueFacts& lengths = context.input(1);
    if (lengths.dtype != DType::kInt64 || (lengths.dims && lengths.rank() != 1)) {
      return InvalidArgument("input 1 (sequence_lens) is {} where an int64 vector is expected",
                             ToString(lengths));
    }
    if (x.dims && x.rank() < 2) {
      return InvalidArgument("input 0 is {} where rank 2 or more is expected", ToString(x));
    }
    if (x.dims && lengths.dims) {
      const graph::Dim& items = (*x.dims)[static_cast<size_t>(batch_axis_)];
      if (!MayEqual(items, lengths.dims->front())) {
        return InvalidArgument("input 1 (sequence_lens) has {} elements where {} are expected",
                               ToString(lengths.dims->front()), ToString(items));
      }
    }
    context.SetOutput(0, x.dtype, x.dims);
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    const int batch_axis = batch_axis_;
    return MakeMoveStep(context, "move.reverse_sequence",
                        [batch_axis](StepContext& run, std::span<const MutableTensorView> outputs) {
                          return Run(run, batch_axis, outputs[0]);
                        });
  }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    return CostOfMove(shapes, dtype);
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    if (!query.axes[0]) return BatchAnswer::Decline("only sequence_lens carries the batch");
    const int batch = *query.axes[0];
    if (batch == batch_axis_) {
      if (query.axes[1] == 0) return BatchAnswer::All(query, batch);
      return BatchAnswer::Decline("sequence_lens is shared by all items");
    }
    if (batch >= 2 && !query.axes[1]) return BatchAnswer::All(query, batch);
    return BatchAnswer::Decline("it reverses along the batch axis");
  }

 private:
  static Status Run(StepContext& run, int batch_axis, const MutableTensorView& out) {
    const TensorView& x = run.input(0);
    const Shape& shape = x.shape();
    const int64_t items = shape[batch_axis];
    const int64_t steps = shape[1 - batch_axis];
    const int64_t block = shape.Product(2, shape.rank());
    const std::vector<int64_t> lengths = ReadIntegers(run.input(1));
    for (size_t i = 0; i < lengths.size(); ++i) {
      if (lengths[i] >= 0 && lengths[i] <= steps) continue;
      return InvalidArgument("element {} of sequence_lens is {} where 0 to {} are expected", i,
                             lengths[i], steps);
    }
    const int64_t item_stride = batch_axis == 0 ? steps * block : block;
    const int64_t step_stride = batch_axis == 0 ? block : items * block;
    const int64_t grain = GrainOf(kGrainElements, block * steps);
    WithElement(x.dtype(), [&](auto element) {
      using T = decltype(element);
      const T* from = static_cast<const T*>(x.raw());
      T* to = static_cast<T*>(out.mutable_raw());
      run.parallel().For(items, grain, [&](int64_t begin, int64_t end) {
        for (int64_t item = begin; item < end; ++item) {
          const int64_t length = lengths[static_cast<size_t>(item)];
          for (int64_t t = 0; t < steps; ++t) {
            const int64_t source = t < length ? length - 1 - t : t;
            std::copy_n(from + item * item_stride + source * step_stride, block,
                        to + item * item_stride + t * step_stride);
          }
        }
      });
    });
    return absl::OkStatus();
  }

  int batch_axis_ = 1;
};

}  // namespace

void RegisterReverseSequence(OpRegistry& registry) {
  registry.Add({.op_type = "ReverseSequence",
                .versions = {10},
                .min_inputs = 2,
                .max_inputs = 2,
                .parse = ReverseSequence::Parse,
                .doc = "Reverses the beginning of each sequence of a batch."});
}

}  // namespace tandem::ops
