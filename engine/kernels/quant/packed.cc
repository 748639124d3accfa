#include "engine/kernels/quant/packed.h"

#include <algorithm>

namespace tandem::kernels {
namespace {

bool IsSigned(DType dtype) { return dtype == DType::kInt4 || dtype == DType::kInt2; }

}  // namespace

DType UnpackedType(DType dtype) {
  switch (dtype) {
    case DType::kInt4:
    case DType::kInt2:
      return DType::kInt8;
    case DType::kUint4:
    case DType::kUint2:
      return DType::kUint8;
    default:
      return dtype;
  }
}

void UnpackBits(DType dtype, const void* packed, int64_t n, void* bytes) {
  const auto bits = static_cast<int64_t>(DTypeBits(dtype));
  const int64_t per_byte = 8 / bits;
  const unsigned mask = (1U << bits) - 1;
  const unsigned sign = IsSigned(dtype) ? 1U << (bits - 1) : 0;
  const auto* from = static_cast<const uint8_t*>(packed);
  auto* to = static_cast<uint8_t*>(bytes);
  for (int64_t i = 0; i < n; ++i) {
    const unsigned value = from[i / per_byte] >> (i % per_byte * bits) & mask;
    to[i] = static_cast<uint8_t>((value ^ sign) - sign);
  }
}

void PackBits(DType dtype, const void* bytes, int64_t n, void* packed) {
  const auto bits = static_cast<int64_t>(DTypeBits(dtype));
  const int64_t per_byte = 8 / bits;
  const int low = IsSigned(dtype) ? -(1 << (bits - 1)) : 0;
  const int high = low + (1 << bits) - 1;
  auto* to = static_cast<uint8_t*>(packed);
  std::fill_n(to, DTypeBytes(dtype, n), uint8_t{0});
  for (int64_t i = 0; i < n; ++i) {
    const int value = IsSigned(dtype) ? static_cast<const int8_t*>(bytes)[i]
                                      : static_cast<const uint8_t*>(bytes)[i];
    const int kept = std::clamp(value, low, high) & (high - low);
    to[i / per_byte] |= static_cast<uint8_t>(kept << (i % per_byte * bits));
  }
}

}  // namespace tandem::kernels
