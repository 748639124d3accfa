// Operators along an axis, for every axis of tensors of ranks 1 to 8.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/support/compare.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::Apply;
using test::Close;
using test::Exact;
using test::OpCall;
using test::RandomFloats;

// The first `rank` extents of a shape of rank 8; no two neighbours of more than 1 are the same.
Shape OfRank(int rank) {
  constexpr int64_t kExtents[] = {2, 3, 1, 2, 3, 1, 2, 3};
  Shape shape;
  for (int axis = 0; axis < rank; ++axis) shape.Append(kExtents[axis]);
  return shape;
}

// Statistics of [axis, rank) in double, with scale and bias of those extents.
Tensor LayerNormOf(const Tensor& x, int axis, const Tensor& scale, const Tensor& bias) {
  const int64_t length = x.shape().Product(axis, x.shape().rank());
  Tensor y = *Tensor::Allocate(DType::kFloat, x.shape());
  for (int64_t start = 0; start < x.elements(); start += length) {
    const float* row = x.data<float>() + start;
    double mean = 0;
    for (int64_t i = 0; i < length; ++i) mean += row[i] / static_cast<double>(length);
    double variance = 0;
    for (int64_t i = 0; i < length; ++i) {
      variance += std::pow(row[i] - mean, 2) / static_cast<double>(length);
    }
    for (int64_t i = 0; i < length; ++i) {
      const double normal = (row[i] - mean) / std::sqrt(variance + double{1e-3F});
      y.mutable_data<float>()[start + i] =
          static_cast<float>(normal * scale.data<float>()[i] + bias.data<float>()[i]);
    }
  }
  return y;
}

TEST(AnyRank, LayerNormalizationFromEveryAxisOn) {
  for (int rank = 1; rank <= 8; ++rank) {
    const Tensor x = RandomFloats(OfRank(rank), 1, -3, 5);
    for (int axis = 0; axis < rank; ++axis) {
      Shape tail;
      for (int i = axis; i < rank; ++i) tail.Append(x.shape()[i]);
      const Tensor scale = RandomFloats(tail, 2);
      const Tensor bias = RandomFloats(tail, 3);
      const Tensor expected = LayerNormOf(x, axis, scale, bias);
      for (const int64_t given : {axis, axis - rank}) {
        for (const Isa isa : test::IsaLevels()) {
          const OpCall call{.op_type = "LayerNormalization",
                            .attributes = {{"axis", given}, {"epsilon", 1e-3F}},
                            .isa = isa};
          // A few roundings of terms around 1, which may cancel.
          EXPECT_TRUE(Close(Apply(call, {x, scale, bias}), expected,
                            {.ulps = 8, .absolute = 8 * std::ldexp(1.0, -23)}))
              << ToString(x.shape()) << " axis " << given << " " << IsaName(isa);
        }
      }
    }
  }
}

// Places of the largest (smallest) element along `axis`, the first of equals.
Tensor PlacesOf(const Tensor& x, int axis, bool largest, bool keepdims) {
  const Shape& shape = x.shape();
  Shape result;
  for (int i = 0; i < shape.rank(); ++i) {
    if (i != axis) {
      result.Append(shape[i]);
    } else if (keepdims) {
      result.Append(1);
    }
  }
  const int64_t length = shape[axis];
  const int64_t inner = shape.Product(axis + 1, shape.rank());
  Tensor places = *Tensor::Allocate(DType::kInt64, result);
  for (int64_t i = 0; i < places.elements(); ++i) {
    const float* from = x.data<float>() + i / inner * inner * length + i % inner;
    int64_t best = 0;
    for (int64_t a = 1; a < length; ++a) {
      const bool better =
          largest ? from[a * inner] > from[best * inner] : from[a * inner] < from[best * inner];
      if (better) best = a;
    }
    places.mutable_data<int64_t>()[i] = best;
  }
  return places;
}

TEST(AnyRank, ArgMaxAndArgMinAlongEveryAxis) {
  for (int rank = 1; rank <= 8; ++rank) {
    const Tensor x = RandomFloats(OfRank(rank), 4);
    for (int axis = 0; axis < rank; ++axis) {
      for (const bool keepdims : {true, false}) {
        for (const bool largest : {true, false}) {
          const Tensor expected = PlacesOf(x, axis, largest, keepdims);
          for (const int64_t given : {axis, axis - rank}) {
            const OpCall call{
                .op_type = largest ? "ArgMax" : "ArgMin",
                .attributes = {{"axis", given}, {"keepdims", int64_t{keepdims ? 1 : 0}}}};
            EXPECT_TRUE(Close(Apply(call, {x}), expected, Exact()))
                << call.op_type << " " << ToString(x.shape()) << " axis " << given;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace tandem
