// How exactly products of float32 are computed.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/base/cpu.h"
#include "engine/base/status.h"

namespace tandem {

// Large products run as sums of bfloat16 products on CPUs with AMX; convolutions that run as
// float32 multiply-adds may be filtered minimally (Winograd). All others are plain. The errors are
// the largest ones over an output, as a share of its largest element.
enum class Precision : uint8_t {
  kF32Plain,   // float32 multiply-adds, as many as the definition has
  kF32,        // three products of bfloat16 parts, or minimal filtering: within 1e-5
  kF32Strict,  // six products: no worse than plain float32
  kBf16,       // one product of operands that are rounded to bfloat16, or minimal filtering
};

// "f32_plain", "f32", "f32_strict", "bf16".
std::string_view PrecisionName(Precision precision);

// The names that exist, for messages.
inline constexpr std::string_view kPrecisionNames = "f32_plain, f32, f32_strict or bf16";

// The inverse of PrecisionName; InvalidArgument names the text and the names that exist.
StatusOr<Precision> ParsePrecision(std::string_view name);

// What the right side of a product is kept as.
enum class Weights : uint8_t {
  kFloats,
  kBytes,  // integers with a scale and a zero point for each column; computed as float32
};

// What decides which kernel computes a product, besides its extents.
struct Arithmetic {
  Isa isa = Isa::kReference;
  Precision precision = Precision::kF32Plain;
  Weights weights = Weights::kFloats;
};

}  // namespace tandem
