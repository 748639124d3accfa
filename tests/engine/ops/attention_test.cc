// Attention: against its parts as operators of their own, and by itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

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
using test::Reduction;
using test::RunOp;
using testing::HasSubstr;

OpCall Call(graph::Attributes attributes = {}) {
  return {.op_type = "Attention", .opset = 24, .attributes = std::move(attributes)};
}

Tensor Transposed(const Tensor& x, std::vector<int64_t> perm) {
  return Apply({.op_type = "Transpose", .attributes = {{"perm", std::move(perm)}}}, {x});
}

// softmax(q k^T / sqrt(d) + mask) v from MatMul, Add and Softmax.
Tensor Composed(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask = {}) {
  const auto size = static_cast<float>(q.shape()[3]);
  Tensor scores = Apply({.op_type = "MatMul"}, {q, Transposed(k, {0, 1, 3, 2})});
  scores = Apply({.op_type = "Mul"}, {scores, Tensor::Scalar(1 / std::sqrt(size))});
  if (mask.valid()) scores = Apply({.op_type = "Add"}, {scores, mask});
  return Apply({.op_type = "MatMul"}, {Apply({.op_type = "Softmax"}, {scores}), v});
}

struct Sizes {
  int64_t batch, heads, queries, keys, size, v_size;
};

void ExpectComposed(const Sizes& sizes) {
  const auto [batch, heads, queries, keys, size, v_size] = sizes;
  const Tensor q = RandomFloats({batch, heads, queries, size}, 1);
  const Tensor k = RandomFloats({batch, heads, keys, size}, 2);
  const Tensor v = RandomFloats({batch, heads, keys, v_size}, 3);
  const Tensor expected = Composed(q, k, v);
  for (const Isa isa : test::IsaLevels()) {
    OpCall call = Call();
    call.isa = isa;
    EXPECT_TRUE(Close(Apply(call, {q, k, v}), expected, Reduction(keys + size)))
        << IsaName(isa) << " " << queries << " queries, " << keys << " keys of " << size
        << ", values of " << v_size;
  }
}

class AttentionSizes : public testing::TestWithParam<Sizes> {};

TEST_P(AttentionSizes, IsTheSoftmaxOfProductsTimesValuesAtEveryLevel) {
  ExpectComposed(GetParam());
}

INSTANTIATE_TEST_SUITE_P(OddOnes, AttentionSizes,
                         testing::Values(Sizes{1, 1, 1, 1, 1, 1}, Sizes{2, 3, 5, 7, 4, 9},
                                         Sizes{1, 2, 63, 17, 33, 15}, Sizes{1, 1, 64, 64, 16, 16},
                                         Sizes{2, 1, 65, 31, 8, 1}, Sizes{1, 2, 130, 129, 5, 47}));

TEST(Attention, EverySizeIsTheSoftmaxOfProductsTimesValues) {
  for (int64_t size = 1; size <= 70; ++size) {
    ExpectComposed({1, 1, size, 5, 3, 4});
    ExpectComposed({1, 2, 3, size, 5, 4});
    ExpectComposed({1, 1, 3, 5, size, 4});
    ExpectComposed({2, 1, 3, 5, 4, size});
  }
}

TEST(Attention, InputsOfThreeAxesHaveTheBitsOfThoseOfFour) {
  const Tensor q = RandomFloats({2, 4, 5, 6}, 1);
  const Tensor k = RandomFloats({2, 2, 7, 6}, 2);
  const Tensor v = RandomFloats({2, 2, 7, 3}, 3);
  const auto flat = [](const Tensor& x) {
    const Shape& s = x.shape();
    return Transposed(x, {0, 2, 1, 3}).Reshaped({s[0], s[2], s[1] * s[3]});
  };
  const Tensor expected = flat(Apply(Call(), {q, k, v}));
  const Tensor y = Apply(Call({{"q_num_heads", int64_t{4}}, {"kv_num_heads", int64_t{2}}}),
                         {flat(q), flat(k), flat(v)});
  EXPECT_TRUE(Close(y, expected, Exact()));
}

