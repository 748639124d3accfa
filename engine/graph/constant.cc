#include "engine/graph/constant.h"

#include <vector>

#include "absl/container/flat_hash_set.h"
#include "engine/base/check.h"

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

Hash128 HashStrided(const StridedTensor& tensor) {
  HashStream stream(HashHeader(tensor.dtype, tensor.shape).low);
  EmitBytes(tensor, [&stream](std::span<const std::byte> bytes) { stream.Update(bytes); });
  // Kernels keep the integers, so a quantised tensor is not the one of its numbers.
  if (tensor.quantised != nullptr) {
    const int64_t axis[] = {tensor.quantised_axis};
    stream.Update(std::as_bytes(std::span(axis)));
    stream.Update(std::as_bytes(std::span(tensor.quantised->scales)));
    stream.Update(std::as_bytes(std::span(tensor.quantised->zero_points)));
  }
  return stream.Finish();
}

size_t Constant::spelled_bytes() const {
  const std::lock_guard lock(mutex_);
  return spelled_.valid() ? spelled_.view().byte_size() : 0;
}

const Tensor& Constant::tensor() const {
  if (!is_view()) return held();
  const std::lock_guard lock(mutex_);
  if (!spelled_.valid()) {
    StatusOr<Tensor> spelled = tandem::SpellOut(strided_);
    CHECK(spelled.ok(), "{}", Message(spelled.status()));
    spelled_ = *std::move(spelled);
  }
  return spelled_;
}

StatusOr<Tensor> Constant::SpellOut() const {
  if (!is_view()) return held();
  {
    const std::lock_guard lock(mutex_);
    if (spelled_.valid()) return spelled_;
  }
  return tandem::SpellOut(strided_);
}

ConstantRef ConstantStore::Intern(Tensor tensor) {
  const Hash128 hash = HashTensor(tensor.view());
  return Intern(StridedTensor::Of(std::move(tensor)), hash);
}

ConstantRef ConstantStore::InternView(StridedTensor tensor) {
  if (tensor.dense()) return Intern(tensor.held.Reshaped(tensor.shape));
  const Hash128 hash = HashStrided(tensor);
  return Intern(std::move(tensor), hash);
}

StatusOr<ConstantRef> ConstantStore::WrittenOut(const ConstantRef& constant) {
  if (!constant->is_view()) return constant;
  ASSIGN_OR_RETURN(Tensor tensor, constant->SpellOut());
  auto made = std::make_shared<const Constant>(std::move(tensor), constant->hash());
  const std::lock_guard lock(mutex_);
  std::weak_ptr<const Constant>& entry = constants_[constant->hash()];
  ConstantRef known = entry.lock();
  if (known != nullptr && !known->is_view()) return known;
  entry = made;
  return made;
}

ConstantRef ConstantStore::Intern(StridedTensor tensor, const Hash128& hash) {
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
  absl::flat_hash_set<const void*> counted;
  for (const auto& [hash, entry] : constants_) {
    const ConstantRef constant = entry.lock();
    if (constant == nullptr) continue;
    ++stats.constants;
    stats.bytes += constant->spelled_bytes();
    // A weight and its transpose are the same memory.
    const TensorView& held = constant->held().view();
    if (counted.insert(held.raw()).second) stats.bytes += held.byte_size();
  }
  return stats;
}

}  // namespace tandem::graph
