// What one core can do at most: arithmetic on registers, and moving memory. Measured by running it
// for a twentieth of a second, the best of several tries.
#pragma once

#include <cstddef>

#include "engine/base/cpu.h"

namespace tandem::loadtest {

// Arithmetic is that of `isa`, or of the machine's highest level below it, in 10^9 operations a
// second, of which a multiply-add counts as two.

// Of float32: AVX-512; AVX2 with FMA; below, SSE2, which multiplies and then adds.
double PeakGflops(Isa isa);

// Of 8-bit integers, added up in int32: dot products of AVX-512 VNNI. Below, the integers are
// widened to 16 bits first, and only their products are counted: those of AVX-512, AVX2 and SSE2.
double PeakGops(Isa isa);

// Memory is so many neighbouring bytes, which are gone through again and again: they come from the
// level of memory that they fit, in 10^9 bytes a second.
inline constexpr size_t kBytesInL2 = size_t{256} << 10;
inline constexpr size_t kBytesInMemory = size_t{512} << 20;  // beyond the last cache

double PeakRead(size_t bytes);
// One half is copied to the other; what is read and what is written both count.
double PeakCopy(size_t bytes);

}  // namespace tandem::loadtest
