// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/depthwise/depthwise.cc"
#include <algorithm>
#include "hwy/foreach_target.h"  // before every other Highway header
#include "engine/kernels/depthwise/depthwise.h"
#include "engine/kernels/epilogue-inl.h"
#include "engine/kernels/simd.h"
// clang-format on

#ifndef TANDEM_KERNELS_DEPTHWISE_SHARED_
#define TANDEM_KERNELS_DEPTHWISE_SHARED_
namespace tandem::kernels {
namespace {

// What one vector of output channels holds.
struct VectorGroups {
  int64_t groups;  // whole ones; 0 where not even one fits
  int64_t inputs;  // input channels of them
  int64_t outputs;
  int64_t vectors;  // for all output channels

  VectorGroups(const ConvGeometry& geometry, int64_t lanes) {
    const int64_t widest = std::max(geometry.in_per_group(), geometry.out_per_group());
    groups = widest == 0 ? 0 : lanes / widest;
    inputs = groups * geometry.in_per_group();
    outputs = groups * geometry.out_per_group();
    vectors = groups == 0 ? 0 : (geometry.group + groups - 1) / groups;
  }
};

// A part of one row of output pixels, in a part of the vectors of output channels.
struct ShortGroupUnit {
  int64_t row;  // over all items
  int64_t first_pixel;
  int64_t last_pixel;
  int64_t first_vector;
  int64_t last_vector;
};

// What of x and y there is in memory.
struct ShortGroupMemory {
  int64_t first_y = 0;    // pixel that data.y begins with
  int64_t held_rows = 0;  // as ConvShortGroupsOfPixels has it
};

// How the work is cut: pieces of rows times blocks of vectors whose weights fit a first-level
// cache. Depends on the shape only.
struct ShortGroupUnits {
  static constexpr int64_t kPiece = 256;         // pixels
  static constexpr int64_t kBlockFloats = 4096;  // of weights
  static constexpr int64_t kBlockUnit = 4;       // vectors that run side by side

  int64_t vectors;
  int64_t block;  // vectors
  int64_t blocks;
  int64_t pieces;
  int64_t pixels;

  ShortGroupUnits(const ConvGeometry& geometry, int64_t lanes)
      : vectors(VectorGroups(geometry, lanes).vectors), pixels(geometry.axes[2].out) {
    const int64_t floats = geometry.taps() * geometry.in_per_group() * lanes;
    block = std::max<int64_t>(1, kBlockFloats / std::max<int64_t>(1, floats));
    if (block > kBlockUnit) block -= block % kBlockUnit;
    block = std::clamp<int64_t>(block, 1, vectors);
    blocks = (vectors + block - 1) / block;
    pieces = (pixels + kPiece - 1) / kPiece;
  }

  ShortGroupUnit At(int64_t index) const {
    const int64_t first_vector = index % blocks * block;
    const int64_t piece = index / blocks % pieces;
    return {index / blocks / pieces, piece * kPiece, std::min(pixels, (piece + 1) * kPiece),
            first_vector, std::min(vectors, first_vector + block)};
  }
};

}  // namespace
}  // namespace tandem::kernels
#endif  // TANDEM_KERNELS_DEPTHWISE_SHARED_

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kLanes = HWY_LANES(float);

// Where the lanes of a vector of output channels take their inputs from.
enum class Inputs : uint8_t {
  kOwn,        // one channel each: the same lane
  kExchanged,  // those of their group: lanes of a vector of inputs
  kShared,     // those of the only group of the vector
};

// Neighbours that share the loads of weights: as many as have registers for their sums and, where
// these are not shared, for their inputs.
template <Inputs kInputs>
constexpr int kPixels = HWY_TARGET == HWY_AVX3 || kInputs == Inputs::kShared ? 8 : 4;
// Vectors side by side, so that the sums of a few pixels are on their way at the same time, too.
template <Inputs kInputs, int kCount>
constexpr int kVectorsBeside = kInputs == Inputs::kExchanged
                                   ? 1
                                   : HWY_MAX(1, HWY_MIN(4, kPixels<kInputs> / kCount));

