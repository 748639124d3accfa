#include "engine/onnx/encode.h"

#include <bit>

#include "engine/base/check.h"
#include "engine/graph/attribute_value.h"

namespace tandem::onnx_import {
namespace {

using ::onnx::AttributeProto;

struct AttributeEncoder {
  AttributeProto& proto;

  void operator()(float value) const {
    proto.set_type(AttributeProto::FLOAT);
    proto.set_f(value);
  }
  void operator()(int64_t value) const {
    proto.set_type(AttributeProto::INT);
    proto.set_i(value);
  }
  void operator()(const std::string& value) const {
    proto.set_type(AttributeProto::STRING);
    proto.set_s(value);
  }
  void operator()(const graph::ConstantRef& value) const {
    proto.set_type(AttributeProto::TENSOR);
    EncodeTensor(value->tensor(), "", *proto.mutable_t());
  }
  void operator()(const std::vector<float>& values) const {
    proto.set_type(AttributeProto::FLOATS);
    for (const float value : values) proto.add_floats(value);
  }
  void operator()(const std::vector<int64_t>& values) const {
    proto.set_type(AttributeProto::INTS);
    for (const int64_t value : values) proto.add_ints(value);
  }
  void operator()(const std::vector<std::string>& values) const {
    proto.set_type(AttributeProto::STRINGS);
    for (const std::string& value : values) proto.add_strings(value);
  }
  void operator()(const std::vector<graph::ConstantRef>& values) const {
    proto.set_type(AttributeProto::TENSORS);
    for (const graph::ConstantRef& value : values) {
      EncodeTensor(value->tensor(), "", *proto.add_tensors());
    }
  }
  template <typename T>
  void operator()(const T&) const {
    CHECK(false, "attribute '{}' holds graphs or types", proto.name());
  }
};

}  // namespace

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

void EncodeTensorType(DType dtype, const std::optional<graph::DimVector>& dims,
                      ::onnx::TypeProto& proto) {
  proto.Clear();
  ::onnx::TypeProto::Tensor& tensor = *proto.mutable_tensor_type();
  tensor.set_elem_type(static_cast<int32_t>(dtype));
  if (!dims) return;
  ::onnx::TensorShapeProto& shape = *tensor.mutable_shape();
  for (const graph::Dim& dim : *dims) {
    ::onnx::TensorShapeProto::Dimension& extent = *shape.add_dim();
    if (dim.is_number()) {
      extent.set_dim_value(dim.number());
    } else if (dim.is_symbol()) {
      extent.set_dim_param(graph::ToString(dim));
    }
  }
}

void EncodeAttribute(std::string_view name, const graph::Attribute& attribute,
                     ::onnx::AttributeProto& proto) {
  proto.Clear();
  proto.set_name(name.data(), name.size());
  std::visit(AttributeEncoder{proto}, attribute.value().of);
}

}  // namespace tandem::onnx_import
