#include <gtest/gtest.h>

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

std::string ErrorOf(const OpCall& call, const std::vector<Tensor>& inputs) {
  const auto result = test::RunOp(call, inputs);
  EXPECT_FALSE(result.ok()) << call.op_type;
  return result.ok() ? "" : std::string(Message(result.status()));
}

// The element of a broadcast operand for a flat index of the output.
float At(const Tensor& x, const Shape& output, int64_t index) {
  int64_t offset = 0;
  const Dims strides = x.shape().Strides();
  for (int axis = output.rank() - 1; axis >= 0; --axis) {
    const int64_t position = index % output[axis];
    index /= output[axis];
    const int own = axis - (output.rank() - x.shape().rank());
    if (own >= 0 && x.shape()[own] != 1) offset += position * strides[static_cast<size_t>(own)];
  }
  return x.data<float>()[offset];
}

template <typename F>
void ExpectBroadcast(const std::string& op, const Shape& a_shape, const Shape& b_shape, F f,
                     const std::vector<int>& threads = {1, 2, 4}) {
  const Tensor a = RandomFloats(a_shape, 1);
  const Tensor b = RandomFloats(b_shape, 2);
  const Shape shape = *BroadcastShapes(a_shape, b_shape);
  const Tensor expected = *Tensor::Allocate(DType::kFloat, shape);
  for (int64_t i = 0; i < shape.elements(); ++i) {
    expected.mutable_data<float>()[i] = f(At(a, shape, i), At(b, shape, i));
  }
  for (const Isa isa : test::IsaLevels()) {
    for (const int many : threads) {
      EXPECT_TRUE(
          Close(Apply({.op_type = op, .isa = isa, .threads = many}, {a, b}), expected, Exact()))
          << op << " " << ToString(a_shape) << " " << ToString(b_shape) << " " << IsaName(isa);
    }
  }
}

TEST(Binary, EveryFormOfBroadcastIsExact) {
  const std::pair<Shape, Shape> forms[] = {
      {{}, {}},
      {{}, {7}},
      {{5}, {1}},
      {{3, 1}, {1, 4}},
      {{2, 3, 4, 5}, {3, 1, 1}},
      {{2, 3, 4, 5}, {1, 3, 1, 1}},
      {{4, 5}, {2, 3, 4, 5}},
      {{2, 1, 4, 1}, {1, 3, 1, 5}},
      {{2, 3, 33}, {2, 1, 33}},
      {{2, 3, 33}, {2, 3, 1}},
      {{0, 3}, {1, 3}},
      {{3, 0}, {1}},
      {{2, 1, 2, 1, 2, 1, 2, 1}, {1, 3, 1, 3, 1, 3, 1, 3}},
      {{3, 70001}, {1}},
      {{300, 101}, {300, 1}},
  };
  for (const auto& [a, b] : forms) {
    ExpectBroadcast("Add", a, b, [](float x, float y) { return x + y; });
    ExpectBroadcast("Sub", a, b, [](float x, float y) { return x - y; });
    ExpectBroadcast("Mul", a, b, [](float x, float y) { return x * y; });
    ExpectBroadcast("Div", a, b, [](float x, float y) { return x / y; });
    ExpectBroadcast("PRelu", BroadcastShapes(a, b).value(), b,
                    [](float x, float y) { return x < 0 ? y * x : x; });
    ExpectBroadcast("Max", a, b, [](float x, float y) { return x > y ? x : y; });
  }
}

// Rows of every length: both operands advance, or one of them stays.
TEST(Binary, EveryLengthIsExact) {
  for (int64_t n = 0; n <= 70; ++n) {
    const std::pair<Shape, Shape> forms[] = {
        {{2, n}, {2, n}}, {{2, n}, {2, 1}}, {{2, 1}, {2, n}}, {{3, n}, {n}}, {{n, 3}, {n, 1}}};
    for (const auto& [a, b] : forms) {
      const auto expect = [&a = a, &b = b](const std::string& op, auto f) {
        ExpectBroadcast(op, a, b, f, {1});
      };
      expect("Add", [](float x, float y) { return x + y; });
      expect("Sub", [](float x, float y) { return x - y; });
      expect("Mul", [](float x, float y) { return x * y; });
      expect("Div", [](float x, float y) { return x / y; });
      expect("Max", [](float x, float y) { return x > y ? x : y; });
      expect("Min", [](float x, float y) { return x < y ? x : y; });
    }
    for (const Shape& slope : {Shape{n}, Shape{1}}) {
      ExpectBroadcast("PRelu", {3, n}, slope, [](float x, float y) { return x < 0 ? y * x : x; },
                      {1});
    }
  }
}

