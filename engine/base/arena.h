// Aligned memory for tensors, packs and arenas. Everything the engine computes with comes from
// here, so there is one place that counts bytes and one place where a test can let an allocation
// fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "engine/base/status.h"

namespace tandem {

// Every buffer starts at a multiple of this: a cache line and the widest vector.
inline constexpr size_t kBufferAlignment = 64;

// `bytes` rounded up to kBufferAlignment.
constexpr size_t AlignUp(size_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

// Owned, uninitialised, aligned bytes. Movable; not thread-safe. They lie on huge pages where they
// fill any: the system clears these in a third of the time, and the processor remembers where more
// of the memory is.
class Buffer {
 public:
  Buffer() = default;
  // ResourceExhausted names the size when the system has no memory left.
  static StatusOr<Buffer> Allocate(size_t bytes);

  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  size_t size() const { return size_; }
  std::span<std::byte> bytes() { return {data_.get(), size_}; }
  std::span<const std::byte> bytes() const { return {data_.get(), size_}; }

 private:
  struct Free {
    size_t mapped;  // bytes; 0: of the allocator
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  size_t size_ = 0;
};

}  // namespace tandem
