#include "engine/kernels/quant/integer.h"

#include <algorithm>

#include "engine/kernels/quant/quantize.h"

namespace tandem::kernels {
namespace {

constexpr int64_t kGrainMultiplyAdds = int64_t{1} << 15;
constexpr int64_t kPiece = 1024;  // elements of a sum, on the stack

// Calls function(T{}) with the type of the elements.
template <typename Function>
void WithByte(DType dtype, const Function& function) {
  if (dtype == DType::kInt8) {
    function(int8_t{});
  } else {
    function(uint8_t{});
  }
}

// The element at `i` without its zero point, which is the one at `z`.
template <typename T>
int32_t Centred(const QuantizedOperand& operand, int64_t i, int64_t z) {
  const T* zero_points = static_cast<const T*>(operand.zero_points);
  const int32_t zero = zero_points == nullptr ? 0 : zero_points[z * operand.zero_point_step];
  return static_cast<const T*>(operand.data)[i] - zero;
}

int32_t Add(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
}

// Columns [first, first + n) of row m of y, n <= kPiece.
template <typename A, typename B>
void GemmPiece(const IntegerGemmShape& shape, const QuantizedOperand& a, const QuantizedOperand& b,
               int64_t m, int64_t first, int32_t* y) {
  const int64_t n = std::min(kPiece, shape.n - first);
  int32_t sums[kPiece] = {};
  int32_t zeros[kPiece] = {};
  const B* zero_points = static_cast<const B*>(b.zero_points);
  for (int64_t j = 0; zero_points != nullptr && j < n; ++j) {
    zeros[j] = zero_points[(first + j) * b.zero_point_step];
  }
  for (int64_t k = 0; k < shape.k; ++k) {
    const int32_t left = Centred<A>(a, m * shape.k + k, m);
    const B* right = static_cast<const B*>(b.data) + k * shape.n + first;
    for (int64_t j = 0; j < n; ++j) sums[j] = Add(sums[j], left * (right[j] - zeros[j]));
  }
  std::copy_n(sums, n, y + m * shape.n + first);
}

// What an output pixel of one group reads of x.
class Patch {
 public:
  Patch(const ConvGeometry& geometry, const QuantizedOperand& x, int64_t item, int64_t group)
      : geometry_(geometry),
        x_(x),
        first_channel_((item * geometry.group + group) * geometry.in_per_group()) {}

  void MoveTo(int64_t pixel) {
    for (int i = kConvAxes - 1; i >= 0; --i) {
      const WindowAxis& axis = geometry_.axes[static_cast<size_t>(i)];
      start_[i] = pixel % axis.out * axis.stride - axis.pad_begin;
      pixel /= axis.out;
    }
  }

  // Element `k` of the filter's order: channel, then taps.
  template <typename T>
  int32_t At(int64_t k) const {
    int64_t tap = k % geometry_.taps();
    int64_t place = first_channel_ + k / geometry_.taps();
    int64_t at[kConvAxes];
    for (int i = kConvAxes - 1; i >= 0; --i) {
      const WindowAxis& axis = geometry_.axes[static_cast<size_t>(i)];
      at[i] = start_[i] + tap % axis.kernel * axis.dilation;
      if (at[i] < 0 || at[i] >= axis.in) return 0;
      tap /= axis.kernel;
    }
    for (int i = 0; i < kConvAxes; ++i) {
      place = place * geometry_.axes[static_cast<size_t>(i)].in + at[i];
    }
    return Centred<T>(x_, place, 0);
  }

 private:
  const ConvGeometry& geometry_;
  const QuantizedOperand& x_;
  int64_t first_channel_;
  int64_t start_[kConvAxes] = {};
};

// All filters of one group at one output pixel.
template <typename X, typename W>
void ConvPixel(const ConvGeometry& geometry, const Patch& patch, const QuantizedOperand& w,
               int64_t group, int32_t* y) {
  const int64_t filter = geometry.in_per_group() * geometry.taps();
  const int64_t pixels = geometry.out_pixels();
  int32_t inputs[kPiece];
  for (int64_t m = 0; m < geometry.out_per_group(); ++m) y[m * pixels] = 0;
  for (int64_t first = 0; first < filter; first += kPiece) {
    const int64_t count = std::min(kPiece, filter - first);
    for (int64_t k = 0; k < count; ++k) inputs[k] = patch.At<X>(first + k);
    for (int64_t m = 0; m < geometry.out_per_group(); ++m) {
      const int64_t channel = group * geometry.out_per_group() + m;
      int32_t sum = 0;
      for (int64_t k = 0; k < count; ++k) {
        sum = Add(sum, inputs[k] * Centred<W>(w, channel * filter + first + k, channel));
      }
      y[m * pixels] = Add(y[m * pixels], sum);
    }
  }
}

}  // namespace

void IntegerGemm(const IntegerGemmShape& shape, const QuantizedOperand& a,
                 const QuantizedOperand& b, int32_t* y, const Parallel& parallel) {
  const int64_t pieces = (shape.n + kPiece - 1) / kPiece;
  const int64_t work = std::max<int64_t>(1, std::min(kPiece, shape.n) * shape.k);
  const int64_t grain = std::max<int64_t>(1, kGrainMultiplyAdds / work);
  WithByte(a.dtype, [&](auto left) {
    WithByte(b.dtype, [&](auto right) {
      parallel.For(shape.m * pieces, grain, [&](int64_t begin, int64_t end) {
        for (int64_t unit = begin; unit < end; ++unit) {
          GemmPiece<decltype(left), decltype(right)>(shape, a, b, unit / pieces,
                                                     unit % pieces * kPiece, y);
        }
      });
    });
  });
}

void IntegerConv(const ConvGeometry& geometry, const QuantizedOperand& x, const QuantizedOperand& w,
                 int32_t* y, const Parallel& parallel) {
  const int64_t pixels = geometry.out_pixels();
  const int64_t work =
      std::max<int64_t>(1, geometry.out_per_group() * geometry.in_per_group() * geometry.taps());
  const int64_t grain = std::max<int64_t>(1, kGrainMultiplyAdds / work);
  WithByte(x.dtype, [&](auto input) {
    WithByte(w.dtype, [&](auto weight) {
      parallel.For(geometry.batch * geometry.group * pixels, grain,
                   [&](int64_t begin, int64_t end) {
                     for (int64_t unit = begin; unit < end; ++unit) {
                       const int64_t plane = unit / pixels;
                       const int64_t group = plane % geometry.group;
                       Patch patch(geometry, x, plane / geometry.group, group);
                       patch.MoveTo(unit % pixels);
                       ConvPixel<decltype(input), decltype(weight)>(
                           geometry, patch, w, group,
                           y + plane * geometry.out_per_group() * pixels + unit % pixels);
                     }
                   });
    });
  });
}

void Requantize(const RequantizeRow& row, const void* zero_point, DType dtype, void* y) {
  WithByte(dtype, [&](auto byte) {
    using T = decltype(byte);
    const T zero = *static_cast<const T*>(zero_point);
    for (int64_t i = 0; i < row.n; ++i) {
      const int32_t bias = row.bias == nullptr ? 0 : row.bias[i * row.bias_step];
      const float scaled =
          static_cast<float>(Add(row.sums[i], bias)) * row.multipliers[i * row.multiplier_step];
      static_cast<T*>(y)[i] = Saturate<T>(static_cast<double>(scaled), zero);
    }
  });
}

}  // namespace tandem::kernels
