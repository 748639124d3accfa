// What one core can do at most: float32 multiply-adds on registers.
#pragma once

#include <cstdint>

namespace tandem::loadtest {

// Floating-point operations of a round, of which a multiply-add counts as two.
inline constexpr double kFlopsOfRound512 = 16 * 16 * 2;
// Runs on AVX-512.
void MultiplyAdds512(int64_t rounds);

// Measured in some milliseconds, in 10^9 operations a second; 0 without AVX-512.
double PeakGflops();

}  // namespace tandem::loadtest
