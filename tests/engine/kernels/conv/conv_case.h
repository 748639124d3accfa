// A convolution with its data, for tests of the kernels that compute it.
#pragma once

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "engine/kernels/conv/conv.h"
#include "engine/kernels/depthwise/depthwise.h"
#include "engine/kernels/winograd/winograd.h"
#include "engine/tensor/tensor.h"
#include "tests/support/arithmetics.h"
#include "tests/support/compare.h"
#include "tests/support/random_tensor.h"

namespace tandem::kernels {

inline WindowAxis Axis(int64_t in, WindowAxis axis) {
  axis.in = in;
  axis.out =
      (in + axis.pad_begin + axis.pad_end - (axis.kernel - 1) * axis.dilation - 1) / axis.stride +
      1;
  return axis;
}

// Bias and Relu as stages; y starts as NaN, so that an element that
// nobody writes is seen.
struct ConvCase {
  ConvGeometry geometry;
  Tensor x, weights, bias, zeros, y;
  Epilogue epilogue = {{EpilogueOp::kAdd, OperandKind::kColumn},
                       {EpilogueOp::kRelu, OperandKind::kNone}};
  std::vector<EpilogueOperand> operands;

  explicit ConvCase(ConvGeometry g) : geometry(std::move(g)) {
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
  // By minimal filtering, with NaN in the scratch, behind which nothing is written.
  Tensor Winograd(Isa isa, int m, const Parallel& parallel = SequentialParallel()) {
    const ConvWeights native = NativeWeights(geometry, weights.data<float>());
    Tensor packed = *Tensor::Allocate(DType::kFloat, {PackedWinogradFloats(isa, m, geometry)});
    PackWinogradWeights(isa, m, geometry, native, packed.mutable_data<float>());
    const int64_t floats = WinogradScratchFloats(isa, m, geometry, parallel.threads());
    Tensor scratch = *Tensor::Allocate(DType::kFloat, {floats + 1});
    std::fill_n(scratch.mutable_data<float>(), floats, std::numeric_limits<float>::quiet_NaN());
    scratch.mutable_data<float>()[floats] = 12;
    ConvData data = Data();
    data.scratch = scratch.mutable_data<float>();
    ConvWinograd(isa, m, geometry, packed.data<float>(), data, parallel);
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

}  // namespace tandem::kernels
