// The kernels of Conv, of which ConvReference is the oracle.
#include "engine/kernels/conv/conv.h"

#include <gtest/gtest.h>

#include "tests/engine/kernels/conv/conv_case.h"
#include "tests/support/fine_parallel.h"

namespace tandem::kernels {
namespace {

void ExpectAsReference(const ConvGeometry& geometry) {
  ConvCase conv(geometry);
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

TEST(ConvKernels, EverySizeAgreesWithTheReference) {
  const WindowAxis plain = {.kernel = 3, .pad_begin = 1, .pad_end = 1};
  const WindowAxis strided = {.kernel = 2, .stride = 2, .pad_end = 1};
  for (int64_t size = 1; size <= 70; ++size) {
    for (const WindowAxes& axes : Windows()) {
      ExpectAsReference({.batch = 2, .in_channels = size, .out_channels = 18, .axes = axes});
      ExpectAsReference({.batch = 2, .in_channels = 5, .out_channels = size, .axes = axes});
      ExpectAsReference({.in_channels = size, .out_channels = size, .group = size, .axes = axes});
    }
    ExpectAsReference(
        {.in_channels = 3 * size, .out_channels = 6, .group = 3, .axes = Windows()[1]});
    ExpectAsReference(
        {.in_channels = 6, .out_channels = 3 * size, .group = 3, .axes = Windows()[1]});
    for (const auto& [channels, group] : {std::pair<int64_t, int64_t>{5, 1}, {6, 3}, {18, 18}}) {
      for (const WindowAxes& axes : {WindowAxes{Axis(3, plain), Axis(size, plain)},
                                     {Axis(size, plain), Axis(4, strided)},
                                     {Axis(2, plain), Axis(size, strided)}}) {
        ExpectAsReference(
            {.in_channels = channels, .out_channels = channels, .group = group, .axes = axes});
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
        ConvCase conv({.batch = 2,
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

// Which number of a 9 x 9 image with 3 x 3 windows becomes `special`: one of the middle of x, in
// the channel `channel`, or the middle weight of a filter.
struct Special {
  float value;
  bool in_weights;
  int64_t filter = 11;
  int64_t channel = 7;
};

// Where windows or filters meet the special number, y is what the reference says, and as before
// where they do not.
void ExpectIeee(ConvGeometry geometry, const Special& special) {
  const WindowAxis plain = {.kernel = 3, .pad_begin = 1, .pad_end = 1};
  geometry.axes = {Axis(9, plain), Axis(9, plain)};
  ConvCase conv(geometry);
  conv.epilogue = {{EpilogueOp::kAdd, OperandKind::kColumn}};
  ConvCase with = conv;
  const int64_t out = geometry.out_channels;
  if (special.in_weights) {
    with.weights = test::RandomFloats(conv.weights.shape(), 2);
    with.weights.mutable_data<float>()[special.filter * conv.Depth() + 4] = special.value;
  } else {
    with.x = test::RandomFloats(conv.x.shape(), 1);
    with.x.mutable_data<float>()[(4 * 9 + 5) * geometry.in_channels + special.channel] =
        special.value;
  }
  const Tensor expected = with.Reference();
  const auto meets = [&](int64_t pixel, int64_t filter) {
    if (special.in_weights) return filter == special.filter;
    const int64_t group = filter / geometry.out_per_group();
    return std::abs(pixel / 9 - 4) <= 1 && std::abs(pixel % 9 - 5) <= 1 &&
           group == special.channel / geometry.in_per_group();
  };
  for (const Arithmetic& by : test::Arithmetics()) {
    const Tensor direct = conv.Packed(by);
    const Tensor indirect = conv.WithScratch(by);
    for (const auto& [before, after] :
         {std::pair{direct, with.Packed(by)}, {indirect, with.WithScratch(by)}}) {
      for (int64_t i = 0; i < after.elements(); ++i) {
        const bool met = meets(i / out, i % out);
        const Tensor got = Tensor::Of<float>({1}, {after.data<float>()[i]});
        const Tensor want = Tensor::Of<float>({1}, {(met ? expected : before).data<float>()[i]});
        // The scale of one element alone may be small by chance: its sum's terms are about one.
        test::Tolerance tolerance = test::Exact();
        if (met) {
          tolerance = test::ToleranceOf(by, conv.Depth());
          tolerance.absolute = tolerance.relative;
        }
        ASSERT_TRUE(test::Close(got, want, tolerance))
            << conv.Text(by) << " " << special.value << " element " << i;
      }
    }
  }
}

TEST(ConvKernels, ASpecialNumberIsWhatIeeeSaysWhereWindowsMeetItAndNowhereElse) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const float special : {kInf, -kInf, kInf - kInf, 3e38f, 1e-40f}) {
    for (const bool in_weights : {false, true}) {
      ExpectIeee({.in_channels = 40, .out_channels = 40}, {special, in_weights});
      ExpectIeee({.in_channels = 64, .out_channels = 40}, {special, in_weights});
      ExpectIeee({.in_channels = 20, .out_channels = 20, .group = 20}, {special, in_weights});
      ExpectIeee({.in_channels = 20, .out_channels = 20, .group = 5}, {special, in_weights});
    }
  }
}

// Whole multiples of the smallest float times whole numbers: every product and sum is one, too.
TEST(ConvKernels, SumsOfDenormalsAreExact) {
  const WindowAxis plain = {.kernel = 3, .pad_begin = 1, .pad_end = 1};
  for (const int64_t group : {1, 4, 20}) {
    for (const bool in_weights : {false, true}) {
      ConvCase conv({.in_channels = 20,
                     .out_channels = 20,
                     .group = group,
                     .axes = {Axis(6, plain), Axis(7, plain)}});
      conv.epilogue = {};
      conv.x = test::RandomWholeFloats(conv.x.shape(), 1, -9, 10);
      conv.weights = test::RandomWholeFloats(conv.weights.shape(), 2, -9, 10);
      Tensor& small = in_weights ? conv.weights : conv.x;
      for (int64_t i = 0; i < small.elements(); ++i) {
        small.mutable_data<float>()[i] *= std::numeric_limits<float>::denorm_min();
      }
      const Tensor expected = conv.Reference();
      for (const Arithmetic& by : test::Arithmetics()) {
        EXPECT_TRUE(test::Close(conv.Packed(by), expected, test::Exact())) << conv.Text(by);
        EXPECT_TRUE(test::Close(conv.WithScratch(by), expected, test::Exact())) << conv.Text(by);
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
      ConvCase whole(
          {.batch = 3, .in_channels = in, .out_channels = out, .group = group, .axes = axes});
      ConvCase one({.in_channels = in, .out_channels = out, .group = group, .axes = axes});
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
    ConvCase dense({.batch = 2,
                    .in_channels = 6,
                    .out_channels = 12,
                    .group = group,
                    .axes = {Axis(5, plain), Axis(6, plain)}});
    ConvCase sparse = dense;
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
