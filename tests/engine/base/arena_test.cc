// Buffers on small and on huge pages, which their size decides.
#include "engine/base/arena.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

namespace tandem {
namespace {

constexpr size_t kHugePage = size_t{1} << 21;

TEST(Buffer, HasItsSizeAlignedAndWritableToItsEnd) {
  for (const size_t bytes :
       {size_t{1}, size_t{64}, kHugePage - 1, kHugePage, kHugePage + 1, 3 * kHugePage + 5}) {
    StatusOr<Buffer> buffer = Buffer::Allocate(bytes);
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    EXPECT_EQ(buffer->size(), bytes);
    const auto address = reinterpret_cast<uintptr_t>(buffer->data());
    EXPECT_EQ(address % (bytes >= kHugePage ? kHugePage : kBufferAlignment), 0u) << bytes;
    std::memset(buffer->data(), 1, bytes);
    EXPECT_EQ(buffer->data()[bytes - 1], std::byte{1});
  }
}

TEST(Buffer, OfNoBytesHasNoMemory) { EXPECT_EQ(Buffer::Allocate(0)->data(), nullptr); }

}  // namespace
}  // namespace tandem
