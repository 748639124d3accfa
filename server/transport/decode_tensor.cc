#include "server/transport/decode_tensor.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include "server/transport/wire_types.h"

namespace tandem::server {
namespace {

using inference::InferTensorContents;

static_assert(std::endian::native == std::endian::little, "raw contents are little-endian");

constexpr size_t kLengthBytes = sizeof(uint32_t);

std::string Expected(const DeclaredTensor& declared) {
  return fmt::format("{} {}", WireName(declared.dtype), ShapeText(declared.shape.dims()));
}

StatusOr<Tensor> DecodeRawStrings(const DeclaredTensor& declared, std::string_view raw) {
  const int64_t elements = declared.shape.elements();
  // Every element takes its length at least, so this bounds the allocation below.
  if (static_cast<size_t>(elements) > raw.size() / kLengthBytes) {
    return InvalidArgument(
        "{} takes {} elements, each a length of 4 bytes and the bytes, but {} bytes came",
        Expected(declared), elements, raw.size());
  }
  ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(declared.dtype, declared.shape));
  auto* out = tensor.mutable_data<std::string>();
  size_t at = 0;
  for (int64_t i = 0; i < elements; ++i) {
    if (raw.size() - at < kLengthBytes) {
      return InvalidArgument("{} takes {} elements, but the {} bytes end after {}",
                             Expected(declared), elements, raw.size(), i);
    }
    uint32_t length = 0;
    std::memcpy(&length, raw.data() + at, kLengthBytes);
    at += kLengthBytes;
    if (length > raw.size() - at) {
      return InvalidArgument("element {} of BYTES has length {}, but {} bytes are left", i, length,
                             raw.size() - at);
    }
    out[i].assign(raw.data() + at, length);
    at += length;
  }
  if (at != raw.size()) {
    return InvalidArgument("{} takes {} elements, but {} bytes are left after the last",
                           Expected(declared), elements, raw.size() - at);
  }
  return tensor;
}

Status CheckBools(std::string_view raw) {
  unsigned char seen = 0;
  for (const char c : raw) seen |= static_cast<unsigned char>(c);
  if (seen <= 1) return absl::OkStatus();
  const auto bad = std::ranges::find_if(raw, [](char c) { return c != 0 && c != 1; });
  return InvalidArgument("element {} of BOOL is {}; 0 or 1 was expected", bad - raw.begin(),
                         static_cast<int>(static_cast<unsigned char>(*bad)));
}

// One typed field of InferTensorContents.
struct Field {
  std::string_view name;
  int (InferTensorContents::*size)() const;
};
constexpr std::array<Field, 8> kFields = {{
    {"bool_contents", &InferTensorContents::bool_contents_size},
    {"int_contents", &InferTensorContents::int_contents_size},
    {"int64_contents", &InferTensorContents::int64_contents_size},
    {"uint_contents", &InferTensorContents::uint_contents_size},
    {"uint64_contents", &InferTensorContents::uint64_contents_size},
    {"fp32_contents", &InferTensorContents::fp32_contents_size},
    {"fp64_contents", &InferTensorContents::fp64_contents_size},
    {"bytes_contents", &InferTensorContents::bytes_contents_size},
}};

std::string_view FieldOf(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return "bool_contents";
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
      return "int_contents";
    case DType::kInt64:
      return "int64_contents";
    case DType::kUint8:
    case DType::kUint16:
    case DType::kUint32:
      return "uint_contents";
    case DType::kUint64:
      return "uint64_contents";
    case DType::kFloat:
      return "fp32_contents";
    case DType::kDouble:
      return "fp64_contents";
    case DType::kString:
      return "bytes_contents";
    default:
      return {};
  }
}

// The fields that hold elements, with how many.
std::string FilledFields(const InferTensorContents& contents) {
  std::string filled;
  for (const Field& field : kFields) {
    const int size = (contents.*field.size)();
    if (size != 0)
      filled += fmt::format("{}{} in {}", filled.empty() ? "" : ", ", size, field.name);
  }
  return filled;
}

