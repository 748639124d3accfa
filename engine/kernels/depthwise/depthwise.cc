// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/depthwise/depthwise.cc"
#include "hwy/foreach_target.h"  // before every other Highway header
#include "engine/kernels/depthwise/depthwise.h"
#include "engine/kernels/epilogue-inl.h"
#include "engine/kernels/simd.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kLanes = HWY_LANES(float);
constexpr int kPixels = 4;  // neighbours that share the loads of weights

// Taps [begin, end) of a window lie inside the input.
struct TapRange {
  int64_t begin;
  int64_t end;
  int64_t start;  // input position of tap 0, may be negative
  bool operator==(const TapRange&) const = default;
};

HWY_INLINE TapRange TapsInside(const WindowAxis& axis, int64_t out) {
  TapRange range{0, axis.kernel, out * axis.stride - axis.pad_begin};
  if (range.start < 0) range.begin = (-range.start + axis.dilation - 1) / axis.dilation;
  const int64_t room = axis.in - range.start;
  const int64_t fitting = room <= 0 ? 0 : (room + axis.dilation - 1) / axis.dilation;
  range.end = HWY_MIN(range.end, fitting);
  range.begin = HWY_MIN(range.begin, range.end);
  return range;
}

// A row of output pixels: what stays the same along the innermost axis.
struct Row {
  const ConvGeometry& geometry;
  const ConvData& data;
  const float* packed;
  const float* item;  // the item's first pixel
  TapRange outer;
  TapRange middle;
  int64_t first_pixel;  // in y, over all items
};

// Out of line, as the code of all stages is long.
HWY_NOINLINE FloatVec ApplyAnyStage(const EpilogueStage& stage, FloatVec x, FloatVec operand) {
  return ApplyStage(FloatTag(), stage, x, operand);
}

// The epilogue of `kCount` pixels from `pixel` on, for one vector of channels.
template <int kCount, class Access>
HWY_INLINE void Finish(const ConvData& data, int64_t pixel, int64_t channel, Access access,
                       FloatVec (&sums)[kCount]) {
  const FloatTag d;
  for (size_t s = 0; s < data.epilogue->size(); ++s) {
    const EpilogueStage& stage = (*data.epilogue)[s];
    const EpilogueOperand& operand = data.operands[s];
    if (stage.op == EpilogueOp::kAdd && stage.kind == OperandKind::kColumn) {
      const FloatVec bias = access.Load(operand.data + channel);
      TANDEM_UNROLL
      for (int i = 0; i < kCount; ++i) sums[i] = hn::Add(sums[i], bias);
    } else if (stage.op == EpilogueOp::kRelu) {
      TANDEM_UNROLL
      for (int i = 0; i < kCount; ++i) sums[i] = Relu(d, sums[i]);
    } else if (stage.op == EpilogueOp::kClip) {
      TANDEM_UNROLL
      for (int i = 0; i < kCount; ++i) sums[i] = Clip(d, sums[i], stage.alpha, stage.beta);
    } else {
      for (int i = 0; i < kCount; ++i) {
        const FloatVec o = LoadOperand(stage, operand, pixel + i, channel, access);
        sums[i] = ApplyAnyStage(stage, sums[i], o);
      }
    }
  }
}

