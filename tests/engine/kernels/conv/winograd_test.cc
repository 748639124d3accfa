// Minimal filtering, of which ConvReference is the oracle.
#include "engine/kernels/winograd/winograd.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "tests/engine/kernels/conv/conv_case.h"
#include "tests/support/fine_parallel.h"

namespace tandem::kernels {
namespace {

// The kernels of every level, each with m = 2 and m = 4.
struct Kernel {
  Isa isa;
  int m;
};
std::vector<Kernel> Kernels() {
  std::vector<Kernel> kernels;
  for (const Arithmetic& by : test::Arithmetics()) {
    if (by.precision != Precision::kF32Plain || by.isa == Isa::kAmx) continue;
    kernels.push_back({by.isa, 2});
    kernels.push_back({by.isa, 4});
  }
  return kernels;
}

// The error that engine/base/precision.h allows.
constexpr test::Tolerance kTolerance = {.relative = 1e-5};

WindowAxis Pixels(int64_t in, int64_t pad_begin = 1, int64_t pad_end = 1) {
  return Axis(in, {.kernel = 3, .pad_begin = pad_begin, .pad_end = pad_end});
}

TEST(Winograd, ChannelsOfEverySizeAgreeWithTheReference) {
  for (const int64_t in : {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 70}) {
    for (const int64_t out : {1, 7, 8, 15, 16, 17, 31, 32, 33, 70}) {
      ConvCase conv(
          {.batch = 2, .in_channels = in, .out_channels = out, .axes = {Pixels(7), Pixels(10)}});
      const Tensor expected = conv.Reference();
      for (const auto& [isa, m] : Kernels()) {
        ASSERT_TRUE(test::Close(conv.Winograd(isa, m), expected, kTolerance))
            << conv.Text({isa}) << " m " << m;
      }
    }
  }
}

TEST(Winograd, ImagesOfEverySizeAndPaddingAgreeWithTheReference) {
  for (const int64_t height : {1, 2, 3, 4, 5, 6, 9}) {
    for (const int64_t width : {1, 2, 3, 4, 5, 7, 8, 17}) {
      for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{1, 1}, {2, 0}, {0, 3}, {4, 5}}) {
        ConvCase conv({.in_channels = 5,
                       .out_channels = 19,
                       .axes = {Pixels(height, begin, end), Pixels(width, end, begin)}});
        if (conv.geometry.out_pixels() <= 0) continue;
        const Tensor expected = conv.Reference();
        for (const auto& [isa, m] : Kernels()) {
          ASSERT_TRUE(test::Close(conv.Winograd(isa, m), expected, kTolerance))
              << height << " x " << width << " pads " << begin << " " << end << " m " << m;
        }
      }
    }
  }
}

TEST(Winograd, EverySizeAgreesWithTheReference) {
  for (int64_t size = 1; size <= 70; ++size) {
    for (const auto& [in, out, height, width] : {std::array<int64_t, 4>{size, 18, 5, 6},
                                                 {5, size, 6, 7},
                                                 {5, 18, size, 3},
                                                 {5, 18, 3, size}}) {
      ConvCase conv(
          {.in_channels = in, .out_channels = out, .axes = {Pixels(height), Pixels(width)}});
      const Tensor expected = conv.Reference();
      for (const auto& [isa, m] : Kernels()) {
        ASSERT_TRUE(test::Close(conv.Winograd(isa, m), expected, kTolerance))
            << conv.Text({isa}) << " of " << height << " x " << width << ", m " << m;
      }
    }
  }
}

TEST(Winograd, NoItemsAreNoWork) {
  ConvCase conv({.batch = 0, .in_channels = 5, .out_channels = 19, .axes = {Pixels(4), Pixels(4)}});
  for (const auto& [isa, m] : Kernels()) EXPECT_EQ(conv.Winograd(isa, m).elements(), 0);
}

TEST(Winograd, EveryStageOfAnEpilogueIsApplied) {
  ConvCase conv({.batch = 2, .in_channels = 9, .out_channels = 37, .axes = {Pixels(6), Pixels(5)}});
  const Tensor full = test::RandomFloats(conv.Reference().shape(), 8);
  const Tensor scalar = test::RandomFloats({1}, 9);
  const std::vector<EpilogueOperand> by_kind = {
      {}, {scalar.data<float>(), 0}, {conv.bias.data<float>(), 0}, {full.data<float>(), 37}};
  for (int op = 0; op <= static_cast<int>(EpilogueOp::kMish); ++op) {
    for (int kind = 0; kind <= static_cast<int>(OperandKind::kFull); ++kind) {
      const auto stage = static_cast<EpilogueOp>(op);
      const bool has_operand = stage <= kLastBinaryOp;
      if (has_operand != (kind != 0)) continue;
      conv.epilogue = {{EpilogueOp::kAdd, OperandKind::kColumn},
                       {stage, static_cast<OperandKind>(kind), -0.25f, 0.5f},
                       {EpilogueOp::kAdd, OperandKind::kFull}};
      conv.operands = {by_kind[2], by_kind[static_cast<size_t>(kind)], by_kind[3]};
      const Tensor expected = conv.Reference();
      for (const auto& [isa, m] : Kernels()) {
        ASSERT_TRUE(test::Close(conv.Winograd(isa, m), expected, kTolerance))
            << "stage " << op << " kind " << kind << " m " << m;
      }
    }
  }
}

