// Choosing one of the versions that Highway compiled, by the Isa the caller names rather than by
// Highway's process-wide switch. Include after hwy/highway.h, in the HWY_ONCE part of a file:
//
//   HWY_EXPORT(AddRow);
//   void Add(Isa isa, ...) { TANDEM_DISPATCH(isa, AddRow)(...); }
#pragma once

#include "engine/base/cpu.h"
#include "hwy/highway.h"

namespace tandem::kernels {

// Bits of Highway's targets that `isa` allows.
inline int64_t AllowedTargets(Isa isa) {
  int64_t targets = 0;
  if (isa >= Isa::kAvx2) targets |= HWY_AVX2;
  if (isa >= Isa::kAvx512) targets |= HWY_AVX3;
  return targets;
}

// Index into a table made by HWY_EXPORT, of the best version that was compiled and is allowed.
inline size_t DispatchIndex(Isa isa, int64_t compiled_mask) {
  const int64_t allowed =
      HWY_CHOSEN_TARGET_SHIFT(AllowedTargets(isa)) | HWY_CHOSEN_TARGET_MASK_SCALAR;
  return hwy::Num0BitsBelowLS1Bit_Nonzero64(static_cast<uint64_t>(allowed & compiled_mask));
}

}  // namespace tandem::kernels

// Before a loop with a constant trip count that must be unrolled for its arrays to stay in
// registers.
#if defined(__clang__)
#define TANDEM_UNROLL _Pragma("clang loop unroll(full)")
#else
#define TANDEM_UNROLL _Pragma("GCC unroll 16")
#endif

// Behind the parameters of a lambda in per-target code that must not become a call: the arrays of
// vectors that it captures would lie in memory.
#define TANDEM_INLINE_LAMBDA HWY_ATTR __attribute__((always_inline))

#define TANDEM_DISPATCH(isa, function) \
  (*(HWY_DISPATCH_TABLE(               \
      function)[::tandem::kernels::DispatchIndex((isa), HWY_CHOSEN_TARGET_MASK_TARGETS)]))
