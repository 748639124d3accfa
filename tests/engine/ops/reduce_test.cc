#include <gtest/gtest.h>

#include <cmath>
#include <functional>
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
using test::Ulp;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Formula {
  const char* op;
  std::function<double(const std::vector<double>&)> f;
};

double SumOf(const std::vector<double>& x, const std::function<double(double)>& map) {
  double sum = 0;
  for (const double element : x) sum += map(element);
  return sum;
}

const std::vector<Formula>& Formulas() {
  static const std::vector<Formula> formulas = {
      {"ReduceSum", [](const auto& x) { return SumOf(x, [](double v) { return v; }); }},
      {"ReduceMean",
       [](const auto& x) {
         return SumOf(x, [](double v) { return v; }) / static_cast<double>(x.size());
       }},
      {"ReduceMax", [](const auto& x) { return *std::max_element(x.begin(), x.end()); }},
      {"ReduceMin", [](const auto& x) { return *std::min_element(x.begin(), x.end()); }},
      {"ReduceProd",
       [](const auto& x) {
         double product = 1;
         for (const double v : x) product *= v;
         return product;
       }},
      {"ReduceL1", [](const auto& x) { return SumOf(x, [](double v) { return std::abs(v); }); }},
      {"ReduceL2",
       [](const auto& x) { return std::sqrt(SumOf(x, [](double v) { return v * v; })); }},
      {"ReduceLogSum",
       [](const auto& x) { return std::log(SumOf(x, [](double v) { return v; })); }},
      {"ReduceLogSumExp",
       [](const auto& x) { return std::log(SumOf(x, [](double v) { return std::exp(v); })); }},
      {"ReduceSumSquare", [](const auto& x) { return SumOf(x, [](double v) { return v * v; }); }},
  };
  return formulas;
}

// `x` reduced over the axes in the bits of `mask`, axis by axis of an index vector.
Tensor Expected(const Formula& formula, const Tensor& x, unsigned mask, bool keepdims) {
  const Shape& shape = x.shape();
  Shape result;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (((mask >> axis) & 1) == 0) {
      result.Append(shape[axis]);
    } else if (keepdims) {
      result.Append(1);
    }
  }
  std::vector<std::vector<double>> sets(static_cast<size_t>(result.elements()));
  for (int64_t i = 0; i < x.elements(); ++i) {
    int64_t rest = i;
    int64_t place = 0;
    int64_t stride = 1;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      if (((mask >> axis) & 1) == 0) {
        place += rest % shape[axis] * stride;
        stride *= shape[axis];
      }
      rest /= shape[axis];
    }
    sets[static_cast<size_t>(place)].push_back(x.data<float>()[i]);
  }
  Tensor y = *Tensor::Allocate(DType::kFloat, result);
  for (size_t i = 0; i < sets.size(); ++i) {
    y.mutable_data<float>()[i] = static_cast<float>(formula.f(sets[i]));
  }
  return y;
}

void ExpectReduction(const Shape& shape, unsigned mask, bool keepdims, Isa isa) {
  const Tensor x = RandomFloats(shape, 3, 0.5f, 1.5f);
  std::vector<int64_t> axes;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if ((mask >> axis) & 1) axes.push_back(axis % 2 == 0 ? axis : axis - shape.rank());
  }
  for (const Formula& formula : Formulas()) {
    OpCall call{.op_type = formula.op,
                .opset = 18,
                .attributes = {{"keepdims", int64_t{keepdims ? 1 : 0}}},
                .isa = isa};
    const Tensor expected = Expected(formula, x, mask, keepdims);
    const Shape count{static_cast<int64_t>(axes.size())};
    const Tensor given = Tensor::Of<int64_t>(count, std::span<const int64_t>(axes));
    EXPECT_TRUE(Close(Apply(call, {x, given}), expected, Ulp(2)))
        << formula.op << " " << ToString(shape) << " mask " << mask << " " << IsaName(isa);
    call.opset = 12;
    call.attributes["axes"] = axes;
    EXPECT_TRUE(Close(Apply(call, {x}), expected, Ulp(2))) << formula.op << " opset 12";
  }
}

