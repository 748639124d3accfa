// Places buffers in one block of memory from their lifetimes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tandem::plan {

// A buffer alive from the start of step `begin` to the end of step `end`.
struct Lifetime {
  size_t bytes = 0;
  int begin = 0;
  int end = 0;
};

struct Placement {
  std::vector<size_t> offsets;  // by lifetime; multiples of kBufferAlignment
  size_t bytes = 0;             // of the block
};

// Buffers whose lifetimes meet never overlap. Largest first, each at the lowest place that is free.
Placement PlaceBuffers(const std::vector<Lifetime>& lifetimes);

}  // namespace tandem::plan