TEST(Attention, NeighbouringQueryHeadsShareAHeadOfKeys) {
  const Tensor q = RandomFloats({1, 4, 5, 6}, 1);
  const Tensor k = RandomFloats({1, 2, 7, 6}, 2);
  const Tensor v = RandomFloats({1, 2, 7, 3}, 3);
  const Tensor twice = Tensor::Of<int64_t>({4}, {0, 0, 1, 1});
  const OpCall gather{.op_type = "Gather", .attributes = {{"axis", int64_t{1}}}};
  const Tensor expected = Apply(Call(), {q, Apply(gather, {k, twice}), Apply(gather, {v, twice})});
  EXPECT_TRUE(Close(Apply(Call(), {q, k, v}), expected, Exact()));
}

TEST(Attention, MasksOfEveryRankBroadcast) {
  const Tensor q = RandomFloats({2, 3, 4, 5}, 1);
  const Tensor k = RandomFloats({2, 3, 6, 5}, 2);
  const Tensor v = RandomFloats({2, 3, 6, 5}, 3);
  for (const Shape& shape :
       {Shape{4, 6}, Shape{1, 6}, Shape{3, 1, 6}, Shape{2, 1, 4, 6}, Shape{2, 3, 4, 6}}) {
    const Tensor mask = RandomFloats(shape, 4);
    EXPECT_TRUE(Close(Apply(Call(), {q, k, v, mask}), Composed(q, k, v, mask), Reduction(11)))
        << ToString(shape);
  }
}

TEST(Attention, AKeyThatTheMaskHidesDoesNotMatterAndNoKeyGivesZeros) {
  const Tensor q = RandomFloats({1, 1, 2, 5}, 1);
  Tensor k = RandomFloats({1, 1, 3, 5}, 2);
  Tensor v = RandomFloats({1, 1, 3, 4}, 3);
  const Tensor mask = Tensor::Of<bool>({2, 3}, {true, true, false, false, false, false});
  const Tensor before = Apply(Call(), {q, k, v, mask});
  for (int i = 0; i < 5; ++i) k.mutable_data<float>()[10 + i] = 1e3F;
  for (int i = 0; i < 4; ++i) v.mutable_data<float>()[8 + i] = 1e3F;
  const Tensor after = Apply(Call(), {q, k, v, mask});
  EXPECT_TRUE(Close(after, before, Exact()));
  for (int i = 4; i < 8; ++i) EXPECT_EQ(after.data<float>()[i], 0);
}

TEST(Attention, CausalQueriesSeeThePastAndThemselves) {
  const Tensor q = RandomFloats({1, 2, 3, 5}, 1);
  const Tensor k = RandomFloats({1, 2, 3, 5}, 2);
  const Tensor v = RandomFloats({1, 2, 3, 4}, 3);
  const Tensor past_k = RandomFloats({1, 2, 2, 5}, 4);
  const Tensor past_v = RandomFloats({1, 2, 2, 4}, 5);
  const OpCall concat{.op_type = "Concat", .attributes = {{"axis", int64_t{2}}}};
  const Tensor all_k = Apply(concat, {past_k, k});
  const Tensor all_v = Apply(concat, {past_v, v});
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  const Tensor mask =
      Tensor::Of<float>({3, 5}, {0, 0, 0, kHidden, kHidden, 0, 0, 0, 0, kHidden, 0, 0, 0, 0, 0});
  OpCall call = Call({{"is_causal", int64_t{1}}});
  call.outputs = 3;
  const auto result = RunOp(call, {q, k, v, Tensor(), past_k, past_v});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(Close((*result)[0], Composed(q, all_k, all_v, mask), Reduction(10)));
  EXPECT_TRUE(Close((*result)[1], all_k, Exact()));
  EXPECT_TRUE(Close((*result)[2], all_v, Exact()));
  call.outputs = 1;
  EXPECT_TRUE(Close(Apply(call, {q, k, v, Tensor(), past_k, past_v}), (*result)[0], Exact()));
}

