// Tensors, types and attributes as ONNX messages, which are overwritten. For this folder and for
// tests that build messages; others use tensor_proto.h and export.h, which hide the messages.
#pragma once

#include <onnx/onnx_pb.h>

#include <string_view>

#include "engine/graph/graph.h"
#include "engine/tensor/tensor.h"

namespace tandem::onnx_import {

// Elements go to raw_data (little endian), strings to string_data.
void EncodeTensor(const Tensor& tensor, std::string_view name, ::onnx::TensorProto& proto);

// A tensor of these extents; an unknown one is a dimension without value.
void EncodeTensorType(DType dtype, const std::optional<graph::DimVector>& dims,
                      ::onnx::TypeProto& proto);

// Every kind but graphs, lists of graphs and types: those CHECK.
void EncodeAttribute(std::string_view name, const graph::Attribute& attribute,
                     ::onnx::AttributeProto& proto);

}  // namespace tandem::onnx_import