TEST(Binary, DenormalsAreNoZeros) {
  const float most = std::numeric_limits<float>::min();
  const Tensor small = RandomFloats({2, 37}, 1, -most, most);
  const Tensor other = RandomFloats({2, 37}, 2);
  const auto expect = [](const std::string& op, const Tensor& a, const Tensor& b, auto f) {
    const Tensor expected = *Tensor::Allocate(DType::kFloat, {2, 37});
    for (int64_t i = 0; i < 2 * 37; ++i) {
      expected.mutable_data<float>()[i] = f(a.data<float>()[i], b.data<float>()[i]);
    }
    for (const Isa isa : test::IsaLevels()) {
      EXPECT_TRUE(Close(Apply({.op_type = op, .isa = isa}, {a, b}), expected, Exact()))
          << op << " " << IsaName(isa);
    }
  };
  expect("Add", small, Tensor::Of<float>({2, 37}, std::vector<float>(74, -most / 3)),
         [](float x, float y) { return x + y; });
  expect("Mul", small, other, [](float x, float y) { return x * y; });
  expect("Mul", other, small, [](float x, float y) { return x * y; });
  expect("Div", small, other, [](float x, float y) { return x / y; });
  expect("Div", small, small, [](float x, float y) { return x / y; });
  expect("Max", small, RandomFloats({2, 37}, 3, -most, most),
         [](float x, float y) { return x > y ? x : y; });
}

TEST(Binary, Int64IsExactAndWraps) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  constexpr int64_t kOdd = (int64_t{1} << 53) + 1;
  const Tensor x = Tensor::Of<int64_t>({3}, {kOdd, kMin, kMax});
  EXPECT_TRUE(Close(Apply({.op_type = "Add"}, {x, Tensor::Scalar<int64_t>(0)}), x, Exact()));
  EXPECT_TRUE(Close(Apply({.op_type = "Add"}, {x, Tensor::Scalar<int64_t>(1)}),
                    Tensor::Of<int64_t>({3}, {kOdd + 1, kMin + 1, kMin}), Exact()));
  EXPECT_TRUE(Close(Apply({.op_type = "Mul"}, {x, Tensor::Scalar<int64_t>(-1)}),
                    Tensor::Of<int64_t>({3}, {-kOdd, kMin, -kMax}), Exact()));
  EXPECT_TRUE(Close(Apply({.op_type = "Equal"}, {x, Tensor::Scalar<int64_t>(kOdd - 1)}),
                    Tensor::Of<bool>({3}, {false, false, false}), Exact()));
}

TEST(Binary, IntegerDivisionIsDefinedForEveryOperand) {
  constexpr int32_t kMin = std::numeric_limits<int32_t>::min();
  const Tensor a = Tensor::Of<int32_t>({5}, {7, -7, kMin, 5, kMin});
  const Tensor b = Tensor::Of<int32_t>({5}, {2, 2, -1, 0, 0});
  EXPECT_TRUE(Close(Apply({.op_type = "Div"}, {a, b}),
                    Tensor::Of<int32_t>({5}, {3, -3, kMin, 0, 0}), Exact()));
  EXPECT_TRUE(
      Close(Apply({.op_type = "Mod"}, {a, b}), Tensor::Of<int32_t>({5}, {1, 1, 0, 0, 0}), Exact()));
}

TEST(Binary, ModTakesTheSignOfTheDivisorAndFmodOfTheDividend) {
  const Tensor a = Tensor::Of<int32_t>({6}, {-4, 7, 5, 4, -7, 8});
  const Tensor b = Tensor::Of<int32_t>({6}, {2, -3, 8, -2, 3, 5});
  EXPECT_TRUE(Close(Apply({.op_type = "Mod"}, {a, b}),
                    Tensor::Of<int32_t>({6}, {0, -2, 5, 0, 2, 3}), Exact()));
  EXPECT_TRUE(Close(Apply({.op_type = "Mod", .attributes = {{"fmod", int64_t{1}}}}, {a, b}),
                    Tensor::Of<int32_t>({6}, {0, 1, 5, 0, -1, 3}), Exact()));
  const Tensor x = Tensor::Of<float>({2}, {-4.3f, 7.2f});
  EXPECT_EQ(ErrorOf({.op_type = "Mod"}, {x, x}),
            "input 0 is of type float, for which fmod=1 is expected");
}

