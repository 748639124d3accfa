// NonZero (ai.onnx, opset 9): the places of all elements that are not zero, one row of the result
// per axis, in row-major order. A scalar has no axes and gives no rows.
#include <vector>

#include "engine/kernels/elementwise/cast.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/movement.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

class NonZero final : public Operator {
 public:
  static std::shared_ptr<const Operator> Parse(NodeReader&) {
    return std::make_shared<const NonZero>();
  }

  Status Infer(InferContext& context) const override {
    RETURN_IF_ERROR(CheckDType(
        context, 0, [](DType dtype) { return kernels::FindCast(dtype, DType::kBool) != nullptr; }));
    const ValueFacts& x = context.input(0);
    graph::DimVector dims(2);
    if (x.dims) dims[0] = x.rank();
    context.SetOutput(0, DType::kInt64, std::move(dims));
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext&) const override {
    return MakeDataStep("order.non_zero", Run);
  }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    return CostOfMove(shapes, dtype);
  }

 private:
  static Status Run(StepContext& run) {
    const TensorView& x = run.input(0);
    const Shape& shape = x.shape();
    const std::vector<int64_t> places = PlacesOf(x);
    const auto count = static_cast<int64_t>(places.size());
    ASSIGN_OR_RETURN(const MutableTensorView out,
                     run.AllocateOutput(0, Shape{shape.rank(), count}));
    int64_t* to = out.mutable_data<int64_t>();
    const Dims strides = shape.Strides();
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const int64_t stride = strides[static_cast<size_t>(axis)];
      for (const int64_t place : places) *to++ = place / stride % shape[axis];
    }
    return absl::OkStatus();
  }

  static std::vector<int64_t> PlacesOf(const TensorView& x) {
    constexpr int64_t kBlock = 1024;
    bool flags[kBlock];
    const kernels::RowFunction to_bool = kernels::FindCast(x.dtype(), DType::kBool);
    std::vector<int64_t> places;
    for (int64_t begin = 0; begin < x.elements(); begin += kBlock) {
      const int64_t n = std::min(kBlock, x.elements() - begin);
      const void* operand = static_cast<const std::byte*>(x.raw()) + DTypeBytes(x.dtype(), begin);
      const int64_t step = 1;
      to_bool({&operand, &step, 1, flags, n}, {});
      for (int64_t i = 0; i < n; ++i) {
        if (flags[i]) places.push_back(begin + i);
      }
    }
    return places;
  }
};

}  // namespace

void RegisterNonZero(OpRegistry& registry) {
  registry.Add({.op_type = "NonZero",
                .versions = {9, 13},
                .parse = NonZero::Parse,
                .doc = "The places of the elements that are not zero."});
}

}  // namespace tandem::ops