TEST(Reduce, EverySetOfAxes) {
  for (const Shape& shape :
       {Shape{7}, Shape{3, 5}, Shape{2, 3, 70}, Shape{2, 3, 4, 5}, Shape{2, 1, 3, 1, 2}}) {
    for (unsigned mask = 1; mask < (1U << shape.rank()); ++mask) {
      for (const Isa isa : test::IsaLevels()) {
        ExpectReduction(shape, mask, true, isa);
        ExpectReduction(shape, mask, false, isa);
      }
    }
  }
  for (const Shape& shape :
       {Shape{2, 3, 1, 2, 1, 3}, Shape{1, 2, 3, 1, 2, 1, 2}, Shape{2, 1, 2, 3, 1, 2, 2, 3}}) {
    for (unsigned mask = 1; mask < (1U << shape.rank()); ++mask) {
      ExpectReduction(shape, mask, true, DetectIsa());
      ExpectReduction(shape, mask, false, DetectIsa());
    }
  }
}

TEST(Reduce, EveryLengthOfRowsAndColumns) {
  for (int64_t n = 1; n <= 70; ++n) {
    for (const Isa isa : test::IsaLevels()) {
      ExpectReduction({2, n}, 2, true, isa);
      ExpectReduction({3, n}, 1, true, isa);
    }
  }
}

TEST(Reduce, TheResultDependsOnTheShapeOnly) {
  const Tensor x = RandomFloats({9, 33, 301}, 3);
  for (const int64_t axis : {1, 2}) {
    for (const Formula& formula : Formulas()) {
      OpCall call{
          .op_type = formula.op, .opset = 12, .attributes = {{"axes", std::vector<int64_t>{axis}}}};
      const Tensor whole = Apply(call, {x});
      EXPECT_TRUE(Close(Apply(call, {x.Rows(4, 5)}), whole.Rows(4, 5), Exact())) << formula.op;
      for (const int threads : {2, 4}) {
        call.threads = threads;
        EXPECT_TRUE(Close(Apply(call, {x}), whole, Exact())) << formula.op;
      }
    }
  }
}

TEST(Reduce, LongSumsLoseNothing) {
  const Tensor x = *Tensor::Allocate(DType::kFloat, {1, 3'000'000});
  std::fill_n(x.mutable_data<float>(), 3'000'000, 0.1f);
  for (const Isa isa : test::IsaLevels()) {
    const Tensor y = Apply({.op_type = "ReduceMean", .opset = 12, .isa = isa}, {x});
    EXPECT_EQ(y.data<float>()[0], 0.1f) << IsaName(isa);
  }
}

TEST(Reduce, NoAxesMeansAllOrNone) {
  const Tensor x = Tensor::Of<float>({2, 2}, {1, -2, 3, -4});
  const Tensor none = Tensor::Of<int64_t>({0}, {});
  const graph::Attributes noop = {{"noop_with_empty_axes", int64_t{1}}};
  EXPECT_TRUE(
      Close(Apply({.op_type = "ReduceSum"}, {x}), Tensor::Of<float>({1, 1}, {-2}), Exact()));
  EXPECT_TRUE(
      Close(Apply({.op_type = "ReduceSum"}, {x, none}), Tensor::Of<float>({1, 1}, {-2}), Exact()));
  EXPECT_TRUE(Close(Apply({.op_type = "ReduceSum", .attributes = noop}, {x}), x, Exact()));
  EXPECT_TRUE(Close(Apply({.op_type = "ReduceSum", .attributes = noop}, {x, none}), x, Exact()));
  EXPECT_TRUE(Close(Apply({.op_type = "ReduceSumSquare", .opset = 18, .attributes = noop}, {x}),
                    Tensor::Of<float>({2, 2}, {1, 4, 9, 16}), Exact()));
}

TEST(Reduce, TheEmptySetGivesTheIdentity) {
  const Tensor x = *Tensor::Allocate(DType::kFloat, {0, 4});
  const auto expect = [&](const char* op, float identity) {
    const Tensor y =
        Apply({.op_type = op,
               .opset = 12,
               .attributes = {{"axes", std::vector<int64_t>{0}}, {"keepdims", int64_t{0}}}},
              {x});
    EXPECT_TRUE(Close(y, Tensor::Of<float>({4}, {identity, identity, identity, identity}), Ulp(0)))
        << op;
  };
  expect("ReduceSum", 0);
  expect("ReduceL1", 0);
  expect("ReduceL2", 0);
  expect("ReduceSumSquare", 0);
  expect("ReduceProd", 1);
  expect("ReduceMax", -kInf);
  expect("ReduceMin", kInf);
  expect("ReduceMean", kNan);
  expect("ReduceLogSum", -kInf);
  expect("ReduceLogSumExp", -kInf);
  const Tensor integers = *Tensor::Allocate(DType::kInt32, {2, 0});
  const Tensor axis = Tensor::Of<int64_t>({1}, {1});
  constexpr int32_t kMin = std::numeric_limits<int32_t>::min();
  EXPECT_TRUE(Close(Apply({.op_type = "ReduceMax", .opset = 18}, {integers, axis}),
                    Tensor::Of<int32_t>({2, 1}, {kMin, kMin}), Exact()));
  const Tensor bools = *Tensor::Allocate(DType::kBool, {1, 0});
  EXPECT_TRUE(Close(Apply({.op_type = "ReduceMax", .opset = 20}, {bools, axis}),
                    Tensor::Of<bool>({1, 1}, {false}), Exact()));
  EXPECT_TRUE(Close(Apply({.op_type = "ReduceMin", .opset = 20}, {bools, axis}),
                    Tensor::Of<bool>({1, 1}, {true}), Exact()));
}

