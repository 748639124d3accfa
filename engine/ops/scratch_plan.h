// Hands out parts of the scratch memory of a step.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/tensor/tensor.h"

namespace tandem::ops {

// Hands out consecutive aligned parts of the scratch memory; with no memory it only counts.
class ScratchPlan {
 public:
  explicit ScratchPlan(std::byte* base) : base_(base) {}
  std::byte* Take(int64_t elements, size_t element_size) {
    const size_t offset = bytes_;
    bytes_ += AlignUp(static_cast<size_t>(elements) * element_size);
    return base_ == nullptr ? nullptr : base_ + offset;
  }
  float* TakeFloats(int64_t elements) {
    return reinterpret_cast<float*>(Take(elements, sizeof(float)));
  }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* base_;
  size_t bytes_ = 0;
};

}  // namespace tandem::ops
