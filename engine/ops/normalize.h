// What the operators share that normalise a tensor by statistics of its own: the step, the way
// scale and bias broadcast, and their checks.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "engine/kernels/norm/norm.h"
#include "engine/ops/operator.h"
#include "engine/ops/registry.h"

namespace tandem::ops {

// The axes of `x` in the order in which they lie in memory, given the shapes of the inputs.
using NormAxesOf =
    std::function<kernels::NormAxes(const TensorView& x, std::span<const Shape> inputs)>;

// Output 0 from input 0; input 1 is the scale and input 2 the bias, where given.
struct NormRequest {
  kernels::NormKind kind = kernels::NormKind::kStandard;
  double epsilon = 0;
  NormAxesOf axes;
  int mean_port = -1;     // the output that takes the means, or -1
  int inverse_port = -1;  // the output that takes 1 / deviation, or -1
};
std::unique_ptr<Step> MakeNormStep(const BindContext& context, NormRequest request);

// Elements between neighbours along each of `rank` axes of a native tensor of `shape` that
// broadcasts to them; 0 where it is repeated.
Dims BroadcastStrides(const Shape& shape, int rank);

// Native axes of x whose statistics are shared where `reduced` says so, scale and bias (inputs 1
// and 2, where given) broadcasting to x.
kernels::NormAxes BroadcastNormAxes(const std::vector<bool>& reduced, const TensorView& x,
                                    std::span<const Shape> inputs);
// Axes of x in the order of its layout, without scale and bias.
kernels::NormAxes PlainNormAxes(const std::vector<bool>& reduced, const TensorView& x);

// `axes` as flags by axis; InvalidArgument for one outside of the rank.
StatusOr<std::vector<bool>> AxisFlags(std::span<const int64_t> axes, int rank);

// The attribute stash_type: float where it is not given. Fails for what is no floating type.
DType ReadStashType(NodeReader& reader);

// One pass over the input for the mean, one for the variance, one to write.
Cost NormCost(const StepShapes& shapes, DType dtype);

// Declines when an input but the first carries the batch.
std::optional<BatchAnswer> ParametersCarryBatch(const BatchQuery& query);

}  // namespace tandem::ops
