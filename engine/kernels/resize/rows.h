// What the kernels of this family share: the input rows that make an output row.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "engine/kernels/resize/resize.h"

namespace tandem::kernels {

struct RowTap {
  int64_t offset = 0;  // elements to the row's first
  double weight = 1;
};

// The input rows of output row `row`, numbered 0 to count() - 1.
class RowTaps {
 public:
  RowTaps(const ResizePlan& plan, int64_t row);

  int64_t count() const { return count_; }
  bool outside() const { return outside_; }  // the extrapolation value fills the row
  RowTap operator[](int64_t index) const;

 private:
  struct Axis {
    const ResizeAxis* table;
    int64_t output;
    int64_t stride;
  };
  absl::InlinedVector<Axis, 4> axes_;
  int64_t offset_ = 0;
  int64_t count_ = 1;
  bool outside_ = false;
};

// One piece of work of ResizeRows: a block of an output row, elements [begin, end) of its places.
struct ResizeUnit {
  int64_t row = 0;
  int64_t block = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

// Nearest mode for elements of any kind; `extrapolation` stands outside the region of interest.
template <typename T>
void ResizeNearest(const ResizePlan& plan, const T* in, T* out, const T& extrapolation,
                   const Parallel& parallel) {
  const ResizeAxis& row = plan.row;
  const int64_t length = row.out * plan.inner;
  const int64_t grain = GrainOf(kGrainElements, length);
  parallel.For(plan.rows(), grain, [&](int64_t begin, int64_t end) {
    int64_t previous = -1;  // the input row that the output row before this one shows
    for (int64_t r = begin; r < end; ++r) {
      const RowTaps taps(plan, r);
      T* to = out + r * length;
      if (taps.outside()) {
        std::fill_n(to, length, extrapolation);
        previous = -1;
        continue;
      }
      const int64_t offset = taps[0].offset;
      if (offset == previous) {
        std::copy_n(to - length, length, to);
        continue;
      }
      previous = offset;
      const T* from = in + offset;
      for (int64_t x = 0; x < row.out; ++x) {
        const int64_t place = row.places[static_cast<size_t>(x)];
        if (plan.inner == 1) {
          to[x] = from[place];
        } else {
          std::copy_n(from + place * plan.inner, plan.inner, to + x * plan.inner);
        }
      }
      for (int64_t x = 0; x < std::ssize(row.outside); ++x) {
        if (row.outside[static_cast<size_t>(x)] == 0) continue;
        std::fill_n(to + x * plan.inner, plan.inner, extrapolation);
      }
    }
  });
}

}  // namespace tandem::kernels
