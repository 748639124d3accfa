// MaxPool, AveragePool, LpPool and their global forms (ai.onnx): reductions over sliding windows.
// Opset versions differ in dilations (MaxPool 10, LpPool 18, AveragePool 19), ceil_mode (10; LpPool
// 18) and dtypes.
#include "engine/kernels/pool/pool.h"

#include <algorithm>

#include "engine/ops/registry.h"
#include "engine/ops/window.h"

namespace tandem::ops {
namespace {

struct PoolAttributes {
  kernels::PoolKind kind = kernels::PoolKind::kMax;
  bool global = false;
  WindowAttributes window;
  kernels::PoolDivisor divisor = kernels::PoolDivisor::kTaps;
  int64_t p = 2;
  kernels::IndexOrder order = kernels::IndexOrder::kNone;
};

StatusOr<kernels::Pool> MakePool(const PoolAttributes& attributes, const Shape& x) {
  kernels::Pool pool;
  pool.kind = attributes.kind;
  pool.divisor = attributes.divisor;
  pool.p = attributes.p;
  pool.items = x[0];
  pool.channels = x[1];
  const std::span<const int64_t> spatial = x.dims().subspan(2);
  kernels::WindowAxes axes;
  if (attributes.global) {
    // More than three axes are one: a global window does not care where they end.
    if (spatial.size() > 3) {
      const int64_t all = x.Product(2, x.rank());
      axes.push_back({.in = all, .kernel = all});
    } else {
      for (const int64_t extent : spatial) axes.push_back({.in = extent, .kernel = extent});
    }
  } else {
    ASSIGN_OR_RETURN(axes, ResolveWindow(attributes.window, attributes.window.kernel, spatial));
  }
  std::copy(axes.begin(), axes.end(), std::end(pool.axes) - axes.size());
  return pool;
}

kernels::PoolLayout LayoutOf(Layout layout, int64_t channels, int64_t spatial) {
  if (layout == Layout::kChannelsLast) return {.channel = 1, .spatial = channels};
  return {.channel = spatial, .spatial = 1};
}

class PoolStep final : public Step {
 public:
  PoolStep(PoolAttributes attributes, Isa isa) : attributes_(std::move(attributes)), isa_(isa) {}

  std::string kernel() const override {
    return fmt::format("pool {}", isa_ == Isa::kReference ? "reference" : IsaName(isa_));
  }

  Status Run(StepContext& context) const override {
    const TensorView& x = context.input(0);
    const MutableTensorView& y = context.output(0);
    ASSIGN_OR_RETURN(kernels::Pool pool, MakePool(attributes_, x.shape()));
    pool.in = LayoutOf(x.layout(), pool.channels, pool.in_spatial());
    pool.out = LayoutOf(y.layout(), pool.channels, pool.out_spatial());
    const bool last = x.layout() == Layout::kChannelsLast && y.layout() == Layout::kChannelsLast;
    const bool simple = attributes_.kind != kernels::PoolKind::kLp || attributes_.p <= 2;
    if (last && simple && x.dtype() == DType::kFloat && isa_ != Isa::kReference &&
        attributes_.order == kernels::IndexOrder::kNone) {
      kernels::PoolChannelsLast(isa_, pool, x.data<float>(), y.mutable_data<float>(),
                                context.parallel());
      return absl::OkStatus();
    }
    kernels::PoolBuffers buffers{x.dtype(), x.raw(), y.mutable_raw()};
    const bool bytes = x.dtype() == DType::kInt8 || x.dtype() == DType::kUint8;
    if (last && bytes && isa_ != Isa::kReference &&
        attributes_.order == kernels::IndexOrder::kNone) {
      kernels::MaxPoolBytes(isa_, pool, buffers, context.parallel());
      return absl::OkStatus();
    }
    if (attributes_.order != kernels::IndexOrder::kNone) {
      buffers.order = attributes_.order;
      buffers.indices = context.output(1).mutable_data<int64_t>();
    }
    kernels::PoolReference(pool, buffers, context.parallel());
    return absl::OkStatus();
  }

 private:
  PoolAttributes attributes_;
  Isa isa_;
};

class PoolOp final : public Operator {
 public:
  explicit PoolOp(PoolAttributes attributes) : attributes_(std::move(attributes)) {}

  Status Infer(InferContext& context) const override {
    const ValueFacts& x = context.input(0);
    if (!x.dims) {
      context.SetOutput(0, x.dtype, std::nullopt);
      context.SetOutput(1, DType::kInt64, std::nullopt);
      return absl::OkStatus();
    }
    const int least = attributes_.global ? 2 : 3;
    if (x.rank() < least || (!attributes_.global && x.rank() > 5)) {
      return InvalidArgument("input 0 is {} where {} spatial axes after N and C are expected",
                             ToString(x), attributes_.global ? "any number of" : "one to three");
    }
    graph::DimVector dims(x.dims->begin(), x.dims->begin() + 2);
    if (attributes_.global) {
      dims.resize(x.dims->size(), 1);
    } else {
      const std::span<const graph::Dim> spatial(x.dims->data() + 2, x.dims->size() - 2);
      ASSIGN_OR_RETURN(const graph::DimVector out,
                       InferWindow(attributes_.window, attributes_.window.kernel, spatial));
      dims.insert(dims.end(), out.begin(), out.end());
    }
    context.SetOutput(0, x.dtype, dims);
    context.SetOutput(1, DType::kInt64, std::move(dims));
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    const DType dtype = context.input(0).dtype;
    const bool byte = dtype == DType::kInt8 || dtype == DType::kUint8;
    if (!IsFloating(dtype) && !(byte && attributes_.kind == kernels::PoolKind::kMax)) {
      return Unimplemented("{} of {} is not supported", context.node().op_type, DTypeName(dtype));
    }
    return std::make_unique<PoolStep>(attributes_, context.isa());
  }

