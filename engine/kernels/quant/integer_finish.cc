// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/quant/integer_finish.cc"
#include <cstring>
#include "hwy/foreach_target.h"  // before every other Highway header
#include "engine/kernels/quant/integer_finish.h"
#include "engine/kernels/quant/requantize-inl.h"
#include "engine/kernels/simd.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D32 = hn::ScalableTag<int32_t>;
using V32 = hn::Vec<D32>;
constexpr int64_t kLanes = HWY_LANES(int32_t);
static_assert(kLanes <= kColumnSlack);

// Sums of one vector of columns, exact.
class Columns {
 public:
  Columns(const IntegerSums& sums, int64_t column)
      : sums_(sums), column_(column), base_(hn::LoadU(D32(), sums.base + column)) {}

  HWY_INLINE V32 At(int row) const {
    const D32 d;
    V32 sum = hn::Add(hn::LoadU(d, sums_.sums + row * sums_.sums_stride + column_), base_);
    if (sums_.zeros != nullptr) {
      const V32 zeros = hn::LoadU(d, sums_.zeros + column_);
      sum = hn::Add(sum, hn::Mul(hn::Set(d, sums_.row_terms[row]), zeros));
    }
    if (sums_.column_sums != nullptr) {
      const V32 column_sums = hn::LoadU(d, sums_.column_sums + column_);
      sum = hn::Sub(sum, hn::Mul(hn::Set(d, sums_.row_zeros[row]), column_sums));
    }
    return sum;
  }

 private:
  const IntegerSums& sums_;
  int64_t column_;
  V32 base_;
};

// Calls store(row, to) for each row of a vector of columns; `to` is the result, or a copy of so
// much of it as there is.
template <typename T, typename Store>
HWY_INLINE void ForRows(const IntegerSums& sums, int64_t column, const Store& store) {
  T* y = static_cast<T*>(sums.y) + column;
  const int64_t count = HWY_MIN(kLanes, sums.columns - column);
  for (int row = 0; row < sums.rows; ++row, y += sums.y_stride) {
    if (count == kLanes) {
      store(row, y);
    } else {
      HWY_ALIGN T last[kLanes];
      store(row, last);
      std::memcpy(y, last, static_cast<size_t>(count) * sizeof(T));
    }
  }
}

void FinishSums(const IntegerSums& sums) {
  for (int64_t column = 0; column < sums.columns; column += kLanes) {
    const Columns columns(sums, column);
    ForRows<int32_t>(sums, column, [&](int row, int32_t* to) HWY_ATTR {
      hn::StoreU(columns.At(row), D32(), to);
    });
  }
}

template <typename T>
void FinishBytes(const IntegerSums& sums) {
  const hn::ScalableTag<float> df;
  const hn::Rebind<T, D32> bytes;
  const Rounding round(sums.zero_point, sums.low, sums.high);
  for (int64_t column = 0; column < sums.columns; column += kLanes) {
    const Columns columns(sums, column);
    const auto multipliers = hn::LoadU(df, sums.multipliers + column);
    ForRows<T>(sums, column, [&](int row, T* to) HWY_ATTR {
      const auto scaled = hn::Mul(hn::ConvertTo(df, columns.At(row)), multipliers);
      hn::StoreU(hn::DemoteTo(bytes, round(scaled)), bytes, to);
    });
  }
}

FinishIntegerSums FindFinish(DType y) {
  switch (y) {
    case DType::kInt8:
      return FinishBytes<int8_t>;
    case DType::kUint8:
      return FinishBytes<uint8_t>;
    default:
      return FinishSums;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels {

HWY_EXPORT(FindFinish);

FinishIntegerSums FinishIntegerSumsFor(Isa isa, DType y, MultiplierRange multipliers) {
  const bool bytes = y != DType::kInt32 && multipliers == MultiplierRange::kFinite;
  if (bytes && isa >= Isa::kVnni) return FinishBytesVnni(y);
  return TANDEM_DISPATCH(isa, FindFinish)(y);
}

}  // namespace tandem::kernels
#endif  // HWY_ONCE
