#include "engine/runtime/arena_pool.h"

#include <algorithm>
#include <iterator>

namespace tandem::runtime {

ArenaPool::Lease::~Lease() {
  // A lease that was moved from holds no bytes.
  if (buffer_.data() != nullptr) pool_->Return(std::move(buffer_));
}

StatusOr<ArenaPool::Lease> ArenaPool::Take(size_t bytes) {
  std::vector<Idle> freed;  // outlives the lock: giving memory back takes time
  {
    const std::lock_guard lock(mutex_);
    ++takes_;
    freed = RemoveStaleLocked();
    auto best = idle_.end();
    for (auto it = idle_.begin(); it != idle_.end(); ++it) {
      if (it->buffer.size() < bytes) continue;
      if (best == idle_.end() || it->buffer.size() < best->buffer.size()) best = it;
    }
    if (best != idle_.end()) {
      Buffer buffer = std::move(best->buffer);
      idle_.erase(best);
      return Lease(*this, std::move(buffer));
    }
  }
  ASSIGN_OR_RETURN(Buffer buffer, Buffer::Allocate(std::max(bytes, kBufferAlignment)));
  bytes_ += buffer.size();
  return Lease(*this, std::move(buffer));
}

void ArenaPool::Return(Buffer buffer) {
  std::vector<Idle> freed;
  const std::lock_guard lock(mutex_);
  idle_.push_back({std::move(buffer), takes_});
  freed = RemoveStaleLocked();
}

std::vector<ArenaPool::Idle> ArenaPool::RemoveStaleLocked() {
  const auto kept = std::ranges::find_if(
      idle_, [this](const Idle& idle) { return takes_ - idle.returned <= kMaxIdleTakes; });
  const auto surplus = idle_.size() > kMaxIdle ? idle_.size() - kMaxIdle : 0;
  const auto end = std::max(kept, idle_.begin() + static_cast<ptrdiff_t>(surplus));
  std::vector<Idle> removed(std::make_move_iterator(idle_.begin()), std::make_move_iterator(end));
  idle_.erase(idle_.begin(), end);
  for (const Idle& idle : removed) bytes_ -= idle.buffer.size();
  return removed;
}

}  // namespace tandem::runtime
