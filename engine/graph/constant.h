// Constants: tensors that are the same in every run, held once per process whatever number of
// initializers, nodes, models or versions hold them.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>

#include "absl/container/flat_hash_map.h"
#include "engine/base/hash.h"
#include "engine/tensor/tensor.h"

namespace tandem::graph {

// A tensor in ONNX's native layout with its content hash (of dtype, shape and bytes). It holds its
// bytes, or, as a view, a smaller tensor that broadcasts to its shape; the hash is that of the
// bytes in both cases. Immutable and thread-safe.
class Constant {
 public:
  Constant(Tensor tensor, Hash128 hash) : Constant(tensor, tensor.shape(), hash) {}
  // A view, if `held` is smaller than `shape`, to which it broadcasts.
  Constant(Tensor held, Shape shape, Hash128 hash)
      : held_(std::move(held)), shape_(std::move(shape)), hash_(hash) {}

  DType dtype() const { return held_.dtype(); }
  const Shape& shape() const { return shape_; }
  int64_t elements() const { return shape_.elements(); }
  // Of the content, however little of it is held.
  size_t byte_size() const { return DTypeBytes(dtype(), elements()); }
  const Hash128& hash() const { return hash_; }

  bool is_view() const { return held_.elements() != elements(); }
  // The content, or what broadcasts to it.
  const Tensor& held() const { return held_; }
  // Bytes in memory: what is held and, for a view, what tensor() has written out.
  size_t held_bytes() const;

  // The content. The first call for a view writes it out; it stays until the constant goes.
  const Tensor& tensor() const;
  const TensorView& view() const { return tensor().view(); }
  // The content for a while: what a view writes out here goes with the tensor.
  StatusOr<Tensor> SpellOut() const;

 private:
  Tensor held_;
  Shape shape_;
  Hash128 hash_;
  mutable std::mutex mutex_;  // guards spelled_ until it is valid
  mutable Tensor spelled_;
};

using ConstantRef = std::shared_ptr<const Constant>;

// The content hash of a Constant: of `view`, or of `view` broadcast to `shape`.
Hash128 HashTensor(const TensorView& view);
Hash128 HashBroadcast(const TensorView& view, const Shape& shape);

// Keeps one Constant per content for as long as somebody holds it. Thread-safe; outlives nothing: a
// Constant lives on when the store is gone.
class ConstantStore {
 public:
  // The constant with the content of `tensor`: an existing one, or one that takes `tensor` over.
  ConstantRef Intern(Tensor tensor);
  // The constant with the content of `tensor` broadcast to `shape`, of which no bytes are made.
  // Elements have whole bytes and are no strings.
  ConstantRef InternView(Tensor tensor, Shape shape);

  // Constants alive and the bytes they hold.
  struct Stats {
    size_t constants = 0;
    size_t bytes = 0;
  };
  Stats stats() const;

 private:
  ConstantRef Intern(Tensor held, Shape shape, const Hash128& hash);

  mutable std::mutex mutex_;
  absl::flat_hash_map<Hash128, std::weak_ptr<const Constant>> constants_;
};

}  // namespace tandem::graph
