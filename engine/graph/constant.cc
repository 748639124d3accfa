#include "engine/graph/constant.h"

#include <vector>

#include "engine/base/check.h"
#include "engine/tensor/spell_out.h"

namespace tandem::graph {

namespace {

Hash128 HashHeader(DType dtype, const Shape& shape) {
  std::vector<int64_t> header = {static_cast<int64_t>(dtype)};
  header.insert(header.end(), shape.dims().begin(), shape.dims().end());
  return HashBytes(std::as_bytes(std::span(header)));
}

}  // namespace

Hash128 HashTensor(const TensorView& view) {
  const Hash128 shape_hash = HashHeader(view.dtype(), view.shape());
  if (view.dtype() != DType::kString) return HashBytes(view.bytes(), shape_hash.low);
  Hash128 hash = shape_hash;
  for (const std::string& text : view.span<std::string>()) {
    const Hash128 part = HashBytes(std::as_bytes(std::span(text)), hash.low);
    const uint64_t words[] = {hash.high, hash.low, part.high, part.low};
    hash = HashBytes(std::as_bytes(std::span(words)));
  }
  return hash;
}

Hash128 HashBroadcast(const TensorView& view, const Shape& shape) {
  HashStream stream(HashHeader(view.dtype(), shape).low);
  EmitBroadcast(view, shape, [&stream](std::span<const std::byte> bytes) { stream.Update(bytes); });
  return stream.Finish();
}

size_t Constant::held_bytes() const {
  const std::lock_guard lock(mutex_);
  return held_.view().byte_size() + (spelled_.valid() ? spelled_.view().byte_size() : 0);
}

const Tensor& Constant::tensor() const {
  if (!is_view()) return held_;
  const std::lock_guard lock(mutex_);
  if (!spelled_.valid()) {
    StatusOr<Tensor> spelled = tandem::SpellOut(held_.view(), shape_);
    CHECK(spelled.ok(), "{}", Message(spelled.status()));
    spelled_ = *std::move(spelled);
  }
  return spelled_;
}

StatusOr<Tensor> Constant::SpellOut() const {
  if (!is_view()) return held_;
  {
    const std::lock_guard lock(mutex_);
    if (spelled_.valid()) return spelled_;
  }
  return tandem::SpellOut(held_.view(), shape_);
}

ConstantRef ConstantStore::Intern(Tensor tensor) {
  const Hash128 hash = HashTensor(tensor.view());
  Shape shape = tensor.shape();
  return Intern(std::move(tensor), std::move(shape), hash);
}

ConstantRef ConstantStore::InternView(Tensor tensor, Shape shape) {
  if (tensor.elements() == shape.elements()) return Intern(tensor.Reshaped(std::move(shape)));
  const Hash128 hash = HashBroadcast(tensor.view(), shape);
  return Intern(std::move(tensor), std::move(shape), hash);
}

ConstantRef ConstantStore::Intern(Tensor held, Shape shape, const Hash128& hash) {
  const std::lock_guard lock(mutex_);
  // Entries whose constant has died are dropped when their number passes the living.
  if (constants_.size() >= 64 && (constants_.size() & (constants_.size() - 1)) == 0) {
    absl::erase_if(constants_, [](const auto& entry) { return entry.second.expired(); });
  }
  std::weak_ptr<const Constant>& entry = constants_[hash];
  if (ConstantRef known = entry.lock()) return known;
  auto made = std::make_shared<const Constant>(std::move(held), std::move(shape), hash);
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
    stats.bytes += constant->held_bytes();
  }
  return stats;
}

}  // namespace tandem::graph
