// Arenas that runs leave behind for the next run, so that a steady load allocates nothing.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <vector>

#include "engine/base/arena.h"

namespace tandem::runtime {

// Thread-safe; outlives its leases.
class ArenaPool {
 public:
  // A buffer that goes back to the pool with its lease.
  class Lease {
   public:
    Lease(ArenaPool& pool, Buffer buffer) : pool_(&pool), buffer_(std::move(buffer)) {}
    Lease(Lease&&) = default;
    Lease& operator=(Lease&&) = delete;
    ~Lease();
    std::span<std::byte> bytes() { return buffer_.bytes(); }

   private:
    ArenaPool* pool_;
    Buffer buffer_;
  };

  // At least `bytes`; the smallest idle buffer that is large enough, or a new one.
  StatusOr<Lease> Take(size_t bytes);

  // Of all arenas, idle and in use.
  size_t bytes() const { return bytes_.load(); }

 private:
  void Return(Buffer buffer);

  // More idle arenas than this many are given back to the system, the smallest first.
  static constexpr size_t kMaxIdle = 16;

  std::mutex mutex_;
  std::vector<Buffer> idle_;  // by rising size
  std::atomic<size_t> bytes_{0};
};

}  // namespace tandem::runtime
