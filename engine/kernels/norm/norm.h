// Normalization of a dense tensor by statistics of its own, over any set of axes:
//
//   y = (x - mean) * inverse * scale + bias
//
//   kStandard         inverse = 1 / sqrt(variance + epsilon)
//   kDeviation        inverse = 1 / (sqrt(variance) + epsilon)
//   kRootMeanSquare   mean = 0, inverse = 1 / sqrt(mean(x^2) + epsilon)
//   kL1               mean = 0, inverse = 1 / sum |x|, or 0 for a sum of 0
//   kL2               mean = 0, inverse = 1 / sqrt(sum x^2), or 0 for a sum of 0
//
// Statistics are taken in double and in two passes, the variance around the mean; their order
// depends on the shape and the instruction set only. Elements are computed in double if input or
// output are, else in float. y may be the memory of x if their elements have the same size.
// Source: ONNX LayerNormalization, InstanceNormalization, GroupNormalization, RMSNormalization,
// MeanVarianceNormalization, LpNormalization.
#pragma once

#include <cstdint>
#include <span>

#include "absl/container/inlined_vector.h"
#include "engine/base/cpu.h"
#include "engine/base/parallel.h"
#include "engine/tensor/dtype.h"

namespace tandem::kernels {

enum class NormKind : uint8_t { kStandard, kDeviation, kRootMeanSquare, kL1, kL2 };

// Whether the elements along an axis share their statistics.
enum class NormAxisRole : uint8_t { kKept, kReduced };

// An axis, and how far its neighbours are apart in x and y, in scale and in bias (0: repeated).
struct NormAxis {
  int64_t extent = 1;
  NormAxisRole role = NormAxisRole::kKept;
  int64_t scale = 0;
  int64_t bias = 0;
  int64_t data = 0;  // set by MakeNormPlan
};
using NormAxes = absl::InlinedVector<NormAxis, 6>;

// Axes merged where the operands allow it. A set is what shares its statistics; sets are numbered
// row-major over the kept axes.
struct NormPlan {
  NormAxes kept;      // outermost first, without `inner`
  NormAxes reduced;   // outermost first, without `inner`
  NormAxis inner;     // the innermost axis: neighbours in x
  int64_t count = 1;  // elements of a set
  int64_t sets = 1;
};

// Axes of the dense x in the order in which they lie in memory, outermost first. The strides of
// scale and bias along the innermost axis that is not 1 are 0 or 1.
NormPlan MakeNormPlan(std::span<const NormAxis> axes);

// scale, bias, mean and inverse have elements of the type that is computed with. A null scale is 1,
// a null bias is 0 (their strides must be 0); mean and inverse take the statistics of each set, or
// are null.
struct NormData {
  const void* x = nullptr;
  void* y = nullptr;
  const void* scale = nullptr;
  const void* bias = nullptr;
  void* mean = nullptr;
  void* inverse = nullptr;
};

struct NormCall {
  NormKind kind = NormKind::kStandard;
  double epsilon = 0;
  NormPlan plan;
  NormData data;
};

// A unit of work: a set, or up to kNormColumns neighbouring sets where the innermost axis is kept.
inline constexpr int64_t kNormColumns = 64;
int64_t NormUnits(const NormPlan& plan);

// Computes units [begin, end).
using NormFunction = void (*)(const NormCall& call, int64_t begin, int64_t end);

// The type that is computed with: kDouble or kFloat.
DType NormComputeType(DType in, DType out);

// The kernel, or null: floating types have one.
NormFunction FindNorm(DType in, DType out, Isa isa);
NormFunction FindNormReference(DType in, DType out);
NormFunction FindNormSimd(Isa isa);  // float32

// Runs `function` over all units, in parallel.
void RunNorm(NormFunction function, const NormCall& call, const Parallel& parallel);

}  // namespace tandem::kernels
