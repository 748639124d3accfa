#include "engine/onnx/tensor_decode.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "engine/onnx/external_data.h"
#include "engine/onnx/import.h"

namespace tandem::onnx_import {
namespace {

using ::onnx::TensorProto;

static_assert(std::endian::native == std::endian::little, "raw_data is little endian");

enum class Field { kRaw, kFloat, kInt32, kString, kInt64, kDouble, kUint64 };
constexpr std::array<std::string_view, 7> kFieldNames = {"raw_data",    "float_data", "int32_data",
                                                         "string_data", "int64_data", "double_data",
                                                         "uint64_data"};
std::string_view NameOf(Field field) { return kFieldNames[static_cast<size_t>(field)]; }

// The typed field that holds the elements of `dtype` (comments of TensorProto).
Field TypedField(DType dtype) {
  switch (dtype) {
    case DType::kFloat:
    case DType::kComplex64:
      return Field::kFloat;
    case DType::kDouble:
    case DType::kComplex128:
      return Field::kDouble;
    case DType::kInt64:
      return Field::kInt64;
    case DType::kUint32:
    case DType::kUint64:
      return Field::kUint64;
    case DType::kString:
      return Field::kString;
    default:
      return Field::kInt32;
  }
}

std::vector<Field> FieldsInUse(const TensorProto& proto, const RawData* elsewhere) {
  std::vector<Field> fields;
  if (elsewhere != nullptr || proto.has_raw_data()) fields.push_back(Field::kRaw);
  if (proto.float_data_size() > 0) fields.push_back(Field::kFloat);
  if (proto.int32_data_size() > 0) fields.push_back(Field::kInt32);
  if (proto.string_data_size() > 0) fields.push_back(Field::kString);
  if (proto.int64_data_size() > 0) fields.push_back(Field::kInt64);
  if (proto.double_data_size() > 0) fields.push_back(Field::kDouble);
  if (proto.uint64_data_size() > 0) fields.push_back(Field::kUint64);
  return fields;
}

StatusOr<Shape> DecodeShape(DType dtype, const google::protobuf::RepeatedField<int64_t>& dims) {
  if (dims.size() > kMaxRank) {
    return InvalidArgument("it has {} axes, at most {} are supported", dims.size(), kMaxRank);
  }
  const Dims extents(dims.begin(), dims.end());
  const std::optional<int64_t> elements = CheckedElements(extents);
  // 16 bytes is the largest element.
  if (!elements || !CheckedMul(*elements, 16)) {
    return InvalidArgument(
        "{} with extents [{}] cannot exist: an extent is negative or the size "
        "passes 64 bits",
        DTypeName(dtype), fmt::join(extents, ","));
  }
  return Shape(extents);
}

int64_t EntriesOf(const TensorProto& proto, const RawData* elsewhere, Field field) {
  switch (field) {
    case Field::kRaw:
      return elsewhere != nullptr ? elsewhere->size : static_cast<int64_t>(proto.raw_data().size());
    case Field::kFloat:
      return proto.float_data_size();
    case Field::kInt32:
      return proto.int32_data_size();
    case Field::kString:
      return proto.string_data_size();
    case Field::kInt64:
      return proto.int64_data_size();
    case Field::kDouble:
      return proto.double_data_size();
    case Field::kUint64:
      return proto.uint64_data_size();
  }
  return 0;
}

// Bytes of raw_data; in a typed field an entry is an element, half a complex number or a byte of
// packed elements.
int64_t EntriesExpected(Field field, DType dtype, int64_t elements) {
  const auto bytes = static_cast<int64_t>(DTypeBytes(dtype, elements));
  if (field == Field::kRaw) return bytes;
  if (dtype == DType::kComplex64 || dtype == DType::kComplex128) return 2 * elements;
  return dtype != DType::kString && DTypeBits(dtype) < 8 ? bytes : elements;
}

// The copies are made after the number of entries has been checked.
template <typename T>
Status CopyWhole(const google::protobuf::RepeatedField<T>& from, const Tensor& tensor) {
  const std::span<std::byte> into = tensor.mutable_view().mutable_bytes();
  if (!into.empty()) std::memcpy(into.data(), from.data(), into.size());
  return absl::OkStatus();
}

// Entries of a wide field as units of T: elements, or bytes of packed elements.
template <typename T, typename Wide>
Status CopyNarrow(Field field, const google::protobuf::RepeatedField<Wide>& from, int64_t lowest,
                  const Tensor& tensor) {
  const std::span<std::byte> into = tensor.mutable_view().mutable_bytes();
  constexpr auto highest = static_cast<Wide>(std::numeric_limits<T>::max());
  for (int i = 0; i < from.size(); ++i) {
    const Wide wide = from.Get(i);
    if (wide > highest || (std::is_signed_v<Wide> && static_cast<int64_t>(wide) < lowest)) {
      return InvalidArgument("{}[{}] is {}, which {} does not hold", NameOf(field), i, wide,
                             DTypeName(tensor.dtype()));
    }
    const auto unit = static_cast<T>(wide);
    std::memcpy(into.data() + static_cast<size_t>(i) * sizeof(T), &unit, sizeof(T));
  }
  return absl::OkStatus();
}

Status CopyInt32(const TensorProto& proto, const Tensor& tensor) {
  const auto& from = proto.int32_data();
  switch (tensor.dtype()) {
    case DType::kInt32:
      return CopyWhole(from, tensor);
    case DType::kInt16:
      return CopyNarrow<int16_t>(Field::kInt32, from, INT16_MIN, tensor);
    case DType::kUint16:
      return CopyNarrow<uint16_t>(Field::kInt32, from, 0, tensor);
    // Bit patterns, which writers widen with or without sign.
    case DType::kFloat16:
    case DType::kBfloat16:
      return CopyNarrow<uint16_t>(Field::kInt32, from, INT16_MIN, tensor);
    case DType::kInt8:
      return CopyNarrow<int8_t>(Field::kInt32, from, INT8_MIN, tensor);
    case DType::kUint8:
      return CopyNarrow<uint8_t>(Field::kInt32, from, 0, tensor);
    case DType::kBool: {
      google::protobuf::RepeatedField<int32_t> truth(from);
      for (int32_t& value : truth) value = value != 0 ? 1 : 0;
      return CopyNarrow<uint8_t>(Field::kInt32, truth, 0, tensor);
    }
    default:
      return CopyNarrow<uint8_t>(Field::kInt32, from, INT8_MIN, tensor);
  }
}

Status CopyElements(const TensorProto& proto, const RawData* elsewhere, Field field,
                    const Tensor& tensor) {
  switch (field) {
    case Field::kRaw: {
      const std::span<std::byte> into = tensor.mutable_view().mutable_bytes();
      if (elsewhere != nullptr) return elsewhere->read(into);
      if (!into.empty()) std::memcpy(into.data(), proto.raw_data().data(), into.size());
      return absl::OkStatus();
    }
    case Field::kFloat:
      return CopyWhole(proto.float_data(), tensor);
    case Field::kDouble:
      return CopyWhole(proto.double_data(), tensor);
    case Field::kInt64:
      return CopyWhole(proto.int64_data(), tensor);
    case Field::kUint64:
      if (tensor.dtype() == DType::kUint64) return CopyWhole(proto.uint64_data(), tensor);
      return CopyNarrow<uint32_t>(field, proto.uint64_data(), 0, tensor);
    case Field::kString:
      std::ranges::copy(proto.string_data(), tensor.mutable_data<std::string>());
      return absl::OkStatus();
    case Field::kInt32:
      return CopyInt32(proto, tensor);
  }
  return absl::OkStatus();
}

StatusOr<Tensor> DecodeExternal(const TensorProto& proto, DType dtype, const Shape& shape,
                                ExternalData* external) {
  if (dtype == DType::kString) return InvalidArgument("strings cannot be external data");
  if (external == nullptr) return InvalidArgument("external data is not allowed here");
  ASSIGN_OR_RETURN(const ExternalLocation where, ParseExternalLocation(proto));
  return external->Read(where, dtype, shape);
}

StatusOr<Tensor> DecodeUnnamed(const TensorProto& proto, ExternalData* external,
                               const RawData* elsewhere) {
  if (!IsKnownDType(proto.data_type())) {
    return InvalidArgument("data type {} is not known", proto.data_type());
  }
  const auto dtype = static_cast<DType>(proto.data_type());
  if (proto.has_segment()) return InvalidArgument("tensors in segments are not supported");
  ASSIGN_OR_RETURN(const Shape shape, DecodeShape(dtype, proto.dims()));
  const std::vector<Field> fields = FieldsInUse(proto, elsewhere);
  if (proto.data_location() == TensorProto::EXTERNAL) {
    if (!fields.empty()) {
      return InvalidArgument("it has external data and {}", NameOf(fields.front()));
    }
    return DecodeExternal(proto, dtype, shape, external);
  }
  if (proto.external_data_size() > 0) {
    return InvalidArgument("it has external data but its data location is not EXTERNAL");
  }
  if (fields.size() > 1) {
    return InvalidArgument("its elements are in both {} and {}", NameOf(fields[0]),
                           NameOf(fields[1]));
  }
  const Field field = fields.empty() ? TypedField(dtype) : fields.front();
  if (field != TypedField(dtype) && (field != Field::kRaw || dtype == DType::kString)) {
    return InvalidArgument("{} holds elements of {}, which belong in {}", NameOf(field),
                           DTypeName(dtype), NameOf(TypedField(dtype)));
  }
  const int64_t came = EntriesOf(proto, elsewhere, field);
  const int64_t expected = EntriesExpected(field, dtype, shape.elements());
  if (came != expected) {
    return InvalidArgument("{} has {} {} where {}{} takes {}", NameOf(field), came,
                           field == Field::kRaw ? "bytes" : "entries", DTypeName(dtype),
                           ToString(shape), expected);
  }
  ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(dtype, shape));
  RETURN_IF_ERROR(CopyElements(proto, elsewhere, field, tensor));
  Canonicalize(tensor);
  return tensor;
}

}  // namespace

StatusOr<Tensor> DecodeTensor(const TensorProto& proto, ExternalData* external,
                              const RawData* elsewhere) {
  StatusOr<Tensor> tensor = DecodeUnnamed(proto, external, elsewhere);
  if (!tensor.ok()) return Annotate(tensor.status(), fmt::format("tensor '{}'", proto.name()));
  return tensor;
}

void Canonicalize(const Tensor& tensor) {
  if (tensor.dtype() == DType::kString) return;
  const std::span<std::byte> bytes = tensor.mutable_view().mutable_bytes();
  if (tensor.dtype() == DType::kBool) {
    for (std::byte& byte : bytes) byte = std::byte{byte != std::byte{0}};
  }
  const size_t bits = DTypeBits(tensor.dtype());
  const size_t used = bits < 8 ? static_cast<size_t>(tensor.elements()) * bits % 8 : 0;
  if (used != 0) bytes.back() &= std::byte{static_cast<uint8_t>((1u << used) - 1)};
}

}  // namespace tandem::onnx_import
