// Serialized TensorProto messages, as in the data of test cases (input_0.pb), to and from tensors.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/tensor/tensor.h"

namespace tandem::onnx_import {

struct ParsedTensor {
  std::string name;
  Tensor tensor;
};

// InvalidArgument for damaged bytes, unknown fields, wrong counts and external data.
StatusOr<ParsedTensor> ParseNamedTensor(std::string_view bytes);
StatusOr<Tensor> ParseTensor(std::string_view bytes);
// A SequenceProto of tensors, in order.
StatusOr<std::vector<Tensor>> ParseTensorSequence(std::string_view bytes);

std::string SerializeTensor(const Tensor& tensor, std::string_view name);

}  // namespace tandem::onnx_import
