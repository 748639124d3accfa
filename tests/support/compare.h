// How close two results must be, by kind and never as a bare number.
#pragma once

#include <gtest/gtest.h>

#include "engine/tensor/tensor.h"

namespace tandem::test {

// Largest |actual - expected| allowed for one element; build it with the functions below.
struct Tolerance {
  double ulps = 0;      // in units of the last place of the expected element (float32)
  double relative = 0;  // of the largest finite |expected| of the tensor: its scale
  double of_each = 0;   // of |expected| of each element, added to the larger of the two above
  double absolute = 0;  // added, too
  bool exact = false;   // same bits (NaN equals NaN of the same bits)
};

// The same bits.
Tolerance Exact();
// Within n units in the last place of each element.
Tolerance Ulp(double n);
// Sums of k products in another order: error grows with sqrt(k) of float32's epsilon of the scale.
Tolerance Reduction(int64_t k);
// A share of the output's scale, for whole networks.
Tolerance OfScale(double share);
// Answers of another runtime: |a - b| <= 1e-6 max|b| + 1e-5 |b| + 1e-7.
Tolerance OtherRuntime();
// The rule that ONNX's backend tests come with: |a - b| <= 1e-7 + 1e-3 |b|.
Tolerance OnnxBackend();

// Same dtype, shape and elements within the tolerance; integers, strings and bools exactly. NaN
// equals NaN. Names the first element that differs.
testing::AssertionResult Close(const TensorView& actual, const TensorView& expected,
                               Tolerance tolerance);
inline testing::AssertionResult Close(const Tensor& actual, const Tensor& expected,
                                      Tolerance tolerance) {
  return Close(actual.view(), expected.view(), tolerance);
}

}  // namespace tandem::test
