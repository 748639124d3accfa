#include "tests/support/random_tensor.h"

#include <cmath>

namespace tandem::test {

Tensor RandomFloats(Shape shape, uint32_t seed, float low, float high) {
  std::mt19937 generator(seed);
  StatusOr<Tensor> tensor = Tensor::Allocate(DType::kFloat, std::move(shape));
  CHECK(tensor.ok(), "{}", Message(tensor.status()));
  float* data = tensor->mutable_data<float>();
  for (int64_t i = 0; i < tensor->elements(); ++i) {
    // Not std::uniform_real_distribution: its sequence differs between standard libraries.
    data[i] = low + (high - low) * static_cast<float>(generator() >> 8) / 16777216.0f;
  }
  return *std::move(tensor);
}

Tensor RandomWholeFloats(Shape shape, uint32_t seed, float low, float high) {
  Tensor tensor = RandomFloats(std::move(shape), seed, low, high);
  float* data = tensor.mutable_data<float>();
  for (int64_t i = 0; i < tensor.elements(); ++i) data[i] = std::floor(data[i]);
  return tensor;
}

}  // namespace tandem::test
