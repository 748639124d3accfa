// Transposed convolutions whose filters lie side by side, of which ConvTransposeReference is the
// oracle.
#include "engine/kernels/conv/disjoint.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "engine/kernels/conv/transposed.h"
#include "engine/kernels/gemm/gemm.h"
#include "engine/kernels/gemm/tile.h"
#include "engine/tensor/tensor.h"
#include "tests/support/arithmetics.h"
#include "tests/support/compare.h"
#include "tests/support/fine_parallel.h"
#include "tests/support/random_tensor.h"

namespace tandem::kernels {
namespace {

// `beyond` counts outputs behind those that the taps meet, less those that pads take away.
WindowAxis Axis(int64_t in, int64_t stride, int64_t pad_begin = 0, int64_t beyond = 0) {
  return {.in = in,
          .out = in * stride - pad_begin + beyond,
          .kernel = stride,
          .stride = stride,
          .pad_begin = pad_begin};
}

// With a bias, an operand of y's extents and an activation; y starts as NaN.
struct Case {
  ConvGeometry geometry;
  Tensor x, weights, bias, full, zeros, y;
  Epilogue epilogue = {{EpilogueOp::kAdd, OperandKind::kColumn},
                       {EpilogueOp::kMul, OperandKind::kFull},
                       {EpilogueOp::kTanh}};
  std::vector<EpilogueOperand> operands;

