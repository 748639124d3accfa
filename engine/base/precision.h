// How exactly products of float32 are computed.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/base/cpu.h"
#include "engine/base/status.h"

namespace tandem {

// Matters on CPUs with AMX, which multiply bfloat16, and there for large products only: all others
// are plain. The errors are the largest ones over an output, as a share of its largest element.
enum class Precision : uint8_t {
  kF32Plain,   // float32 multiply-adds
  kF32,        // three products of bfloat16 parts: within 1e-5
  kF32Strict,  // six products: no worse than plain float32
  kBf16,       // one product of operands that are rounded to bfloat16
};

// "f32_plain", "f32", "f32_strict", "bf16".
std::string_view PrecisionName(Precision precision);

// The inverse of PrecisionName; InvalidArgument names the text and the names that exist.
StatusOr<Precision> ParsePrecision(std::string_view name);

// What decides which kernel computes a product, besides its extents.
struct Arithmetic {
  Isa isa = Isa::kReference;
  Precision precision = Precision::kF32Plain;
};

}  // namespace tandem
