#include "loadtest/peak.h"

#include <benchmark/benchmark.h>
#include <immintrin.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <span>

#include "engine/base/arena.h"

namespace tandem::loadtest {
namespace {

// The best of several tries of `body`, in 10^9 of what one does `amount` of a second.
template <typename Body>
double BestRate(double amount, const Body& body) {
  using Clock = std::chrono::steady_clock;
  constexpr int kTries = 5;
  constexpr std::chrono::milliseconds kTime{50};
  const Clock::time_point begin = Clock::now();
  double best = 0;
  for (int i = 0; i < kTries || Clock::now() - begin < kTime; ++i) {
    const Clock::time_point start = Clock::now();
    body();
    const std::chrono::duration<double, std::nano> time = Clock::now() - start;
    best = std::max(best, amount / time.count());
  }
  return best;
}

// Sums that do not depend on each other, as many as hide the latency of a multiply-add and fit the
// registers with their operands. A round takes a step of each.
constexpr int kSums = 12;

#define TANDEM_MULTIPLY_ADDS(Name, instructions, Vector, Start, Step, Add)                     \
  __attribute__((target(instructions))) void Name(int64_t rounds) {                            \
    Vector sums[kSums];                                                                        \
    _Pragma("GCC unroll 16") for (int j = 0; j < kSums; ++j) sums[j] = Start(j);               \
    Vector x = Start(1);                                                                       \
    benchmark::DoNotOptimize(x);                                                               \
    for (int64_t i = 0; i < rounds; ++i) {                                                     \
      _Pragma("GCC unroll 16") for (int j = 0; j < kSums; ++j) { sums[j] = Step(sums[j], x); } \
    }                                                                                          \
    Vector total = sums[0];                                                                    \
    _Pragma("GCC unroll 16") for (int j = 1; j < kSums; ++j) { total = Add(total, sums[j]); }  \
    benchmark::DoNotOptimize(total);                                                           \
  }

#define TANDEM_FMA_512(sum, x) _mm512_fmadd_ps(sum, x, x)
#define TANDEM_FMA_256(sum, x) _mm256_fmadd_ps(sum, x, x)
#define TANDEM_MUL_ADD_128(sum, x) _mm_add_ps(_mm_mul_ps(sum, x), x)
TANDEM_MULTIPLY_ADDS(Floats512, "avx512f", __m512, _mm512_set1_ps, TANDEM_FMA_512, _mm512_add_ps)
TANDEM_MULTIPLY_ADDS(Floats256, "avx2,fma", __m256, _mm256_set1_ps, TANDEM_FMA_256, _mm256_add_ps)
TANDEM_MULTIPLY_ADDS(Floats128, "sse2", __m128, _mm_set1_ps, TANDEM_MUL_ADD_128, _mm_add_ps)

#define TANDEM_DOT_512(sum, x) _mm512_dpbusd_epi32(sum, x, x)
#define TANDEM_PAIRS_512(sum, x) _mm512_add_epi32(sum, _mm512_madd_epi16(sum, x))
#define TANDEM_PAIRS_256(sum, x) _mm256_add_epi32(sum, _mm256_madd_epi16(sum, x))
#define TANDEM_PAIRS_128(sum, x) _mm_add_epi32(sum, _mm_madd_epi16(sum, x))
TANDEM_MULTIPLY_ADDS(Bytes512, "avx512f,avx512vnni", __m512i, _mm512_set1_epi8, TANDEM_DOT_512,
                     _mm512_add_epi32)
TANDEM_MULTIPLY_ADDS(Pairs512, "avx512f,avx512bw", __m512i, _mm512_set1_epi16, TANDEM_PAIRS_512,
                     _mm512_add_epi32)
TANDEM_MULTIPLY_ADDS(Pairs256, "avx2", __m256i, _mm256_set1_epi16, TANDEM_PAIRS_256,
                     _mm256_add_epi32)
TANDEM_MULTIPLY_ADDS(Pairs128, "sse2", __m128i, _mm_set1_epi16, TANDEM_PAIRS_128, _mm_add_epi32)

// `lanes` multiply-adds a step.
double PeakOf(void (*multiply_adds)(int64_t rounds), int lanes) {
  constexpr int64_t kRounds = 50000;
  return BestRate(2.0 * kRounds * kSums * lanes, [=] { multiply_adds(kRounds); });
}

// Inlined into a function for an instruction set, it has that one's registers.
template <typename Vector>
__attribute__((always_inline)) inline void ReadAll(std::span<const std::byte> bytes) {
  constexpr size_t kVectors = 8;
  Vector sums[kVectors] = {};
  for (size_t i = 0; i + sizeof(sums) <= bytes.size(); i += sizeof(sums)) {
    const auto* vectors = reinterpret_cast<const Vector*>(bytes.data() + i);
#pragma GCC unroll 8
    for (size_t j = 0; j < kVectors; ++j) sums[j] ^= vectors[j];
  }
  for (Vector& sum : sums) benchmark::DoNotOptimize(sum);
}

using Vector512 = uint64_t __attribute__((vector_size(64)));
using Vector256 = uint64_t __attribute__((vector_size(32)));
using Vector128 = uint64_t __attribute__((vector_size(16)));
__attribute__((target("avx512f"))) void Read512(std::span<const std::byte> bytes) {
  ReadAll<Vector512>(bytes);
}
__attribute__((target("avx2"))) void Read256(std::span<const std::byte> bytes) {
  ReadAll<Vector256>(bytes);
}
void Read128(std::span<const std::byte> bytes) { ReadAll<Vector128>(bytes); }

// The rate at which `body` goes through memory of so many bytes, rounded up to whole blocks.
template <typename Body>
double RateOf(size_t bytes, const Body& body) {
  constexpr size_t kBlock = 1024;
  constexpr size_t kBytesOfTry = size_t{4} << 20;
  Buffer memory = *Buffer::Allocate(std::max<size_t>(1, (bytes + kBlock - 1) / kBlock) * kBlock);
  std::memset(memory.data(), 1, memory.size());
  const size_t times = std::max<size_t>(1, kBytesOfTry / memory.size());
  return BestRate(static_cast<double>(memory.size() * times), [&] {
    for (size_t i = 0; i < times; ++i) body(memory.bytes());
  });
}

}  // namespace

double PeakGflops(Isa isa) {
  isa = std::min(isa, DetectIsa());
  if (isa >= Isa::kAvx512) return PeakOf(Floats512, 16);
  if (isa >= Isa::kAvx2) return PeakOf(Floats256, 8);
  return PeakOf(Floats128, 4);
}

double PeakGops(Isa isa) {
  isa = std::min(isa, DetectIsa());
  if (isa >= Isa::kVnni) return PeakOf(Bytes512, 64);
  if (isa >= Isa::kAvx512) return PeakOf(Pairs512, 32);
  if (isa >= Isa::kAvx2) return PeakOf(Pairs256, 16);
  return PeakOf(Pairs128, 8);
}

double PeakRead(size_t bytes) {
  const Isa isa = DetectIsa();
  return RateOf(bytes, isa >= Isa::kAvx512 ? Read512 : isa >= Isa::kAvx2 ? Read256 : Read128);
}

double PeakCopy(size_t bytes) {
  return RateOf(bytes, [](std::span<std::byte> memory) {
    const size_t half = memory.size() / 2;
    std::memcpy(memory.data() + half, memory.data(), half);
    benchmark::ClobberMemory();
  });
}

}  // namespace tandem::loadtest
