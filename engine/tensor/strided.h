// Tensors seen through strides: in another order of axes, repeating a smaller one, widened or
// dequantised. Their bytes are written out only for who asks.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "engine/tensor/tensor.h"

namespace tandem {

// What 8-bit integers mean: (integer - zero point) * scale, as ONNX DequantizeLinear. Those of
// uint8 count as 128 less, and so do its zero points.
struct Quantised {
  std::vector<float> scales;       // one, or one for each index along an axis
  std::vector<float> zero_points;  // as many
};

// Element (i, j, ...) of `shape` is element i * strides[0] + j * strides[1] + ... of `held`. A
// stride of 0 repeats. Unless it is dense, elements have whole bytes and are no strings.
struct StridedTensor {
  Tensor held;
  Shape shape;
  Dims strides;
  DType dtype = DType::kUndefined;             // of `held`; or kFloat where elements are widened
  std::shared_ptr<const Quantised> quantised;  // of `held`, int8 or uint8, which is kFloat here
  int quantised_axis = 0;                      // where there is more than one scale

  // A tensor as it is.
  static StridedTensor Of(Tensor tensor);
  // ONNX "unidirectional broadcasting", which the caller has checked.
  StridedTensor BroadcastTo(const Shape& wider) const;
  // Axis i of the result is axis order[i].
  StridedTensor Permuted(std::span<const int> order) const;
  // Of kFloat16 or kBfloat16, as kFloat.
  StridedTensor Widened() const;
  // The integers of a quantised tensor as whole numbers in kFloat.
  StridedTensor Integers() const;

  // True when the elements are those of `held` in their order.
  bool dense() const;
  // True when there are more elements than are held.
  bool repeats() const { return shape.elements() > held.elements(); }
};

// Calls `emit` with the bytes of the elements, in the order of `shape` and in pieces of any size.
void EmitBytes(const StridedTensor& tensor,
               absl::FunctionRef<void(std::span<const std::byte>)> emit);

// The same as one tensor: `held` if it is dense, else one of its own.
StatusOr<Tensor> SpellOut(const StridedTensor& tensor);

}  // namespace tandem