TEST(Reduce, AScalarReducesToItself) {
  const Tensor x = Tensor::Scalar(3.0f);
  EXPECT_TRUE(Close(Apply({.op_type = "ReduceSum"}, {x}), x, Exact()));
  EXPECT_TRUE(Close(Apply({.op_type = "ReduceMax"}, {x}), x, Exact()));
}

TEST(Reduce, IntegersAreExact) {
  constexpr int64_t kBig = (int64_t{1} << 53) + 1;
  const Tensor x = Tensor::Of<int64_t>({3}, {kBig, 1, -kBig});
  EXPECT_TRUE(Close(Apply({.op_type = "ReduceSum"}, {x}), Tensor::Of<int64_t>({1}, {1}), Exact()));
  EXPECT_TRUE(
      Close(Apply({.op_type = "ReduceMax"}, {x}), Tensor::Of<int64_t>({1}, {kBig}), Exact()));
  EXPECT_TRUE(
      Close(Apply({.op_type = "ReduceMin"}, {x}), Tensor::Of<int64_t>({1}, {-kBig}), Exact()));
  const Tensor large = Tensor::Of<int32_t>({2}, {2000000000, 2000000002});
  EXPECT_TRUE(Close(Apply({.op_type = "ReduceMean"}, {large}),
                    Tensor::Of<int32_t>({1}, {2000000001}), Exact()));
}

TEST(Reduce, NanWins) {
  for (const Isa isa : test::IsaLevels()) {
    for (int64_t place = 0; place < 40; ++place) {
      const Tensor x = RandomFloats({40}, 1);
      x.mutable_data<float>()[place] = kNan;
      for (const Formula& formula : Formulas()) {
        const Tensor y = Apply({.op_type = formula.op, .isa = isa}, {x});
        EXPECT_TRUE(std::isnan(y.data<float>()[0])) << formula.op << " " << IsaName(isa);
      }
      EXPECT_TRUE(std::isnan(Apply({.op_type = "ReduceMax",
                                    .opset = 12,
                                    .attributes = {{"axes", std::vector<int64_t>{0}}},
                                    .isa = isa},
                                   {Tensor::Of<float>({2, 1}, {kNan, 1})})
                                 .data<float>()[0]));
    }
  }
}

TEST(Reduce, LogSumExpDoesNotOverflow) {
  const Tensor x = Tensor::Of<float>({2}, {1000, 1000});
  EXPECT_NEAR(Apply({.op_type = "ReduceLogSumExp"}, {x}).data<float>()[0], 1000.6931, 1e-3);
  const Tensor lowest = Tensor::Of<float>({2}, {-kInf, -kInf});
  EXPECT_EQ(Apply({.op_type = "ReduceLogSumExp"}, {lowest}).data<float>()[0], -kInf);
}

TEST(Reduce, ErrorsNameTheAxis) {
  const auto y = test::RunOp({.op_type = "ReduceSum"},
                             {RandomFloats({2, 3}, 1), Tensor::Of<int64_t>({1}, {2})});
  ASSERT_FALSE(y.ok());
  EXPECT_EQ(std::string(Message(y.status())),
            "axis 2 is outside of -2 to 1, the axes of an input of rank 2");
}

