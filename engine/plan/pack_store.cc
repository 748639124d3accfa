#include "engine/plan/pack_store.h"

namespace tandem::plan {

ops::PackRef PackStore::Find(const Key& key) {
  const std::lock_guard lock(mutex_);
  const auto found = packs_.find(key);
  if (found == packs_.end()) return nullptr;
  ops::PackRef pack = found->second.lock();
  if (pack != nullptr) {
    ++shared_;
  } else {
    packs_.erase(found);
  }
  return pack;
}

StatusOr<ops::PackRef> PackStore::Get(const graph::Constant& constant, const ops::PackSpec& spec) {
  const Key key{constant.hash(), spec.kernel, spec.parameters};
  if (ops::PackRef known = Find(key)) return known;
  // Packing takes long: it runs without the lock. When two loads pack the same weight at the same
  // time, the first to finish is kept.
  ASSIGN_OR_RETURN(Buffer buffer, Buffer::Allocate(spec.bytes));
  const bool as_held = constant.dtype() == constant.held().dtype();
  if (spec.of_integers) {
    ASSIGN_OR_RETURN(const Tensor integers, SpellOut(constant.strided().Integers()));
    spec.fill(integers.view(), buffer.bytes());
  } else if (constant.is_view() && as_held && spec.fill_strided) {
    spec.fill_strided(constant.strided(), buffer.bytes());
  } else {
    // What a view writes out goes as soon as it is packed.
    ASSIGN_OR_RETURN(const Tensor native, constant.SpellOut());
    spec.fill(native.view(), buffer.bytes());
  }
  const std::string name =
      fmt::format("{} {} of {}", spec.kernel, spec.parameters, ToString(constant.hash()));
  auto pack = std::make_shared<const ops::Pack>(ops::Pack{name, std::move(buffer)});
  const std::lock_guard lock(mutex_);
  std::weak_ptr<const ops::Pack>& entry = packs_[key];
  if (ops::PackRef first = entry.lock()) {
    ++shared_;
    return first;
  }
  entry = pack;
  ++built_;
  return pack;
}

PackStore::Stats PackStore::stats() const {
  const std::lock_guard lock(mutex_);
  Stats stats{built_, shared_, 0};
  for (const auto& [key, entry] : packs_) {
    if (const ops::PackRef pack = entry.lock()) stats.bytes += pack->buffer.size();
  }
  return stats;
}

}  // namespace tandem::plan