TEST(Attention, TheCapBoundsScoresBeforeTheMask) {
  const Tensor q = RandomFloats({1, 1, 4, 5}, 1, -20, 20);
  const Tensor k = RandomFloats({1, 1, 6, 5}, 2, -20, 20);
  const Tensor v = RandomFloats({1, 1, 6, 5}, 3);
  OpCall call = Call({{"softcap", 2.0F}, {"qk_matmul_output_mode", int64_t{1}}});
  call.outputs = 4;
  const auto result = RunOp(call, {q, k, v});
  ASSERT_TRUE(result.ok()) << result.status();
  for (const float score : (*result)[3].span<float>()) EXPECT_LE(std::abs(score), 2);
}

TEST(Attention, ABatchAndEveryThreadCountHaveTheBitsOfSingleItems) {
  const Tensor q = RandomFloats({3, 2, 70, 8}, 1);
  const Tensor k = RandomFloats({3, 2, 33, 8}, 2);
  const Tensor v = RandomFloats({3, 2, 33, 8}, 3);
  const Tensor whole = Apply(Call(), {q, k, v});
  for (const int threads : {2, 4}) {
    OpCall call = Call();
    call.threads = threads;
    EXPECT_TRUE(Close(Apply(call, {q, k, v}), whole, Exact())) << threads;
  }
  for (int64_t i = 0; i < 3; ++i) {
    const Tensor one = Apply(Call(), {q.Rows(i, i + 1), k.Rows(i, i + 1), v.Rows(i, i + 1)});
    EXPECT_TRUE(Close(one, whole.Rows(i, i + 1), Exact())) << i;
  }
}

TEST(Attention, EmptyExtentsAreLegal) {
  const Tensor none = RandomFloats({2, 2, 0, 4}, 1);
  const Tensor some = RandomFloats({2, 2, 3, 4}, 2);
  EXPECT_EQ(Apply(Call(), {none, some, some}).elements(), 0);
  const Tensor zeros = Apply(Call(), {some, none, none});
  EXPECT_EQ(zeros.shape(), some.shape());
  for (const float y : zeros.span<float>()) EXPECT_EQ(y, 0);
}

TEST(Attention, WhatDoesNotFitIsNamed) {
  const auto error = [](const OpCall& call, const std::vector<Tensor>& inputs) {
    return std::string(Message(RunOp(call, inputs).status()));
  };
  const Tensor q = RandomFloats({2, 4, 5, 6}, 1);
  EXPECT_THAT(error(Call(), {q, RandomFloats({2, 3, 7, 6}, 2), RandomFloats({2, 3, 7, 6}, 2)}),
              HasSubstr("4 heads of Q do not share 3 heads of K evenly"));
  EXPECT_THAT(error(Call(), {q, RandomFloats({2, 4, 7, 5}, 2), RandomFloats({2, 4, 7, 6}, 2)}),
              HasSubstr("heads of Q have 6 elements, those of K 5"));
  EXPECT_THAT(error(Call(), {q, q, RandomFloats({2, 4, 7, 6}, 2)}),
              HasSubstr("K has 4 heads of 5 keys, V 4 heads of 7 values"));
  EXPECT_THAT(error(Call(), {q, q, q, RandomFloats({3, 5}, 1)}),
              HasSubstr("attn_mask has shape [3,5], which does not broadcast to the scores"));
  const Tensor flat = RandomFloats({2, 5, 12}, 1);
  EXPECT_THAT(error(Call(), {flat, flat, flat}), HasSubstr("'q_num_heads' and 'kv_num_heads'"));
  EXPECT_THAT(error(Call({{"qk_matmul_output_mode", int64_t{4}}}), {q, q, q}),
              HasSubstr("'qk_matmul_output_mode' is 4"));
}

}  // namespace
}  // namespace tandem
