#include "engine/kernels/quant/integer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/base/arena.h"
#include "tests/support/compare.h"
#include "tests/support/fine_parallel.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_bytes.h"

namespace tandem::kernels {
namespace {

using test::Close;
using test::Exact;
using test::RandomBytes;

Tensor BytesOf(DType dtype, const Shape& shape, uint32_t seed) {
  return dtype == DType::kInt8 ? RandomBytes<int8_t>(shape, seed)
                               : RandomBytes<uint8_t>(shape, seed);
}

int64_t At(const Tensor& bytes, int64_t i) {
  return bytes.dtype() == DType::kInt8 ? int64_t{bytes.data<int8_t>()[i]}
                                       : int64_t{bytes.data<uint8_t>()[i]};
}

// A convolution over channels-last x with its data; y starts as bytes that show who is not written.
struct Case {
  ConvGeometry geometry;
  Tensor x, w, x_zero, w_zero, bias, multipliers;
  DType y = DType::kInt32;
  int32_t zero_point = 0;
  int32_t low = 0;
  int32_t high = 0;

  Case(const ConvGeometry& g, DType x_dtype, DType w_dtype)
      : geometry(g),
        x(BytesOf(x_dtype, {g.batch, g.in_pixels(), g.in_channels}, 1)),
        w(BytesOf(w_dtype, {g.out_channels, g.in_per_group(), g.taps()}, 2)),
        x_zero(BytesOf(x_dtype, {1}, 3)),
        w_zero(BytesOf(w_dtype, {g.out_channels}, 4)),
        bias(*Tensor::Allocate(DType::kInt32, {g.out_channels})),
        multipliers(test::RandomFloats({g.out_channels + kMultiplierSlack}, 5, 1e-4f, 2e-4f)) {
    for (int64_t m = 0; m < g.out_channels; ++m) {
      bias.mutable_data<int32_t>()[m] = static_cast<int32_t>(1000 * (m % 7) - 3000);
    }
  }

  Case& To(DType dtype) {
    y = dtype;
    low = dtype == DType::kInt8 ? -128 : 0;
    high = low + 255;
    zero_point = low + 100;
    return *this;
  }

  // One zero point for all filters, or 0 for all.
  QuantizedOperand W() const {
    return {w.dtype(), w.view().raw(), w_zero.valid() ? w_zero.view().raw() : nullptr,
            w_zero.valid() && w_zero.elements() > 1 ? 1 : 0};
  }

  Tensor Run(Isa isa, const Parallel& parallel = SequentialParallel()) const {
    Tensor result =
        *Tensor::Allocate(y, {geometry.batch, geometry.out_pixels(), geometry.out_channels});
    std::fill_n(static_cast<std::byte*>(result.mutable_view().mutable_raw()),
                result.view().byte_size(), std::byte{0x55});
    const IntegerConvData data = DataFor(result);
    Buffer packed = *Buffer::Allocate(PackedIntegerBytes(isa, geometry));
    PackIntegerWeights(isa, x.dtype(), geometry,
                       NativeIntegerWeights(geometry, w.dtype(), w.view().raw()), packed.data());
    Buffer scratch = *Buffer::Allocate(IntegerConvScratchBytes(isa, geometry));
    IntegerConv(isa, geometry, {packed.data(), scratch.data()}, data, parallel);
    return result;
  }

  // Sums in int64, scaled and rounded as the formula says.
  Tensor Oracle() const {
    Tensor result =
        *Tensor::Allocate(y, {geometry.batch, geometry.out_pixels(), geometry.out_channels});
    for (int64_t i = 0; i < result.elements(); ++i) {
      const int64_t m = i % geometry.out_channels;
      const int64_t sum = SumAt(i / geometry.out_channels, m) + bias.data<int32_t>()[m];
      if (y == DType::kInt32) {
        result.mutable_data<int32_t>()[i] = static_cast<int32_t>(sum);
        continue;
      }
      const float scaled = static_cast<float>(sum) * multipliers.data<float>()[m];
      const float moved = std::nearbyint(scaled) + static_cast<float>(zero_point);
      const auto rounded = static_cast<int32_t>(
          std::clamp(moved, static_cast<float>(low), static_cast<float>(high)));
      static_cast<std::byte*>(result.mutable_view().mutable_raw())[i] =
          static_cast<std::byte>(rounded);
    }
    return result;
  }

 private:
  IntegerConvData DataFor(const Tensor& result) const {
    IntegerConvData data;
    data.x = {x.dtype(), x.view().raw(), x_zero.view().raw(), x_zero.elements() > 1 ? 1 : 0};
    data.w = W();
    data.result = {result.mutable_view().mutable_raw(),
                   y,
                   bias.data<int32_t>(),
                   multipliers.data<float>(),
                   zero_point,
                   low,
                   high};
    return data;
  }

