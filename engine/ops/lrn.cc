// LRN (ai.onnx, opset 1): every element divided by a power of the squares around it in neighbouring
// channels (axis 1).
#include "engine/kernels/norm/lrn.h"

#include "engine/ops/elementwise.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

using kernels::FindLrn;

class LrnStep final : public Step {
 public:
  LrnStep(std::string kernel, kernels::LrnFunction function, kernels::Lrn attributes)
      : kernel_(std::move(kernel)), function_(function), attributes_(attributes) {}

  std::string kernel() const override { return kernel_; }

  Status Run(StepContext& context) const override {
    const TensorView& x = context.input(0);
    const Shape& shape = x.shape();
    const int64_t spatial = shape.Product(2, shape.rank());
    const bool last = x.layout() == Layout::kChannelsLast;
    kernels::Lrn lrn = attributes_;
    lrn.channels = shape[1];
    lrn.outer = last ? shape[0] * spatial : shape[0];
    lrn.inner = last ? 1 : spatial;
    kernels::RunLrn(function_, lrn, x.raw(), context.output(0).mutable_raw(), context.parallel());
    return absl::OkStatus();
  }

 private:
  std::string kernel_;
  kernels::LrnFunction function_;
  kernels::Lrn attributes_;
};

class LrnOp final : public Operator {
 public:
  explicit LrnOp(kernels::Lrn attributes) : attributes_(attributes) {}

  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    kernels::Lrn attributes;
    attributes.alpha = reader.Float("alpha", 1e-4f);
    attributes.beta = reader.Float("beta", 0.75f);
    attributes.bias = reader.Float("bias", 1);
    attributes.size = reader.RequiredInt("size");
    if (attributes.size < 1 || attributes.size > kLargest) {
      reader.Fail(InvalidArgument("attribute 'size' is {} where 1 to {} is expected",
                                  attributes.size, kLargest));
    }
    return std::make_shared<const LrnOp>(attributes);
  }

  Status Infer(InferContext& context) const override {
    RETURN_IF_ERROR(CheckDType(context, 0, [](DType dtype) { return IsFloating(dtype); }));
    const ValueFacts& x = context.input(0);
    if (x.dims && x.rank() < 2) {
      return InvalidArgument("X is {} where axes N and C are expected", ToString(x));
    }
    context.SetOutput(0, x.dtype, x.dims);
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    const DType dtype = context.input(0).dtype;
    return std::make_unique<LrnStep>(
        fmt::format("lrn {} {}", DTypeName(dtype), IsaName(context.isa())),
        FindLrn(dtype, attributes_, context.isa()), attributes_);
  }

  Traits traits() const override { return {.layout = LayoutRule::kFollow}; }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    return ElementwiseCost(shapes, dtype, static_cast<double>(attributes_.size + kPowerCost));
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    if (query.axes[0] == 1) return BatchAnswer::Decline("the batch lies on the channel axis");
    return BatchAnswer::All(query, query.axes[0]);
  }

 private:
  static constexpr int64_t kLargest = int64_t{1} << 31;
  static constexpr int64_t kPowerCost = 16;  // multiply-adds that a power takes as long as

  kernels::Lrn attributes_;
};

}  // namespace

void RegisterLrn(OpRegistry& registry) {
  registry.Add({.op_type = "LRN",
                .versions = {1, 13},
                .parse = LrnOp::Parse,
                .doc = "Divided by a power of the squares in neighbouring channels."});
}

}  // namespace tandem::ops