// Taps [begin, end) of a window lie inside the input.
struct TapRange {
  int64_t begin;
  int64_t end;
  int64_t start;  // input position of tap 0, may be negative
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
  VectorGroups groups;
  const int32_t* sources;  // for each channel of a group, the input lane of each output lane
  const float* item;       // the item's first pixel
  TapRange outer;
  TapRange middle;
  int64_t held_rows;    // of the middle axis, in memory
  int64_t place;        // of tap 0 of the middle axis among them, where it lies inside
  int64_t first_y;      // its first pixel in the operands, over all items
  int64_t y_step;       // from one pixel to the next there
  float* first_result;  // where that pixel lies in y, or would
  // Floats from one to the next.
  int64_t result_step;    // pixel of y
  int64_t channels;       // pixel of x
  int64_t step;           // pixel of x that the same tap reads for the next pixel of y
  int64_t tap_floats;     // tap of a vector of weights
  int64_t vector_floats;  // vector of weights
  int64_t taps_of_row;  // neighbours that the innermost axis of the window has; 0: not of stride 1
};

// Sums of kCount neighbouring pixels for kVectors neighbouring vectors of output channels.
template <int kCount, int kVectors>
struct Sums {
  FloatVec v[kCount][kVectors];

  // Replaces each by function(pixel, vector, sum).
  template <class Function>
  HWY_INLINE void Each(const Function& function) {
    TANDEM_UNROLL
    for (int i = 0; i < kCount; ++i) {
      TANDEM_UNROLL
      for (int j = 0; j < kVectors; ++j) v[i][j] = function(i, j, v[i][j]);
    }
  }
};

// The epilogue of pixels from `out` on and channels from `channel` on.
template <int kCount, int kVectors, class Access>
HWY_INLINE void Finish(const Row& row, int64_t out, int64_t channel, Access access,
                       Sums<kCount, kVectors>& sums) {
  const auto for_sums = [&](auto function) TANDEM_INLINE_LAMBDA { sums.Each(function); };
  const auto operand = [&](size_t stage, OperandKind kind, int i, int j) TANDEM_INLINE_LAMBDA {
    return LoadOperand(kind, row.data.operands[stage], row.first_y + (out + i) * row.y_step,
                       channel + j * row.groups.outputs, access);
  };
  ApplyStages<kCount * kVectors>(*row.data.epilogue, for_sums, operand);
}

// Adds one tap, whose inputs are `step` apart from `x` on for neighbouring pixels; of each vector
// of channels the weights are `vector_floats` further on.
template <int kCount, int kVectors, class Access>
HWY_INLINE void AddTap(const float* x, int64_t step, const float* w, int64_t vector_floats,
                       Access access, Sums<kCount, kVectors>& sums) {
  FloatVec weights[kVectors];
  TANDEM_UNROLL
  for (int j = 0; j < kVectors; ++j) weights[j] = hn::Load(FloatTag(), w + j * vector_floats);
  sums.Each([&](int i, int j, FloatVec sum) TANDEM_INLINE_LAMBDA {
    return hn::MulAdd(access.Load(x + i * step + j * kLanes), weights[j], sum);
  });
}

// Adds all taps of a row of the window, kTaps neighbours, to neighbours of stride 1. What several
// of them read is loaded once.
template <int kTaps, int kCount>
HWY_INLINE void AddTapsOfRow(const float* x, int64_t step, const float* w, Sums<kCount, 1>& sums) {
  const FloatTag d;
  FloatVec inputs[kCount + kTaps - 1];
  TANDEM_UNROLL
  for (int i = 0; i < kCount + kTaps - 1; ++i) inputs[i] = hn::LoadU(d, x + i * step);
  TANDEM_UNROLL
  for (int t = 0; t < kTaps; ++t) {
    const FloatVec weight = hn::Load(d, w + t * kLanes);
    sums.Each([&](int i, int, FloatVec sum)
                  TANDEM_INLINE_LAMBDA { return hn::MulAdd(inputs[i + t], weight, sum); });
  }
}

// Adds one tap where each vector is one group, whose inputs are `group` apart.
template <int kCount, int kVectors>
HWY_INLINE void AddSharedTap(const float* x, int64_t step, int64_t group, const float* w,
                             int64_t vector_floats, Sums<kCount, kVectors>& sums) {
  const FloatTag d;
  for (int64_t c = 0; c < group; ++c, w += kLanes) {
    FloatVec weights[kVectors];
    TANDEM_UNROLL
    for (int j = 0; j < kVectors; ++j) weights[j] = hn::Load(d, w + j * vector_floats);
    sums.Each([&](int i, int j, FloatVec sum) TANDEM_INLINE_LAMBDA {
      return hn::MulAdd(hn::Set(d, x[i * step + j * group + c]), weights[j], sum);
    });
  }
}