TEST(Winograd, ASpecialNumberIsWhatIeeeSaysWhereWindowsMeetItAndNowhereElse) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const float special : {kInf, -kInf, kInf - kInf, 3e38f, 1e20f, 1e-40f}) {
    for (const bool in_weights : {false, true}) {
      ConvCase conv({.in_channels = 20, .out_channels = 40, .axes = {Pixels(9), Pixels(9)}});
      conv.epilogue = {{EpilogueOp::kAdd, OperandKind::kColumn}};
      const Tensor before = conv.Reference();
      ConvCase with = conv;
      Tensor& changed = in_weights ? with.weights : with.x;
      changed = in_weights ? test::RandomFloats(conv.weights.shape(), 2)
                           : test::RandomFloats(conv.x.shape(), 1);
      // The middle weight of channel 11, which no output misses, or a pixel that outputs
      // (3..5, 4..6) read.
      changed.mutable_data<float>()[in_weights ? 11 * 20 * 9 + 4 : (4 * 9 + 5) * 20 + 7] = special;
      const Tensor expected = with.Reference();
      for (const auto& [isa, m] : Kernels()) {
        const Tensor after = with.Winograd(isa, m);
        for (int64_t i = 0; i < after.elements(); ++i) {
          const int64_t pixel = i / 40;
          const bool meets = in_weights
                                 ? i % 40 == 11
                                 : std::abs(pixel / 9 - 4) <= 1 && std::abs(pixel % 9 - 5) <= 1;
          const float want = (meets ? expected : before).data<float>()[i];
          const float got = after.data<float>()[i];
          if (std::isnan(want)) {
            ASSERT_TRUE(std::isnan(got)) << special << " element " << i << " is " << got;
          } else if (std::isinf(want)) {
            ASSERT_EQ(got, want) << special << " element " << i;
          } else {
            ASSERT_NEAR(got, want, 1e-4 * std::max(1.0f, std::abs(want)))
                << special << " element " << i << " m " << m;
          }
        }
      }
    }
  }
}

TEST(Winograd, DenormalsAreNoZeros) {
  const float most = std::numeric_limits<float>::min();
  for (const bool in_weights : {false, true}) {
    ConvCase conv({.in_channels = 20, .out_channels = 40, .axes = {Pixels(9), Pixels(9)}});
    conv.epilogue = {};
    Tensor& small = in_weights ? conv.weights : conv.x;
    small = test::RandomFloats(small.shape(), 3, -most, most);
    const Tensor expected = conv.Reference();
    for (const auto& [isa, m] : Kernels()) {
      EXPECT_TRUE(test::Close(conv.Winograd(isa, m), expected, kTolerance))
          << conv.Text({isa}) << " m " << m;
    }
  }
}

TEST(Winograd, ABatchHasTheBitsOfItsItemsAtAnyNumberOfThreadsAndWithAnyNeighbours) {
  // More tiles than a unit has; columns that are cut for several threads; one tile; tiles that so
  // many threads cannot share evenly.
  struct Shape {
    int64_t in, out, height, width;
  };
  for (const auto& [in, out, height, width] :
       {Shape{16, 24, 45, 50}, {20, 300, 5, 6}, {33, 31, 1, 2}, {5, 6, 9, 11}}) {
    ConvCase whole({.batch = 3,
                    .in_channels = in,
                    .out_channels = out,
                    .axes = {Pixels(height), Pixels(width)}});
    whole.x.mutable_data<float>()[whole.x.elements() / 2] = std::nanf("");
    ConvCase one({.in_channels = in, .out_channels = out, .axes = {Pixels(height), Pixels(width)}});
    for (const auto& [isa, m] : Kernels()) {
      const Tensor expected = whole.Winograd(isa, m);
      for (const int threads : {2, 4, 7, 20}) {
        EXPECT_TRUE(test::Close(whole.Winograd(isa, m, test::FineParallel(threads)), expected,
                                test::Exact()))
            << threads << " threads, m " << m;
      }
      for (int64_t item = 0; item < 3; ++item) {
        one.x = whole.x.Rows(item, item + 1);
        EXPECT_TRUE(test::Close(one.Winograd(isa, m), expected.Rows(item, item + 1), test::Exact()))
            << "item " << item << " m " << m;
      }
    }
  }
}

