// What the element-wise operators share: a step that broadcasts its operands through a row kernel,
// and the checks of their dtypes.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "engine/kernels/elementwise/row.h"
#include "engine/ops/operator.h"

namespace tandem::ops {

// One operand of a row kernel: an input, or `fallback` (one element) where the input is omitted.
struct RowOperand {
  int port = 0;
  Tensor fallback;
};

// Output 0 from operands that broadcast to its shape. Every view may have any layout of its own:
// the operands are read at the strides that their layout gives them, in the order of the output's
// memory. Equal layouts (or operands that lie in memory alike, such as [C,1,1]) are read in place,
// others are gathered on the way; that limits such calls to kernels::kMaxRowOperands operands.
class ElementwiseStep final : public Step {
 public:
  ElementwiseStep(std::string kernel, kernels::RowFunction row, kernels::RowParams params,
                  std::vector<RowOperand> operands)
      : kernel_(std::move(kernel)), row_(row), params_(params), operands_(std::move(operands)) {}

  std::string kernel() const override { return kernel_; }
  Status Run(StepContext& context) const override;

 private:
  std::string kernel_;
  kernels::RowFunction row_;
  kernels::RowParams params_;
  std::vector<RowOperand> operands_;
};

// A step over all `inputs` of the node: "elementwise.add float avx512".
std::unique_ptr<Step> MakeElementwiseStep(const BindContext& context, kernels::RowFunction row,
                                          kernels::RowParams params);

// "elementwise.add float avx512"
std::string ElementwiseName(const BindContext& context);

// "float, double, int64": the dtypes for which `supported` is true.
std::string DTypeList(absl::FunctionRef<bool(DType)> supported);

// OK when `supported` is true for the dtype of input `port`.
Status CheckDType(const InferContext& context, int port, absl::FunctionRef<bool(DType)> supported);

// OK when inputs `port` and `reference` have the same dtype.
Status CheckSameDType(const InferContext& context, int port, int reference);

// Work of one pass over all inputs and outputs; `per_element` counts multiply-adds of an output
// element.
Cost ElementwiseCost(const StepShapes& shapes, DType dtype, double per_element);

}  // namespace tandem::ops
