// The tile on AMX, on every machine (tests/support/amx_emulator.h), against sums in int64.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "engine/kernels/ceil_div.h"
#include "engine/kernels/quant/integer_tile.h"
#include "tests/support/amx_emulator.h"
#include "tests/support/guarded_runs.h"

namespace tandem::kernels {
namespace {

using Side = test::GuardedRuns::Side;

constexpr int kRows = 32;
constexpr int64_t kColumns = 32;
constexpr int64_t kMostTaps = 9;
constexpr int64_t kMostDepth = 8192;
constexpr int64_t kMostPanels = 3;
constexpr int32_t kUntouched = 0x55555555;

struct Form {
  int rows;
  int64_t depth;
  int64_t taps = 1;
  int64_t panels = 1;
};

// Rows and panels beside guarded memory, and what becomes of them.
class AmxIntegerTile : public testing::Test {
 protected:
  static void SetUpTestSuite() { test::EmulateAmx(); }

  // Bytes by `a_of` and `b_of`, called without arguments.
  template <typename A, typename B>
  void Fill(const Form& form, Side guard, const A& a_of, const B& b_of) {
    form_ = form;
    pointers_.clear();
    for (int64_t tap = 0; tap < form.taps; ++tap) {
      for (int r = 0; r < form.rows; ++r) {
        std::byte* run = runs_.At(tap * kRows + r, form.depth, guard);
        std::generate_n(run, form.depth, a_of);
        pointers_.push_back(run);
      }
    }
    const int64_t groups = CeilDiv(form.depth, kDotBytes);
    panel_bytes_ = form.taps * groups * kColumns * kDotBytes;
    b_ = panels_.At(0, form.panels * panel_bytes_, guard);
    std::fill_n(b_, form.panels * panel_bytes_, std::byte{0});
    for (int64_t panel = 0; panel < form.panels; ++panel) {
      for (int64_t tap = 0; tap < form.taps; ++tap) {
        for (int64_t k = 0; k < form.depth; ++k) {
          for (int64_t j = 0; j < kColumns; ++j) *ElementOfB(panel, tap, k, j) = b_of();
        }
      }
    }
  }
  void FillAtRandom(const Form& form, Side guard) {
    const auto byte = [this] { return static_cast<std::byte>(random_()); };
    Fill(form, guard, byte, byte);
  }

  std::vector<int32_t> Sums(ByteSigns signs) const {
    std::vector<int32_t> sums(static_cast<size_t>((form_.rows + 1) * Stride()), kUntouched);
    IntegerTile tile;
    tile.rows = pointers_.data();
    tile.row_step = form_.rows;
    tile.row_count = form_.rows;
    tile.taps = form_.taps;
    tile.depth = form_.depth;
    tile.b = b_;
    tile.panel_bytes = panel_bytes_;
    tile.panels = form_.panels;
    tile.sums = sums.data();
    tile.sums_stride = Stride();
    AmxIntegerTileKernel(signs).run(tile);
    return sums;
  }

  std::vector<int32_t> Expected(ByteSigns signs) const {
    return signs == ByteSigns::kUnsignedA ? Expected<uint8_t, int8_t>()
                                          : Expected<int8_t, uint8_t>();
  }

  void ExpectExact(ByteSigns signs) const {
    ASSERT_EQ(Sums(signs), Expected(signs))
        << (signs == ByteSigns::kUnsignedA ? "unsigned" : "signed") << " rows: " << form_.rows
        << ", depth " << form_.depth << ", taps " << form_.taps << ", panels " << form_.panels;
  }
  // Of random bytes.
  void ExpectExact(const Form& form) {
    const Side guard = form.depth % 2 == 0 ? Side::kBehind : Side::kBefore;
    FillAtRandom(form, guard);
    ExpectExact(ByteSigns::kUnsignedA);
    ExpectExact(ByteSigns::kSignedA);
  }

 private:
  int64_t Stride() const { return form_.panels * kColumns + 3; }
  std::byte* ElementOfB(int64_t panel, int64_t tap, int64_t k, int64_t j) const {
    const int64_t group = tap * CeilDiv(form_.depth, kDotBytes) + k / kDotBytes;
    return b_ + panel * panel_bytes_ + (group * kColumns + j) * kDotBytes + k % kDotBytes;
  }

