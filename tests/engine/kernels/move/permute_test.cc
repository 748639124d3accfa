#include "engine/kernels/move/permute.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "tests/support/fine_parallel.h"

namespace tandem::kernels {
namespace {

// Bytes that differ from their neighbours, so that a misplaced element shows.
std::vector<std::byte> Pattern(int64_t bytes) {
  std::vector<std::byte> data(static_cast<size_t>(bytes));
  for (size_t i = 0; i < data.size(); ++i) {
    data[i] = static_cast<std::byte>((i * 2654435761u) >> 13);
  }
  return data;
}

// The transposed tensor, element by element by its definition.
std::vector<std::byte> Transposed(const std::vector<std::byte>& in,
                                  const std::vector<int64_t>& extents,
                                  const std::vector<int>& order, int size) {
  std::vector<std::byte> out(in.size());
  const size_t rank = extents.size();
  const auto elements = static_cast<int64_t>(in.size()) / size;
  for (int64_t to = 0; to < elements; ++to) {
    int64_t rest = to;
    std::vector<int64_t> source(rank);
    for (size_t k = rank; k-- > 0;) {
      const auto axis = static_cast<size_t>(order[k]);
      source[axis] = rest % extents[axis];
      rest /= extents[axis];
    }
    int64_t from = 0;
    for (size_t k = 0; k < rank; ++k) from = from * extents[k] + source[k];
    std::copy_n(in.begin() + from * size, size, out.begin() + to * size);
  }
  return out;
}

void ExpectTransposed(const std::vector<int64_t>& extents, const std::vector<int>& order, int size,
                      const Parallel& parallel) {
  int64_t elements = 1;
  for (const int64_t extent : extents) elements *= extent;
  const std::vector<std::byte> in = Pattern(elements * size);
  std::vector<std::byte> out(in.size());
  std::vector<std::byte> reference(in.size());
  const StridedAxes axes = PermutationAxes(extents, order);
  StridedCopy(axes, size, in.data(), out.data(), parallel);
  StridedCopyReference(axes, size, in.data(), reference.data());
  const std::vector<std::byte> expected = Transposed(in, extents, order, size);
  EXPECT_EQ(reference, expected);
  EXPECT_EQ(out, expected) << "rank " << extents.size() << ", size " << size;
}

TEST(Permute, EveryOrderOfEveryRankToFiveIsRight) {
  const SequentialParallel parallel;
  const int64_t extents[] = {3, 2, 5, 1, 4};
  for (size_t rank = 0; rank <= 5; ++rank) {
    std::vector<int> order(rank);
    std::iota(order.begin(), order.end(), 0);
    do {
      ExpectTransposed({extents, extents + rank}, order, 4, parallel);
    } while (std::ranges::next_permutation(order).found);
  }
}

TEST(Permute, RankEightWithEveryElementSize) {
  const SequentialParallel parallel;
  for (const int size : {1, 2, 4, 8, 16}) {
    ExpectTransposed({2, 3, 1, 2, 3, 2, 2, 3}, {7, 2, 5, 0, 6, 1, 3, 4}, size, parallel);
  }
}

TEST(Permute, MatricesAtTheEdgesOfATile) {
  const SequentialParallel parallel;
  for (const int64_t rows : {1, 15, 16, 17, 33}) {
    for (const int64_t columns : {1, 3, 15, 16, 17, 100}) {
      for (const int size : {1, 2, 4, 8, 16}) {
        ExpectTransposed({rows, columns}, {1, 0}, size, parallel);
        ExpectTransposed({3, rows, columns}, {0, 2, 1}, size, parallel);
      }
    }
  }
}

TEST(Permute, MatricesOfEverySize) {
  const SequentialParallel parallel;
  for (int64_t size = 1; size <= 70; ++size) {
    for (const int element : {1, 2, 4, 8, 16}) {
      ExpectTransposed({size, 5}, {1, 0}, element, parallel);
      ExpectTransposed({5, size}, {1, 0}, element, parallel);
      ExpectTransposed({2, size, 33}, {0, 2, 1}, element, parallel);
      ExpectTransposed({2, 33, size}, {2, 1, 0}, element, parallel);
      ExpectTransposed({3, 2, size}, {1, 0, 2}, element, parallel);
    }
  }
}

TEST(Permute, AnEmptyTensorIsNotTouched) {
  const SequentialParallel parallel;
  ExpectTransposed({2, 0, 3}, {2, 1, 0}, 4, parallel);
}

TEST(Permute, ThreadsDoNotChangeTheResult) {
  for (const int threads : {1, 2, 4}) {
    const test::FineParallel parallel(threads);
    ExpectTransposed({3, 257, 301}, {0, 2, 1}, 4, parallel);
    ExpectTransposed({700001}, {0}, 1, parallel);
    ExpectTransposed({65, 7, 129, 3}, {3, 2, 1, 0}, 2, parallel);
  }
}

TEST(ConvertLayout, GoesToChannelsLastAndBack) {
  const SequentialParallel parallel;
  for (int64_t size = 1; size <= 140; ++size) {
    // All numbers of channels to 70, then all of pixels.
    const int64_t channels = size <= 70 ? size : 37;
    const int64_t spatial = size <= 70 ? 35 : size - 70;
    const LayoutConversion there{.items = 2, .channels = channels, .spatial = spatial};
    LayoutConversion back = there;
    back.direction = LayoutDirection::kChannelsLastToNative;
    const std::vector<std::byte> in = Pattern(2 * channels * spatial * 4);
    std::vector<std::byte> last(in.size());
    std::vector<std::byte> again(in.size());
    ConvertLayout(there, in.data(), last.data(), parallel);
    EXPECT_EQ(last, Transposed(in, {2, channels, spatial}, {0, 2, 1}, 4));
    ConvertLayout(back, last.data(), again.data(), parallel);
    EXPECT_EQ(again, in);
  }
}

TEST(StridedCopy, ReversesRepeatsAndSkips) {
  const std::vector<uint16_t> in = {1, 2, 3, 4, 5, 6};
  const SequentialParallel parallel;
  // Two copies of every second element, backwards, three apart.
  std::vector<uint16_t> out(12, 0);
  StridedCopy({{2, 0, 1}, {3, -2, 4}}, 2, in.data() + 5, out.data(), parallel);
  EXPECT_EQ(out, (std::vector<uint16_t>{6, 6, 0, 0, 4, 4, 0, 0, 2, 2, 0, 0}));
}

TEST(StridedCopy, EverySizeEqualsTheReference) {
  const SequentialParallel parallel;
  for (int64_t size = 1; size <= 70; ++size) {
    for (const int element : {1, 2, 4, 8}) {
      // Rows side by side, every second element, one element again and again, and columns.
      for (const StridedAxes& axes : {StridedAxes{{3, size, size + 1}, {size, 1, 1}},
                                      {{3, 2 * size, size}, {size, 2, 1}},
                                      {{3, 1, size}, {size, 0, 1}},
                                      {{size, 1, 3}, {3, size, 1}}}) {
        const std::vector<std::byte> in = Pattern(6 * size * element);
        std::vector<std::byte> out(static_cast<size_t>(3 * (size + 1) * element), std::byte{0});
        std::vector<std::byte> expected = out;
        StridedCopy(axes, element, in.data(), out.data(), parallel);
        StridedCopyReference(axes, element, in.data(), expected.data());
        ASSERT_EQ(out, expected) << size << " elements of " << element << " bytes";
      }
    }
  }
}

TEST(StridedCopy, RandomRegionsEqualTheReference) {
  std::mt19937 random(7);
  const SequentialParallel parallel;
  for (int round = 0; round < 300; ++round) {
    const int rank = static_cast<int>(random() % 5);
    StridedAxes axes;
    int64_t out_size = 1;
    int64_t in_low = 0;
    int64_t in_high = 0;
    for (int k = 0; k < rank; ++k) {
      const auto extent = static_cast<int64_t>(1 + random() % 19);
      const auto in_stride = static_cast<int64_t>(random() % 9) - 4;
      axes.push_back({extent, in_stride, out_size});
      out_size *= extent + static_cast<int64_t>(random() % 2);
      (in_stride < 0 ? in_low : in_high) += in_stride * (extent - 1);
    }
    std::shuffle(axes.begin(), axes.end(), random);
    const std::vector<std::byte> in = Pattern((in_high - in_low + 1) * 4);
    std::vector<std::byte> out(static_cast<size_t>(out_size * 4), std::byte{0});
    std::vector<std::byte> expected = out;
    StridedCopy(axes, 4, in.data() - in_low * 4, out.data(), parallel);
    StridedCopyReference(axes, 4, in.data() - in_low * 4, expected.data());
    ASSERT_EQ(out, expected) << "round " << round;
  }
}

}  // namespace
}  // namespace tandem::kernels