  int64_t SumAt(int64_t row, int64_t m) const {
    const int64_t group = m / geometry.out_per_group();
    int64_t at[kConvAxes];
    for (int i = kConvAxes - 1; i >= 0; --i) {
      at[i] = row % geometry.axes[static_cast<size_t>(i)].out;
      row /= geometry.axes[static_cast<size_t>(i)].out;
    }
    const int64_t x_point = At(x_zero, x_zero.elements() > 1 ? row : 0);
    const int64_t w_point = w_zero.valid() ? At(w_zero, w_zero.elements() > 1 ? m : 0) : 0;
    int64_t sum = 0;
    for (int64_t tap = 0; tap < geometry.taps(); ++tap) {
      int64_t pixel = row;
      int64_t rest = tap;
      bool inside = true;
      int64_t place[kConvAxes];
      for (int i = kConvAxes - 1; i >= 0; --i) {
        const WindowAxis& axis = geometry.axes[static_cast<size_t>(i)];
        place[i] = at[i] * axis.stride - axis.pad_begin + rest % axis.kernel * axis.dilation;
        rest /= axis.kernel;
        inside = inside && place[i] >= 0 && place[i] < axis.in;
      }
      if (!inside) continue;
      for (int i = 0; i < kConvAxes; ++i) {
        pixel = pixel * geometry.axes[static_cast<size_t>(i)].in + place[i];
      }
      for (int64_t c = 0; c < geometry.in_per_group(); ++c) {
        const int64_t left =
            At(x, pixel * geometry.in_channels + group * geometry.in_per_group() + c);
        const int64_t right = At(w, (m * geometry.in_per_group() + c) * geometry.taps() + tap);
        sum += (left - x_point) * (right - w_point);
      }
    }
    return sum;
  }
};

constexpr DType kBytes[] = {DType::kInt8, DType::kUint8};

// Of these kernels there is a version for AMX, too.
std::vector<Isa> Levels() {
  std::vector<Isa> levels = test::IsaLevels();
  if (DetectIsa() == Isa::kAmx) levels.push_back(Isa::kAmx);
  return levels;
}

// Every version computes what the formula says.
void ExpectExact(const Case& sum, const Parallel& parallel = SequentialParallel()) {
  const Tensor expected = sum.Oracle();
  for (const Isa isa : Levels()) {
    ASSERT_TRUE(Close(sum.Run(isa, parallel), expected, Exact()))
        << IsaName(isa) << " " << DTypeName(sum.x.dtype()) << " " << DTypeName(sum.w.dtype())
        << " to " << DTypeName(sum.y) << ", " << sum.geometry.batch << " x "
        << sum.geometry.in_channels << " to " << sum.geometry.out_channels << ", "
        << sum.geometry.taps() << " taps";
  }
}

TEST(IntegerProduct, EveryEdgeSizeOfEveryPairOfTypesIsExact) {
  for (const DType x : kBytes) {
    for (const DType w : kBytes) {
      for (int64_t size = 1; size <= 70; ++size) {
        const DType y = size % 2 == 0 ? DType::kInt32 : kBytes[size % 4 / 2];
        ExpectExact(Case(ProductGeometry(size, 1 + size * 7 % 70, 1 + size * 13 % 70), x, w).To(y));
        ExpectExact(Case(ProductGeometry(1 + size * 11 % 16, size, 1 + size * 3 % 70), x, w).To(y));
        ExpectExact(Case(ProductGeometry(1 + size % 15, 1 + size * 5 % 40, size), x, w).To(y));
      }
    }
  }
}

TEST(IntegerProduct, ManyRowsAndColumnsOnSeveralThreadsAreExact) {
  for (const DType x : kBytes) {
    ExpectExact(Case(ProductGeometry(150, 300, 67), x, DType::kInt8).To(DType::kUint8),
                test::FineParallel(3));
  }
}

void Fill(Tensor& bytes, int value_of_int8) {
  const int value = bytes.dtype() == DType::kInt8 ? value_of_int8 : value_of_int8 + 128;
  std::fill_n(static_cast<std::byte*>(bytes.mutable_view().mutable_raw()), bytes.elements(),
              static_cast<std::byte>(value));
}

TEST(IntegerProduct, TheLargestProductsDoNotSaturateOnTheirWay) {
  for (const DType x : kBytes) {
    for (const DType w : kBytes) {
      for (const int extreme : {-128, 127}) {
        Case sum(ProductGeometry(15, 33, 515), x, w);
        Fill(sum.x, 127);
        Fill(sum.x_zero, -128);
        Fill(sum.w, extreme);
        Fill(sum.w_zero, -1 - extreme);
        ExpectExact(sum);
      }
    }
  }
}

TEST(IntegerProduct, ZeroPointsMayBeThoseOfEachRowOrNone) {
  for (const DType w : kBytes) {
    Case rows(ProductGeometry(31, 37, 21), DType::kUint8, w);
    rows.x_zero = RandomBytes<uint8_t>({31}, 9);
    ExpectExact(rows);
    Case none(ProductGeometry(31, 37, 21), DType::kInt8, w);
    none.w_zero = Tensor();
    ExpectExact(none);
    Case one(ProductGeometry(31, 37, 21), DType::kInt8, w);
    one.w_zero = BytesOf(w, {1}, 8);
    ExpectExact(one);
  }
}

TEST(IntegerProduct, AnEmptySumIsTheBias) {
  ExpectExact(Case(ProductGeometry(3, 5, 0), DType::kUint8, DType::kInt8).To(DType::kInt8));
  ExpectExact(Case(ProductGeometry(0, 5, 3), DType::kUint8, DType::kInt8));
}

ConvGeometry Image(int64_t in_channels, int64_t out_channels, int64_t group,
                   const WindowAxes& axes) {
  ConvGeometry geometry;
  geometry.batch = 2;
  geometry.in_channels = in_channels;
  geometry.out_channels = out_channels;
  geometry.group = group;
  geometry.axes = axes;
  for (WindowAxis& axis : geometry.axes) {
    const int64_t window = (axis.kernel - 1) * axis.dilation + 1;
    axis.out = (axis.in + axis.pad_begin + axis.pad_end - window) / axis.stride + 1;
  }
  geometry.axes = PadAxes(std::move(geometry.axes));
  return geometry;
}

std::vector<ConvGeometry> Images() {
  const WindowAxis three{7, 0, 3, 1, 1, 1, 1};
  const WindowAxis strided{9, 0, 3, 2, 1, 0, 1};
  const WindowAxis dilated{8, 0, 2, 1, 3, 2, 1};
  const WindowAxis seven{11, 0, 7, 2, 1, 3, 3};
  const WindowAxis one{6, 0, 1, 1, 1, 0, 0};
  return {
      Image(3, 20, 1, {seven, seven}),
      Image(16, 33, 1, {three, strided}),
      Image(18, 40, 1, {strided, dilated}),
      Image(64, 130, 1, {three, three}),
      Image(40, 24, 1, {one, one}),
      Image(40, 20, 2, {three, strided}),
      Image(12, 12, 3, {three, three}),
      Image(5, 7, 1, {three}),
      Image(4, 6, 1, {strided, three, dilated}),
      Image(70, 9, 1, {one, three, one}),
      Image(1, 3, 1, {{35, 0, 33, 1, 1, 1, 1}, {67, 0, 65, 1, 1, 0, 0}}),
      Image(17, 2, 1, {{48, 0, 47, 1, 1, 0, 0}, {47, 0, 45, 1, 1, 0, 0}}),
  };
}

TEST(IntegerConv, EveryGeometryIsExact) {
  const test::FineParallel parallel(3);
  for (const ConvGeometry& image : Images()) {
    for (const DType x : kBytes) {
      for (const DType w : kBytes) {
        ExpectExact(Case(image, x, w).To(x == w ? DType::kInt32 : w), parallel);
      }
    }
  }
}

TEST(IntegerConv, EverySizeIsExact) {
  const WindowAxis three{3, 0, 3, 1, 1, 1, 1};
  for (int64_t size = 1; size <= 70; ++size) {
    const DType x = kBytes[size % 2];
    const DType w = kBytes[size / 2 % 2];
    const DType y = size % 3 == 0 ? DType::kInt32 : kBytes[size / 3 % 2];
    const WindowAxis wide{size, 0, 3, 1, 1, 1, 1};
    const WindowAxis strided{size, 0, 2, 2, 1, 1, 1};
    ExpectExact(Case(Image(size, 9, 1, {three, three}), x, w).To(y));
    ExpectExact(Case(Image(5, size, 1, {three, three}), x, w).To(y));
    ExpectExact(Case(Image(2 * size, 6, 2, {three}), x, w).To(y));
    for (const WindowAxes& axes :
         {WindowAxes{three, wide}, WindowAxes{wide, three}, WindowAxes{three, strided}}) {
      ExpectExact(Case(Image(5, 7, 1, axes), x, w).To(y));
      ExpectExact(Case(Image(18, 18, 18, axes), x, w).To(y));
    }
  }
}

TEST(IntegerConv, OneChannelAGroupIsExactForEveryNumberOfChannels) {
  const WindowAxis three{5, 0, 3, 1, 1, 1, 1};
  const WindowAxis strided{6, 0, 3, 2, 1, 0, 1};
  const WindowAxis five{6, 0, 5, 2, 1, 2, 2};
  const WindowAxis two{5, 0, 2, 1, 3, 2, 1};
  for (int64_t channels = 1; channels <= 70; ++channels) {
    for (const WindowAxes& axes :
         {WindowAxes{three, three}, WindowAxes{strided, strided}, WindowAxes{five, two},
          WindowAxes{two}, WindowAxes{two, three, two}}) {
      const DType y = channels % 3 == 0 ? DType::kInt32 : kBytes[channels % 2];
      ExpectExact(Case(Image(channels, channels, channels, axes), kBytes[channels / 2 % 2],
                       kBytes[channels / 4 % 2])
                      .To(y));
    }
  }
}

TEST(IntegerConv, OneChannelAGroupWithoutZeroPointsOfWeightsIsExact) {
  const WindowAxis three{9, 0, 3, 1, 1, 1, 1};
  const WindowAxis strided{6, 0, 3, 2, 1, 0, 1};
  const WindowAxis five{75, 0, 5, 1, 1, 2, 2};
  const WindowAxis seven{20, 0, 7, 2, 2, 6, 6};
  const WindowAxis two{5, 0, 2, 1, 3, 2, 1};
  const WindowAxis wide{70, 0, 34, 1, 2, 3, 3};
  const test::FineParallel parallel(3);
  for (const int64_t channels : {2, 15, 63, 64, 65}) {
    for (const WindowAxes& axes : {WindowAxes{three, three}, WindowAxes{strided, strided},
                                   WindowAxes{two, five}, WindowAxes{seven, seven}, WindowAxes{two},
                                   WindowAxes{two, three, two}, WindowAxes{wide}}) {
      Case conv(Image(channels, channels, channels, axes), DType::kUint8, DType::kInt8);
      conv.To(kBytes[channels % 2]);
      conv.w_zero = Tensor();
      conv.low += 20;
      conv.high -= 30;
      ExpectExact(conv, parallel);
    }
  }
}

// Ties, values beyond int32 and multipliers that are no numbers.
TEST(IntegerConv, RoundsTiesToEvenAndSaturatesWhateverTheMultiplier) {
  for (const Isa isa : Levels()) {
    const float inf = std::numeric_limits<float>::infinity();
    const std::vector<float> factors = {0.5f, 1.5f, 2.5f,          -0.5f, 3e9f,   -3e9f, 1e38f,
                                        inf,  -inf, std::nanf(""), 0.0f,  1e-45f, -2.5f};
    const auto n = static_cast<int64_t>(factors.size());
    Case product(ProductGeometry(4, n, 1), DType::kUint8, DType::kInt8);
    product.To(DType::kInt8);
    product.zero_point = 3;
    product.x = Tensor::Of<uint8_t>({4, 1, 1}, {0, 1, 2, 255});
    product.x_zero = Tensor::Of<uint8_t>({1}, {0});
    product.w_zero = Tensor();
    std::fill_n(product.w.mutable_data<int8_t>(), n, int8_t{1});
    std::fill_n(product.bias.mutable_data<int32_t>(), n, 0);
    std::copy(factors.begin(), factors.end(), product.multipliers.mutable_data<float>());
    const Tensor y = product.Run(isa);
    for (int64_t i = 0; i < y.elements(); ++i) {
      const int64_t sum = At(product.x, i / n);
      const double scaled = static_cast<float>(sum) * factors[static_cast<size_t>(i % n)];
      const double value = std::isnan(scaled) ? 3 : std::nearbyint(scaled) + 3;
      EXPECT_EQ(y.data<int8_t>()[i], std::clamp(value, -128.0, 127.0))
          << IsaName(isa) << " " << sum << " * " << factors[static_cast<size_t>(i % n)];
    }
  }
}

TEST(IntegerConv, TheResultIsKeptWithinItsBounds) {
  const WindowAxis three{7, 0, 3, 1, 1, 1, 1};
  for (const int64_t group : {1, 40}) {
    Case conv(Image(40, 40, group, {three, three}), DType::kUint8, DType::kInt8);
    conv.To(DType::kUint8);
    conv.low = 90;
    conv.high = 130;
    ExpectExact(conv);
  }
}

}  // namespace
}  // namespace tandem::kernels
