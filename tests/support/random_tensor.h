// Tensors of reproducible pseudo-random content.
#pragma once

#include <cstdint>
#include <random>

#include "engine/tensor/tensor.h"

namespace tandem::test {

// Floats uniform in [low, high).
Tensor RandomFloats(Shape shape, uint32_t seed, float low = -1, float high = 1);

// Whole numbers from low to high - 1.
Tensor RandomWholeFloats(Shape shape, uint32_t seed, float low, float high);

}  // namespace tandem::test
