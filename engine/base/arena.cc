#include "engine/base/arena.h"

#include <sys/mman.h>

#include <cstdlib>

namespace tandem {
namespace {

constexpr size_t kHugePage = size_t{1} << 21;

// Of whole pages only: the buffer takes no more memory.
void AdviseHugePages(void* data, size_t bytes) {
  // Where the system has none the buffer stays as it is.
  (void)madvise(data, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
}

}  // namespace

void Buffer::Free::operator()(std::byte* data) const { std::free(data); }

StatusOr<Buffer> Buffer::Allocate(size_t bytes) {
  Buffer buffer;
  if (bytes == 0) return buffer;
  const bool huge = bytes >= kHugePage;
  void* data = nullptr;
  if (posix_memalign(&data, huge ? kHugePage : kBufferAlignment, AlignUp(bytes)) != 0) {
    return ResourceExhausted("cannot allocate {} bytes", bytes);
  }
  if (huge) AdviseHugePages(data, bytes);
  buffer.data_.reset(static_cast<std::byte*>(data));
  buffer.size_ = bytes;
  return buffer;
}

}  // namespace tandem
