#include "engine/base/arena.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>

namespace tandem {
namespace {

constexpr size_t kPage = size_t{1} << 12;
constexpr size_t kHugePage = size_t{1} << 21;

constexpr size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Pages of its own that begin with a huge one, so that no small allocation ends up in a huge page
// that was freed; null where the system has none. `bytes` are whole pages. Only whole huge pages
// are asked for: the buffer takes no more memory.
std::byte* MapPages(size_t bytes) {
  void* mapped =
      mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  const size_t lead =
      RoundUp(reinterpret_cast<uintptr_t>(mapped), kHugePage) - reinterpret_cast<uintptr_t>(mapped);
  std::byte* data = static_cast<std::byte*>(mapped) + lead;
  if (lead > 0) munmap(mapped, lead);
  if (lead < kHugePage) munmap(data + bytes, kHugePage - lead);
  // Where the system has no huge pages the buffer stays as it is.
  (void)madvise(data, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  return data;
}

}  // namespace

void Buffer::Free::operator()(std::byte* data) const {
  if (mapped > 0) {
    munmap(data, mapped);
  } else {
    std::free(data);
  }
}

StatusOr<Buffer> Buffer::Allocate(size_t bytes) {
  Buffer buffer;
  if (bytes == 0) return buffer;
  const size_t mapped = bytes < kHugePage ? 0 : RoundUp(bytes, kPage);
  void* data = mapped > 0 ? MapPages(mapped) : std::aligned_alloc(kBufferAlignment, AlignUp(bytes));
  if (data == nullptr) return ResourceExhausted("cannot allocate {} bytes", bytes);
  buffer.data_ = {static_cast<std::byte*>(data), Free{mapped}};
  buffer.size_ = bytes;
  return buffer;
}

}  // namespace tandem
