// Products whose rows are reduced as they are made, and products of an A that is computed as it is
// read: with the numbers of one step after the other.
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "engine/kernels/elementwise/binary.h"
#include "engine/kernels/elementwise/unary.h"
#include "engine/kernels/gemm/gemm.h"
#include "engine/kernels/gemm/tile.h"
#include "engine/tensor/tensor.h"
#include "tests/support/arithmetics.h"
#include "tests/support/compare.h"
#include "tests/support/fine_parallel.h"
#include "tests/support/random_tensor.h"

namespace tandem::kernels {
namespace {

constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kMean,     ReduceOp::kMax,
                             ReduceOp::kMin, ReduceOp::kL1,       ReduceOp::kLogSum,
                             ReduceOp::kL2,  ReduceOp::kSumSquare};
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Rows up to which the bits are those of two steps.
int64_t BlockRows(Arithmetic by, int64_t k, int64_t n) {
  return int64_t{8} * TileKernelFor(by, k, n).max_rows;
}

enum class Sides { kOneB, kManyB };

// Items [m, k] times one [k, n] or one each, plus an operand of the result's extents, rectified.
struct Case {
  int64_t items, m, n, k;
  Sides sides;
  Tensor a, b, full;
  Epilogue epilogue = {{EpilogueOp::kAdd, OperandKind::kFull}, {EpilogueOp::kLeakyRelu}};
  std::vector<EpilogueOperand> operands;

  Case(int64_t count, const Shape& shape, Sides which)
      : items(count),
        m(shape[0]),
        n(shape[1]),
        k(shape[2]),
        sides(which),
        a(test::RandomFloats({items, m, k}, 1)),
        b(test::RandomFloats({which == Sides::kOneB ? 1 : items, k, n}, 2)),
        full(test::RandomFloats({items, m, n}, 3)),
        operands({{full.data<float>(), n}, {}}) {}

  int64_t BIndex(int64_t item) const { return sides == Sides::kOneB ? 0 : item; }

  Tensor PackedB(Arithmetic by) const {
    const int64_t floats = PackedFloats(by, k, n);
    Tensor packed = *Tensor::Allocate(DType::kFloat, {b.shape()[0] * floats});
    for (int64_t i = 0; i < b.shape()[0]; ++i) {
      PackB(by, {k, n, {b.data<float>() + i * k * n, n, 1}, 1},
            packed.mutable_data<float>() + i * floats, SequentialParallel());
    }
    return packed;
  }

  // One item after the other, then the reduction.
  Tensor Apart(Arithmetic by, ReduceOp op) const {
    const Tensor packed = PackedB(by);
    Tensor product = *Tensor::Allocate(DType::kFloat, {items, m, n});
    for (int64_t item = 0; item < items; ++item) {
      const GemmProblem problem{m,
                                n,
                                k,
                                a.data<float>() + item * m * k,
                                k,
                                product.mutable_data<float>() + item * m * n,
                                n,
                                &epilogue,
                                operands.data(),
                                item * m};
      Gemm(by, problem, packed.data<float>() + BIndex(item) * PackedFloats(by, k, n),
           SequentialParallel());
    }
    Tensor y = *Tensor::Allocate(DType::kFloat, {items, n});
    const std::vector<int64_t> extents = {items, m, n};
    RunReduce(FindReduce(op, DType::kFloat, by.isa), MakeReducePlan(extents, {false, true, false}),
              product.data<float>(), y.mutable_data<float>(), SequentialParallel());
    return y;
  }