// Adds one tap of one vector with several groups of several channels.
template <int kCount, class Access>
HWY_INLINE void AddExchangedTap(const Row& row, const float* x, const float* w, Access access,
                                Sums<kCount, 1>& sums) {
  const FloatTag d;
  FloatVec inputs[kCount];
  TANDEM_UNROLL
  for (int i = 0; i < kCount; ++i) inputs[i] = access.Load(x + i * row.step);
  for (int64_t at = 0; at < row.tap_floats; at += kLanes) {
    const FloatVec weight = hn::Load(d, w + at);
    const auto sources = hn::SetTableIndices(d, row.sources + at);
    sums.Each([&](int i, int, FloatVec sum) TANDEM_INLINE_LAMBDA {
      return hn::MulAdd(hn::TableLookupLanes(inputs[i], sources), weight, sum);
    });
  }
}

// Sums and stores kCount pixels from `out` on, all with the inner taps `inner` (that of the first),
// for kVectors vectors of output channels from `vector` on. kTaps as row.taps_of_row, all of which
// are inner taps, or 0.
template <int kCount, int kVectors, Inputs kInputs, int kTaps, class Access>
HWY_INLINE void RunPixels(const Row& row, const TapRange& inner, int64_t out, int64_t vector,
                          Access in_access, Access out_access) {
  const WindowAxes& axes = row.geometry.axes;
  const float* item = row.item + vector * row.groups.inputs;
  const float* packed = row.packed + vector * row.vector_floats;
  Sums<kCount, kVectors> sums;
  sums.Each([](int, int, FloatVec) TANDEM_INLINE_LAMBDA { return hn::Zero(FloatTag()); });
  for (int64_t t0 = row.outer.begin; t0 < row.outer.end; ++t0) {
    const int64_t at0 = row.outer.start + t0 * axes[0].dilation;
    for (int64_t t1 = row.middle.begin; t1 < row.middle.end; ++t1) {
      int64_t at1 = row.place + t1 * axes[1].dilation;
      if (at1 >= row.held_rows) at1 -= row.held_rows;
      const int64_t pixel =
          (at0 * axes[1].in + at1) * axes[2].in + inner.start + inner.begin * axes[2].dilation;
      const float* x = item + pixel * row.channels;
      const float* w =
          packed + ((t0 * axes[1].kernel + t1) * axes[2].kernel + inner.begin) * row.tap_floats;
      if constexpr (kTaps > 0) {
        AddTapsOfRow<kTaps>(x, row.step, w, sums);
        continue;
      }
      for (int64_t t2 = inner.begin; t2 < inner.end; ++t2, w += row.tap_floats) {
        if constexpr (kInputs == Inputs::kOwn) {
          AddTap(x, row.step, w, row.vector_floats, in_access, sums);
        } else if constexpr (kInputs == Inputs::kShared) {
          AddSharedTap(x, row.step, row.groups.inputs, w, row.vector_floats, sums);
        } else {
          AddExchangedTap(row, x, w, in_access, sums);
        }
        x += axes[2].dilation * row.channels;
      }
    }
  }
  const int64_t channel = vector * row.groups.outputs;
  if (row.data.epilogue != nullptr) Finish(row, out, channel, out_access, sums);
  float* y = row.first_result + out * row.result_step + channel;
  sums.Each([&](int i, int j, FloatVec sum) TANDEM_INLINE_LAMBDA {
    out_access.Store(sum, y + i * row.result_step + j * kLanes);
    return sum;
  });
}

