#include "engine/onnx/tensor_encode.h"

#include <bit>

namespace tandem::onnx_import {

static_assert(std::endian::native == std::endian::little, "raw_data is little endian");

void EncodeTensor(const Tensor& tensor, std::string_view name, ::onnx::TensorProto& proto) {
  proto.Clear();
  if (!name.empty()) proto.set_name(name.data(), name.size());
  proto.set_data_type(static_cast<int32_t>(tensor.dtype()));
  for (const int64_t extent : tensor.shape().dims()) proto.add_dims(extent);
  if (tensor.dtype() == DType::kString) {
    for (const std::string& text : tensor.span<std::string>()) proto.add_string_data(text);
    return;
  }
  const std::span<const std::byte> bytes = tensor.view().bytes();
  proto.set_raw_data(bytes.data(), bytes.size());
}

}  // namespace tandem::onnx_import
