// Convolution with windows of 3 x 3 and stride 1 by minimal filtering F(m x m, 3 x 3) over
// channels-last activations (S. Winograd, "Arithmetic Complexity of Computations", 1980; A. Lavin
// and S. Gray, "Fast Algorithms for Convolutional Neural Networks", 2015): tiles of m x m outputs
// of all channels are computed with (m + 2)^2 multiplications each instead of 9 m^2, as that many
// matrix products.
//
// Sums are not those of the direct convolution. The largest error over an output, as a share of its
// largest element, is at most one and a half of that of the direct one for m = 2 and 5e-6 for m
// = 4. Where a tile's results are huge or not finite, as are then the errors of all of them, the
// tile is convolved directly, a panel of columns at a time: nothing spreads beyond its window.
//
// An output's bits depend on its place in the item and on what its tile reads, never on the batch,
// its neighbours or the number of threads. Functions cannot fail, never allocate and may run from
// several threads at once. `isa` is not kReference; ConvReference is the reference.
#pragma once

#include "engine/base/cpu.h"
#include "engine/kernels/conv/conv.h"

namespace tandem::kernels {

// True for what can be computed so: two axes of 3 taps, no stride, dilation or groups, a y without
// gaps.
bool HasWinograd(const ConvGeometry& geometry);

// The m that is estimated to be fastest for one item: 4, 2, or 0 for the direct convolution, which
// is also what sums of bfloat16 products and precisions without room for the error come to.
int WinogradTile(Arithmetic arithmetic, const ConvGeometry& geometry);

// Packed weights: those of conv.h in plain float32 arithmetic, for tiles that are convolved
// directly, and the transformed ones.
int64_t PackedWinogradFloats(Isa isa, int m, const ConvGeometry& geometry);
void PackWinogradWeights(Isa isa, int m, const ConvGeometry& geometry, const ConvWeights& weights,
                         float* packed);

// Floats of scratch for as many threads; aligned to kBufferAlignment.
int64_t WinogradScratchFloats(Isa isa, int m, const ConvGeometry& geometry, int threads);

// `m` is 2 or 4; data.scratch has WinogradScratchFloats for parallel.threads().
void ConvWinograd(Isa isa, int m, const ConvGeometry& geometry, const float* packed,
                  const ConvData& data, const Parallel& parallel);

}  // namespace tandem::kernels
