// What one run may still allocate.
#pragma once

#include <atomic>
#include <cstddef>

#include "engine/base/status.h"

namespace tandem::runtime {

// Thread-safe: the parts of a run share one.
class MemoryBudget {
 public:
  // 0: no limit.
  explicit MemoryBudget(size_t allowed) : MemoryBudget(allowed, 0) {}
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  // For a body of control flow, which gives back at its end what it takes: what is left now.
  MemoryBudget Left() const { return MemoryBudget(allowed_, before_ + taken_); }

  // Counts `bytes` for the rest of the run; ResourceExhausted names what the run needs with them
  // and what is allowed.
  Status Take(size_t bytes) {
    const size_t needed = before_ + taken_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    if (allowed_ == 0 || needed <= allowed_) return absl::OkStatus();
    return ResourceExhausted("the run needs {} bytes of memory where {} are allowed", needed,
                             allowed_);
  }

 private:
  MemoryBudget(size_t allowed, size_t before) : allowed_(allowed), before_(before) {}

  const size_t allowed_;
  const size_t before_;  // taken by the runs around
  std::atomic<size_t> taken_{0};
};

}  // namespace tandem::runtime
