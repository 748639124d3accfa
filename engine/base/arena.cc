#include "engine/base/arena.h"

#include <cstdlib>

namespace tandem {

void Buffer::Free::operator()(std::byte* data) const { std::free(data); }

StatusOr<Buffer> Buffer::Allocate(size_t bytes) {
  Buffer buffer;
  if (bytes == 0) return buffer;
  void* data = std::aligned_alloc(kBufferAlignment, AlignUp(bytes));
  if (data == nullptr) return ResourceExhausted("cannot allocate {} bytes", bytes);
  buffer.data_.reset(static_cast<std::byte*>(data));
  buffer.size_ = bytes;
  return buffer;
}

}  // namespace tandem
