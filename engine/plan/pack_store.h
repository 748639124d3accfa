// Packed weights, once per process: a pack is found by the content it was made of, the kernel that
// reads it and the parameters of its format; never by name, place or address.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "engine/base/hash.h"
#include "engine/graph/constant.h"
#include "engine/ops/operator.h"

namespace tandem::plan {

// Thread-safe. A pack lives as long as a step holds it.
class PackStore {
 public:
  // The pack of `constant` that `spec` describes: an existing one or a new one.
  StatusOr<ops::PackRef> Get(const graph::Constant& constant, const ops::PackSpec& spec);

  struct Stats {
    uint64_t built = 0;   // packs made since the store exists
    uint64_t shared = 0;  // requests that found one
    size_t bytes = 0;     // of the packs alive
  };
  Stats stats() const;

 private:
  struct Key {
    Hash128 content;
    std::string kernel;
    std::string parameters;

    friend bool operator==(const Key&, const Key&) = default;
    template <typename H>
    friend H AbslHashValue(H state, const Key& key) {
      return H::combine(std::move(state), key.content, key.kernel, key.parameters);
    }
  };

  ops::PackRef Find(const Key& key);

  mutable std::mutex mutex_;
  absl::flat_hash_map<Key, std::weak_ptr<const ops::Pack>> packs_;
  uint64_t built_ = 0;
  uint64_t shared_ = 0;
};

}  // namespace tandem::plan