TEST(Binary, ShiftsByTheWidthGiveZero) {
  const Tensor a = Tensor::Of<uint8_t>({4}, {255, 255, 255, 1});
  const Tensor b = Tensor::Of<uint8_t>({4}, {1, 7, 8, 200});
  EXPECT_TRUE(Close(
      Apply({.op_type = "BitShift", .attributes = {{"direction", std::string("LEFT")}}}, {a, b}),
      Tensor::Of<uint8_t>({4}, {254, 128, 0, 0}), Exact()));
  EXPECT_TRUE(Close(
      Apply({.op_type = "BitShift", .attributes = {{"direction", std::string("RIGHT")}}}, {a, b}),
      Tensor::Of<uint8_t>({4}, {127, 1, 0, 0}), Exact()));
}

TEST(Binary, ComparisonsWithNanAreFalse) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor a = Tensor::Of<float>({4}, {1, 2, nan, nan});
  const Tensor b = Tensor::Of<float>({4}, {2, 2, 1, nan});
  const auto expect = [&](const char* op, std::initializer_list<bool> expected) {
    EXPECT_TRUE(Close(Apply({.op_type = op}, {a, b}), Tensor::Of<bool>({4}, expected), Exact()))
        << op;
  };
  expect("Less", {true, false, false, false});
  expect("LessOrEqual", {true, true, false, false});
  expect("Greater", {false, false, false, false});
  expect("GreaterOrEqual", {false, true, false, false});
  expect("Equal", {false, true, false, false});
}

TEST(Binary, LogicAndBits) {
  const Tensor a = Tensor::Of<bool>({4}, {false, false, true, true});
  const Tensor b = Tensor::Of<bool>({4}, {false, true, false, true});
  EXPECT_TRUE(Close(Apply({.op_type = "And"}, {a, b}),
                    Tensor::Of<bool>({4}, {false, false, false, true}), Exact()));
  EXPECT_TRUE(Close(Apply({.op_type = "Or"}, {a, b}),
                    Tensor::Of<bool>({4}, {false, true, true, true}), Exact()));
  EXPECT_TRUE(Close(Apply({.op_type = "Xor"}, {a, b}),
                    Tensor::Of<bool>({4}, {false, true, true, false}), Exact()));
  const Tensor x = Tensor::Of<int16_t>({1}, {0x0ff0});
  const Tensor y = Tensor::Of<int16_t>({1}, {0x3333});
  EXPECT_TRUE(Close(Apply({.op_type = "BitwiseXor", .opset = 18}, {x, y}),
                    Tensor::Of<int16_t>({1}, {0x3cc3}), Exact()));
}

TEST(Binary, HalfPrecisionRoundsTheFloatResultToNearestEven) {
  const Tensor a = Tensor::Of<Float16>({2}, {ToFloat16(1.0f), ToFloat16(2048.0f)});
  const Tensor b = Tensor::Of<Float16>({2}, {ToFloat16(1.0f / 2048), ToFloat16(3.0f)});
  const Tensor y = Apply({.op_type = "Add"}, {a, b});
  EXPECT_EQ(ToFloat(y.data<Float16>()[0]), 1.0f);
  EXPECT_EQ(ToFloat(y.data<Float16>()[1]), 2052.0f);
}

TEST(Binary, TheSlopeOfPReluMustBroadcastToTheInput) {
  const Tensor x = RandomFloats({1, 4}, 1);
  EXPECT_EQ(ErrorOf({.op_type = "PRelu"}, {x, RandomFloats({2, 4}, 2)}),
            "slope [2,4] does not broadcast to [1,4], the shape of input 0");
}

TEST(Binary, ErrorsNameWhatCameAndWhatIsExpected) {
  const Tensor f = RandomFloats({2, 3}, 1);
  EXPECT_EQ(ErrorOf({.op_type = "Add"}, {f, RandomFloats({4}, 1)}),
            "shapes [2,3] and [4] do not broadcast to each other");
  EXPECT_EQ(ErrorOf({.op_type = "Add"}, {f, Tensor::Scalar<int64_t>(1)}),
            "input 1 is of type int64 where float, the type of input 0, is expected");
  EXPECT_EQ(ErrorOf({.op_type = "And"}, {f, f}),
            "input 0 is of type float where one of bool is expected");
}

TEST(Binary, SymbolicExtentsBroadcast) {
  const graph::Dim n = graph::Dim::Symbol("N");
  const graph::Graph graph = test::GraphBuilder()
                                 .Input("a", DType::kFloat, {n, 1, 4})
                                 .Input("b", DType::kFloat, {3, 1})
                                 .Node("Add", {"a", "b"}, {"y"})
                                 .Output("y")
                                 .Build();
  EXPECT_EQ(ToString(*graph.value(graph.FindValue("y")).type.dims), "[N,3,4]");
}

}  // namespace
}  // namespace tandem
