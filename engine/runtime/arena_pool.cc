#include "engine/runtime/arena_pool.h"

#include <algorithm>

namespace tandem::runtime {

ArenaPool::Lease::~Lease() {
  // A lease that was moved from holds no bytes.
  if (buffer_.data() != nullptr) pool_->Return(std::move(buffer_));
}

StatusOr<ArenaPool::Lease> ArenaPool::Take(size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::lower_bound(idle_, bytes, {}, &Buffer::size);
    if (found != idle_.end()) {
      Buffer buffer = std::move(*found);
      idle_.erase(found);
      return Lease(*this, std::move(buffer));
    }
  }
  ASSIGN_OR_RETURN(Buffer buffer, Buffer::Allocate(std::max(bytes, kBufferAlignment)));
  bytes_ += buffer.size();
  return Lease(*this, std::move(buffer));
}

void ArenaPool::Return(Buffer buffer) {
  const std::lock_guard lock(mutex_);
  const auto place = std::ranges::upper_bound(idle_, buffer.size(), {}, &Buffer::size);
  idle_.insert(place, std::move(buffer));
  if (idle_.size() <= kMaxIdle) return;
  bytes_ -= idle_.front().size();
  idle_.erase(idle_.begin());
}

}  // namespace tandem::runtime
