#include "engine/tensor/dtype.h"

#include <array>
#include <bit>
#include <cmath>
#include <string>

namespace tandem {
namespace {

struct DTypeRow {
  std::string_view name;
  size_t bits;
};

constexpr std::array<DTypeRow, 27> kRows = {{
    {"undefined", 0},      {"float", 32},       {"uint8", 8},          {"int8", 8},
    {"uint16", 16},        {"int16", 16},       {"int32", 32},         {"int64", 64},
    {"string", 0},         {"bool", 8},         {"float16", 16},       {"double", 64},
    {"uint32", 32},        {"uint64", 64},      {"complex64", 64},     {"complex128", 128},
    {"bfloat16", 16},      {"float8e4m3fn", 8}, {"float8e4m3fnuz", 8}, {"float8e5m2", 8},
    {"float8e5m2fnuz", 8}, {"uint4", 4},        {"int4", 4},           {"float4e2m1", 4},
    {"float8e8m0", 8},     {"uint2", 2},        {"int2", 2},
}};

const DTypeRow& Row(DType dtype) { return kRows[static_cast<size_t>(dtype)]; }

}  // namespace

bool IsKnownDType(int32_t onnx_number) {
  return onnx_number > 0 && onnx_number < static_cast<int32_t>(kRows.size());
}

std::string_view DTypeName(DType dtype) { return Row(dtype).name; }

size_t DTypeBits(DType dtype) { return Row(dtype).bits; }

size_t DTypeBytes(DType dtype, int64_t elements) {
  const auto count = static_cast<size_t>(elements);
  if (dtype == DType::kString) return count * sizeof(std::string);
  return (count * DTypeBits(dtype) + 7) / 8;
}

bool IsFloating(DType dtype) {
  return dtype == DType::kFloat || dtype == DType::kDouble || dtype == DType::kFloat16 ||
         dtype == DType::kBfloat16;
}

bool IsInteger(DType dtype) {
  return (dtype >= DType::kUint8 && dtype <= DType::kInt64) || dtype == DType::kUint32 ||
         dtype == DType::kUint64;
}

float ToFloat(Float16 value) {
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000u) << 16;
  const uint32_t exponent = (value.bits >> 10) & 0x1Fu;
  const uint32_t mantissa = value.bits & 0x3FFu;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000u | (mantissa << 13));
  if (exponent != 0) {
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  }
  const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
  return sign != 0 ? -magnitude : magnitude;
}

float ToFloat(Bfloat16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

Float16 ToFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) {
    return {static_cast<uint16_t>(sign | 0x7E00u | ((magnitude >> 13) & 0x3FFu))};
  }
  if (magnitude >= 0x47800000u) return {static_cast<uint16_t>(sign | 0x7C00u)};
  if (magnitude < 0x38800000u) {  // Becomes a denormal of float16, a multiple of 2^-24.
    const float scaled = std::bit_cast<float>(magnitude) * 16777216.0f;
    return {static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(scaled)))};
  }
  const uint32_t rounded = magnitude + 0xFFFu + ((magnitude >> 13) & 1u);
  return {static_cast<uint16_t>(sign | ((rounded >> 13) - (112u << 10)))};
}

Bfloat16 ToBfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16)};
}

}  // namespace tandem
