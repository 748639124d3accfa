// A Conv whose prologue has convolutions: a pointwise one (1x1) behind a depthwise one, a depthwise
// one behind a pointwise one, or a pointwise, a depthwise and a pointwise one. Stages of the
// prologue behind each are what is done to its sums, its bias included. They run as one kernel
// (kernels/depthwise/strips.h); on the reference kernels and where no vector holds whole groups
// they run one after the other.
#pragma once

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "engine/ops/conv_shape.h"
#include "engine/ops/conv_step.h"

namespace tandem::ops {

// A convolution in the prologue of another.
struct ConvStage {
  ConvAttributes attributes;
  int weights = -1;  // their input port
  size_t index = 0;  // of its stage in the prologue
};
using ConvStages = absl::InlinedVector<ConvStage, 2>;

// Whether the convolution `own` takes those of the request: `stages`, whose places are those in the
// request.
Decision TryFuseConvs(const ConvStages& stages, const ConvAttributes& own,
                      const PrologueRequest& request);

// Multiply-adds of the convolutions in a prologue.
double ProductsOf(const ConvStages& stages, const StepShapes& shapes);

// The convolution `own` of the context's node, with `before` in its prologue. `form_of` makes the
// form of one convolution alone.
using FormOf = absl::FunctionRef<std::shared_ptr<const ConvForm>(const ConvAttributes& attributes)>;
StatusOr<std::unique_ptr<Step>> BindDepthwiseStrips(const ConvStages& before,
                                                    const ConvAttributes& own, FormOf form_of,
                                                    BindContext& context);

}  // namespace tandem::ops