  Case(int64_t in_channels, int64_t out_channels, WindowAxes axes, int64_t batch = 2) {
    geometry.batch = batch;
    geometry.in_channels = in_channels;
    geometry.out_channels = out_channels;
    geometry.axes = PadAxes(std::move(axes));
    geometry.outputs.resize(kConvAxes);
    x = test::RandomFloats({batch, geometry.in_pixels(), in_channels}, 1);
    // Sums are about as large as what the epilogue makes of them.
    const float most = 1 / std::sqrt(static_cast<float>(in_channels));
    weights = test::RandomFloats({in_channels, out_channels, geometry.taps()}, 2, -most, most);
    bias = test::RandomFloats({out_channels}, 3);
    full = test::RandomFloats({batch, geometry.out_pixels(), out_channels}, 4);
    zeros = test::RandomFloats({std::max<int64_t>(1, in_channels)}, 5, 0, 0);
    operands = {{bias.data<float>(), 0}, {full.data<float>(), out_channels}, {}};
  }
  ConvData Data() {
    y = *Tensor::Allocate(DType::kFloat, full.shape());
    std::fill_n(y.mutable_data<float>(), y.elements(), std::numeric_limits<float>::quiet_NaN());
    return {x.data<float>(), y.mutable_data<float>(), zeros.data<float>(), &epilogue,
            operands.data()};
  }
  Tensor Reference() {
    ConvTransposeReference(geometry, weights.data<float>(), Data());
    return y;
  }
  Tensor Disjoint(Arithmetic by, const Parallel& parallel = SequentialParallel()) {
    Tensor packed = *Tensor::Allocate(DType::kFloat, {PackedDisjointFloats(by, geometry)});
    PackDisjoint(by, geometry, weights.data<float>(), packed.mutable_data<float>());
    ConvDisjoint(by, geometry, packed.data<float>(), Data(), parallel);
    return y;
  }
};

TEST(DisjointFilters, OfEverySizeAgreeWithTheReference) {
  for (const Arithmetic& by : test::Arithmetics()) {
    for (const int64_t out_channels : {1, 7, 8, 15, 17, 21}) {
      for (const int64_t in_channels : {1, 5, 33, 600}) {
        Case conv(in_channels, out_channels, {Axis(3, 2), Axis(37, 2)});
        EXPECT_TRUE(
            test::Close(conv.Disjoint(by), conv.Reference(), test::ToleranceOf(by, in_channels)))
            << test::NameOf(by) << " " << in_channels << " -> " << out_channels;
      }
    }
  }
}

TEST(DisjointFilters, EverySizeAgreesWithTheReference) {
  for (int64_t size = 1; size <= 70; ++size) {
    for (Case conv :
         {Case(size, 7, {Axis(3, 2), Axis(5, 2)}), Case(5, size, {Axis(3, 2), Axis(5, 2)}),
          Case(5, 7, {Axis(2, 2), Axis(size, 3)}), Case(5, 7, {Axis(size, 2), Axis(2, 2)})}) {
      const Tensor expected = conv.Reference();
      for (const Arithmetic& by : test::Arithmetics()) {
        ASSERT_TRUE(test::Close(conv.Disjoint(by), expected,
                                test::ToleranceOf(by, conv.geometry.in_channels)))
            << test::NameOf(by) << " " << ToString(conv.full.shape());
      }
    }
  }
}

TEST(DisjointFilters, InOneToThreeAxesWithPadsAndOutputsThatNothingMeets) {
  for (const Arithmetic& by : test::Arithmetics()) {
    for (const WindowAxes& axes :
         {WindowAxes{Axis(300, 4)}, WindowAxes{Axis(5, 2, 1), Axis(6, 3, 2, -1)},
          WindowAxes{Axis(5, 2, 0, 1), Axis(6, 3, 0, 2)}, WindowAxes{Axis(2, 3, 4, 0), Axis(4, 2)},
          WindowAxes{Axis(2, 2, 1, 1), Axis(3, 2, 0, -1), Axis(4, 3, 1, 2)},
          WindowAxes{Axis(4, 1), Axis(4, 2, 0, -3)}}) {
      Case conv(9, 5, axes);
      EXPECT_TRUE(test::Close(conv.Disjoint(by), conv.Reference(), test::ToleranceOf(by, 9)))
          << test::NameOf(by) << " " << ToString(conv.full.shape());
    }
  }
}

TEST(DisjointFilters, HaveTheBitsOfOneConvolutionForEachTap) {
  for (const Arithmetic& by : test::Arithmetics()) {
    for (const int64_t out_channels : {64, 128}) {
      Case conv(40, out_channels, {Axis(7, 2), Axis(9, 2)});
      ASSERT_FALSE(HasDisjointFilters(by, conv.geometry));
      const Tensor by_side = conv.Disjoint(by);
      Tensor packed =
          *Tensor::Allocate(DType::kFloat, {PackedConvTransposeFloats(by, conv.geometry)});
      PackConvTransposeWeights(by, conv.geometry, conv.weights.data<float>(),
                               packed.mutable_data<float>());
      ConvTranspose(by, conv.geometry, packed.data<float>(), conv.Data(), SequentialParallel());
      EXPECT_TRUE(test::Close(conv.y, by_side, test::Exact())) << test::NameOf(by) << out_channels;
    }
  }
}

TEST(DisjointFilters, AnyNumberOfThreadsAndItemsGivesTheSameBits) {
  for (const Arithmetic& by : test::Arithmetics()) {
    Case conv(30, 10, {Axis(17, 2), Axis(33, 2)}, 3);
    const Tensor one = conv.Disjoint(by);
    for (const int threads : {2, 4}) {
      EXPECT_TRUE(test::Close(conv.Disjoint(by, test::FineParallel(threads)), one, test::Exact()));
    }
    Case item(30, 10, {Axis(17, 2), Axis(33, 2)}, 1);
    item.x = conv.x.Rows(2, 3);
    item.full = conv.full.Rows(2, 3);
    item.operands[1].data = item.full.data<float>();
    EXPECT_TRUE(test::Close(item.Disjoint(by), one.Rows(2, 3), test::Exact()));
  }
}

TEST(DisjointFilters, AreThoseOfOneGroupWhoseStrideIsTheirExtent) {
  for (const Arithmetic& by : test::Arithmetics()) {
    const int64_t panel = PlainTileKernel(by.isa).panel_columns;
    const auto takes = [&](int64_t channels, const WindowAxes& axes, int64_t group) {
      Case conv(4, channels, axes);
      conv.geometry.group = group;
      return HasDisjointFilters(by, conv.geometry);
    };
    const WindowAxis two = Axis(3, 2);
    EXPECT_TRUE(takes(panel, {two, two}, 1));
    EXPECT_TRUE(takes(panel + 1, {two, two}, 1));
    EXPECT_FALSE(takes(2 * panel, {two, two}, 1)) << "no column would be empty";
    EXPECT_FALSE(takes(4, {two, two}, 2));
    EXPECT_FALSE(takes(4, {Axis(3, 1), Axis(3, 1)}, 1)) << "one tap";
    WindowAxis wide = two;
    wide.kernel = 3;
    EXPECT_FALSE(takes(4, {two, wide}, 1));
    WindowAxis dilated = two;
    dilated.dilation = 2;
    EXPECT_FALSE(takes(4, {two, dilated}, 1));
    EXPECT_FALSE(takes(4, {Axis(1, 64), Axis(1, 64)}, 1)) << "the columns fit no strip";
  }
}

}  // namespace
}  // namespace tandem::kernels
