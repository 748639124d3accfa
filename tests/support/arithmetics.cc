#include "tests/support/arithmetics.h"

#include <fmt/format.h>

namespace tandem::test {

std::vector<Arithmetic> Arithmetics() {
  std::vector<Arithmetic> list;
  for (const Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    if (isa <= DetectIsa()) list.push_back({isa});
  }
  if (DetectIsa() < Isa::kAmx) return list;
  for (const Precision precision : {Precision::kF32, Precision::kF32Strict, Precision::kBf16}) {
    list.push_back({Isa::kAmx, precision});
  }
  return list;
}

std::string NameOf(const Arithmetic& arithmetic) {
  return fmt::format("{} {}", IsaName(arithmetic.isa), PrecisionName(arithmetic.precision));
}

Tolerance ToleranceOf(const Arithmetic& arithmetic, int64_t k) {
  switch (arithmetic.precision) {
    case Precision::kF32Plain:
    case Precision::kF32Strict:
      break;
    case Precision::kF32:
      return OfScale(1e-5);
    case Precision::kBf16:
      return OfScale(0x1p-7);
  }
  return Reduction(k);
}

}  // namespace tandem::test
