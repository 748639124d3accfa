// Tensors that repeat a smaller one: their bytes, written out only for who asks.
#pragma once

#include <cstddef>
#include <span>

#include "absl/functional/function_ref.h"
#include "engine/tensor/tensor.h"

namespace tandem {

// Calls `emit` with the bytes of `tensor` broadcast to `shape` (ONNX "unidirectional broadcasting",
// which the caller has checked), in their order and in pieces of any size. Elements have whole
// bytes and are no strings.
void EmitBroadcast(const TensorView& tensor, const Shape& shape,
                   absl::FunctionRef<void(std::span<const std::byte>)> emit);

// The same as one tensor of its own.
StatusOr<Tensor> SpellOut(const TensorView& tensor, const Shape& shape);

}  // namespace tandem