// Several vectors at a time while they are whole.
template <int kCount, Inputs kInputs, int kTaps>
HWY_NOINLINE void RunVectors(const Row& row, const TapRange& inner, int64_t out,
                             const ShortGroupUnit& unit) {
  constexpr int kBeside = kVectorsBeside<kInputs, kCount>;
  int64_t vector = unit.first_vector;
  if constexpr (kBeside > 1) {
    const int64_t whole = row.groups.outputs < kLanes ? 0 : row.geometry.out_channels / kLanes;
    for (; vector + kBeside <= HWY_MIN(unit.last_vector, whole); vector += kBeside) {
      RunPixels<kCount, kBeside, kInputs, kTaps>(row, inner, out, vector, Whole(), Whole());
    }
  }
  for (; vector < unit.last_vector; ++vector) {
    const int64_t inputs =
        HWY_MIN(row.groups.inputs, row.geometry.in_channels - vector * row.groups.inputs);
    const int64_t outputs =
        HWY_MIN(row.groups.outputs, row.geometry.out_channels - vector * row.groups.outputs);
    if (inputs == kLanes && outputs == kLanes) {
      RunPixels<kCount, 1, kInputs, kTaps>(row, inner, out, vector, Whole(), Whole());
    } else {
      RunPixels<kCount, 1, kInputs, 0>(row, inner, out, vector, First{inputs}, First{outputs});
    }
  }
}

// `kCount` pixels from `out` on, or fewer where their taps differ or the piece ends; returns how
// many.
template <int kCount, Inputs kInputs>
HWY_INLINE int RunSome(const Row& row, const TapRange& inner, int64_t out,
                       const ShortGroupUnit& unit) {
  if constexpr (kCount > 1) {
    const WindowAxis& axis = row.geometry.axes[2];
    const bool alike = out + kCount <= unit.last_pixel && inner.begin == 0 &&
                       TapsInside(axis, out + kCount - 1).end == axis.kernel;
    if (!alike) return RunSome<kCount / 2, kInputs>(row, inner, out, unit);
  }
  if constexpr (kInputs == Inputs::kOwn && kCount == kPixels<kInputs>) {
    switch (row.taps_of_row) {
      case 3:
        RunVectors<kCount, kInputs, 3>(row, inner, out, unit);
        return kCount;
      case 5:
        RunVectors<kCount, kInputs, 5>(row, inner, out, unit);
        return kCount;
      case 7:
        RunVectors<kCount, kInputs, 7>(row, inner, out, unit);
        return kCount;
      default:
        break;
    }
  }
  RunVectors<kCount, kInputs, 0>(row, inner, out, unit);
  return kCount;
}

template <Inputs kInputs>
void RunUnit(const ConvGeometry& geometry, const ConvData& data, const float* packed,
             const ShortGroupUnit& unit, const ShortGroupMemory& memory) {
  HWY_ALIGN int32_t sources[kLanes * kLanes] = {};
  const VectorGroups groups(geometry, kLanes);
  for (int64_t c = 0; kInputs == Inputs::kExchanged && c < geometry.in_per_group(); ++c) {
    for (int64_t lane = 0; lane < groups.outputs; ++lane) {
      const int64_t group = lane / geometry.out_per_group();
      sources[c * kLanes + lane] = static_cast<int32_t>(group * geometry.in_per_group() + c);
    }
  }
  const WindowAxes& axes = geometry.axes;
  const int64_t middle = unit.row % axes[1].out;
  const int64_t outer = unit.row / axes[1].out % axes[0].out;
  const int64_t item = unit.row / axes[1].out / axes[0].out;
  const int64_t first_y = geometry.PixelOfY(unit.row * axes[2].out);
  const int64_t tap_floats = geometry.in_per_group() * kLanes;
  const bool neighbours = axes[2].stride == 1 && axes[2].dilation == 1;
  Row row{.geometry = geometry,
          .data = data,
          .packed = packed,
          .groups = groups,
          .sources = sources,
          .item = data.x + item * geometry.in_pixels() * geometry.in_channels,
          .outer = TapsInside(axes[0], outer),
          .middle = TapsInside(axes[1], middle),
          .held_rows = axes[1].in,
          .place = 0,
          .first_y = first_y,
          .y_step = geometry.y_step(),
          .first_result = data.y + (first_y - memory.first_y) * geometry.out_channels,
          .result_step = geometry.y_step() * geometry.out_channels,
          .channels = geometry.in_channels,
          .step = axes[2].stride * geometry.in_channels,
          .tap_floats = tap_floats,
          .vector_floats = geometry.taps() * tap_floats,
          .taps_of_row = neighbours ? axes[2].kernel : 0};
  row.place = row.middle.start;
  if (memory.held_rows > 0) {
    row.item = data.x;
    row.held_rows = memory.held_rows;
    const int64_t before = row.middle.begin * axes[1].dilation;
    row.place = (row.middle.start + before) % row.held_rows - before;
  }
  for (int64_t out = unit.first_pixel; out < unit.last_pixel;) {
    out += RunSome<kPixels<kInputs>, kInputs>(row, TapsInside(axes[2], out), out, unit);
  }
}

