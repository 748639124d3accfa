// Products with quantised weights, which are those with the dequantised ones, bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "engine/kernels/elementwise/binary.h"
#include "engine/kernels/gemm/gemm.h"
#include "tests/support/compare.h"
#include "tests/support/fine_parallel.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_tensor.h"

namespace tandem::kernels {
namespace {

// B as integers from -128 to 127 and as the numbers they mean.
struct Case {
  int64_t m, n, k;
  bool one_scale;
  Tensor a, integers, scales, zero_points, b, bias;
  Tensor halves;  // of each column of A its factor; or invalid

  Case(int64_t rows, int64_t columns, int64_t depth, bool one = false)
      : m(rows),
        n(columns),
        k(depth),
        one_scale(one),
        a(test::RandomFloats({m, k}, 1)),
        integers(test::RandomWholeFloats({k, n}, 2, -128, 128)),
        scales(test::RandomFloats({n}, 3, 0.001f, 0.1f)),
        zero_points(test::RandomWholeFloats({n}, 4, -20, 20)),
        b(*Tensor::Allocate(DType::kFloat, {k, n})),
        bias(test::RandomFloats({n}, 5)) {
    for (int64_t i = 0; i < b.elements(); ++i) {
      const int64_t column = one_scale ? 0 : i % n;
      b.mutable_data<float>()[i] = (integers.data<float>()[i] - zero_points.data<float>()[column]) *
                                   scales.data<float>()[column];
    }
  }

  // The product of a halved A (where `halves`), before an epilogue.
  Tensor Run(Isa isa, Weights weights, const Parallel& parallel = SequentialParallel()) const {
    const Arithmetic by{isa, Precision::kF32Plain, weights};
    PackSource source{k, n, {b.data<float>(), n, 1}, 1, {}};
    if (weights == Weights::kBytes) {
      source.b.data = integers.data<float>();
      source.columns = {scales.data<float>(), zero_points.data<float>(), one_scale ? 0 : 1};
    }
    Tensor packed = *Tensor::Allocate(DType::kFloat, {PackedFloats(by, k, n)});
    PackB(by, source, packed.mutable_data<float>(), parallel);
    const Epilogue epilogue = {{EpilogueOp::kAdd, OperandKind::kColumn}, {EpilogueOp::kRelu}};
    const std::vector<EpilogueOperand> operands = {{bias.data<float>(), 0}, {}};
    Tensor c = *Tensor::Allocate(DType::kFloat, {m, n});
    GemmProblem problem{m, n, k, a.data<float>(), k, c.mutable_data<float>(), n};
    problem.epilogue = &epilogue;
    problem.operands = operands.data();
    Prologue halving;
    halving.stages = {{{FindBinary(BinaryOp::kMul, DType::kFloat, isa), {}}, 0, false}};
    if (halves.valid()) halving.operands = {{halves.data<float>(), 1}};
    if (halves.valid()) problem.prologue = &halving;
    Gemm(by, problem, packed.data<float>(), parallel);
    return c;
  }

  void Expect(const Parallel& parallel = SequentialParallel()) const {
    for (const Isa isa : test::IsaLevels()) {
      if (isa == Isa::kReference) continue;
      ASSERT_TRUE(test::Close(Run(isa, Weights::kBytes, parallel), Run(isa, Weights::kFloats),
                              test::Exact()))
          << IsaName(isa) << " " << m << "x" << n << "x" << k;
    }
  }
};

TEST(ByteTile, EveryEdgeSizeHasTheBitsOfDequantisedWeights) {
  for (int64_t m = 1; m <= 70; ++m) {
    for (int64_t n = 1; n <= 70; n += 3) Case(m, n, 1 + (m * 7 + n) % 70).Expect();
  }
  for (int64_t n = 1; n <= 70; ++n) Case(3, n, 9).Expect();
  for (int64_t k = 0; k <= 70; ++k) Case(15, 33, k).Expect();
}

TEST(ByteTile, OneScaleIsThatOfEveryColumn) { Case(5, 45, 33, true).Expect(); }

// Several pieces of a long sum, groups of panels, and rows that alias in the cache.
TEST(ByteTile, LongSumsOnSeveralThreads) { Case(37, 300, 2048).Expect(test::FineParallel(2)); }

TEST(ByteTile, APrologueSeesEveryColumnOfItsPiece) {
  Case halved(37, 70, 1100);
  halved.halves = test::RandomFloats({1100}, 6, 0.25f, 0.75f);
  halved.Expect();
}

TEST(ByteTile, TakesAQuarterOfFloats) {
  for (const Isa isa : test::IsaLevels()) {
    if (isa == Isa::kReference) continue;
    const int64_t bytes = PackedFloats({isa, Precision::kF32, Weights::kBytes}, 1024, 1024);
    const int64_t floats = PackedFloats({isa, Precision::kF32Plain}, 1024, 1024);
    EXPECT_EQ(floats, 1024 * 1024) << IsaName(isa);
    EXPECT_EQ(bytes, floats / 4 + 2 * 1024) << IsaName(isa);
  }
}

}  // namespace
}  // namespace tandem::kernels
