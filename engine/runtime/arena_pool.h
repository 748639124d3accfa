// Arenas that runs leave behind for the next run, so that a steady load allocates nothing. What
// nobody takes for a while is given back to the system, so that one large run is not paid for ever.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
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
  struct Idle {
    Buffer buffer;
    uint64_t returned = 0;  // takes_ at that time
  };

  // More idle arenas than this many are given back, the least recently used first, and so are those
  // that were not wanted at this many takes.
  static constexpr size_t kMaxIdle = 16;
  static constexpr uint64_t kMaxIdleTakes = 64;

  void Return(Buffer buffer);
  std::vector<Idle> RemoveStaleLocked();

  std::mutex mutex_;
  std::vector<Idle> idle_;  // least recently used first
  uint64_t takes_ = 0;
  std::atomic<size_t> bytes_{0};
};

}  // namespace tandem::runtime