  template <typename A, typename B>
  std::vector<int32_t> Expected() const {
    std::vector<int32_t> sums(static_cast<size_t>((form_.rows + 1) * Stride()), kUntouched);
    std::vector<int64_t> row(kColumns);
    for (int r = 0; r < form_.rows; ++r) {
      for (int64_t panel = 0; panel < form_.panels; ++panel) {
        std::fill(row.begin(), row.end(), 0);
        for (int64_t tap = 0; tap < form_.taps; ++tap) {
          const std::byte* a = pointers_[static_cast<size_t>(tap * form_.rows + r)];
          for (int64_t k = 0; k < form_.depth; ++k) {
            const std::byte* b = ElementOfB(panel, tap, k, 0);
            const int64_t left = static_cast<A>(a[k]);
            for (size_t j = 0; j < kColumns; ++j) row[j] += left * static_cast<B>(b[j * kDotBytes]);
          }
        }
        std::transform(row.begin(), row.end(), sums.begin() + r * Stride() + panel * kColumns,
                       [](int64_t sum) { return static_cast<int32_t>(sum); });
      }
    }
    return sums;
  }

  test::GuardedRuns runs_{kMostTaps * kRows, kMostDepth};
  test::GuardedRuns panels_{1, kMostTaps* kMostDepth* kColumns* kMostPanels};
  std::mt19937 random_{1};
  Form form_{};
  std::vector<const std::byte*> pointers_;
  std::byte* b_ = nullptr;
  int64_t panel_bytes_ = 0;
};

TEST_F(AmxIntegerTile, EveryNumberOfRowsOfEveryDepthIsExact) {
  for (int rows = 1; rows <= kRows; ++rows) {
    for (int64_t depth = 1; depth <= 70; ++depth) ExpectExact({rows, depth});
  }
}

TEST_F(AmxIntegerTile, EveryNumberOfTapsOfEveryDepthIsExact) {
  for (int64_t taps = 2; taps <= kMostTaps; ++taps) {
    for (int64_t depth = 1; depth <= 70; ++depth) {
      const int rows = static_cast<int>(1 + (taps * 5 + depth * 7) % kRows);
      ExpectExact({rows, depth, taps, 1 + depth % kMostPanels});
    }
  }
}

// Of one piece of the rows, 1024 bytes, and of several.
TEST_F(AmxIntegerTile, LongRunsAreExact) {
  for (const int64_t depth : {1000, 1023, 1024, 1025, 1088, 1100, 2048, 2049, 5001}) {
    for (const int rows : {1, 16, 17, 32}) ExpectExact({rows, depth, 1, 2});
  }
  ExpectExact({32, 341, 9, 2});
  ExpectExact({19, 1026, 3, 3});
}

TEST_F(AmxIntegerTile, TheLargestProductsDoNotSaturateOnTheirWay) {
  const auto all = [](int value) { return [value] { return static_cast<std::byte>(value); }; };
  for (const int a : {0, 127, 128, 255}) {
    for (const int b : {0, 127, 128, 255}) {
      for (const Side guard : {Side::kBehind, Side::kBefore}) {
        Fill({32, 515, 3}, guard, all(a), all(b));
        ExpectExact(ByteSigns::kUnsignedA);
        ExpectExact(ByteSigns::kSignedA);
      }
    }
  }
}

TEST_F(AmxIntegerTile, SumsBeyond32BitsWrapAround) {
  const auto most = [] { return std::byte{255}; };
  const auto least = [] { return std::byte{128}; };
  Fill({2, kMostDepth, kMostTaps}, Side::kBefore, most, least);
  ExpectExact(ByteSigns::kUnsignedA);  // 255 * -128 each
  Fill({2, kMostDepth, kMostTaps}, Side::kBefore, least, most);
  ExpectExact(ByteSigns::kSignedA);  // -128 * 255 each
}

TEST_F(AmxIntegerTile, AnEmptySumIsZero) {
  for (const int rows : {1, 16, 17, 32}) {
    ExpectExact({rows, 0, 1, 2});
    ExpectExact({rows, 0, 3, 1});
  }
}

}  // namespace
}  // namespace tandem::kernels
