// The sliding window of pooling and convolution: its attributes, and what they mean for an input of
// given extents (ONNX operators Conv, MaxPool, AveragePool, LpPool: auto_pad, ceil_mode).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/dim.h"
#include "engine/kernels/window.h"
#include "engine/ops/registry.h"

namespace tandem::ops {

enum class AutoPad : uint8_t { kNotSet, kValid, kSameUpper, kSameLower };

// Attributes as they stand in the node. An empty list means the default: strides and dilations 1,
// pads 0, and for `kernel` that the caller takes it from its weights. Lists are checked when they
// are read: as many entries as `kernel` when that is given, positive (pads: not negative), below
// 2^31.
struct WindowAttributes {
  AutoPad auto_pad = AutoPad::kNotSet;
  std::vector<int64_t> kernel;
  std::vector<int64_t> strides;
  std::vector<int64_t> dilations;
  std::vector<int64_t> pads;  // begins of all axes, then ends
  bool ceil_mode = false;
};

// Attributes that not every operator version has; one that is not asked for counts as unknown.
enum WindowFeatures : uint8_t {
  kWindowPlain = 0,
  kWindowDilations = 1,
  kWindowCeilMode = 2,
  kWindowKernelRequired = 4,
  kWindowNoAutoPad = 8,
};

// Reads kernel_shape, strides, pads and, as `features` says, auto_pad, dilations and ceil_mode.
// Errors are recorded in the reader. Explicit pads other than 0 beside an auto_pad are an error.
WindowAttributes ReadWindow(NodeReader& reader, int features);

// A list of integers from `least` on, below 2^31; empty when it is missing or, with the error
// recorded, wrong.
std::vector<int64_t> ReadWindowList(NodeReader& reader, std::string_view name, int64_t least);
// InvalidArgument when a list has values, and not as many as are expected.
Status CheckWindowCount(std::string_view name, size_t count, size_t expected);

// The window on an input with the spatial extents `in`. `kernel` has the extents of the window and
// as many entries as `in`. InvalidArgument: another number of axes than the attributes have, or a
// window that does not fit into the padded input.
StatusOr<kernels::WindowAxes> ResolveWindow(const WindowAttributes& attributes,
                                            std::span<const int64_t> kernel,
                                            std::span<const int64_t> in);

// The output's spatial extents for symbolic inputs: numbers where the input's extent is a number, a
// symbol where the window keeps or divides it, else unknown. Errors as ResolveWindow.
StatusOr<graph::DimVector> InferWindow(const WindowAttributes& attributes,
                                       std::span<const int64_t> kernel,
                                       std::span<const graph::Dim> in);

}  // namespace tandem::ops
