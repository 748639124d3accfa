// Convolution in float32 with few channels a group (ONNX Conv with group > 1): a vector of output
// channels holds whole groups, and each of its lanes takes its input from its own group. With one
// channel a group this is the depthwise convolution, whose lanes need no exchange; where one group
// fills a vector its lanes share their inputs.
//
// Works on channels-last activations. Every element is summed over taps and, within a tap, channels
// in rising order, taps in the padding left out, whatever the batch or the number of threads.
// Functions cannot fail and never allocate. `isa` is not kReference; ConvReference is the
// reference.
#pragma once

#include "engine/kernels/conv/conv.h"

namespace tandem::kernels {

// True where a vector holds a whole group, with its inputs and its outputs.
bool HasShortGroups(Isa isa, const ConvGeometry& geometry);

// Packed weights: [vectors, taps, in_per_group, lanes], lanes without an output channel zero.
int64_t PackedShortGroupFloats(Isa isa, const ConvGeometry& geometry);
void PackShortGroups(Isa isa, const ConvGeometry& geometry, const ConvWeights& weights,
                     float* packed);

// Needs HasShortGroups. data.zeros is not read.
void ConvShortGroups(Isa isa, const ConvGeometry& geometry, const float* packed,
                     const ConvData& data, const Parallel& parallel);

// Pixels of y from `first` on, up to and without `last`, counted over all items.
struct PixelRange {
  int64_t first = 0;
  int64_t last = 0;
};

// The same of some pixels of a y without gaps, in this thread: data.y holds these alone. The rows
// of the epilogue are those of the whole y. With `held_rows`, of images with two axes, the pixels
// are of one item and data.x holds so many rows of it: row r at place r % held_rows, and at least
// those that the pixels' windows reach. 0: data.x is all of x.
void ConvShortGroupsOfPixels(Isa isa, const ConvGeometry& geometry, const float* packed,
                             const ConvData& data, const PixelRange& pixels, int64_t held_rows);

}  // namespace tandem::kernels
