#include "engine/kernels/gemm/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "engine/tensor/tensor.h"
#include "tests/support/arithmetics.h"
#include "tests/support/compare.h"
#include "tests/support/fine_parallel.h"
#include "tests/support/random_tensor.h"

namespace tandem::kernels {
namespace {

// A product with its data; C starts as NaN so that an element that nobody writes is seen.
struct Case {
  int64_t m, n, k;
  Tensor a, b, column, full, c;
  Epilogue epilogue;
  std::vector<EpilogueOperand> operands;

  Case(int64_t rows, int64_t columns, int64_t depth)
      : m(rows),
        n(columns),
        k(depth),
        a(test::RandomFloats({m, k}, 1)),
        b(test::RandomFloats({k, n}, 2)),
        column(test::RandomFloats({n}, 3)),
        full(test::RandomFloats({m, n}, 4)) {}

  void AddStage(EpilogueOp op, OperandKind kind) {
    epilogue.push_back({op, kind, 0.1f, 0.7f});
    operands.push_back(kind == OperandKind::kFull ? EpilogueOperand{full.data<float>(), n}
                                                  : EpilogueOperand{column.data<float>(), 0});
  }
  GemmProblem Problem() {
    c = *Tensor::Allocate(DType::kFloat, {m, n});
    std::fill_n(c.mutable_data<float>(), m * n, std::numeric_limits<float>::quiet_NaN());
    return {m, n, k, a.data<float>(), k, c.mutable_data<float>(), n, &epilogue, operands.data()};
  }
  Tensor Reference() {
    GemmReference(Problem(), {b.data<float>(), n, 1}, 1);
    return c;
  }
  Tensor Packed(Arithmetic by, const Parallel& parallel = SequentialParallel()) {
    Tensor packed = *Tensor::Allocate(DType::kFloat, {PackedFloats(by, k, n)});
    PackB(by, {k, n, {b.data<float>(), n, 1}, 1}, packed.mutable_data<float>(), parallel);
    Gemm(by, Problem(), packed.data<float>(), parallel);
    return c;
  }
};

TEST(Gemm, EveryEdgeSizeAgreesWithTheReference) {
  for (const Arithmetic& by : test::Arithmetics()) {
    for (int64_t m = 1; m <= 70; ++m) {
      for (int64_t n = 1; n <= 70; ++n) {
        Case sum(m, n, 1 + (m * 7 + n) % 70);
        ASSERT_TRUE(test::Close(sum.Packed(by), sum.Reference(), test::ToleranceOf(by, sum.k)))
            << test::NameOf(by) << " " << m << "x" << n << "x" << sum.k;
      }
    }
    for (int64_t k = 0; k <= 70; ++k) {
      Case sum(15, 33, k);
      ASSERT_TRUE(test::Close(sum.Packed(by), sum.Reference(), test::ToleranceOf(by, k))) << k;
    }
  }
}

TEST(Gemm, EveryStageAgreesWithTheReferenceAtEveryEdge) {
  for (const Arithmetic& by : test::Arithmetics()) {
    for (int op = 0; op <= static_cast<int>(EpilogueOp::kMish); ++op) {
      const auto stage = static_cast<EpilogueOp>(op);
      const bool binary = stage <= kLastBinaryOp;
      for (const OperandKind kind :
           {OperandKind::kScalar, OperandKind::kColumn, OperandKind::kFull}) {
        if (!binary && kind != OperandKind::kFull) continue;
        for (const int64_t n : {1, 15, 16, 17, 31, 32, 33, 128, 161}) {
          for (const int64_t m : {1, 2, 5, 14, 15}) {
            Case sum(m, n, 9);
            sum.AddStage(EpilogueOp::kAdd, OperandKind::kColumn);
            sum.AddStage(stage, binary ? kind : OperandKind::kNone);
            sum.AddStage(EpilogueOp::kAdd, OperandKind::kFull);
            sum.AddStage(EpilogueOp::kRelu, OperandKind::kNone);
            ASSERT_TRUE(test::Close(sum.Packed(by), sum.Reference(), test::ToleranceOf(by, 64)))
                << test::NameOf(by) << " stage " << op << " " << m << "x" << n;
          }
        }
      }
    }
  }
}

TEST(Gemm, AFusedStageHasTheBitsOfTheStageAlone) {
  for (const Arithmetic& by : test::Arithmetics()) {
    for (int op = 0; op <= static_cast<int>(EpilogueOp::kMish); ++op) {
      const auto stage = static_cast<EpilogueOp>(op);
      const OperandKind kind = stage <= kLastBinaryOp ? OperandKind::kFull : OperandKind::kNone;
      Case fused(15, 45, 33);
      fused.AddStage(stage, kind);
      const Tensor together = fused.Packed(by);
      // The stage alone: applied to the plain product as the epilogue of an empty sum's Add.
      Case plain(15, 45, 33);
      const Tensor product = plain.Packed(by);
      Case alone(15, 45, 0);
      alone.epilogue = {{EpilogueOp::kAdd, OperandKind::kFull, 0, 0}};
      alone.operands = {{product.data<float>(), 45}};
      alone.AddStage(stage, kind);
      EXPECT_TRUE(test::Close(together, alone.Packed(by), test::Exact()))
          << test::NameOf(by) << " stage " << op;
    }
  }
}

TEST(Gemm, ARowHasTheSameBitsAloneAndInAnyBatch) {
  for (const Arithmetic& by : test::Arithmetics()) {
    for (const int64_t n : {7, 64, 200}) {
      Case batch(37, n, 129);
      batch.AddStage(EpilogueOp::kAdd, OperandKind::kColumn);
      batch.AddStage(EpilogueOp::kTanh, OperandKind::kNone);
      const Tensor whole = batch.Packed(by);
      for (int64_t row = 0; row < 37; ++row) {
        Case single(1, n, 129);
        single.AddStage(EpilogueOp::kAdd, OperandKind::kColumn);
        single.AddStage(EpilogueOp::kTanh, OperandKind::kNone);
        single.a = batch.a.Rows(row, row + 1);
        ASSERT_TRUE(test::Close(single.Packed(by), whole.Rows(row, row + 1), test::Exact()))
            << test::NameOf(by) << " row " << row;
      }
    }
  }
}

TEST(Gemm, RowsThatLieAPageApartHaveTheSameBits) {
  for (const Arithmetic& by : test::Arithmetics()) {
    Case aliasing(33, 70, 1024);
    aliasing.AddStage(EpilogueOp::kAdd, OperandKind::kColumn);
    const Tensor whole = aliasing.Packed(by);
    EXPECT_TRUE(test::Close(whole, aliasing.Reference(), test::ToleranceOf(by, 1024)));
    Case single(1, 70, 1024);
    single.AddStage(EpilogueOp::kAdd, OperandKind::kColumn);
    single.a = aliasing.a.Rows(31, 32);
    EXPECT_TRUE(test::Close(single.Packed(by), whole.Rows(31, 32), test::Exact()));
  }
}

TEST(Gemm, AnyNumberOfThreadsGivesTheSameBits) {
  for (const Arithmetic& by : test::Arithmetics()) {
    Case sum(131, 517, 83);
    sum.AddStage(EpilogueOp::kAdd, OperandKind::kFull);
    const Tensor one = sum.Packed(by);
    for (const int threads : {2, 4}) {
      EXPECT_TRUE(test::Close(sum.Packed(by, test::FineParallel(threads)), one, test::Exact()));
    }
  }
}

TEST(Gemm, PackingReadsTransposedAndScaledSources) {
  for (const Arithmetic& by : test::Arithmetics()) {
    const Tensor b = test::RandomFloats({19, 45}, 5);  // n x k in memory
    Tensor packed = *Tensor::Allocate(DType::kFloat, {PackedFloats(by, 45, 19)});
    PackB(by, {45, 19, {b.data<float>(), 1, 45}, 2.5f}, packed.mutable_data<float>(),
          SequentialParallel());
    Case sum(5, 19, 45);
    Gemm(by, sum.Problem(), packed.data<float>(), SequentialParallel());
    const Tensor actual = sum.c;
    GemmReference(sum.Problem(), {b.data<float>(), 1, 45}, 2.5f);
    EXPECT_TRUE(test::Close(actual, sum.c, test::ToleranceOf(by, 45)));
  }
}

TEST(Gemm, ASpecialNumberIsWhatIeeeSaysInItsRowOrColumnAndNowhereElse) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const float special : {kInf, -kInf, kInf - kInf, 3e38f, 1e-40f}) {
    for (const bool in_b : {false, true}) {
      Case before(17, 45, 33);
      Case with = before;
      Tensor& changed = in_b ? with.b : with.a;
      changed = in_b ? test::RandomFloats({33, 45}, 2) : test::RandomFloats({17, 33}, 1);
      changed.mutable_data<float>()[in_b ? 7 * 45 + 11 : 5 * 33 + 7] = special;
      const Tensor expected = with.Reference();
      for (const Arithmetic& by : test::Arithmetics()) {
        const Tensor other = before.Packed(by);
        const Tensor actual = with.Packed(by);
        for (int64_t i = 0; i < actual.elements(); ++i) {
          const bool meets = in_b ? i % 45 == 11 : i / 45 == 5;
          const float want = (meets ? expected : other).data<float>()[i];
          const float got = actual.data<float>()[i];
          if (std::isnan(want)) {
            ASSERT_TRUE(std::isnan(got)) << test::NameOf(by) << " " << special << " element " << i;
          } else if (!meets || std::isinf(want)) {
            ASSERT_EQ(got, want) << test::NameOf(by) << " " << special << " element " << i;
          } else {
            const double allowed = by.precision == Precision::kBf16 ? 0x1p-7 : 1e-5;
            ASSERT_NEAR(got, want, allowed * std::max(1.0f, std::abs(want)))
                << test::NameOf(by) << " " << special << " element " << i;
          }
        }
      }
    }
  }
}

