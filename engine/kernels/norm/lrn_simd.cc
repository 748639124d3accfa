#include <algorithm>

#include "engine/kernels/norm/lrn.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/norm/lrn_simd.cc"
// First of all.
#include "hwy/foreach_target.h"
// After it.
#include "engine/kernels/simd.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// base^beta for the powers that need no logarithm.
enum class Power { kHalf, kThreeQuarters, kOne };

template <Power kPower>
HWY_INLINE V RaisedTo(V base) {
  if constexpr (kPower == Power::kOne) return base;
  const V root = hn::Sqrt(base);
  if constexpr (kPower == Power::kHalf) return root;
  return hn::Mul(root, hn::Sqrt(root));
}

// The constants of a call as vectors.
struct Constants {
  V bias;
  V factor;
  explicit Constants(const Lrn& lrn)
      : bias(hn::Set(D(), lrn.bias)),
        factor(hn::Set(D(), lrn.alpha / static_cast<float>(lrn.size))) {}
};

template <Power kPower>
HWY_INLINE V Normalize(const Constants& constants, V x, V sum) {
  return hn::Div(x, RaisedTo<kPower>(hn::MulAdd(constants.factor, sum, constants.bias)));
}

HWY_INLINE V LoadFirst(const float* from, int64_t n) {
  const D d;
  if (n >= static_cast<int64_t>(hn::Lanes(d))) return hn::LoadU(d, from);
  return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(n)), d, from);
}

HWY_INLINE void StoreFirst(V value, float* to, int64_t n) {
  const D d;
  if (n >= static_cast<int64_t>(hn::Lanes(d))) {
    hn::StoreU(value, d, to);
  } else {
    hn::BlendedStore(value, hn::FirstN(d, static_cast<size_t>(n)), d, to);
  }
}

// Neighbouring places, one a lane: x and y are those of channel 0.
template <Power kPower>
void Places(const Lrn& lrn, const float* x, float* y, int64_t places) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  const Constants constants(lrn);
  for (int64_t c = 0; c < lrn.channels; ++c) {
    const int64_t first = std::max<int64_t>(0, c - lrn.before());
    const int64_t last = std::min(lrn.channels - 1, c + lrn.after());
    for (int64_t i = 0; i < places; i += lanes) {
      const int64_t n = places - i;
      V sum = hn::Zero(D());
      for (int64_t k = first; k <= last; ++k) {
        const V value = LoadFirst(x + k * lrn.inner + i, n);
        sum = hn::MulAdd(value, value, sum);
      }
      const V value = LoadFirst(x + c * lrn.inner + i, n);
      StoreFirst(Normalize<kPower>(constants, value, sum), y + c * lrn.inner + i, n);
    }
  }
}

// Neighbouring channels of one place, one a lane, in pieces with the squares around them.
template <Power kPower>
void Channels(const Lrn& lrn, const float* x, float* y) {
  constexpr int64_t kPiece = 256;
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const Constants constants(lrn);
  float squares[kPiece + kLrnWindow + HWY_MAX_BYTES / sizeof(float)] = {};
  for (int64_t begin = 0; begin < lrn.channels; begin += kPiece) {
    const int64_t count = std::min(kPiece, lrn.channels - begin);
    // squares[j] is that of channel begin - before + j, or 0 beyond the channels.
    for (int64_t j = 0; j < count + lrn.size - 1; ++j) {
      const int64_t k = begin - lrn.before() + j;
      squares[j] = k < 0 || k >= lrn.channels ? 0 : x[k] * x[k];
    }
    for (int64_t c = 0; c < count; c += lanes) {
      V sum = hn::Zero(d);
      for (int64_t j = 0; j < lrn.size; ++j) sum = hn::Add(sum, hn::LoadU(d, squares + c + j));
      const V value = LoadFirst(x + begin + c, count - c);
      StoreFirst(Normalize<kPower>(constants, value, sum), y + begin + c, count - c);
    }
  }
}

template <Power kPower>
void Units(const Lrn& lrn, const void* x, void* y, int64_t begin, int64_t end) {
  const int64_t blocks = (lrn.inner + kLrnColumns - 1) / kLrnColumns;
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t column = unit % blocks * kLrnColumns;
    const int64_t base = unit / blocks * lrn.channels * lrn.inner + column;
    const float* from = static_cast<const float*>(x) + base;
    float* to = static_cast<float*>(y) + base;
    if (lrn.inner == 1) {
      Channels<kPower>(lrn, from, to);
    } else {
      Places<kPower>(lrn, from, to, std::min(kLrnColumns, lrn.inner - column));
    }
  }
}

LrnFunction FindUnits(const Lrn& lrn) {
  if (lrn.size > kLrnWindow) return nullptr;
  if (lrn.beta == 0.5f) return Units<Power::kHalf>;
  if (lrn.beta == 0.75f) return Units<Power::kThreeQuarters>;
  if (lrn.beta == 1.0f) return Units<Power::kOne>;
  return nullptr;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tandem::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels {
HWY_EXPORT(FindUnits);

LrnFunction FindLrnSimd(const Lrn& lrn, Isa isa) { return TANDEM_DISPATCH(isa, FindUnits)(lrn); }

}  // namespace tandem::kernels
#endif  // HWY_ONCE
