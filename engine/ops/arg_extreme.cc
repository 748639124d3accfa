// ArgMax and ArgMin (ai.onnx): the index of the largest or smallest element along an axis, the
// first of equals or, with select_last_index, the last. A NaN is larger and smaller than everything
// else.
#include "engine/kernels/reduce/reduce.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

using kernels::ArgOp;
using kernels::FindArg;
using kernels::Select;

class ArgStep final : public Step {
 public:
  ArgStep(std::string kernel, kernels::ReduceFunction function, int64_t axis)
      : kernel_(std::move(kernel)), function_(function), axis_(axis) {}

  std::string kernel() const override { return kernel_; }

  Status Run(StepContext& context) const override {
    const TensorView& x = context.input(0);
    const int rank = x.shape().rank();
    const auto axis = static_cast<int>(axis_ < 0 ? axis_ + rank : axis_);
    if (x.shape()[axis] == 0 && context.output(0).elements() != 0) {
      return InvalidArgument("axis {} of {} is empty; an element is expected there", axis,
                             ToString(x.shape()));
    }
    std::vector<bool> flags(static_cast<size_t>(rank), false);
    flags[static_cast<size_t>(axis)] = true;
    const kernels::ReducePlan plan = kernels::MakeReducePlan(x.shape().dims(), flags);
    kernels::RunReduce(function_, plan, x.raw(), context.output(0).mutable_raw(),
                       context.parallel());
    return absl::OkStatus();
  }

 private:
  std::string kernel_;
  kernels::ReduceFunction function_;
  int64_t axis_;
};

struct ArgOptions {
  ArgOp op = ArgOp::kMax;
  Select select = Select::kFirstIndex;
  int64_t axis = 0;
  int64_t keepdims = 1;
};

class ArgExtreme final : public Operator {
 public:
  explicit ArgExtreme(ArgOptions options) : options_(options) {}

  template <ArgOp kOp>
  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    ArgOptions options{.op = kOp};
    options.axis = reader.Int("axis", 0);
    options.keepdims = reader.Flag("keepdims", true) ? 1 : 0;
    if (reader.opset() >= 12 && reader.Flag("select_last_index", false)) {
      options.select = Select::kLastIndex;
    }
    return std::make_shared<const ArgExtreme>(options);
  }

  Status Infer(InferContext& context) const override {
    RETURN_IF_ERROR(
        CheckDType(context, 0, [](DType dtype) { return IsFloating(dtype) || IsInteger(dtype); }));
    const ValueFacts& x = context.input(0);
    context.SetOutput(0, DType::kInt64, std::nullopt);
    if (!x.dims) return absl::OkStatus();
    const int64_t rank = x.rank();
    if (options_.axis < -rank || options_.axis >= rank) {
      return InvalidArgument("axis {} is outside of {} to {}, the axes of {}", options_.axis, -rank,
                             rank - 1, ToString(x));
    }
    const auto axis = static_cast<size_t>(options_.axis < 0 ? options_.axis + rank : options_.axis);
    graph::DimVector dims = *x.dims;
    if (options_.keepdims != 0) {
      dims[axis] = 1;
    } else {
      dims.erase(dims.begin() + static_cast<int64_t>(axis));
    }
    context.SetOutput(0, DType::kInt64, std::move(dims));
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    const DType dtype = context.input(0).dtype;
    return std::make_unique<ArgStep>(fmt::format("reduce.arg {}", DTypeName(dtype)),
                                     FindArg(options_.op, options_.select, dtype), options_.axis);
  }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    Cost cost = ElementwiseCost(shapes, dtype, 0);
    cost.multiply_adds = static_cast<double>(shapes.inputs[0].elements());
    return cost;
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    const int batch = *query.axes[0];
    const int rank = query.inputs[0]->rank();
    if (rank < 0) return BatchAnswer::Decline("the rank of the input is unknown");
    const int64_t axis = options_.axis < 0 ? options_.axis + rank : options_.axis;
    if (axis == batch) {
      return BatchAnswer::Decline(fmt::format("it searches along the batch axis {}", batch));
    }
    const bool moves = options_.keepdims == 0 && axis < batch;
    return BatchAnswer::All(query, moves ? batch - 1 : batch);
  }

 private:
  ArgOptions options_;
};

}  // namespace

void RegisterArgExtreme(OpRegistry& registry) {
  registry.Add({.op_type = "ArgMax",
                .versions = {1, 11, 12, 13},
                .parse = ArgExtreme::Parse<ArgOp::kMax>,
                .doc = "The index of the largest element along an axis."});
  registry.Add({.op_type = "ArgMin",
                .versions = {1, 11, 12, 13},
                .parse = ArgExtreme::Parse<ArgOp::kMin>,
                .doc = "The index of the smallest element along an axis."});
}

}  // namespace tandem::ops
