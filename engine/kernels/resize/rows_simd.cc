// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/resize/rows_simd.cc"
#include "hwy/foreach_target.h"  // before every other Highway header
#include <algorithm>

#include "engine/kernels/resize/rows.h"
#include "engine/kernels/simd.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Rows that are added up in one go.
constexpr int kGroup = 16;
struct RowGroup {
  const float* rows[kGroup];
  float weights[kGroup];
  int count = 0;
};

// to[i] = sum over the group of weight * row[i], for n elements.
void MixRows(const RowGroup& group, int64_t n, float* to) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    V sum = hn::Mul(hn::Set(d, group.weights[0]), hn::LoadU(d, group.rows[0] + i));
    for (int r = 1; r < group.count; ++r) {
      sum = hn::MulAdd(hn::Set(d, group.weights[r]), hn::LoadU(d, group.rows[r] + i), sum);
    }
    hn::StoreU(sum, d, to + i);
  }
  for (; i < n; ++i) {
    float sum = group.weights[0] * group.rows[0][i];
    for (int r = 1; r < group.count; ++r) sum += group.weights[r] * group.rows[r][i];
    to[i] = sum;
  }
}

// The mixed input row, places [block.first, block.last] of it: `width` elements of each place,
// `stride` elements apart.
struct Strip {
  const float* data;
  int64_t stride;
  int64_t width;
};

// Mixes the input rows of the unit into `tile`, place by place.
Strip MixInto(const ResizePlan& plan, const ResizeUnit& unit, const RowTaps& taps, const float* in,
              float* tile) {
  const ResizeBlock& block = plan.blocks[static_cast<size_t>(unit.block)];
  const int64_t width = unit.end - unit.begin;
  const int64_t places = block.last - block.first + 1;
  const int64_t start = block.first * plan.inner + unit.begin;
  if (taps.count() == 1 && taps[0].weight == 1) {
    return {in + taps[0].offset + start, plan.inner, width};
  }
  // Whole places lie side by side in the tile and in the input.
  const bool whole = width == plan.inner;
  const int64_t runs = whole ? 1 : places;
  const int64_t run = whole ? places * width : width;
  for (int64_t first = 0; first < taps.count();) {
    RowGroup group;
    int64_t own = 0;
    if (first > 0) {  // what has been added up is a row of weight 1
      group.rows[group.count] = tile;
      group.weights[group.count++] = 1;
      own = 1;
    }
    for (; first < taps.count() && group.count < kGroup; ++first) {
      const RowTap tap = taps[first];
      group.rows[group.count] = in + tap.offset + start;
      group.weights[group.count++] = static_cast<float>(tap.weight);
    }
    for (int64_t p = 0; p < runs; ++p) {
      MixRows(group, run, tile + p * width);
      if (own == 1) group.rows[0] += width;
      for (int64_t r = own; r < group.count; ++r) group.rows[r] += plan.inner;
    }
  }
  return {tile, width, width};
}

// Places of several elements: the vectors run along them.
void ResampleWide(const ResizePlan& plan, const ResizeBlock& block, const Strip& strip,
                  float* out) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const ResizeAxis& row = plan.row;
  for (int64_t x = block.begin; x < block.end; ++x) {
    const auto tap = [&](int t) {
      const int64_t place = row.places[static_cast<size_t>(t * row.out + x)];
      return strip.data + (place - block.first) * strip.stride;
    };
    const float* weights = plan.row_weights.data() + x;
    const auto sum = [&](int64_t c) {
      V total = hn::Mul(hn::Set(d, weights[0]), hn::LoadU(d, tap(0) + c));
      for (int t = 1; t < row.taps; ++t) {
        total = hn::MulAdd(hn::Set(d, weights[t * row.out]), hn::LoadU(d, tap(t) + c), total);
      }
      hn::StoreU(total, d, out + x * plan.inner + c);
    };
    int64_t c = 0;
    for (; c + lanes <= strip.width; c += lanes) sum(c);
    if (c < strip.width) sum(strip.width - lanes);
  }
}

// Places of one element: the vectors gather neighbouring output places.
void ResampleNarrow(const ResizePlan& plan, const ResizeBlock& block, const Strip& strip,
                    float* out) {
  const D d;
  const hn::RebindToSigned<D> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const ResizeAxis& row = plan.row;
  const auto first = hn::Set(di, static_cast<int32_t>(block.first));
  int64_t x = block.begin;
  for (; x + lanes <= block.end; x += lanes) {
    V total = hn::Zero(d);
    for (int t = 0; t < row.taps; ++t) {
      const auto places = hn::LoadU(di, row.places.data() + t * row.out + x);
      const V values = hn::GatherIndex(d, strip.data, hn::Sub(places, first));
      const V weights = hn::LoadU(d, plan.row_weights.data() + t * row.out + x);
      total = hn::MulAdd(weights, values, total);
    }
    hn::StoreU(total, d, out + x);
  }
  for (; x < block.end; ++x) {
    float total = 0;
    for (int t = 0; t < row.taps; ++t) {
      const auto at = static_cast<size_t>(t * row.out + x);
      total += plan.row_weights[at] * strip.data[row.places[at] - block.first];
    }
    out[x] = total;
  }
}

void ResampleUnit(const ResizePlan& plan, const ResizeUnit& unit, const float* in, float* out) {
  HWY_ALIGN float tile[kResizeTile];
  const ResizeBlock& block = plan.blocks[static_cast<size_t>(unit.block)];
  const RowTaps taps(plan, unit.row);
  const Strip strip = MixInto(plan, unit, taps, in, tile);
  float* to = out + unit.row * plan.row.out * plan.inner + unit.begin;
  if (plan.inner == 1) {
    ResampleNarrow(plan, block, strip, to);
  } else {
    ResampleWide(plan, block, strip, to);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels {

HWY_EXPORT(ResampleUnit);

void ResizeRows(Isa isa, const ResizePlan& plan, const float* in, float* out,
                const Parallel& parallel) {
  const auto blocks = static_cast<int64_t>(plan.blocks.size());
  const int64_t units = blocks * plan.chunks;  // of a row
  if (units == 0) return;
  const int64_t work = plan.row.out * plan.inner * (plan.row.taps + 2) / units;
  const int64_t grain = GrainOf(kGrainElements, work);
  const auto kernel = TANDEM_DISPATCH(isa, ResampleUnit);
  parallel.For(plan.rows() * units, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t chunk = i % plan.chunks;
      kernel(plan,
             {.row = i / units,
              .block = i / plan.chunks % blocks,
              .begin = plan.inner * chunk / plan.chunks,
              .end = plan.inner * (chunk + 1) / plan.chunks},
             in, out);
    }
  });
}

}  // namespace tandem::kernels
#endif  // HWY_ONCE
