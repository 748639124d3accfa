#include "engine/graph/constant.h"

#include <vector>

namespace tandem::graph {

Hash128 HashTensor(const TensorView& view) {
  std::vector<int64_t> header = {static_cast<int64_t>(view.dtype())};
  header.insert(header.end(), view.shape().dims().begin(), view.shape().dims().end());
  const Hash128 shape_hash = HashBytes(std::as_bytes(std::span(header)));
  if (view.dtype() != DType::kString) return HashBytes(view.bytes(), shape_hash.low);
  Hash128 hash = shape_hash;
  for (const std::string& text : view.span<std::string>()) {
    const Hash128 part = HashBytes(std::as_bytes(std::span(text)), hash.low);
    const uint64_t words[] = {hash.high, hash.low, part.high, part.low};
    hash = HashBytes(std::as_bytes(std::span(words)));
  }
  return hash;
}

ConstantRef ConstantStore::Intern(Tensor tensor) {
  const Hash128 hash = HashTensor(tensor.view());
  const std::lock_guard lock(mutex_);
  // Entries whose constant has died are dropped when their number passes the living.
  if (constants_.size() >= 64 && (constants_.size() & (constants_.size() - 1)) == 0) {
    absl::erase_if(constants_, [](const auto& entry) { return entry.second.expired(); });
  }
  std::weak_ptr<const Constant>& entry = constants_[hash];
  if (ConstantRef known = entry.lock()) return known;
  auto made = std::make_shared<const Constant>(std::move(tensor), hash);
  entry = made;
  return made;
}

ConstantStore::Stats ConstantStore::stats() const {
  const std::lock_guard lock(mutex_);
  Stats stats;
  for (const auto& [hash, entry] : constants_) {
    const ConstantRef constant = entry.lock();
    if (constant == nullptr) continue;
    ++stats.constants;
    stats.bytes += constant->view().byte_size();
  }
  return stats;
}

}  // namespace tandem::graph
