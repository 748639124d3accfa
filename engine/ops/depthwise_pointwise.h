// A pointwise Conv (1x1) whose prologue begins with a depthwise Conv: stages of the prologue behind
// it are what is done to its sums, its bias included. Both convolutions run as one kernel
// (kernels/depthwise/pointwise.h); on the reference kernels and where no vector holds whole groups
// they run one after the other.
#pragma once

#include "engine/ops/conv_shape.h"
#include "engine/ops/conv_step.h"

namespace tandem::ops {

struct DepthwiseStage {
  ConvAttributes attributes;
  int weights = -1;  // their input port
};

// Whether the pointwise convolution takes the other one, the first stage of the request.
Decision TryFuseDepthwise(const ConvAttributes& depthwise, const ConvAttributes& pointwise,
                          const PrologueRequest& request);

// Multiply-adds of the depthwise convolution.
double DepthwiseProducts(const DepthwiseStage& stage, const StepShapes& shapes);

struct DepthwisePointwise {
  std::shared_ptr<const ConvForm> depthwise;
  std::shared_ptr<const ConvForm> pointwise;
  int weights = -1;  // input port of the depthwise ones
};
StatusOr<std::unique_ptr<Step>> BindDepthwisePointwise(const DepthwisePointwise& pair,
                                                       BindContext& context);

}  // namespace tandem::ops
