// The kernels of Conv, of which ConvReference is the oracle.
#include "engine/kernels/conv/conv.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "engine/kernels/depthwise/depthwise.h"
#include "engine/tensor/tensor.h"
#include "tests/support/arithmetics.h"
#include "tests/support/compare.h"
#include "tests/support/fine_parallel.h"
#include "tests/support/random_tensor.h"

namespace tandem::kernels {
namespace {

WindowAxis Axis(int64_t in, WindowAxis axis) {
  axis.in = in;
  axis.out =
      (in + axis.pad_begin + axis.pad_end - (axis.kernel - 1) * axis.dilation - 1) / axis.stride +
      1;
  return axis;
}

// A convolution with its data: bias and Relu as stages; y starts as NaN, so that an element that
// nobody writes is seen.
struct Case {
  ConvGeometry geometry;
  Tensor x, weights, bias, zeros, y;
  Epilogue epilogue = {{EpilogueOp::kAdd, OperandKind::kColumn},
                       {EpilogueOp::kRelu, OperandKind::kNone}};
  std::vector<EpilogueOperand> operands;

  explicit Case(ConvGeometry g) : geometry(std::move(g)) {
    geometry.axes = PadAxes(geometry.axes);
    x = test::RandomFloats({geometry.batch, geometry.in_pixels(), geometry.in_channels}, 1);
    weights =
        test::RandomFloats({geometry.out_channels, geometry.in_per_group(), geometry.taps()}, 2);
    bias = test::RandomFloats({geometry.out_channels}, 3);
    zeros = test::RandomFloats({geometry.in_per_group()}, 4, 0, 0);
    operands = {{bias.data<float>(), 0}, {}};
  }
  ConvData Data() {
    const Shape shape = {geometry.batch, geometry.out_pixels(), geometry.out_channels};
    y = *Tensor::Allocate(DType::kFloat, shape);
    std::fill_n(y.mutable_data<float>(), y.elements(), std::numeric_limits<float>::quiet_NaN());
    return {x.data<float>(), y.mutable_data<float>(), zeros.data<float>(), &epilogue,
            operands.data()};
  }
  Tensor Reference() {
    ConvReference(geometry, weights.data<float>(), Data());
    return y;
  }
  // By the kernel for short groups where it can, or else the indirect product.
  Tensor Packed(Arithmetic by, const Parallel& parallel = SequentialParallel()) {
    const ConvWeights native = NativeWeights(geometry, weights.data<float>());
    if (!HasShortGroups(by.isa, geometry)) return Indirect(by, parallel);
    Tensor packed = *Tensor::Allocate(DType::kFloat, {PackedShortGroupFloats(by.isa, geometry)});
    PackShortGroups(by.isa, geometry, native, packed.mutable_data<float>());
    ConvShortGroups(by.isa, geometry, packed.data<float>(), Data(), parallel);
    return y;
  }
  Tensor Indirect(Arithmetic by, const Parallel& parallel = SequentialParallel()) {
    const ConvWeights native = NativeWeights(geometry, weights.data<float>());
    Tensor packed = *Tensor::Allocate(DType::kFloat, {PackedConvFloats(by, geometry)});
    PackConvWeights(by, geometry, native, packed.mutable_data<float>());
    Conv(by, geometry, packed.data<float>(), Data(), parallel);
    return y;
  }
  // The same with scratch, behind which nothing is written.
  Tensor WithScratch(Arithmetic by, const Parallel& parallel = SequentialParallel()) {
    const ConvWeights native = NativeWeights(geometry, weights.data<float>());
    Tensor packed = *Tensor::Allocate(DType::kFloat, {PackedConvFloats(by, geometry)});
    PackConvWeights(by, geometry, native, packed.mutable_data<float>());
    const int64_t floats = ConvScratchFloats(by, geometry);
    Tensor scratch = *Tensor::Allocate(DType::kFloat, {floats + 1});
    std::fill_n(scratch.mutable_data<float>(), floats, std::numeric_limits<float>::quiet_NaN());
    scratch.mutable_data<float>()[floats] = 12;
    ConvData data = Data();
    data.scratch = scratch.mutable_data<float>();
    Conv(by, geometry, packed.data<float>(), data, parallel);
    EXPECT_EQ(scratch.data<float>()[floats], 12);
    return y;
  }
  int64_t Depth() const { return geometry.taps() * geometry.in_per_group(); }
  std::string Text(Arithmetic by) const {
    return fmt::format("{} {} -> {} channels, group {}, {} taps", test::NameOf(by),
                       geometry.in_channels, geometry.out_channels, geometry.group,
                       geometry.taps());
  }
};

void ExpectAsReference(const ConvGeometry& geometry) {
  Case conv(geometry);
  const Tensor expected = conv.Reference();
  for (const Arithmetic& by : test::Arithmetics()) {
    ASSERT_TRUE(test::Close(conv.Packed(by), expected, test::ToleranceOf(by, conv.Depth())))
        << conv.Text(by);
    ASSERT_TRUE(test::Close(conv.Indirect(by), expected, test::ToleranceOf(by, conv.Depth())))
        << "indirect " << conv.Text(by);
  }
}

// Windows in one to three axes, with strides, dilations and pads that are not alike.
std::vector<WindowAxes> Windows() {
  const WindowAxis plain = {.kernel = 3, .pad_begin = 1, .pad_end = 1};
  return {
      {Axis(11, {.kernel = 3, .stride = 2, .pad_begin = 2})},
      {Axis(5, plain), Axis(6, plain)},
      {Axis(9, {.kernel = 3, .stride = 2, .pad_end = 1}),
       Axis(19, {.kernel = 2, .dilation = 3, .pad_begin = 1, .pad_end = 2})},
      {Axis(4, plain), Axis(3, {.kernel = 2}), Axis(7, {.kernel = 3, .stride = 3, .pad_end = 2})},
      {Axis(3, {}), Axis(17, {})},
  };
}

TEST(ConvKernels, DenseChannelsOfEverySizeAgreeWithTheReference) {
  for (const WindowAxes& axes : Windows()) {
    for (const int64_t in : {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 33}) {
      for (const int64_t out : {1, 3, 8, 15, 16, 17, 31, 32, 33, 70}) {
        ExpectAsReference({.batch = 2, .in_channels = in, .out_channels = out, .axes = axes});
      }
    }
  }
}

TEST(ConvKernels, GroupsOfEveryWidthAgreeWithTheReference) {
  for (const WindowAxes& axes : Windows()) {
    for (const int64_t group : {2, 3, 5, 8, 17}) {
      for (const int64_t in : {1, 2, 3, 4, 5, 7, 8, 9, 16}) {
        for (const int64_t out : {1, 2, 3, 4, 6, 8, 9}) {
          ExpectAsReference({.batch = 2,
                             .in_channels = in * group,
                             .out_channels = out * group,
                             .group = group,
                             .axes = axes});
        }
      }
    }
  }
}

TEST(ConvKernels, DepthwiseWithAndWithoutAMultiplierAgreesWithTheReference) {
  for (const WindowAxes& axes : Windows()) {
    for (const int64_t channels : {2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 32, 33, 67}) {
      for (const int64_t multiplier : {1, 2, 3, 17}) {
        ExpectAsReference({.batch = 2,
                           .in_channels = channels,
                           .out_channels = channels * multiplier,
                           .group = channels,
                           .axes = axes});
      }
    }
  }
}

TEST(ConvKernels, LongRowsAndManyTapsAgreeWithTheReference) {
  // Longer than a piece of a row of short groups.
  ExpectAsReference({.in_channels = 6,
                     .out_channels = 6,
                     .group = 3,
                     .axes = {Axis(600, {.kernel = 5, .pad_begin = 2, .pad_end = 2})}});
  // Rows of taps that do not all fit at once, and one that alone does not.
  for (const int64_t kernel : {11, 40, 700}) {
    ExpectAsReference({.in_channels = 3,
                       .out_channels = 5,
                       .axes = {Axis(13, {.kernel = 11, .pad_begin = 5, .pad_end = 5}),
                                Axis(kernel + 2, {.kernel = kernel, .pad_begin = 1})}});
  }
  // Windows that lie in the padding as a whole.
  ExpectAsReference({.in_channels = 3,
                     .out_channels = 4,
                     .axes = {Axis(2, {.kernel = 2, .pad_begin = 4, .pad_end = 4}),
                              Axis(3, {.kernel = 2, .pad_begin = 5, .pad_end = 3})}});
}

TEST(ConvKernels, ScratchChangesNoBits) {
  for (const int64_t group : {1, 3}) {
    for (const int64_t in : {32, 33, 64, 96, 512, 544}) {
      for (const WindowAxes& axes : Windows()) {
        Case conv({.batch = 2,
                   .in_channels = in * group,
                   .out_channels = 33 * group,
                   .group = group,
                   .axes = axes});
        const Tensor expected = conv.Reference();
        for (const Arithmetic& by : test::Arithmetics()) {
          const Tensor without = conv.Indirect(by);
          ASSERT_TRUE(test::Close(without, expected, test::ToleranceOf(by, conv.Depth())))
              << conv.Text(by);
          for (const int threads : {1, 3}) {
            ASSERT_TRUE(test::Close(conv.WithScratch(by, test::FineParallel(threads)), without,
                                    test::Exact()))
                << conv.Text(by);
          }
        }
      }
    }
  }
}

TEST(ConvKernels, ASpecialNumberIsWhatIeeeSaysWhereWindowsMeetItAndNowhereElse) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const WindowAxis plain = {.kernel = 3, .pad_begin = 1, .pad_end = 1};
  for (const float special : {kInf, -kInf, kInf - kInf, 3e38f, 1e-40f}) {
    for (const int64_t in : {40, 64}) {
      Case conv({.in_channels = in, .out_channels = 40, .axes = {Axis(9, plain), Axis(9, plain)}});
      conv.epilogue = {{EpilogueOp::kAdd, OperandKind::kColumn}};
      Case with = conv;
      with.x = test::RandomFloats(conv.x.shape(), 1);
      with.x.mutable_data<float>()[(4 * 9 + 5) * in + 7] = special;
      const Tensor expected = with.Reference();
      for (const Arithmetic& by : test::Arithmetics()) {
        const Tensor before = conv.WithScratch(by);
        for (const Tensor& after : {with.Indirect(by), with.WithScratch(by)}) {
          for (int64_t pixel = 0; pixel < 81; ++pixel) {
            const bool meets = std::abs(pixel / 9 - 4) <= 1 && std::abs(pixel % 9 - 5) <= 1;
            const auto of = [pixel](const Tensor& y) {
              return y.Reshaped({81, 40}).Rows(pixel, pixel + 1);
            };
            ASSERT_TRUE(test::Close(of(after), of(meets ? expected : before),
                                    meets ? test::ToleranceOf(by, conv.Depth()) : test::Exact()))
                << conv.Text(by) << " " << special << " pixel " << pixel;
          }
        }
      }
    }
  }
}

TEST(ConvKernels, ABatchHasTheBitsOfItsItemsAtAnyNumberOfThreads) {
  struct Channels {
    int64_t in, out, group;
  };
  for (const auto& [in, out, group] :
       {Channels{3, 17, 1}, {33, 31, 1}, {64, 40, 1}, {20, 20, 5}, {18, 36, 18}}) {
    for (const WindowAxes& axes : Windows()) {
      Case whole(
          {.batch = 3, .in_channels = in, .out_channels = out, .group = group, .axes = axes});
      Case one({.in_channels = in, .out_channels = out, .group = group, .axes = axes});
      for (const Arithmetic& by : test::Arithmetics()) {
        const Tensor expected = whole.Packed(by);
        for (const int threads : {2, 4}) {
          EXPECT_TRUE(
              test::Close(whole.Packed(by, test::FineParallel(threads)), expected, test::Exact()))
              << whole.Text(by);
        }
        for (int64_t item = 0; item < 3; ++item) {
          one.x = whole.x.Rows(item, item + 1);
          EXPECT_TRUE(test::Close(one.Packed(by), expected.Rows(item, item + 1), test::Exact()))
              << whole.Text(by);
        }
      }
    }
  }
}

TEST(ConvKernels, AnOutputWithGapsIsWrittenInItsPlacesOnly) {
  for (const int64_t group : {1, 6}) {
    const WindowAxis plain = {.kernel = 3, .pad_begin = 1, .pad_end = 1};
    Case dense({.batch = 2,
                .in_channels = 6,
                .out_channels = 12,
                .group = group,
                .axes = {Axis(5, plain), Axis(6, plain)}});
    Case sparse = dense;
    sparse.geometry.outputs = {{}, {11, 2, 1}, {20, 3, 2}};
    for (const Arithmetic& by : test::Arithmetics()) {
      const Tensor expected = dense.Packed(by);
      ConvData data = sparse.Data();
      Tensor y = test::RandomFloats({2, 11, 20, 12}, 9, 7, 8);
      const Tensor before = test::RandomFloats({2, 11, 20, 12}, 9, 7, 8);
      data.y = y.mutable_data<float>();
      const ConvWeights native = NativeWeights(dense.geometry, dense.weights.data<float>());
      const bool grouped = HasShortGroups(by.isa, dense.geometry);
      Tensor packed =
          *Tensor::Allocate(DType::kFloat, {grouped ? PackedShortGroupFloats(by.isa, dense.geometry)
                                                    : PackedConvFloats(by, dense.geometry)});
      if (grouped) {
        PackShortGroups(by.isa, sparse.geometry, native, packed.mutable_data<float>());
        ConvShortGroups(by.isa, sparse.geometry, packed.data<float>(), data, SequentialParallel());
      } else {
        PackConvWeights(by, sparse.geometry, native, packed.mutable_data<float>());
        Conv(by, sparse.geometry, packed.data<float>(), data, SequentialParallel());
      }
      for (int64_t i = 0; i < y.elements(); ++i) {
        const int64_t column = i / 12 % 20;
        const int64_t row = i / 12 / 20 % 11;
        const bool computed = row % 2 == 1 && row / 2 < 5 && column % 3 == 2;
        const int64_t from = ((i / 12 / 20 / 11 * 5 + row / 2) * 6 + column / 3) * 12 + i % 12;
        ASSERT_EQ(y.data<float>()[i],
                  computed ? expected.data<float>()[from] : before.data<float>()[i])
            << test::NameOf(by) << " group " << group << " element " << i;
      }
    }
  }
}

}  // namespace
}  // namespace tandem::kernels
