// ReduceSum, Mean, Max, Min, Prod, L1, L2, LogSum, LogSumExp, SumSquare (ai.onnx): one row each in
// the table below. The axes are an attribute, or, from opset 13 (ReduceSum) or 18 (the others) on,
// an optional input, which need not be constant. No axes means all, or with noop_with_empty_axes
// none: then each element is reduced by itself (its absolute value for ReduceL1, its square for
// ReduceSumSquare).
#include "engine/ops/reduce.h"

#include <algorithm>

#include "engine/ops/elementwise.h"
#include "engine/ops/extents.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

using kernels::FindReduce;
using kernels::FindReduceReference;
using kernels::ReduceOp;

struct ReduceEntry {
  const char* op_type;
  ReduceOp op;
  std::vector<int> versions;
  int axes_input;  // the opset from which the axes are an input
  const char* doc;
};

const std::vector<ReduceEntry>& Table() {
  static const std::vector<ReduceEntry> table = {
      {"ReduceL1", ReduceOp::kL1, {1, 11, 13, 18}, 18, "The sum of absolute values over axes."},
      {"ReduceL2", ReduceOp::kL2, {1, 11, 13, 18}, 18, "The square root of the sum of squares."},
      {"ReduceLogSum", ReduceOp::kLogSum, {1, 11, 13, 18}, 18, "The logarithm of the sum."},
      {"ReduceLogSumExp",
       ReduceOp::kLogSumExp,
       {1, 11, 13, 18},
       18,
       "The logarithm of the sum of exponentials."},
      {"ReduceMax", ReduceOp::kMax, {1, 11, 12, 13, 18, 20}, 18, "The maximum over axes."},
      {"ReduceMean", ReduceOp::kMean, {1, 11, 13, 18}, 18, "The mean over axes."},
      {"ReduceMin", ReduceOp::kMin, {1, 11, 12, 13, 18, 20}, 18, "The minimum over axes."},
      {"ReduceProd", ReduceOp::kProd, {1, 11, 13, 18}, 18, "The product over axes."},
      {"ReduceSum", ReduceOp::kSum, {1, 11, 13}, 13, "The sum over axes."},
      {"ReduceSumSquare",
       ReduceOp::kSumSquare,
       {1, 11, 13, 18},
       18,
       "The sum of squares over axes."},
  };
  return table;
}

const ReduceEntry* Find(std::string_view op_type) {
  const auto& table = Table();
  const auto entry = std::ranges::find(table, op_type, &ReduceEntry::op_type);
  return entry == table.end() ? nullptr : &*entry;
}

enum class KeepDims : uint8_t { kNo, kYes };
enum class NoAxes : uint8_t { kAll, kNone };

// The axes as flags by axis.
StatusOr<std::vector<bool>> Flags(std::span<const int64_t> axes, int rank, NoAxes no_axes) {
  std::vector<bool> flags(static_cast<size_t>(rank), axes.empty() && no_axes == NoAxes::kAll);
  for (const int64_t axis : axes) {
    if (axis < -rank || axis >= rank) {
      return InvalidArgument("axis {} is outside of {} to {}, the axes of an input of rank {}",
                             axis, -rank, rank - 1, rank);
    }
    flags[static_cast<size_t>(axis < 0 ? axis + rank : axis)] = true;
  }
  return flags;
}

Shape ReducedShape(const Shape& x, const std::vector<bool>& flags, KeepDims keep) {
  Shape shape;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (!flags[static_cast<size_t>(axis)]) {
      shape.Append(x[axis]);
    } else if (keep == KeepDims::kYes) {
      shape.Append(1);
    }
  }
  return shape;
}

struct ReduceOptions {
  ReduceOp op = ReduceOp::kSum;
  KeepDims keep = KeepDims::kYes;
  NoAxes no_axes = NoAxes::kAll;
  std::vector<int64_t> axes;  // of the attribute
};

class ReduceStep final : public Step {
 public:
  ReduceStep(std::string kernel, kernels::ReduceFunction function, ReduceOptions options)
      : kernel_(std::move(kernel)), function_(function), options_(std::move(options)) {}

  std::string kernel() const override { return kernel_; }

  Status Run(StepContext& context) const override {
    const TensorView& x = context.input(0);
    std::span<const int64_t> axes = options_.axes;
    if (context.has_input(1)) axes = context.input(1).span<int64_t>();
    ASSIGN_OR_RETURN(const std::vector<bool> flags,
                     Flags(axes, x.shape().rank(), options_.no_axes));
    MutableTensorView y = context.output(0);
    if (y.dtype() == DType::kUndefined) {
      // The axes were not known before the run.
      ASSIGN_OR_RETURN(y, context.AllocateOutput(0, ReducedShape(x.shape(), flags, options_.keep)));
    }
    const kernels::ReducePlan plan = kernels::MakeReducePlan(x.shape().dims(), flags);
    kernels::RunReduce(function_, plan, x.raw(), y.mutable_raw(), context.parallel());
    return absl::OkStatus();
  }

 private:
  std::string kernel_;
  kernels::ReduceFunction function_;
  ReduceOptions options_;
};