// Sums and stores `kCount` pixels from `out` on, all with the inner taps `inner` (that of the
// first), for one vector of channels.
template <int kCount, class Access>
HWY_INLINE void RunPixels(const Row& row, const TapRange& inner, int64_t out, int64_t channel,
                          Access access) {
  const FloatTag d;
  const WindowAxes& axes = row.geometry.axes;
  const int64_t channels = row.geometry.in_channels;
  const int64_t pixel_step = axes[2].stride * channels;
  FloatVec sums[kCount];
  TANDEM_UNROLL
  for (int i = 0; i < kCount; ++i) sums[i] = hn::Zero(d);
  for (int64_t t0 = row.outer.begin; t0 < row.outer.end; ++t0) {
    const int64_t at0 = row.outer.start + t0 * axes[0].dilation;
    for (int64_t t1 = row.middle.begin; t1 < row.middle.end; ++t1) {
      const int64_t at1 = row.middle.start + t1 * axes[1].dilation;
      const float* x =
          row.item +
          ((at0 * axes[1].in + at1) * axes[2].in + inner.start + inner.begin * axes[2].dilation) *
              channels +
          channel;
      const float* w = row.packed +
                       ((t0 * axes[1].kernel + t1) * axes[2].kernel + inner.begin) * channels +
                       channel;
      for (int64_t t2 = inner.begin; t2 < inner.end; ++t2) {
        const FloatVec weight = access.Load(w);
        TANDEM_UNROLL
        for (int i = 0; i < kCount; ++i) {
          sums[i] = hn::MulAdd(access.Load(x + i * pixel_step), weight, sums[i]);
        }
        x += axes[2].dilation * channels;
        w += channels;
      }
    }
  }
  const int64_t pixel = row.first_pixel + out;
  if (row.data.epilogue != nullptr) Finish<kCount>(row.data, pixel, channel, access, sums);
  float* y = row.data.y + pixel * channels + channel;
  TANDEM_UNROLL
  for (int i = 0; i < kCount; ++i) access.Store(sums[i], y + i * channels);
}

template <int kCount>
HWY_NOINLINE void RunChannels(const Row& row, const TapRange& inner, int64_t out) {
  const int64_t channels = row.geometry.in_channels;
  int64_t channel = 0;
  for (; channel + kLanes <= channels; channel += kLanes) {
    RunPixels<kCount>(row, inner, out, channel, Whole());
  }
  if (channel < channels) RunPixels<kCount>(row, inner, out, channel, First{channels - channel});
}

// Row `index` of all rows of all items.
void RunRow(const ConvGeometry& geometry, const ConvData& data, const float* packed,
            int64_t index) {
  const WindowAxes& axes = geometry.axes;
  const int64_t middle = index % axes[1].out;
  const int64_t outer = index / axes[1].out % axes[0].out;
  const int64_t item = index / axes[1].out / axes[0].out;
  const Row row{geometry,
                data,
                packed,
                data.x + item * geometry.in_pixels() * geometry.in_channels,
                TapsInside(axes[0], outer),
                TapsInside(axes[1], middle),
                index * axes[2].out};
  for (int64_t out = 0; out < axes[2].out;) {
    const TapRange inner = TapsInside(axes[2], out);
    const bool several = out + kPixels <= axes[2].out && inner.begin == 0 &&
                         TapsInside(axes[2], out + kPixels - 1).end == axes[2].kernel;
    if (several) {
      RunChannels<kPixels>(row, inner, out);
      out += kPixels;
    } else {
      RunChannels<1>(row, inner, out);
      ++out;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

namespace tandem::kernels {

HWY_EXPORT(RunRow);

bool IsDepthwise(const ConvGeometry& geometry) {
  return geometry.group > 1 && geometry.group == geometry.in_channels &&
         geometry.group == geometry.out_channels;
}

void PackDepthwiseWeights(const ConvGeometry& geometry, const float* weights, float* packed) {
  const int64_t taps = geometry.taps();
  for (int64_t tap = 0; tap < taps; ++tap) {
    for (int64_t channel = 0; channel < geometry.in_channels; ++channel) {
      *packed++ = weights[channel * taps + tap];
    }
  }
}

void Depthwise(Isa isa, const ConvGeometry& geometry, const float* packed, const ConvData& data,
               const Parallel& parallel) {
  const int64_t row_work =
      std::max<int64_t>(1, geometry.axes[2].out * geometry.in_channels * geometry.taps());
  const int64_t grain = ((int64_t{1} << 15) + row_work - 1) / row_work;
  parallel.For(geometry.batch * geometry.axes[0].out * geometry.axes[1].out, grain,
               [&](int64_t begin, int64_t end) {
                 for (int64_t row = begin; row < end; ++row) {
                   TANDEM_DISPATCH(isa, RunRow)(geometry, data, packed, row);
                 }
               });
}

}  // namespace tandem::kernels
#endif  // HWY_ONCE
