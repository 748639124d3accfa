#include "engine/kernels/conv/transposed.h"

#include <algorithm>
#include <numeric>

#include "engine/kernels/conv/disjoint.h"
#include "engine/kernels/depthwise/depthwise.h"
#include "engine/kernels/gemm/gemm.h"

namespace tandem::kernels {
namespace {

// The taps of one axis that meet output positions o with (o + pad) % stride == residue: `first`,
// first + step, ...; as the axis of a convolution of stride 1 they come in falling order.
struct AxisPhase {
  int64_t first = 0;
  int64_t step = 1;
  int64_t taps = 0;  // may be 0
  WindowAxis axis;   // kernel 1 where there is no tap
  OutputAxis output;

  AxisPhase(const WindowAxis& whole, int64_t residue) {
    const int64_t common = std::gcd(whole.stride, whole.dilation);
    step = whole.stride / common;
    for (int64_t t = 0; t < std::min(step, whole.kernel); ++t) {
      if (t * whole.dilation % whole.stride != residue) continue;
      first = t;
      taps = (whole.kernel - 1 - t) / step + 1;
      break;
    }
    int64_t offset = (residue - whole.pad_begin) % whole.stride;
    if (offset < 0) offset += whole.stride;
    output = {whole.out, whole.stride, offset};
    axis.in = whole.in;
    axis.out = whole.out > offset ? (whole.out - offset - 1) / whole.stride + 1 : 0;
    axis.kernel = std::max<int64_t>(1, taps);
    axis.dilation = whole.dilation / common;
    if (taps == 0) {
      axis.pad_begin = axis.out;  // always in the padding
      return;
    }
    const int64_t last = first + (taps - 1) * step;
    axis.pad_begin = -((offset + whole.pad_begin - last * whole.dilation) / whole.stride);
  }
};

// One residue along each axis: a convolution of stride 1.
struct Phase {
  ConvGeometry geometry;
  ConvWeights weights;  // at tap 0 of the phase, relative to all weights
  int64_t offset = 0;   // of it
  bool has_taps = true;
};

Phase MakePhase(const ConvGeometry& geometry, const int64_t (&residues)[kConvAxes]) {
  Phase phase;
  phase.geometry = geometry;
  const int64_t taps = geometry.taps();
  phase.weights.in = geometry.out_per_group() * taps;
  phase.weights.out = taps;
  phase.weights.group = geometry.in_per_group() * phase.weights.in;
  int64_t stride = 1;
  for (int i = kConvAxes - 1; i >= 0; --i) {
    const auto axis = static_cast<size_t>(i);
    const AxisPhase along(geometry.axes[axis], residues[i]);
    phase.has_taps = phase.has_taps && along.taps > 0;
    phase.geometry.axes[axis] = along.axis;
    phase.geometry.outputs[i] = along.output;
    phase.weights.taps[i] = -along.step * stride;
    phase.offset += (along.first + (along.axis.kernel - 1) * along.step) * stride;
    stride *= geometry.axes[axis].kernel;
  }
  return phase;
}

// Calls visit(phase) for the residues along all axes.
template <typename Visit>
void ForEachPhase(const ConvGeometry& geometry, const Visit& visit) {
  int64_t residues[kConvAxes];
  for (residues[0] = 0; residues[0] < geometry.axes[0].stride; ++residues[0]) {
    for (residues[1] = 0; residues[1] < geometry.axes[1].stride; ++residues[1]) {
      for (residues[2] = 0; residues[2] < geometry.axes[2].stride; ++residues[2]) {
        visit(MakePhase(geometry, residues));
      }
    }
  }
}

int64_t PackedPhaseFloats(Arithmetic arithmetic, const ConvGeometry& geometry) {
  return HasShortGroups(arithmetic.isa, geometry) ? PackedShortGroupFloats(arithmetic.isa, geometry)
                                                  : PackedConvFloats(arithmetic, geometry);
}

template <typename T>
void Scatter(const ConvGeometry& geometry, const T* weights, const T* x, T* y) {
  const WindowAxes& axes = geometry.axes;
  const int64_t taps = geometry.taps();
  const int64_t outputs = geometry.out_per_group();
  std::fill_n(y, geometry.batch * geometry.out_pixels() * geometry.out_channels, T{0});
  for (int64_t pixel = 0; pixel < geometry.batch * geometry.in_pixels(); ++pixel) {
    const int64_t item = pixel / geometry.in_pixels();
    for (int64_t tap = 0; tap < taps; ++tap) {
      int64_t rest_pixel = pixel;
      int64_t rest_tap = tap;
      int64_t at = 0;
      int64_t step = 1;
      bool inside = true;
      for (size_t i = kConvAxes; i-- > 0;) {
        const WindowAxis& axis = axes[i];
        const int64_t o = rest_pixel % axis.in * axis.stride - axis.pad_begin +
                          rest_tap % axis.kernel * axis.dilation;
        inside = inside && o >= 0 && o < axis.out;
        at += o * step;
        step *= axis.out;
        rest_pixel /= axis.in;
        rest_tap /= axis.kernel;
      }
      if (!inside) continue;
      T* to = y + (item * geometry.out_pixels() + at) * geometry.out_channels;
      for (int64_t c = 0; c < geometry.in_channels; ++c) {
        const T value = x[pixel * geometry.in_channels + c];
        const int64_t group = c / geometry.in_per_group();
        for (int64_t m = 0; m < outputs; ++m) {
          to[group * outputs + m] += value * weights[(c * outputs + m) * taps + tap];
        }
      }
    }
  }
}

}  // namespace

int64_t PackedConvTransposeFloats(Arithmetic arithmetic, const ConvGeometry& geometry) {
  if (HasDisjointFilters(arithmetic, geometry)) return PackedDisjointFloats(arithmetic, geometry);
  int64_t floats = 0;
  ForEachPhase(geometry, [&](const Phase& phase) {
    floats += PackedPhaseFloats(arithmetic, phase.geometry);
  });
  return floats;
}

void PackConvTransposeWeights(Arithmetic arithmetic, const ConvGeometry& geometry,
                              const float* weights, float* packed) {
  if (HasDisjointFilters(arithmetic, geometry))
    return PackDisjoint(arithmetic, geometry, weights, packed);
  ForEachPhase(geometry, [&](const Phase& phase) {
    const int64_t floats = PackedPhaseFloats(arithmetic, phase.geometry);
    ConvWeights from = phase.weights;
    from.data = weights + phase.offset;
    if (!phase.has_taps) {
      std::fill_n(packed, floats, 0.0f);
    } else if (HasShortGroups(arithmetic.isa, phase.geometry)) {
      PackShortGroups(arithmetic.isa, phase.geometry, from, packed);
    } else {
      PackConvWeights(arithmetic, phase.geometry, from, packed);
    }
    packed += floats;
  });
}

void ConvTranspose(Arithmetic arithmetic, const ConvGeometry& geometry, const float* packed,
                   const ConvData& data, const Parallel& parallel) {
  if (HasDisjointFilters(arithmetic, geometry)) {
    return ConvDisjoint(arithmetic, geometry, packed, data, parallel);
  }
  ForEachPhase(geometry, [&](const Phase& phase) {
    if (HasShortGroups(arithmetic.isa, phase.geometry)) {
      ConvShortGroups(arithmetic.isa, phase.geometry, packed, data, parallel);
    } else {
      Conv(arithmetic, phase.geometry, packed, data, parallel);
    }
    packed += PackedPhaseFloats(arithmetic, phase.geometry);
  });
}

void ConvTransposeReference(const ConvGeometry& geometry, const float* weights,
                            const ConvData& data) {
  Scatter(geometry, weights, data.x, data.y);
  ApplyEpilogueReference(geometry, data);
}

void ConvTransposeReference(const ConvGeometry& geometry, const double* weights, const double* x,
                            double* y) {
  Scatter(geometry, weights, x, y);
}

}  // namespace tandem::kernels
