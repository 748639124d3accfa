// Element types. Numbers and names are ONNX's TensorProto.DataType (onnx/onnx.proto).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tandem {

enum class DType : uint8_t {
  kUndefined = 0,
  kFloat = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kUint32 = 12,
  kUint64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
  kBfloat16 = 16,
  kFloat8E4M3Fn = 17,
  kFloat8E4M3Fnuz = 18,
  kFloat8E5M2 = 19,
  kFloat8E5M2Fnuz = 20,
  kUint4 = 21,
  kInt4 = 22,
  kFloat4E2M1 = 23,
  kFloat8E8M0 = 24,
  kUint2 = 25,
  kInt2 = 26,
};

// True for a number that names one of the types above (kUndefined is not one).
bool IsKnownDType(int32_t onnx_number);

// ONNX's name in lower case: "float", "int64", "bfloat16", "undefined".
std::string_view DTypeName(DType dtype);

// Bits of one element; 0 for kString and kUndefined. 2- and 4-bit elements are packed, the first in
// the least significant bits of a byte.
size_t DTypeBits(DType dtype);

// Bytes that `elements` packed elements of `dtype` take, rounded up to whole bytes; for kString the
// bytes of as many std::string objects.
size_t DTypeBytes(DType dtype, int64_t elements);

bool IsFloating(DType dtype);  // float, double, float16, bfloat16
bool IsInteger(DType dtype);   // (u)int8 to (u)int64

// IEEE 754 binary16 and bfloat16 as bit patterns; conversions round to nearest even.
struct Float16 {
  uint16_t bits;
};
struct Bfloat16 {
  uint16_t bits;
};
float ToFloat(Float16 value);
float ToFloat(Bfloat16 value);
Float16 ToFloat16(float value);
Bfloat16 ToBfloat16(float value);

// DTypeOf<T>: the dtype whose elements are stored as T.
template <typename T>
inline constexpr DType kDTypeOf = DType::kUndefined;
template <>
inline constexpr DType kDTypeOf<float> = DType::kFloat;
template <>
inline constexpr DType kDTypeOf<double> = DType::kDouble;
template <>
inline constexpr DType kDTypeOf<Float16> = DType::kFloat16;
template <>
inline constexpr DType kDTypeOf<Bfloat16> = DType::kBfloat16;
template <>
inline constexpr DType kDTypeOf<int8_t> = DType::kInt8;
template <>
inline constexpr DType kDTypeOf<int16_t> = DType::kInt16;
template <>
inline constexpr DType kDTypeOf<int32_t> = DType::kInt32;
template <>
inline constexpr DType kDTypeOf<int64_t> = DType::kInt64;
template <>
inline constexpr DType kDTypeOf<uint8_t> = DType::kUint8;
template <>
inline constexpr DType kDTypeOf<uint16_t> = DType::kUint16;
template <>
inline constexpr DType kDTypeOf<uint32_t> = DType::kUint32;
template <>
inline constexpr DType kDTypeOf<uint64_t> = DType::kUint64;
template <>
inline constexpr DType kDTypeOf<bool> = DType::kBool;

}  // namespace tandem
