#include "engine/graph/constant.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/support/compare.h"

namespace tandem::graph {
namespace {

using test::Close;
using test::Exact;

Tensor Counting(const Shape& shape) {
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  std::iota(values.begin(), values.end(), 1.0f);
  return Tensor::Of<float>(shape, values);
}

// `x` broadcast to `shape`, element by element.
Tensor Broadcast(const Tensor& x, const Shape& shape) {
  Tensor result = *Tensor::Allocate(DType::kFloat, shape);
  for (int64_t i = 0; i < shape.elements(); ++i) {
    int64_t rest = i;
    int64_t from = 0;
    int64_t stride = 1;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      const int own = axis - (shape.rank() - x.shape().rank());
      const int64_t index = rest % shape[axis];
      rest /= shape[axis];
      if (own < 0) continue;
      from += (x.shape()[own] == 1 ? 0 : index) * stride;
      stride *= x.shape()[own];
    }
    result.mutable_data<float>()[i] = x.data<float>()[from];
  }
  return result;
}

struct ViewCase {
  Shape held;
  Shape shape;
};

TEST(Constant, AViewHasTheContentAndTheHashOfWhatItRepeats) {
  for (const auto& [held, shape] :
       {ViewCase{{1}, {70000}}, ViewCase{{}, {3, 5}}, ViewCase{{1, 1}, {300, 700}},
        ViewCase{{7}, {5, 7}}, ViewCase{{7}, {5000, 7}}, ViewCase{{5, 1}, {5, 7}},
        ViewCase{{5, 1}, {5, 30000}}, ViewCase{{2, 1, 3, 1}, {2, 5, 3, 7}},
        ViewCase{{2, 1, 300, 1}, {2, 5, 300, 70}}, ViewCase{{1, 4, 1}, {6, 4, 1}},
        ViewCase{{1}, {0, 3}}, ViewCase{{40000}, {3, 40000}}}) {
    const Tensor source = Counting(held);
    const Tensor dense = Broadcast(source, shape);
    ConstantStore store;
    const ConstantRef view = store.InternView(source, shape);
    EXPECT_TRUE(view->is_view());
    EXPECT_EQ(view->shape(), shape);
    EXPECT_EQ(view->byte_size(), dense.view().byte_size());
    EXPECT_EQ(view->hash(), HashTensor(dense.view())) << ToString(shape);
    EXPECT_EQ(view->held_bytes(), source.view().byte_size());
    EXPECT_TRUE(Close(*view->SpellOut(), dense, Exact())) << ToString(shape);
    EXPECT_EQ(view->held_bytes(), source.view().byte_size()) << "what is written out has gone";
    EXPECT_TRUE(Close(view->tensor(), dense, Exact()));
    EXPECT_EQ(view->tensor().view().raw(), view->tensor().view().raw());
    EXPECT_EQ(view->held_bytes(), source.view().byte_size() + dense.view().byte_size());
  }
}

TEST(Constant, EqualContentsAreOneConstantHoweverTheyAreHeld) {
  ConstantStore store;
  const Shape shape{50, 60};
  const Tensor value = Tensor::Scalar<float>(2);
  const ConstantRef view = store.InternView(value, shape);
  EXPECT_EQ(store.InternView(Tensor::Of<float>({1, 60}, std::vector<float>(60, 2)), shape), view);
  EXPECT_EQ(store.Intern(Broadcast(value, shape)), view);
  EXPECT_NE(store.InternView(Tensor::Scalar<float>(3), shape), view);
  EXPECT_NE(store.InternView(value, {60, 50}), view);
  EXPECT_EQ(store.stats().constants, 1u);
  EXPECT_EQ(store.stats().bytes, sizeof(float));
}

TEST(Constant, WhatRepeatsNothingIsNoView) {
  ConstantStore store;
  const ConstantRef constant = store.InternView(Counting({6}), {1, 6, 1});
  EXPECT_FALSE(constant->is_view());
  EXPECT_EQ(constant, store.Intern(Counting({1, 6, 1})));
}

}  // namespace
}  // namespace tandem::graph
