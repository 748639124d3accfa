// Tensors of reproducible pseudo-random integers of 8 bits.
#pragma once

#include "tests/support/random_tensor.h"

namespace tandem::test {

// Elements over the whole range of T, int8_t or uint8_t.
template <typename T>
Tensor RandomBytes(const Shape& shape, uint32_t seed) {
  const Tensor floats = RandomFloats(shape, seed, 0, 256);
  Tensor bytes = *Tensor::Allocate(kDTypeOf<T>, shape);
  for (int64_t i = 0; i < bytes.elements(); ++i) {
    bytes.mutable_data<T>()[i] = static_cast<T>(static_cast<int>(floats.data<float>()[i]));
  }
  return bytes;
}

}  // namespace tandem::test
