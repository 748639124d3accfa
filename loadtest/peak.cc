#include "loadtest/peak.h"

#include <benchmark/benchmark.h>
#include <immintrin.h>

#include <algorithm>
#include <chrono>

namespace tandem::loadtest {

__attribute__((target("avx512f"))) void MultiplyAdds512(int64_t rounds) {
  __m512 sums[16];
#pragma GCC unroll 16
  for (int j = 0; j < 16; ++j) sums[j] = _mm512_set1_ps(static_cast<float>(j));
  const __m512 x = _mm512_set1_ps(0.5f);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 16
    for (int j = 0; j < 16; ++j) sums[j] = _mm512_fmadd_ps(sums[j], x, x);
  }
  __m512 total = sums[0];
#pragma GCC unroll 16
  for (int j = 1; j < 16; ++j) total = _mm512_add_ps(total, sums[j]);
  benchmark::DoNotOptimize(total);
}

double PeakGflops() {
  if (__builtin_cpu_supports("avx512f") == 0) return 0;
  constexpr int kTries = 20;
  constexpr int64_t kRounds = 20000;
  double peak = 0;
  for (int i = 0; i < kTries; ++i) {
    const auto start = std::chrono::steady_clock::now();
    MultiplyAdds512(kRounds);
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
    peak = std::max(peak, kFlopsOfRound512 * kRounds / time.count());
  }
  return peak;
}

}  // namespace tandem::loadtest