// The declared type's field holds as many elements as the shape says, and no other field any.
Status CheckFields(const DeclaredTensor& declared, const InferTensorContents& contents) {
  if (!HasElements(contents) && declared.shape.elements() > 0) {
    return InvalidArgument("{} takes {} elements, but neither raw_input_contents nor contents came",
                           Expected(declared), declared.shape.elements());
  }
  const std::string_view wanted = FieldOf(declared.dtype);
  if (wanted.empty()) {
    return InvalidArgument("{} has no typed contents; send it in raw_input_contents",
                           WireName(declared.dtype));
  }
  for (const Field& field : kFields) {
    const int64_t expected = field.name == wanted ? declared.shape.elements() : 0;
    if ((contents.*field.size)() != expected) {
      return InvalidArgument("{} takes {} elements in {}, but {} came", Expected(declared),
                             declared.shape.elements(), wanted, FilledFields(contents));
    }
  }
  return absl::OkStatus();
}

// Copies `field` into a tensor of T, checking that each element fits.
template <typename T, typename Values>
StatusOr<Tensor> Copy(const DeclaredTensor& declared, const Values& field) {
  ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(declared.dtype, declared.shape));
  auto* out = tensor.mutable_data<T>();
  for (int i = 0; i < field.size(); ++i) {
    const auto value = field.Get(i);
    if constexpr (sizeof(T) < sizeof(value) && std::is_integral_v<T>) {
      if (value < std::numeric_limits<T>::min() || value > std::numeric_limits<T>::max()) {
        return InvalidArgument("element {} is {}; {} holds {} to {}", i, value,
                               WireName(declared.dtype), std::numeric_limits<T>::min(),
                               std::numeric_limits<T>::max());
      }
    }
    out[i] = static_cast<T>(value);
  }
  return tensor;
}

StatusOr<Tensor> CopyStrings(const DeclaredTensor& declared, const InferTensorContents& contents) {
  ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(declared.dtype, declared.shape));
  std::ranges::copy(contents.bytes_contents(), tensor.mutable_data<std::string>());
  return tensor;
}

}  // namespace

StatusOr<Tensor> DecodeRaw(const DeclaredTensor& declared, const std::string& raw,
                           std::shared_ptr<const void> owner) {
  if (declared.dtype == DType::kString) return DecodeRawStrings(declared, raw);
  const auto element_bytes = static_cast<int64_t>(DTypeBits(declared.dtype) / 8);
  const std::optional<int64_t> bytes = CheckedMul(declared.shape.elements(), element_bytes);
  if (!bytes || static_cast<size_t>(*bytes) != raw.size()) {
    return InvalidArgument("{} takes {} bytes, but {} came", Expected(declared),
                           bytes ? fmt::to_string(*bytes) : "more than 2^63", raw.size());
  }
  if (declared.dtype == DType::kBool) RETURN_IF_ERROR(CheckBools(raw));
  if (reinterpret_cast<uintptr_t>(raw.data()) % static_cast<uintptr_t>(element_bytes) != 0) {
    ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(declared.dtype, declared.shape));
    if (!raw.empty()) std::memcpy(tensor.mutable_view().mutable_raw(), raw.data(), raw.size());
    return tensor;
  }
  return Tensor::Share(std::move(owner), declared.dtype, declared.shape, raw.data());
}

StatusOr<Tensor> DecodeTyped(const DeclaredTensor& declared, const InferTensorContents& contents) {
  RETURN_IF_ERROR(CheckFields(declared, contents));
  switch (declared.dtype) {
    case DType::kBool:
      return Copy<bool>(declared, contents.bool_contents());
    case DType::kInt8:
      return Copy<int8_t>(declared, contents.int_contents());
    case DType::kInt16:
      return Copy<int16_t>(declared, contents.int_contents());
    case DType::kInt32:
      return Copy<int32_t>(declared, contents.int_contents());
    case DType::kInt64:
      return Copy<int64_t>(declared, contents.int64_contents());
    case DType::kUint8:
      return Copy<uint8_t>(declared, contents.uint_contents());
    case DType::kUint16:
      return Copy<uint16_t>(declared, contents.uint_contents());
    case DType::kUint32:
      return Copy<uint32_t>(declared, contents.uint_contents());
    case DType::kUint64:
      return Copy<uint64_t>(declared, contents.uint64_contents());
    case DType::kFloat:
      return Copy<float>(declared, contents.fp32_contents());
    case DType::kDouble:
      return Copy<double>(declared, contents.fp64_contents());
    default:
      return CopyStrings(declared, contents);
  }
}

bool HasElements(const InferTensorContents& contents) {
  return std::ranges::any_of(
      kFields, [&contents](const Field& field) { return (contents.*field.size)() != 0; });
}

}  // namespace tandem::server
