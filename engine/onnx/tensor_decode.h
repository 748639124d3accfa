// TensorProto and SparseTensorProto as tandem::Tensor: every dtype in every encoding, with counts
// that must be exact.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "engine/base/status.h"
#include "engine/tensor/tensor.h"

namespace tandem::onnx_import {

class ExternalData;

// raw_data that lies elsewhere than in its message.
struct RawData {
  int64_t size = 0;  // bytes
  // Fills memory of that size.
  std::function<Status(std::span<std::byte>)> read;
};

// InvalidArgument names the tensor and says what is wrong: unknown dtype, extents that are negative
// or whose product passes int64, elements in two fields or in a field of another dtype, too few or
// too many of them, numbers that the dtype does not hold. `external` may be null: external data is
// refused then. `elsewhere`, where there is one, is the tensor's raw_data.
StatusOr<Tensor> DecodeTensor(const ::onnx::TensorProto& proto, ExternalData* external,
                              const RawData* elsewhere = nullptr);

// The dense form, which may take at most `max_bytes`. Indices are checked: inside the extents,
// ascending, none twice. External data is refused.
StatusOr<Tensor> DecodeSparseTensor(const ::onnx::SparseTensorProto& proto, size_t max_bytes);

// Equal tensors get equal bytes: true is 1 for bool, bits behind the last packed element are 0.
void Canonicalize(const Tensor& tensor);

}  // namespace tandem::onnx_import
