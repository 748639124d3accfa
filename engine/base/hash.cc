#include "engine/base/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

namespace tandem {

Hash128 HashBytes(std::span<const std::byte> bytes, uint64_t seed) {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed);
  return {hash.high64, hash.low64};
}

struct HashStream::State {
  XXH3_state_t* xxh = XXH3_createState();
  ~State() { XXH3_freeState(xxh); }
};

HashStream::HashStream(uint64_t seed) : state_(std::make_unique<State>()) {
  XXH3_128bits_reset_withSeed(state_->xxh, seed);
}

HashStream::~HashStream() = default;

void HashStream::Update(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
}

Hash128 HashStream::Finish() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->xxh);
  return {hash.high64, hash.low64};
}

std::string ToString(const Hash128& hash) {
  return fmt::format("{:016x}{:016x}", hash.high, hash.low);
}

}  // namespace tandem
