#include <algorithm>

#include "engine/kernels/resize/rows.h"

namespace tandem::kernels {
namespace {

// Inner extents below the least are made part of the row, so that vectors are filled across places.
constexpr int64_t kLeastInner = 16;  // no vector is longer
constexpr int64_t kMostInner = 256;

// Every element of a place becomes a place of its own.
ResizeAxis WithInner(const ResizeAxis& axis, int64_t inner) {
  ResizeAxis wide{.in = axis.in * inner, .out = axis.out * inner, .taps = axis.taps};
  for (size_t i = 0; i < axis.places.size(); ++i) {
    for (int64_t e = 0; e < inner; ++e) {
      wide.places.push_back(static_cast<int32_t>(axis.places[i] * inner + e));
      wide.weights.push_back(axis.weights[i]);
    }
  }
  for (const uint8_t outside : axis.outside) {
    wide.outside.insert(wide.outside.end(), static_cast<size_t>(inner), outside);
  }
  return wide;
}

// The input places that output place `output` reads are brought into [first, last] of `block`.
void Include(const ResizeAxis& row, int64_t output, ResizeBlock& block) {
  for (int t = 0; t < row.taps; ++t) {
    const int64_t place = row.places[static_cast<size_t>(t * row.out + output)];
    block.first = std::min(block.first, place);
    block.last = std::max(block.last, place);
  }
}

// Blocks that read at most `most` input places each; none when one output place reads more.
std::vector<ResizeBlock> BlocksOf(const ResizeAxis& row, int64_t most) {
  std::vector<ResizeBlock> blocks;
  ResizeBlock block{.begin = 0, .end = 0, .first = row.in, .last = -1};
  for (int64_t output = 0; output < row.out; ++output) {
    ResizeBlock longer = block;
    Include(row, output, longer);
    if (longer.last - longer.first >= most) {
      if (block.end > block.begin) blocks.push_back(block);
      longer = {.begin = output, .end = output, .first = row.in, .last = -1};
      Include(row, output, longer);
      if (longer.last - longer.first >= most) return {};
    }
    longer.end = output + 1;
    block = longer;
  }
  if (block.end > block.begin) blocks.push_back(block);
  return blocks;
}

}  // namespace

int64_t ResizePlan::rows() const {
  int64_t rows = 1;
  for (const ResizeAxis& axis : outer) rows *= axis.out;
  return rows;
}

bool ResizePlan::extrapolates() const {
  return !row.outside.empty() ||
         std::ranges::any_of(outer, [](const ResizeAxis& axis) { return !axis.outside.empty(); });
}

ResizePlan MakeResizePlan(std::vector<ResizeAxis> axes) {
  ResizePlan plan;
  while (!axes.empty() && axes.back().taps == 0) {
    plan.inner *= axes.back().out;
    axes.pop_back();
  }
  if (axes.empty()) {
    plan.row = {.taps = 1, .places = {0}, .weights = {1}};
  } else {
    plan.row = std::move(axes.back());
    axes.pop_back();
  }
  constexpr int64_t kMostPlaces = int64_t{1} << 31;  // of an index of 32 bits
  if (plan.inner > 1 && plan.inner < kLeastInner && plan.row.in * plan.inner < kMostPlaces) {
    plan.row = WithInner(plan.row, plan.inner);
    plan.inner = 1;
  }
  for (ResizeAxis& axis : axes) {
    if (axis.taps == 0 && !plan.outer.empty() && plan.outer.back().taps == 0) {
      plan.outer.back().in *= axis.in;
      plan.outer.back().out *= axis.out;
    } else {
      plan.outer.push_back(std::move(axis));
    }
  }
  plan.row_weights.assign(plan.row.weights.begin(), plan.row.weights.end());
  plan.chunks = (plan.inner + kMostInner - 1) / kMostInner;
  if (plan.inner == 1 || plan.inner >= kLeastInner) {
    const int64_t widest = (plan.inner + plan.chunks - 1) / plan.chunks;
    plan.blocks = BlocksOf(plan.row, kResizeTile / widest);
  }
  return plan;
}

RowTaps::RowTaps(const ResizePlan& plan, int64_t row) {
  int64_t stride = plan.row.in * plan.inner;
  for (size_t k = plan.outer.size(); k-- > 0;) {
    const ResizeAxis& axis = plan.outer[k];
    const int64_t output = row % axis.out;
    row /= axis.out;
    if (!axis.outside.empty()) outside_ |= axis.outside[static_cast<size_t>(output)] != 0;
    if (axis.taps == 0) {
      offset_ += output * stride;
    } else {
      axes_.push_back({&axis, output, stride});
      count_ *= axis.taps;
    }
    stride *= axis.in;
  }
}

RowTap RowTaps::operator[](int64_t index) const {
  RowTap tap{offset_, 1};
  for (const Axis& axis : axes_) {
    const auto at = static_cast<size_t>(index % axis.table->taps * axis.table->out + axis.output);
    index /= axis.table->taps;
    tap.offset += axis.table->places[at] * axis.stride;
    tap.weight *= axis.table->weights[at];
  }
  return tap;
}

}  // namespace tandem::kernels
