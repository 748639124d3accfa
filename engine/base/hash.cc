#include "engine/base/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

namespace tandem {

Hash128 HashBytes(std::span<const std::byte> bytes, uint64_t seed) {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed);
  return {hash.high64, hash.low64};
}

std::string ToString(const Hash128& hash) {
  return fmt::format("{:016x}{:016x}", hash.high, hash.low);
}

}  // namespace tandem
