// What the element-wise operators share: a step that broadcasts its operands through a row kernel,
// and the checks of their dtypes.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "engine/kernels/elementwise/chain.h"
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
  ElementwiseStep(std::string name, kernels::RowKernel row, std::vector<RowOperand> operands)
      : ElementwiseStep(std::move(name), row, std::move(operands), {}) {}
  // `stages` follow, whose operands are the last ones.
  ElementwiseStep(std::string name, kernels::RowKernel row, std::vector<RowOperand> operands,
                  std::vector<kernels::ChainStage> stages);

  std::string kernel() const override { return name_; }
  Status Run(StepContext& context) const override;

 private:
  std::string name_;
  kernels::RowKernel row_;
  std::vector<RowOperand> operands_;
  std::vector<kernels::ChainStage> stages_;
  int own_ = 0;  // operands of row_
};

// A step over all `inputs` of the node: "elementwise.add float avx512".
std::unique_ptr<Step> MakeElementwiseStep(const BindContext& context, kernels::RowKernel row);

// Operators whose inputs broadcast to the output through one row kernel, and that may apply others
// of this kind to their result in the same pass over memory.
class ElementwiseOperator : public Operator {
 public:
  // The kernel for inputs of `dtype`; without a function where there is none.
  virtual kernels::RowKernel Row(DType dtype, Isa isa) const = 0;
  // True when the output is of type bool whatever the inputs are.
  virtual bool is_predicate() const = 0;

  Traits traits() const final {
    return {.elementwise = true, .in_place = !is_predicate(), .layout = LayoutRule::kFollow};
  }
  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const final;
  Decision TryFuseEpilogue(const EpilogueRequest& request) const final;
  BatchAnswer Batch(const BatchQuery& query) const final;
};

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