class Reduce final : public Operator {
 public:
  explicit Reduce(ReduceOptions options) : options_(std::move(options)) {}

  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    const ReduceEntry* entry = Find(reader.node().op_type);
    CHECK(entry != nullptr, "{} is not in the table", reader.node().op_type);
    ReduceOptions options;
    options.op = entry->op;
    options.keep = reader.Flag("keepdims", true) ? KeepDims::kYes : KeepDims::kNo;
    if (reader.opset() >= entry->axes_input) {
      const bool none = reader.Flag("noop_with_empty_axes", false);
      options.no_axes = none ? NoAxes::kNone : NoAxes::kAll;
    } else {
      options.axes = reader.Ints("axes");
      if (reader.inputs() > 1) {
        reader.Fail(InvalidArgument("it has {} inputs where 1 input is expected before opset {}",
                                    reader.inputs(), entry->axes_input));
      }
    }
    return std::make_shared<const Reduce>(std::move(options));
  }

  Status Infer(InferContext& context) const override {
    RETURN_IF_ERROR(CheckDType(context, 0, [&](DType dtype) {
      if (dtype == DType::kBool && context.node().opset < 20) return false;
      return FindReduceReference(options_.op, dtype) != nullptr;
    }));
    if (context.has_input(1)) {
      RETURN_IF_ERROR(CheckDType(context, 1, [](DType dtype) { return dtype == DType::kInt64; }));
    }
    const ValueFacts& x = context.input(0);
    context.SetOutput(0, x.dtype, std::nullopt);
    if (!x.dims) return absl::OkStatus();
    const std::optional<std::vector<int64_t>> axes = Axes(context);
    graph::DimVector dims;
    if (!axes) {
      // As many unknown extents as there are axes, or another rank.
      if (options_.keep == KeepDims::kNo) return absl::OkStatus();
      dims.resize(x.dims->size());
      context.SetOutput(0, x.dtype, std::move(dims));
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const std::vector<bool> flags, Flags(*axes, x.rank(), options_.no_axes));
    for (size_t axis = 0; axis < flags.size(); ++axis) {
      if (!flags[axis]) dims.push_back((*x.dims)[axis]);
      if (flags[axis] && options_.keep == KeepDims::kYes) dims.emplace_back(1);
    }
    context.SetOutput(0, x.dtype, std::move(dims));
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    const DType dtype = context.input(0).dtype;
    return std::make_unique<ReduceStep>(
        fmt::format("reduce {} {}", DTypeName(dtype), IsaName(context.isa())),
        FindReduce(options_.op, dtype, context.isa()), options_);
  }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    Cost cost = ElementwiseCost(shapes, dtype, 0);
    cost.multiply_adds = static_cast<double>(shapes.inputs[0].elements());
    return cost;
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    const bool axes_given = query.inputs.size() > 1 && query.inputs[1] != nullptr;
    if (!query.axes[0] || (axes_given && query.axes[1])) {
      return BatchAnswer::Decline("the axes carry the batch");
    }
    const int batch = *query.axes[0];
    const int rank = query.inputs[0]->rank();
    if (rank < 0) return BatchAnswer::Decline("the rank of the input is unknown");
    std::vector<int64_t> axes = options_.axes;
    if (axes_given) {
      const auto known = IntegersOf(*query.inputs[1]);
      if (!known) return BatchAnswer::Decline("the axes are not known before a run");
      axes = *known;
    }
    const auto flags = Flags(axes, rank, options_.no_axes);
    if (!flags.ok() || (*flags)[static_cast<size_t>(batch)]) {
      return BatchAnswer::Decline(fmt::format("it reduces the batch axis {}", batch));
    }
    if (auto reason = SumsDependOnItems(*query.inputs[0]->dims, batch, *flags)) {
      return BatchAnswer::Decline(*std::move(reason));
    }
    if (options_.keep == KeepDims::kYes) return BatchAnswer::All(query, batch);
    const auto gone = std::count(flags->begin(), flags->begin() + batch, true);
    return BatchAnswer::All(query, batch - static_cast<int>(gone));
  }

 private:
  std::optional<std::vector<int64_t>> Axes(const InferContext& context) const {
    if (context.has_input(1)) return context.Integers(1);
    return options_.axes;
  }

  ReduceOptions options_;
};

}  // namespace

std::optional<ReduceOp> ReduceOpOf(std::string_view op_type) {
  const ReduceEntry* entry = Find(op_type);
  return entry == nullptr ? std::nullopt : std::optional(entry->op);
}

std::optional<ReduceOp> RowReductionOf(const graph::Node& node) {
  return node.epilogue.empty() ? std::nullopt : ReduceOpOf(node.epilogue.back().op);
}

graph::DimVector WithRowsReduced(const graph::Node& node, graph::DimVector product) {
  if (!RowReductionOf(node)) return product;
  const graph::Attributes& attributes = node.epilogue.back().attributes;
  const auto found = attributes.find("keepdims");
  const bool keeps = found == attributes.end() || found->second.get<int64_t>() != 0;
  const auto rows = product.end() - 2;
  if (keeps) {
    *rows = graph::Dim(1);
  } else {
    product.erase(rows);
  }
  return product;
}

void RegisterReduce(OpRegistry& registry) {
  for (const ReduceEntry& row : Table()) {
    registry.Add({.op_type = row.op_type,
                  .versions = row.versions,
                  .max_inputs = 2,
                  .parse = Reduce::Parse,
                  .doc = row.doc});
  }
}

}  // namespace tandem::ops
