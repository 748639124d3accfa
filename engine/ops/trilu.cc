// Trilu (ai.onnx, opset 14): the upper or lower triangle of the last two axes, from diagonal k on;
// zeros (false, empty strings) elsewhere.
#include "engine/ops/extents.h"
#include "engine/ops/movement.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

enum class Triangle : uint8_t { kLower, kUpper };

class Trilu final : public Operator {
 public:
  explicit Trilu(Triangle triangle) : triangle_(triangle) {}

  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    return std::make_shared<const Trilu>(reader.Flag("upper", true) ? Triangle::kUpper
                                                                    : Triangle::kLower);
  }

  Status Infer(InferContext& context) const override {
    const ValueFacts& x = context.input(0);
    if (x.dims && x.rank() < 2) {
      return InvalidArgument("input 0 is {} where rank 2 or more is expected", ToString(x));
    }
    if (context.has_input(1)) {
      const ValueFacts& k = context.input(1);
      const bool one =
          !k.dims || k.dims->empty() || (k.rank() == 1 && MayEqual(k.dims->front(), int64_t{1}));
      if (k.dtype != DType::kInt64 || !one) {
        return InvalidArgument("input 1 (k) is {} where an int64 scalar is expected", ToString(k));
      }
    }
    context.SetOutput(0, x.dtype, x.dims);
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    const Triangle triangle = triangle_;
    return MakeMoveStep(context, "move.triangle",
                        [triangle](StepContext& run, std::span<const MutableTensorView> outputs) {
                          Run(run, triangle, outputs[0]);
                          return absl::OkStatus();
                        });
  }

  Traits traits() const override { return {.in_place = true}; }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    return CostOfMove(shapes, dtype);
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    const int rank = query.inputs[0]->rank();
    if (!query.axes[0] || rank < 0 || *query.axes[0] >= rank - 2) {
      return BatchAnswer::Decline("the batch is not an axis before its matrices");
    }
    if (query.axes.size() > 1 && query.axes[1]) return BatchAnswer::Decline("k carries the batch");
    return BatchAnswer::All(query, query.axes[0]);
  }

 private:
  static void Run(StepContext& run, Triangle triangle, const MutableTensorView& out) {
    const TensorView& x = run.input(0);
    const int rank = out.shape().rank();
    const int64_t rows = out.shape()[rank - 2];
    const int64_t columns = out.shape()[rank - 1];
    const int64_t k = run.has_input(1) ? ReadInteger(run.input(1)) : 0;
    const int64_t diagonal = std::clamp(k, -rows, columns);
    const int64_t grain = GrainOf(kGrainElements, columns);
    WithElement(x.dtype(), [&](auto element) {
      using T = decltype(element);
      const T* from = static_cast<const T*>(x.raw());
      T* to = static_cast<T*>(out.mutable_raw());
      run.parallel().For(out.shape().Product(0, rank - 1), grain, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          // Columns [0, cut) are left of the diagonal, or up to it.
          const int64_t first = row % rows + diagonal;
          const bool upper = triangle == Triangle::kUpper;
          const int64_t cut = std::clamp<int64_t>(upper ? first : first + 1, 0, columns);
          const T* source = from + row * columns;
          T* target = to + row * columns;
          if (source != target) std::copy_n(source, columns, target);
          std::fill(upper ? target : target + cut, upper ? target + cut : target + columns, T());
        }
      });
    });
  }

  Triangle triangle_;
};

}  // namespace

void RegisterTrilu(OpRegistry& registry) {
  registry.Add({.op_type = "Trilu",
                .versions = {14},
                .max_inputs = 2,
                .parse = Trilu::Parse,
                .doc = "The upper or lower triangle of matrices."});
}

}  // namespace tandem::ops