// Whole multiples of the smallest float times whole numbers: every product and sum is one, too.
TEST(Gemm, SumsOfDenormalsAreExact) {
  for (const bool in_b : {false, true}) {
    Case sum(17, 45, 33);
    sum.a = test::RandomWholeFloats({17, 33}, 1, -9, 10);
    sum.b = test::RandomWholeFloats({33, 45}, 2, -9, 10);
    Tensor& small = in_b ? sum.b : sum.a;
    for (int64_t i = 0; i < small.elements(); ++i) {
      small.mutable_data<float>()[i] *= std::numeric_limits<float>::denorm_min();
    }
    const Tensor expected = sum.Reference();
    for (const Arithmetic& by : test::Arithmetics()) {
      EXPECT_TRUE(test::Close(sum.Packed(by), expected, test::Exact())) << test::NameOf(by);
    }
  }
}

TEST(Gemm, NoRowsOrNoColumnsIsNothingToDo) {
  for (const Arithmetic& by : test::Arithmetics()) {
    Case no_rows(0, 5, 3);
    EXPECT_EQ(no_rows.Packed(by).elements(), 0);
    Case no_columns(5, 0, 3);
    EXPECT_EQ(no_columns.Packed(by).elements(), 0);
  }
}

}  // namespace
}  // namespace tandem::kernels
