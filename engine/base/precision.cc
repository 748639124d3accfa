#include "engine/base/precision.h"

#include <array>

namespace tandem {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"f32_plain", "f32", "f32_strict", "bf16"};

}  // namespace

std::string_view PrecisionName(Precision precision) {
  return kNames[static_cast<size_t>(precision)];
}

StatusOr<Precision> ParsePrecision(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<Precision>(i);
  }
  return InvalidArgument("'{}' came; {} was expected", name, kPrecisionNames);
}

}  // namespace tandem
