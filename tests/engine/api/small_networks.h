// Small networks of several kinds; where nothing else is said, over images x [N,3,H,W].
#pragma once

#include <string>
#include <vector>

#include "engine/graph/dim.h"

namespace tandem::test {

// A detector's shapes are computed by its nodes, or written down for 16 by 16 places.
enum class Shapes { kComputed, kWritten };

// Blocks of convolutions with residuals, a pool and a linear layer. y [N,10].
std::string Residual();
// A block of a depthwise convolution with squeeze and excitation. y [N,8,H/2,W/2].
std::string Mobile();
// A block of attention with two heads over image patches, as exporters write it. y [N,places,16].
std::string Transformer();
// A head of two levels whose boxes are scaled by anchors and strides. y [N,7,80] of 16 by 16
// places.
std::string Detector(Shapes shapes);

// x[batch,3,8,8] -> Conv 3x3 -> Relu -> MaxPool -> Flatten -> Gemm -> y[batch,5]
std::string SmallCnn(const graph::Dim& batch);
// Two towers of `depth` Conv+Relu over a and b [N,8,16,16] that share all weights, joined by Add.
std::string Siamese(int depth);

struct Network {
  std::string name;
  std::string bytes;
};

// Those over images, the detector with shapes that it computes.
std::vector<Network> Networks();

}  // namespace tandem::test
