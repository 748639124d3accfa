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
    const ConstantRef view = store.InternView(StridedTensor::Of(source).BroadcastTo(shape));
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
  const ConstantRef view = store.InternView(StridedTensor::Of(value).BroadcastTo(shape));
  EXPECT_EQ(
      store.InternView(StridedTensor::Of(Tensor::Of<float>({1, 60}, std::vector<float>(60, 2)))
                           .BroadcastTo(shape)),
      view);
  EXPECT_EQ(store.Intern(Broadcast(value, shape)), view);
  EXPECT_NE(store.InternView(StridedTensor::Of(Tensor::Scalar<float>(3)).BroadcastTo(shape)), view);
  EXPECT_NE(store.InternView(StridedTensor::Of(value).BroadcastTo({60, 50})), view);
  EXPECT_EQ(store.stats().constants, 1u);
  EXPECT_EQ(store.stats().bytes, sizeof(float));
}

// Counting(shape) with its axes in another order, element by element.
Tensor Permute(const Shape& shape, const std::vector<int>& order) {
  const Tensor source = Counting(shape);
  const Dims strides = shape.Strides();
  Shape permuted;
  for (const int axis : order) permuted.Append(shape[axis]);
  Tensor result = *Tensor::Allocate(DType::kFloat, permuted);
  for (int64_t i = 0; i < result.elements(); ++i) {
    int64_t rest = i;
    int64_t from = 0;
    for (int axis = permuted.rank() - 1; axis >= 0; --axis) {
      from +=
          rest % permuted[axis] * strides[static_cast<size_t>(order[static_cast<size_t>(axis)])];
      rest /= permuted[axis];
    }
    result.mutable_data<float>()[i] = source.data<float>()[from];
  }
  return result;
}

TEST(Constant, AViewInAnotherOrderHasTheContentAndTheHashOfTheCopy) {
  struct Case {
    Shape shape;
    std::vector<int> order;
  };
  for (const auto& [shape, order] :
       {Case{{3, 5}, {1, 0}}, Case{{300, 700}, {1, 0}}, Case{{700, 3}, {1, 0}},
        Case{{2, 90000}, {1, 0}}, Case{{90000, 2}, {1, 0}}, Case{{2, 3, 5}, {2, 1, 0}},
        Case{{7, 60, 50}, {0, 2, 1}}, Case{{60, 7, 50}, {1, 0, 2}},
        Case{{2, 3, 40, 50}, {0, 2, 3, 1}}, Case{{0, 5}, {1, 0}}}) {
    const Tensor source = Counting(shape);
    const Tensor dense = Permute(shape, order);
    ConstantStore store;
    const ConstantRef weight = store.Intern(source);
    const ConstantRef view = store.InternView(weight->strided().Permuted(order));
    EXPECT_EQ(view->shape(), dense.shape());
    EXPECT_EQ(view->hash(), HashTensor(dense.view())) << ToString(shape);
    EXPECT_TRUE(Close(*view->SpellOut(), dense, Exact())) << ToString(shape);
    EXPECT_EQ(store.stats().bytes, source.view().byte_size()) << "the same memory twice";
  }
}

TEST(Constant, ViewsOfViewsCompose) {
  ConstantStore store;
  const StridedTensor weight = StridedTensor::Of(Counting({30, 70}));
  const std::vector<int> swap = {1, 0};
  const ConstantRef there = store.InternView(weight.Permuted(swap));
  EXPECT_TRUE(there->is_view());
  EXPECT_FALSE(store.InternView(there->strided().Permuted(swap))->is_view());
  const ConstantRef repeated = store.InternView(there->strided().BroadcastTo({4, 70, 30}));
  EXPECT_EQ(repeated->hash(), HashTensor(Broadcast(*there->SpellOut(), {4, 70, 30}).view()));
}

TEST(Constant, WrittenOutAViewIsFoundByLaterContents) {
  ConstantStore store;
  const std::vector<int> swap = {1, 0};
  ConstantRef view = store.InternView(StridedTensor::Of(Counting({30, 70})).Permuted(swap));
  const ConstantRef dense = *store.WrittenOut(view);
  EXPECT_FALSE(dense->is_view());
  EXPECT_EQ(dense->hash(), view->hash());
  EXPECT_EQ(*store.WrittenOut(view), dense) << "once for all";
  EXPECT_EQ(*store.WrittenOut(dense), dense);
  view.reset();
  EXPECT_EQ(store.Intern(Permute({30, 70}, swap)), dense);
  EXPECT_EQ(store.stats().bytes, dense->byte_size());
}

TEST(Constant, WhatRepeatsNothingIsNoView) {
  ConstantStore store;
  const ConstantRef constant =
      store.InternView(StridedTensor::Of(Counting({6, 1})).BroadcastTo({1, 6, 1}));
  EXPECT_FALSE(constant->is_view());
  EXPECT_EQ(constant, store.Intern(Counting({1, 6, 1})));
}

}  // namespace
}  // namespace tandem::graph