void RunAnyUnit(const ConvGeometry& geometry, const ConvData& data, const float* packed,
                const ShortGroupUnit& unit, const ShortGroupMemory& memory) {
  if (geometry.in_per_group() == 1 && geometry.out_per_group() == 1) {
    RunUnit<Inputs::kOwn>(geometry, data, packed, unit, memory);
  } else if (VectorGroups(geometry, kLanes).groups == 1) {
    RunUnit<Inputs::kShared>(geometry, data, packed, unit, memory);
  } else {
    RunUnit<Inputs::kExchanged>(geometry, data, packed, unit, memory);
  }
}

int64_t Lanes() { return kLanes; }

}  // namespace HWY_NAMESPACE
}  // namespace tandem::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels {

HWY_EXPORT(RunAnyUnit);
HWY_EXPORT(Lanes);

bool HasShortGroups(Isa isa, const ConvGeometry& geometry) {
  return VectorGroups(geometry, TANDEM_DISPATCH(isa, Lanes)()).groups > 0 && geometry.group > 1;
}

int64_t PackedShortGroupFloats(Isa isa, const ConvGeometry& geometry) {
  const int64_t lanes = TANDEM_DISPATCH(isa, Lanes)();
  return VectorGroups(geometry, lanes).vectors * geometry.taps() * geometry.in_per_group() * lanes;
}

void PackShortGroups(Isa isa, const ConvGeometry& geometry, const ConvWeights& weights,
                     float* packed) {
  const int64_t lanes = TANDEM_DISPATCH(isa, Lanes)();
  const VectorGroups groups(geometry, lanes);
  const int64_t taps = geometry.taps();
  const int64_t channels = geometry.in_per_group();
  for (int64_t vector = 0; vector < groups.vectors; ++vector) {
    const int64_t first = vector * groups.outputs;
    const int64_t used = std::min(groups.outputs, geometry.out_channels - first);
    for (int64_t tap = 0; tap < taps; ++tap) {
      for (int64_t c = 0; c < channels; ++c) {
        for (int64_t lane = 0; lane < used; ++lane) {
          *packed++ = *weights.At(geometry, first + lane, c, tap);
        }
        packed = std::fill_n(packed, lanes - used, 0.0f);
      }
    }
  }
}

void ConvShortGroups(Isa isa, const ConvGeometry& geometry, const float* packed,
                     const ConvData& data, const Parallel& parallel) {
  const ShortGroupUnits units(geometry, TANDEM_DISPATCH(isa, Lanes)());
  const int64_t unit_work = std::min(units.pixels, ShortGroupUnits::kPiece) * geometry.taps() *
                            geometry.out_channels * geometry.in_per_group() / units.blocks;
  // Every multiply-add loads its element, too.
  const int64_t grain = GrainOf(kGrainMultiplyAdds, 2 * unit_work);
  const int64_t rows = geometry.batch * geometry.axes[0].out * geometry.axes[1].out;
  parallel.For(rows * units.pieces * units.blocks, grain, [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) {
      TANDEM_DISPATCH(isa, RunAnyUnit)(geometry, data, packed, units.At(index), {});
    }
  });
}

void ConvShortGroupsOfPixels(Isa isa, const ConvGeometry& geometry, const float* packed,
                             const ConvData& data, const PixelRange& pixels, int64_t held_rows) {
  const ShortGroupUnits units(geometry, TANDEM_DISPATCH(isa, Lanes)());
  for (int64_t pixel = pixels.first; pixel < pixels.last;) {
    ShortGroupUnit unit;
    unit.row = pixel / units.pixels;
    unit.first_pixel = pixel % units.pixels;
    unit.last_pixel = std::min(units.pixels, unit.first_pixel + pixels.last - pixel);
    for (int64_t vector = 0; vector < units.vectors; vector += units.block) {
      unit.first_vector = vector;
      unit.last_vector = std::min(units.vectors, vector + units.block);
      TANDEM_DISPATCH(isa, RunAnyUnit)
      (geometry, data, packed, unit, {.first_y = pixels.first, .held_rows = held_rows});
    }
    pixel += unit.last_pixel - unit.first_pixel;
  }
}

}  // namespace tandem::kernels
#endif  // HWY_ONCE
