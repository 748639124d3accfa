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

// A tensor in ONNX's native layout with its content hash (of dtype, shape and bytes). Immutable and
// thread-safe.
class Constant {
 public:
  Constant(Tensor tensor, Hash128 hash) : tensor_(std::move(tensor)), hash_(hash) {}
  const Tensor& tensor() const { return tensor_; }
  const TensorView& view() const { return tensor_.view(); }
  const Hash128& hash() const { return hash_; }

 private:
  Tensor tensor_;
  Hash128 hash_;
};

using ConstantRef = std::shared_ptr<const Constant>;

// The content hash that a Constant of `view` has.
Hash128 HashTensor(const TensorView& view);

// Keeps one Constant per content for as long as somebody holds it. Thread-safe; outlives nothing: a
// Constant lives on when the store is gone.
class ConstantStore {
 public:
  // The constant with the content of `tensor`: an existing one, or one that takes `tensor` over.
  ConstantRef Intern(Tensor tensor);

  // Constants alive and the bytes they hold.
  struct Stats {
    size_t constants = 0;
    size_t bytes = 0;
  };
  Stats stats() const;

 private:
  mutable std::mutex mutex_;
  absl::flat_hash_map<Hash128, std::weak_ptr<const Constant>> constants_;
};

}  // namespace tandem::graph
