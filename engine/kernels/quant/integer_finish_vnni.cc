// Rows of sums to bytes on AVX-512: 64 columns at a time, packed with saturation on their way.
#include "engine/kernels/quant/integer_finish.h"
#include "engine/kernels/quant/vnni.h"
#include "engine/kernels/simd.h"

namespace tandem::kernels {
namespace {

constexpr int64_t kColumns = 64;
constexpr int kVectors = 4;
constexpr int64_t kLanes = 16;
static_assert(kColumns <= kColumnSlack);

// What a vector of columns has.
struct Vector {
  __m512i base;
  __m512 multipliers;
};

TANDEM_VNNI inline __m512i Load(const int32_t* from) { return _mm512_loadu_si512(from); }

// The exact sums of one row and one vector of columns.
TANDEM_VNNI inline __m512i Exact(const IntegerSums& sums, __m512i base, int row, int64_t column) {
  __m512i sum = _mm512_add_epi32(Load(sums.sums + row * sums.sums_stride + column), base);
  if (sums.zeros != nullptr) {
    const __m512i term = _mm512_set1_epi32(sums.row_terms[row]);
    sum = _mm512_add_epi32(sum, _mm512_mullo_epi32(term, Load(sums.zeros + column)));
  }
  if (sums.column_sums != nullptr) {
    const __m512i zero = _mm512_set1_epi32(sums.row_zeros[row]);
    sum = _mm512_sub_epi32(sum, _mm512_mullo_epi32(zero, Load(sums.column_sums + column)));
  }
  return sum;
}

template <DType kY>
TANDEM_VNNI void FinishColumns(const IntegerSums& sums, int64_t column) {
  // Of the blocks that packing takes in turns.
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const BytePacking packing(sums.zero_point, sums.low, sums.high);
  const __mmask64 mask = FirstBytes(sums.columns - column);
  Vector vectors[kVectors];
  TANDEM_UNROLL
  for (int j = 0; j < kVectors; ++j) {
    vectors[j].base = Load(sums.base + column + j * kLanes);
    vectors[j].multipliers = _mm512_loadu_ps(sums.multipliers + column + j * kLanes);
  }
  auto* y = static_cast<std::byte*>(sums.y) + column;
  for (int row = 0; row < sums.rows; ++row, y += sums.y_stride) {
    __m512i words[kVectors];
    TANDEM_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      const __m512i sum = Exact(sums, vectors[j].base, row, column + j * kLanes);
      words[j] = BytePacking::Rounded(sum, vectors[j].multipliers);
    }
    const __m512i bytes = packing.Pack<kY>(words);
    _mm512_mask_storeu_epi8(y, mask, _mm512_permutexvar_epi32(order, bytes));
  }
}

template <DType kY>
void FinishBytes(const IntegerSums& sums) {
  for (int64_t column = 0; column < sums.columns; column += kColumns) {
    FinishColumns<kY>(sums, column);
  }
}

}  // namespace

FinishIntegerSums FinishBytesVnni(DType y) {
  return y == DType::kUint8 ? &FinishBytes<DType::kUint8> : &FinishBytes<DType::kInt8>;
}

}  // namespace tandem::kernels
