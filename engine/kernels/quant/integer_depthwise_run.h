// One depthwise product of 8-bit integers, for the versions of its kernel.
#pragma once

#include "engine/base/arena.h"
#include "engine/kernels/quant/integer.h"

namespace tandem::kernels {

// Channels of one vector of 16-bit integers of the widest version: rows are filled up to it.
inline constexpr int64_t kRowChannels = 32;
inline constexpr int64_t kMostTaps = 256;  // pointers on the stack

inline int64_t FilledChannels(const ConvGeometry& geometry) {
  return (geometry.out_channels + kRowChannels - 1) / kRowChannels * kRowChannels;
}

// The scratch memory. Channels are taken in vectors; the first half of `multipliers` and `base` of
// a vector belongs to the lower half of each of its 128-bit blocks, the second to the upper one.
struct DepthwisePlan {
  int64_t channels;  // filled up
  int64_t pairs;     // of taps
  int16_t* weights;  // for each vector and pair its lower, then its upper products
  int32_t* base;
  float* multipliers;
  std::byte* padding;
  size_t bytes = 0;

  DepthwisePlan(const ConvGeometry& geometry, std::byte* scratch)
      : channels(FilledChannels(geometry)), pairs((geometry.taps() + 1) / 2) {
    const auto take = [&](size_t size) {
      std::byte* part = scratch == nullptr ? nullptr : scratch + bytes;
      bytes += AlignUp(size);
      return part;
    };
    const auto filled = static_cast<size_t>(channels);
    const size_t products = filled * static_cast<size_t>(pairs) * 2;
    weights = reinterpret_cast<int16_t*>(take(products * sizeof(int16_t)));
    base = reinterpret_cast<int32_t*>(take(filled * sizeof(int32_t)));
    multipliers = reinterpret_cast<float*>(take(filled * sizeof(float)));
    padding = take(filled);
  }
};

// One convolution.
struct DepthwiseRun {
  const ConvGeometry& geometry;
  const IntegerConvData& data;
  const std::byte* packed;
  DepthwisePlan plan;
};

// What an instruction set has: the preparation of the scratch, then output pixels [begin, end).
struct DepthwiseKernel {
  void (*prepare)(const DepthwiseRun& run) = nullptr;
  void (*run)(const DepthwiseRun& run, int64_t begin, int64_t end) = nullptr;
};

}  // namespace tandem::kernels
