// Broadcasts cut into rows: every way in which operands advance, on ranges that begin anywhere.
#include "engine/kernels/elementwise/broadcast.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "tests/support/fine_parallel.h"

namespace tandem::kernels {
namespace {

// How an operand goes along one axis.
enum class Along : uint8_t { kEach, kAgain };

struct Operand {
  std::vector<int32_t> data;
  Extents strides;
};

// Elements 0, 1, 2 ... over the axes along which it has its own.
Operand OperandOf(const std::vector<int64_t>& extents, const std::vector<Along>& along,
                  int32_t first) {
  Operand operand;
  operand.strides.resize(extents.size());
  int64_t elements = 1;
  for (size_t axis = extents.size(); axis-- > 0;) {
    operand.strides[axis] = along[axis] == Along::kEach ? elements : 0;
    if (along[axis] == Along::kEach) elements *= extents[axis];
  }
  operand.data.resize(static_cast<size_t>(elements));
  std::iota(operand.data.begin(), operand.data.end(), first);
  return operand;
}

int32_t ElementAt(const Operand& operand, const std::vector<int64_t>& extents, int64_t index) {
  int64_t at = 0;
  for (size_t axis = extents.size(); axis-- > 0;) {
    at += index % extents[axis] * operand.strides[axis];
    index /= extents[axis];
  }
  return operand.data[static_cast<size_t>(at)];
}

void ExpectSums(const std::vector<int64_t>& extents, const Operand& a, const Operand& b) {
  std::vector<BroadcastOperand> operands;
  for (const Operand* operand : {&a, &b}) {
    operands.push_back({operand->data.data(), sizeof(int32_t), operand->strides});
  }
  const BroadcastLoop loop(extents, operands);
  const auto add = [](const RowArgs& row) {
    const auto* left = static_cast<const int32_t*>(row.operands[0]);
    const auto* right = static_cast<const int32_t*>(row.operands[1]);
    auto* sum = static_cast<int32_t*>(row.output);
    for (int64_t i = 0; i < row.n; ++i) sum[i] = left[i * row.steps[0]] + right[i * row.steps[1]];
  };
  for (const int threads : {1, 3}) {
    std::vector<int32_t> sums(static_cast<size_t>(loop.elements()), -1);
    loop.Run(add, sums.data(), sizeof(int32_t), test::FineParallel(threads));
    for (size_t i = 0; i < sums.size(); ++i) {
      const auto index = static_cast<int64_t>(i);
      ASSERT_EQ(sums[i], ElementAt(a, extents, index) + ElementAt(b, extents, index))
          << "element " << i << " on " << threads << " threads";
    }
  }
}

TEST(BroadcastLoop, EveryExtent) {
  for (int64_t size = 1; size <= 70; ++size) {
    for (const std::vector<int64_t>& extents :
         {std::vector<int64_t>{3, size}, {size, 3}, {2, size, 5}}) {
      for (unsigned mask = 0; mask < 16; ++mask) {
        std::vector<Along> a(extents.size()), b(extents.size());
        for (size_t axis = 0; axis < extents.size(); ++axis) {
          a[axis] = (mask >> axis & 1U) != 0 ? Along::kAgain : Along::kEach;
          b[axis] = (mask >> (2 + axis) & 1U) != 0 ? Along::kAgain : Along::kEach;
        }
        SCOPED_TRACE(mask);
        ExpectSums(extents, OperandOf(extents, a, 1), OperandOf(extents, b, 100000));
      }
    }
  }
}

TEST(BroadcastLoop, OperandsThatAdvanceInEveryWay) {
  const std::vector<std::vector<int64_t>> shapes = {{3, 5, 7}, {2, 700, 3}, {4, 3, 513}, {1, 9, 1},
                                                    {5, 1, 2}, {3, 4, 512}, {2, 3, 600}, {0, 3, 2}};
  for (const std::vector<int64_t>& extents : shapes) {
    for (int mask = 0; mask < 64; ++mask) {
      std::vector<Along> a(3), b(3);
      for (size_t axis = 0; axis < 3; ++axis) {
        a[axis] = (mask >> axis & 1) != 0 ? Along::kAgain : Along::kEach;
        b[axis] = (mask >> (3 + axis) & 1) != 0 ? Along::kAgain : Along::kEach;
      }
      SCOPED_TRACE(mask);
      ExpectSums(extents, OperandOf(extents, a, 1), OperandOf(extents, b, 100000));
    }
  }
}

}  // namespace
}  // namespace tandem::kernels
