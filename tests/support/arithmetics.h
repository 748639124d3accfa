// The kernels of float32 products that this machine has, for tests that hold for each of them.
#pragma once

#include <string>
#include <vector>

#include "engine/base/precision.h"
#include "tests/support/compare.h"

namespace tandem::test {

// float32 multiply-adds at every level, and every sum of bfloat16 products where there is AMX.
std::vector<Arithmetic> Arithmetics();

// "avx512 f32_plain".
std::string NameOf(const Arithmetic& arithmetic);

// Of a sum of k products that `arithmetic` computes, as engine/base/precision.h states it.
Tolerance ToleranceOf(const Arithmetic& arithmetic, int64_t k);

}  // namespace tandem::test
