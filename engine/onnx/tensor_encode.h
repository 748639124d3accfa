// A tandem::Tensor as an ONNX TensorProto. For this folder and for tests that build messages;
// others use tensor_proto.h, which hides the messages.
#pragma once

#include <onnx/onnx_pb.h>

#include <string_view>

#include "engine/tensor/tensor.h"

namespace tandem::onnx_import {

// Overwrites `proto`: elements go to raw_data (little endian), strings to string_data.
void EncodeTensor(const Tensor& tensor, std::string_view name, ::onnx::TensorProto& proto);

}  // namespace tandem::onnx_import