// Largest errors over all outputs as shares of the largest output.
double ErrorOf(const Tensor& y, const std::vector<double>& exact) {
  double largest = 0;
  double error = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    largest = std::max(largest, std::abs(exact[i]));
    error = std::max(error, std::abs(y.data<float>()[i] - exact[i]));
  }
  return error / largest;
}

TEST(Winograd, ErrorsAreAsTheHeaderSays) {
  for (const int64_t channels : {16, 64, 256, 512}) {
    ConvCase conv({.in_channels = channels, .out_channels = 32, .axes = {Pixels(16), Pixels(16)}});
    conv.epilogue = {};
    conv.x = test::RandomFloats(conv.x.shape(), 5, 0, 1);  // as behind a Relu
    const std::vector<double> x(conv.x.data<float>(), conv.x.data<float>() + conv.x.elements());
    const std::vector<double> weights(conv.weights.data<float>(),
                                      conv.weights.data<float>() + conv.weights.elements());
    std::vector<double> exact(static_cast<size_t>(conv.geometry.out_pixels() * 32));
    ConvReference(conv.geometry, weights.data(), x.data(), exact.data());
    for (const auto& [isa, m] : Kernels()) {
      const double direct = ErrorOf(conv.Indirect({isa}), exact);
      const double error = ErrorOf(conv.Winograd(isa, m), exact);
      EXPECT_LE(error, m == 2 ? 1.5 * direct : 5e-6) << channels << " channels, m " << m;
    }
  }
}

TEST(Winograd, IsChosenWhereItIsFaster) {
  const Arithmetic f32{Isa::kAvx512, Precision::kF32};
  const auto layer = [](int64_t in, int64_t out, int64_t extent) {
    ConvGeometry geometry{.in_channels = in, .out_channels = out};
    geometry.axes = PadAxes({Pixels(extent), Pixels(extent)});
    return geometry;
  };
  EXPECT_EQ(WinogradTile(f32, layer(64, 64, 56)), 4);
  EXPECT_EQ(WinogradTile(f32, layer(256, 256, 14)), 2);
  EXPECT_EQ(WinogradTile(f32, layer(3, 64, 224)), 0) << "transforms cost more than they save";
  EXPECT_EQ(WinogradTile(f32, layer(64, 64, 1)), 0);
}

TEST(Winograd, IsNotChosenWhereItCannotBe) {
  ConvGeometry geometry{.in_channels = 64, .out_channels = 64};
  geometry.axes = PadAxes({Pixels(56), Pixels(56)});
  for (const Precision precision : {Precision::kF32Plain, Precision::kF32Strict}) {
    EXPECT_EQ(WinogradTile({Isa::kAvx512, precision}, geometry), 0);
  }
  EXPECT_EQ(WinogradTile({Isa::kReference, Precision::kF32}, geometry), 0);
  for (const Precision precision : {Precision::kF32, Precision::kBf16}) {
    EXPECT_EQ(WinogradTile({Isa::kAmx, precision}, geometry), 0) << "sums of bfloat16 products";
  }
  const auto refuses = [&](auto change) {
    ConvGeometry other = geometry;
    change(other);
    EXPECT_FALSE(HasWinograd(other));
    EXPECT_EQ(WinogradTile({Isa::kAvx512, Precision::kF32}, other), 0);
  };
  EXPECT_TRUE(HasWinograd(geometry));
  refuses([](ConvGeometry& g) { g.group = 2; });
  refuses([](ConvGeometry& g) { g.axes[1].stride = 2; });
  refuses([](ConvGeometry& g) { g.axes[2].dilation = 2; });
  refuses([](ConvGeometry& g) { g.axes[2].kernel = 5; });
  refuses([](ConvGeometry& g) { g.axes = PadAxes({Pixels(56)}); });
  // Its windows lie in the padding.
  refuses([](ConvGeometry& g) { g.axes[0] = Axis(1, {.stride = 2, .pad_begin = 1}); });
  refuses([](ConvGeometry& g) { g.axes = {Pixels(8), Pixels(8), Pixels(8)}; });
  refuses([](ConvGeometry& g) { g.outputs = {{}, {112, 2, 0}, {112, 2, 0}}; });
}

}  // namespace
}  // namespace tandem::kernels
