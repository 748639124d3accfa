// 128-bit content hashes (XXH3-128). Wide enough that equal hashes are taken as equal content: two
// different contents among 2^32 meet with a probability of about 2^-65.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace tandem {

struct Hash128 {
  uint64_t high = 0;
  uint64_t low = 0;

  friend bool operator==(const Hash128&, const Hash128&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const Hash128& hash) {
    return H::combine(std::move(state), hash.high, hash.low);
  }
};

// The hash of `bytes`; `seed` separates domains (a dtype and shape, say) with equal bytes.
Hash128 HashBytes(std::span<const std::byte> bytes, uint64_t seed = 0);

// The hash of bytes that come in pieces: equal to HashBytes of all of them. Not thread-safe.
class HashStream {
 public:
  explicit HashStream(uint64_t seed = 0);
  ~HashStream();
  HashStream(const HashStream&) = delete;
  HashStream& operator=(const HashStream&) = delete;

  void Update(std::span<const std::byte> bytes);
  Hash128 Finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// 32 lower-case hexadecimal digits.
std::string ToString(const Hash128& hash);

}  // namespace tandem
