// Reductions over any set of axes of a dense, native tensor.
//
// The order in which an output element is accumulated follows from the shape and the set of axes
// alone. float32 and 16-bit types are summed and multiplied in double; the result is rounded once.
// Integers wrap as two's complement and never pass through floating point, but for the operators
// whose result is not an integer (L2, LogSum, LogSumExp), which are computed in double, truncated
// and saturated. Mean of integers sums without overflow and truncates.
//
//   empty set      Sum, L1, L2, SumSquare 0; Prod 1; LogSum, LogSumExp -inf; Mean NaN (integers:
//   0);
//                  Max -inf, or the lowest value, or false; Min +inf, or the largest value, or true
//   NaN            Max and Min of a set with a NaN are NaN; ArgMax and ArgMin find the first NaN
//   (with
//                  the last index selected: the last)
//
// Source: ONNX Reduce*, ArgMax, ArgMin, CumSum.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "engine/base/cpu.h"
#include "engine/base/parallel.h"
#include "engine/tensor/dtype.h"

namespace tandem::kernels {

enum class ReduceOp : uint8_t {
  kSum,
  kMean,
  kMax,
  kMin,
  kProd,
  kL1,
  kL2,
  kLogSum,
  kLogSumExp,
  kSumSquare,
};

// An axis or several that lie in memory as one.
struct ReduceAxis {
  int64_t extent = 1;
  int64_t stride = 1;  // elements of the input
};

// Which input elements make which output element. Output elements are cut into units: one element
// where the innermost axis is reduced, else up to kReduceColumns neighbours.
struct ReducePlan {
  absl::InlinedVector<ReduceAxis, 4> kept;     // outermost first, without the columns
  absl::InlinedVector<ReduceAxis, 4> reduced;  // outermost first, without the run
  int64_t columns = 1;                         // neighbouring outputs whose inputs are neighbours
  int64_t run = 1;      // neighbouring inputs of one output; 1 where columns > 1
  int64_t count = 1;    // input elements of one output element
  int64_t outputs = 1;  // output elements
};
inline constexpr int64_t kReduceColumns = 64;

// `reduced[axis]` says which axes of `extents` are reduced.
ReducePlan MakeReducePlan(std::span<const int64_t> extents, const std::vector<bool>& reduced);

// Computes units [begin, end) of the plan.
using ReduceFunction = void (*)(const ReducePlan& plan, const void* x, void* y, int64_t begin,
                                int64_t end);

// The kernel for elements of `dtype`, or null. Max and Min take floating types, integers and bool,
// the others floating types and integers.
ReduceFunction FindReduce(ReduceOp op, DType dtype, Isa isa);
ReduceFunction FindReduceReference(ReduceOp op, DType dtype);
ReduceFunction FindReduceSimd(ReduceOp op, Isa isa);  // float32; null where there is none

// A reduction of float32 columns whose rows come one after the other, for kernels that make them:
// with the bits of the reduction of all rows at once. The states of n columns are the caller's and
// take ColumnStates(n) doubles; `merge` adds those of the rows behind, which may round another way
// than a single pass.
struct ColumnReduction {
  void (*start)(double* states, int64_t n) = nullptr;
  void (*add)(double* states, const float* row, int64_t n) = nullptr;
  void (*merge)(double* states, const double* behind, int64_t n) = nullptr;
  void (*finish)(const double* states, int64_t rows, int64_t n, float* y) = nullptr;
};
// Without functions where there is none: for Prod, LogSumExp and Isa::kReference.
ColumnReduction FindColumnReduction(ReduceOp op, Isa isa);
constexpr int64_t ColumnStates(int64_t n) { return (n + 15) / 16 * 16; }

enum class ArgOp : uint8_t { kMax, kMin };
enum class Select : uint8_t { kFirstIndex, kLastIndex };

// The index (int64) of the largest or smallest element along the reduced axis, of which there is
// one.
ReduceFunction FindArg(ArgOp op, Select select, DType dtype);

// Runs `function` over all units, in parallel.
void RunReduce(ReduceFunction function, const ReducePlan& plan, const void* x, void* y,
               const Parallel& parallel);

// Running sums along an axis: element (o, a, i) lies at (o * length + a) * inner + i.
struct CumSumShape {
  int64_t outer = 1;
  int64_t length = 1;
  int64_t inner = 1;
  int64_t first = 0;  // where the sum starts: 0, or length - 1 to run backwards
  int64_t lag = 0;    // 1: a sum leaves out its own element
};
// Computes rows [begin, end), numbered o * inner + i. Floating types and integers; 16-bit types and
// float32 keep the running sum in double.
using CumSumFunction = void (*)(const CumSumShape& shape, const void* x, void* y, int64_t begin,
                                int64_t end);
CumSumFunction FindCumSum(DType dtype);

}  // namespace tandem::kernels