TEST(ArgMax, TakesTheFirstOrTheLastOfEquals) {
  const Tensor x = Tensor::Of<float>({3}, {2, 5, 5});
  const auto index = [&](const char* op, int64_t last, const Tensor& values) {
    return Apply({.op_type = op, .attributes = {{"select_last_index", last}}}, {values})
        .data<int64_t>()[0];
  };
  EXPECT_EQ(index("ArgMax", 0, x), 1);
  EXPECT_EQ(index("ArgMax", 1, x), 2);
  EXPECT_EQ(index("ArgMin", 0, Tensor::Of<float>({3}, {2, 1, 1})), 1);
  EXPECT_EQ(index("ArgMin", 1, Tensor::Of<float>({3}, {2, 1, 1})), 2);
  EXPECT_EQ(index("ArgMax", 0, Tensor::Of<float>({3}, {kNan, kNan, kNan})), 0);
  EXPECT_EQ(index("ArgMax", 0, Tensor::Of<float>({3}, {1, kNan, 9})), 1);
  EXPECT_EQ(index("ArgMin", 0, Tensor::Of<float>({3}, {1, kNan, 9})), 1);
  EXPECT_EQ(index("ArgMax", 0, Tensor::Of<float>({2}, {-kInf, -kInf})), 0);
}

TEST(ArgMax, SearchesEveryAxis) {
  const Tensor x = RandomFloats({3, 5, 70}, 4);
  for (int axis = 0; axis < 3; ++axis) {
    const int64_t outer = x.shape().Product(0, axis);
    const int64_t length = x.shape()[axis];
    const int64_t inner = x.shape().Product(axis + 1, 3);
    const Tensor y = Apply({.op_type = "ArgMax",
                            .attributes = {{"axis", int64_t{axis - 3}}, {"keepdims", int64_t{0}}},
                            .threads = 2},
                           {x});
    ASSERT_EQ(y.shape().rank(), 2);
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < inner; ++i) {
        int64_t best = 0;
        const auto at = [&](int64_t a) { return x.data<float>()[(o * length + a) * inner + i]; };
        for (int64_t a = 1; a < length; ++a) best = at(a) > at(best) ? a : best;
        ASSERT_EQ(y.data<int64_t>()[o * inner + i], best);
      }
    }
  }
}

TEST(ArgMax, AnEmptyAxisFailsTheRun) {
  const auto y = test::RunOp({.op_type = "ArgMax"}, {*Tensor::Allocate(DType::kFloat, {0, 2})});
  ASSERT_FALSE(y.ok());
  EXPECT_EQ(std::string(Message(y.status())),
            "axis 0 of [0,2] is empty; an element is expected there");
}

TEST(CumSum, EveryLengthOfRowsAndColumnsAddsUpInOrder) {
  for (int64_t n = 1; n <= 70; ++n) {
    for (const Shape& shape : {Shape{2, n, 3}, Shape{2, 3, n}}) {
      const Tensor x = RandomFloats(shape, 3);
      Tensor expected = *Tensor::Copy(x.view());
      for (int64_t i = 0; i < x.elements(); ++i) {
        if (i / shape[2] % shape[1] == 0) continue;
        expected.mutable_data<float>()[i] += expected.data<float>()[i - shape[2]];
      }
      const Tensor y = Apply({.op_type = "CumSum"}, {x, Tensor::Scalar<int64_t>(1)});
      EXPECT_TRUE(Close(y, expected, test::Reduction(shape[1]))) << ToString(shape);
    }
  }
}

TEST(CumSum, RunsForwardsAndBackwardsWithAndWithoutItself) {
  const Tensor x = Tensor::Of<int32_t>({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor axis = Tensor::Scalar<int32_t>(1);
  const auto run = [&](int64_t exclusive, int64_t reverse, const Tensor& along) {
    return Apply(
        {.op_type = "CumSum", .attributes = {{"exclusive", exclusive}, {"reverse", reverse}}},
        {x, along});
  };
  EXPECT_TRUE(Close(run(0, 0, axis), Tensor::Of<int32_t>({2, 3}, {1, 3, 6, 4, 9, 15}), Exact()));
  EXPECT_TRUE(Close(run(1, 0, axis), Tensor::Of<int32_t>({2, 3}, {0, 1, 3, 0, 4, 9}), Exact()));
  EXPECT_TRUE(Close(run(0, 1, axis), Tensor::Of<int32_t>({2, 3}, {6, 5, 3, 15, 11, 6}), Exact()));
  EXPECT_TRUE(Close(run(1, 1, axis), Tensor::Of<int32_t>({2, 3}, {5, 3, 0, 11, 6, 0}), Exact()));
  EXPECT_TRUE(Close(run(0, 0, Tensor::Of<int64_t>({1}, {-2})),
                    Tensor::Of<int32_t>({2, 3}, {1, 2, 3, 5, 7, 9}), Exact()));
}

}  // namespace
}  // namespace tandem