  // What lies behind the scratch must stay.
  Tensor Fused(Arithmetic by, ReduceOp op, const Parallel& parallel = SequentialParallel()) const {
    const Tensor packed = PackedB(by);
    Tensor y = *Tensor::Allocate(DType::kFloat, {items, n});
    std::fill_n(y.mutable_data<float>(), y.elements(), kNan);
    ReducedGemm product;
    product.items = items;
    product.joined = sides == Sides::kOneB ? items : 1;
    product.problem = {m, n, k, nullptr, k, y.mutable_data<float>(), n, &epilogue, operands.data()};
    product.op = op;
    const int64_t floats = ReducedGemmScratchFloats(by, product, parallel.threads());
    Tensor scratch = *Tensor::Allocate(DType::kFloat, {floats + 16});
    std::fill_n(scratch.mutable_data<float>(), floats, kNan);
    std::fill_n(scratch.mutable_data<float>() + floats, 16, 77.0f);
    const auto of = [&](int64_t item) -> ReducedGemm::Operands {
      return {a.data<float>() + item * m * k,
              packed.data<float>() + BIndex(item) * PackedFloats(by, k, n)};
    };
    ReduceGemm(by, product, of, scratch.mutable_data<float>(), parallel);
    for (int64_t i = 0; i < 16; ++i) EXPECT_EQ(scratch.data<float>()[floats + i], 77.0f);
    return y;
  }
};

TEST(ReducedGemm, EveryEdgeHasTheBitsOfProductAndReduction) {
  for (const Arithmetic& by : test::Arithmetics()) {
    for (const Sides sides : {Sides::kOneB, Sides::kManyB}) {
      for (const int64_t items : {1, 2, 9}) {
        for (const int64_t m : {0, 1, 3, 13, 14, 15, 31}) {
          for (const int64_t n : {1, 15, 16, 17, 33, 161}) {
            const Case sum(items, {m, n, 1 + (m * 7 + n) % 20}, sides);
            const ReduceOp op = kOps[static_cast<size_t>((m + n + items) % 8)];
            ASSERT_TRUE(test::Close(sum.Fused(by, op), sum.Apart(by, op), test::Exact()))
                << test::NameOf(by) << " " << items << "x" << m << "x" << n << " op "
                << static_cast<int>(op);
          }
        }
      }
    }
  }
}

TEST(ReducedGemm, EverySizeHasTheBitsOfProductAndReduction) {
  for (int64_t size = 1; size <= 70; ++size) {
    const ReduceOp op = kOps[static_cast<size_t>(size % 8)];
    for (const Arithmetic& by : test::Arithmetics()) {
      for (const Shape& shape : {Shape{size, 17, 9}, Shape{5, size, 7}, Shape{15, 33, size}}) {
        for (const Sides sides : {Sides::kOneB, Sides::kManyB}) {
          const Case sum(3, shape, sides);
          ASSERT_TRUE(test::Close(sum.Fused(by, op), sum.Apart(by, op), test::Exact()))
              << test::NameOf(by) << " " << ToString(shape) << " op " << static_cast<int>(op);
        }
      }
    }
  }
}

TEST(ReducedGemm, EveryReductionAgreesBeyondABlockOfRows) {
  for (const Arithmetic& by : test::Arithmetics()) {
    const int64_t block = BlockRows(by, 7, 530);
    for (const ReduceOp op : kOps) {
      EXPECT_TRUE(HasRowReduction(op));
      for (const int64_t m : {block - 1, block, block + 1, 3 * block + 5}) {
        const Case sum(2, {m, 530, 7}, Sides::kOneB);
        const bool same = m <= block || op == ReduceOp::kMax || op == ReduceOp::kMin;
        ASSERT_TRUE(
            test::Close(sum.Fused(by, op), sum.Apart(by, op), same ? test::Exact() : test::Ulp(1)))
            << test::NameOf(by) << " " << m << " rows, op " << static_cast<int>(op);
      }
    }
  }
}

TEST(ReducedGemm, ALongSumOfProductsIsResumedInTheStrip) {
  for (const Arithmetic& by : test::Arithmetics()) {
    for (const int64_t k : {0, 511, 512, 513, 1200}) {
      const Case sum(3, {20, 300, k}, Sides::kManyB);
      EXPECT_TRUE(
          test::Close(sum.Fused(by, ReduceOp::kSum), sum.Apart(by, ReduceOp::kSum), test::Exact()))
          << k;
    }
  }
}

TEST(ReducedGemm, AnyNumberOfThreadsAndItemsGivesTheSameBits) {
  for (const Arithmetic& by : test::Arithmetics()) {
    for (const int64_t m : {5, 257}) {
      const Case sum(7, {m, 600, 40}, Sides::kOneB);
      const Tensor one = sum.Fused(by, ReduceOp::kMean);
      for (const int threads : {2, 4}) {
        EXPECT_TRUE(test::Close(sum.Fused(by, ReduceOp::kMean, test::FineParallel(threads)), one,
                                test::Exact()));
      }
      for (int64_t item = 0; item < 7; ++item) {
        Case alone(1, {m, 600, 40}, Sides::kOneB);
        alone.a = sum.a.Rows(item, item + 1);
        alone.full = sum.full.Rows(item, item + 1);
        alone.operands[0].data = alone.full.data<float>();
        EXPECT_TRUE(
            test::Close(alone.Fused(by, ReduceOp::kMean), one.Rows(item, item + 1), test::Exact()))
            << item;
      }
    }
  }
}

TEST(ReducedGemm, WhatIsReadFirstIsNotMultipliedOut) {
  // The product of one item takes more than 8 times the scratch.
  ReducedGemm product;
  product.problem.m = 1 << 16;
  product.problem.n = 512;
  product.problem.k = 64;
  for (const Arithmetic& by : test::Arithmetics()) {
    EXPECT_LE(ReducedGemmScratchFloats(by, product, 2), (int64_t{1} << 25) / 8);
  }
}

// Gelu, times a scale by column of A, taken from a shift: before the product or as it is read.
void ExpectPrologue(Arithmetic by, int64_t m, int64_t n, int64_t k) {
  const Tensor scale = test::RandomFloats({k}, 4);
  const float shift = 0.25f;
  Prologue prologue;
  prologue.stages = {{{FindUnary(UnaryOp::kGeluErf, DType::kFloat, by.isa), {}}, -1, false},
                     {{FindBinary(BinaryOp::kMul, DType::kFloat, by.isa), {}}, 0, false},
                     {{FindBinary(BinaryOp::kSub, DType::kFloat, by.isa), {}}, 1, true}};
  prologue.operands = {{scale.data<float>(), 1}, {&shift, 0}};
  const Tensor a = test::RandomFloats({m, k}, 1);
  const Tensor b = test::RandomFloats({k, n}, 2);
  Tensor packed = *Tensor::Allocate(DType::kFloat, {PackedFloats(by, k, n)});
  PackB(by, {k, n, {b.data<float>(), n, 1}, 1}, packed.mutable_data<float>(), SequentialParallel());
  Tensor whole = *Tensor::Allocate(DType::kFloat, {m, k});
  for (int64_t row = 0; row < m; ++row) {
    ApplyPrologue(prologue, {a.data<float>() + row * k, 0, k},
                  whole.mutable_data<float>() + row * k);
  }
  Tensor expected = *Tensor::Allocate(DType::kFloat, {m, n});
  Tensor actual = *Tensor::Allocate(DType::kFloat, {m, n});
  GemmProblem problem{m, n, k, whole.data<float>(), k, expected.mutable_data<float>(), n};
  Gemm(by, problem, packed.data<float>(), SequentialParallel());
  problem.a = a.data<float>();
  problem.c = actual.mutable_data<float>();
  problem.prologue = &prologue;
  Gemm(by, problem, packed.data<float>(), SequentialParallel());
  ASSERT_TRUE(test::Close(actual, expected, test::Exact()))
      << test::NameOf(by) << " " << m << "x" << n << "x" << k;
}

TEST(GemmPrologue, HasTheBitsOfTheStagesBeforeTheProduct) {
  for (const Arithmetic& by : test::Arithmetics()) {
    for (const int64_t k : {0, 1, 15, 255, 256, 257, 513, 1024, 1300}) {
      for (const int64_t m : {1, 5, 14, 33}) {
        for (const int64_t n : {1, 33, 300}) ExpectPrologue(by, m, n, k);
      }
    }
    for (int64_t size = 1; size <= 70; ++size) {
      ExpectPrologue(by, size, 17, 9);
      ExpectPrologue(by, 5, size, 9);
      ExpectPrologue(by, 5, 17, size);
    }
  }
}

}  // namespace
}  // namespace tandem::kernels