  Traits traits() const override {
    if (attributes_.order != kernels::IndexOrder::kNone) return {};
    return {.layout = LayoutRule::kChannelsLast};
  }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    const auto in = static_cast<double>(shapes.inputs[0].elements());
    const auto out = static_cast<double>(shapes.outputs[0].elements());
    double taps = attributes_.global ? in / std::max(1.0, out) : 1;
    for (const int64_t extent : attributes_.window.kernel) taps *= static_cast<double>(extent);
    return {.multiply_adds = out * taps,
            .bytes = (in + out) * static_cast<double>(DTypeBytes(dtype, 1))};
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    if (query.axes[0] == 0 && attributes_.order == kernels::IndexOrder::kNone) {
      return BatchAnswer::All(query, 0);
    }
    if (query.axes[0] == 0) return BatchAnswer::Decline("Indices count through the whole batch");
    return BatchAnswer::Decline(
        fmt::format("axis {} is pooled or holds channels", query.axes[0].value_or(-1)));
  }

 private:
  PoolAttributes attributes_;
};

std::shared_ptr<const Operator> Finish(PoolAttributes attributes) {
  return std::make_shared<const PoolOp>(std::move(attributes));
}

std::shared_ptr<const Operator> ParseMaxPool(NodeReader& reader) {
  PoolAttributes attributes;
  const int extra = reader.opset() >= 10 ? kWindowDilations | kWindowCeilMode : 0;
  attributes.window = ReadWindow(reader, kWindowKernelRequired | extra);
  bool column_major = false;
  if (reader.opset() >= 8) column_major = reader.Flag("storage_order", false);
  const graph::Node& node = reader.node();
  if (node.outputs.size() > 1 && node.outputs[1] != graph::kNoValue) {
    attributes.order =
        column_major ? kernels::IndexOrder::kColumnMajor : kernels::IndexOrder::kRowMajor;
    if (reader.opset() < 8) {
      reader.Fail(InvalidArgument("opset {} of MaxPool has no output 1 (Indices)", reader.opset()));
    }
  }
  return Finish(std::move(attributes));
}

std::shared_ptr<const Operator> ParseAveragePool(NodeReader& reader) {
  PoolAttributes attributes;
  attributes.kind = kernels::PoolKind::kAverage;
  int features = kWindowKernelRequired;
  if (reader.opset() >= 10) features |= kWindowCeilMode;
  if (reader.opset() >= 19) features |= kWindowDilations;
  attributes.window = ReadWindow(reader, features);
  if (reader.Flag("count_include_pad", false)) attributes.divisor = kernels::PoolDivisor::kPadded;
  return Finish(std::move(attributes));
}

int64_t ReadP(NodeReader& reader) {
  const int64_t p = reader.Int("p", 2);
  if (p < 1) {
    reader.Fail(InvalidArgument("attribute 'p' is {} where at least 1 is expected", p));
  }
  return std::max<int64_t>(1, p);
}

std::shared_ptr<const Operator> ParseLpPool(NodeReader& reader) {
  PoolAttributes attributes;
  attributes.kind = kernels::PoolKind::kLp;
  const int extra = reader.opset() >= 18 ? kWindowDilations | kWindowCeilMode : 0;
  attributes.window = ReadWindow(reader, kWindowKernelRequired | extra);
  attributes.p = ReadP(reader);
  return Finish(std::move(attributes));
}

template <kernels::PoolKind kKind>
std::shared_ptr<const Operator> ParseGlobal(NodeReader& reader) {
  PoolAttributes attributes;
  attributes.kind = kKind;
  attributes.global = true;
  if (kKind == kernels::PoolKind::kLp) attributes.p = ReadP(reader);
  return Finish(std::move(attributes));
}

}  // namespace

void RegisterPool(OpRegistry& registry) {
  registry.Add({.op_type = "MaxPool",
                .versions = {1, 8, 10, 11, 12, 22},
                .max_outputs = 2,
                .parse = ParseMaxPool,
                .doc = "The maximum of each window, and where asked its index."});
  registry.Add({.op_type = "AveragePool",
                .versions = {7, 10, 11, 19, 22},
                .parse = ParseAveragePool,
                .doc = "The average of each window."});
  registry.Add({.op_type = "LpPool",
                .versions = {2, 11, 18, 22},
                .parse = ParseLpPool,
                .doc = "The Lp norm of each window."});
  registry.Add({.op_type = "GlobalMaxPool",
                .versions = {1, 22},
                .parse = ParseGlobal<kernels::PoolKind::kMax>,
                .doc = "The maximum of each channel."});
  registry.Add({.op_type = "GlobalAveragePool",
                .versions = {1, 22},
                .parse = ParseGlobal<kernels::PoolKind::kAverage>,
                .doc = "The average of each channel."});
  registry.Add({.op_type = "GlobalLpPool",
                .versions = {2, 22},
                .parse = ParseGlobal<kernels::PoolKind::kLp>,
                .doc = "The Lp norm of each channel."});
}

}  // namespace tandem::ops
