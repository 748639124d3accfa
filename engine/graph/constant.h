// Constants: tensors that are the same in every run, held once per process whatever number of
// initializers, nodes, models or versions hold them.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>

#include "absl/container/flat_hash_map.h"
#include "engine/base/hash.h"
#include "engine/tensor/strided.h"

namespace tandem::graph {

// A tensor in ONNX's native layout with its content hash (of dtype, shape and bytes). It holds its
// bytes, or, as a view, a tensor of which they are made (tensor/strided.h); the hash is that of
// the bytes in both cases. Immutable and thread-safe.
class Constant {
 public:
  Constant(Tensor tensor, Hash128 hash) : Constant(StridedTensor::Of(std::move(tensor)), hash) {}
  // A view, if `tensor` is not dense.
  Constant(StridedTensor tensor, Hash128 hash)
      : strided_(std::move(tensor)), is_view_(!strided_.dense()), hash_(hash) {}

  DType dtype() const { return strided_.dtype; }
  const Shape& shape() const { return strided_.shape; }
  int64_t elements() const { return shape().elements(); }
  // Of the content, however little of it is held.
  size_t byte_size() const { return DTypeBytes(dtype(), elements()); }
  const Hash128& hash() const { return hash_; }

  bool is_view() const { return is_view_; }
  // The content, or what the view is of.
  const Tensor& held() const { return strided_.held; }
  const StridedTensor& strided() const { return strided_; }
  // Bytes in memory: what is held and, for a view, what tensor() has written out.
  size_t held_bytes() const { return held().view().byte_size() + spelled_bytes(); }
  size_t spelled_bytes() const;

  // The content. The first call for a view writes it out; it stays until the constant goes.
  const Tensor& tensor() const;
  const TensorView& view() const { return tensor().view(); }
  // The content for a while: what a view writes out here goes with the tensor.
  StatusOr<Tensor> SpellOut() const;

 private:
  StridedTensor strided_;
  bool is_view_;
  Hash128 hash_;
  mutable std::mutex mutex_;  // guards spelled_ until it is valid
  mutable Tensor spelled_;
};

using ConstantRef = std::shared_ptr<const Constant>;

// The content hash of a Constant, equal for equal contents.
Hash128 HashTensor(const TensorView& view);
Hash128 HashStrided(const StridedTensor& tensor);

// Keeps one Constant per content for as long as somebody holds it. Thread-safe; outlives nothing: a
// Constant lives on when the store is gone.
class ConstantStore {
 public:
  // The constant with the content of `tensor`: an existing one, or one that takes `tensor` over.
  ConstantRef Intern(Tensor tensor);
  // The constant with the content of `tensor`, of which no bytes are made. Elements have whole
  // bytes and are no strings.
  ConstantRef InternView(StridedTensor tensor);
  // The same content with bytes of its own, which later calls of Intern find; what is no view
  // stays. ResourceExhausted when memory is short.
  StatusOr<ConstantRef> WrittenOut(const ConstantRef& constant);

  // Constants alive and the bytes they hold, each byte once.
  struct Stats {
    size_t constants = 0;
    size_t bytes = 0;
  };
  Stats stats() const;

 private:
  ConstantRef Intern(StridedTensor tensor, const Hash128& hash);

  mutable std::mutex mutex_;
  absl::flat_hash_map<Hash128, std::weak_ptr<const Constant>> constants_;
};

}  // namespace tandem::graph
