// Packed integers of 2 and 4 bits (dtype.h) as integers of 8 bits of the same
// signedness, and back.
#pragma once

#include <cstdint>

#include "engine/tensor/dtype.h"

namespace tandem::kernels {

// kInt8 or kUint8 for integers of 2 and 4 bits; every other type is its own.
DType UnpackedType(DType dtype);

// Writes the first n elements of `packed` as elements of UnpackedType(dtype).
void UnpackBits(DType dtype, const void* packed, int64_t n, void* bytes);

// The way back: what is beyond the range of `dtype` becomes its nearest bound.
// Bits behind the last element are zero.
void PackBits(DType dtype, const void* bytes, int64_t n, void* packed);

}  // namespace tandem::kernels
