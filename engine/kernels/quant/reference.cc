#include <algorithm>

#include "engine/kernels/quant/integer.h"
#include "engine/kernels/quant/quantize.h"

namespace tandem::kernels {
namespace {

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

int32_t Add(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
}

// What an output pixel reads of x.
class Window {
 public:
  Window(const ConvGeometry& geometry, const QuantizedOperand& x, int64_t row)
      : geometry_(geometry), x_(x) {
    for (int i = kConvAxes - 1; i >= 0; --i) {
      const WindowAxis& axis = geometry_.axes[static_cast<size_t>(i)];
      start_[i] = row % axis.out * axis.stride - axis.pad_begin;
      row /= axis.out;
    }
    item_ = row;
  }

  // Element `k` of the filter's order, channel, then taps, of a group without its zero point.
  template <typename T>
  int32_t At(int64_t group, int64_t k) const {
    int64_t tap = k % geometry_.taps();
    int64_t at[kConvAxes];
    for (int i = kConvAxes - 1; i >= 0; --i) {
      const WindowAxis& axis = geometry_.axes[static_cast<size_t>(i)];
      at[i] = start_[i] + tap % axis.kernel * axis.dilation;
      if (at[i] < 0 || at[i] >= axis.in) return 0;
      tap /= axis.kernel;
    }
    int64_t pixel = item_;
    for (int i = 0; i < kConvAxes; ++i) {
      pixel = pixel * geometry_.axes[static_cast<size_t>(i)].in + at[i];
    }
    const int64_t channel = group * geometry_.in_per_group() + k / geometry_.taps();
    const T* x = static_cast<const T*>(x_.data) + pixel * geometry_.in_channels;
    return x[channel] - ZeroPointOf(x_, item_);
  }

 private:
  const ConvGeometry& geometry_;
  const QuantizedOperand& x_;
  int64_t item_;
  int64_t start_[kConvAxes] = {};
};

void Store(const IntegerResult& result, int64_t channel, int64_t place, int32_t sum) {
  if (result.bias != nullptr) sum = Add(sum, result.bias[channel]);
  if (result.dtype == DType::kInt32) {
    static_cast<int32_t*>(result.y)[place] = sum;
    return;
  }
  WithByte(result.dtype, [&](auto byte) {
    using T = decltype(byte);
    const float scaled = static_cast<float>(sum) * result.multipliers[channel];
    const T y = Saturate<T>(static_cast<double>(scaled), static_cast<T>(result.zero_point));
    static_cast<T*>(result.y)[place] =
        static_cast<T>(std::clamp<int32_t>(y, result.low, result.high));
  });
}

// All filters of one group at one output pixel.
template <typename X, typename W>
void ConvPixel(const ConvGeometry& geometry, const IntegerConvData& data, int64_t row,
               int64_t group) {
  const Window window(geometry, data.x, row);
  const int64_t filter = geometry.in_per_group() * geometry.taps();
  int32_t inputs[kPiece];
  for (int64_t m = 0; m < geometry.out_per_group(); ++m) {
    const int64_t channel = group * geometry.out_per_group() + m;
    const W* w = static_cast<const W*>(data.w.data) + channel * filter;
    const int32_t zero = ZeroPointOf(data.w, channel);
    int32_t sum = 0;
    for (int64_t first = 0; first < filter; first += kPiece) {
      const int64_t count = std::min(kPiece, filter - first);
      // One piece serves all filters.
      if (m == 0 || filter > kPiece) {
        for (int64_t k = 0; k < count; ++k) inputs[k] = window.At<X>(group, first + k);
      }
      for (int64_t k = 0; k < count; ++k) sum = Add(sum, inputs[k] * (w[first + k] - zero));
    }
    Store(data.result, channel, row * geometry.out_channels + channel, sum);
  }
}

}  // namespace

int32_t ZeroPointOf(const QuantizedOperand& operand, int64_t i) {
  if (operand.zero_points == nullptr) return 0;
  int32_t zero = 0;
  WithByte(operand.dtype, [&](auto byte) {
    using T = decltype(byte);
    zero = static_cast<const T*>(operand.zero_points)[i * operand.zero_point_step];
  });
  return zero;
}

ConvGeometry ProductGeometry(int64_t m, int64_t n, int64_t k) {
  ConvGeometry geometry;
  geometry.batch = m;
  geometry.in_channels = k;
  geometry.out_channels = n;
  geometry.axes = PadAxes({});
  return geometry;
}

void IntegerConvReference(const ConvGeometry& geometry, const IntegerConvData& data,
                          const Parallel& parallel) {
  const int64_t work = geometry.out_per_group() * geometry.in_per_group() * geometry.taps();
  const int64_t grain = GrainOf(kGrainSlowElements, work);
  WithByte(data.x.dtype, [&](auto input) {
    WithByte(data.w.dtype, [&](auto weight) {
      parallel.For(geometry.batch * geometry.out_pixels() * geometry.group, grain,
                   [&](int64_t begin, int64_t end) {
                     for (int64_t unit = begin; unit < end; ++unit) {
                       ConvPixel<decltype(input), decltype(weight)>(
                           geometry, data, unit / geometry.group, unit % geometry.group);
                     }
                   });
    });
  });
}

void Requantize(const RequantizeRow& row, DType dtype, void* y) {
  IntegerResult result;
  result.y = y;
  result.dtype = dtype;
  result.multipliers = row.multipliers;
  result.zero_point = row.zero_point;
  result.low = row.low;
  result.high = row.high;
  for (int64_t i = 0; i < row.n; ++i) Store(result, i, i, row.sums[i]);
}

}  // namespace tandem::kernels
