// Reductions of nothing and of extremes: the identity of each type, and never a 0 that no element
// was.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/compare.h"
#include "tests/support/op_runner.h"

namespace tandem {
namespace {

using test::Apply;
using test::Close;
using test::Exact;
using testing::HasSubstr;

// What a reduction starts from, and elements next to it.
template <typename T>
struct Elements {
  static T From(double value) {
    if constexpr (std::is_same_v<T, Float16>) {
      return ToFloat16(static_cast<float>(value));
    } else if constexpr (std::is_same_v<T, Bfloat16>) {
      return ToBfloat16(static_cast<float>(value));
    } else {
      return static_cast<T>(value);
    }
  }
  static constexpr bool kFloating = !std::is_integral_v<T>;
  // Of the empty set.
  static T LeastUpper() {
    if constexpr (kFloating) return From(-std::numeric_limits<double>::infinity());
    if constexpr (!kFloating) return std::numeric_limits<T>::min();
  }
  static T GreatestLower() {
    if constexpr (kFloating) return From(std::numeric_limits<double>::infinity());
    if constexpr (!kFloating) return std::numeric_limits<T>::max();
  }
  // Finite, and not 0 but for the lowest of unsigned types.
  static T Lowest() {
    if constexpr (kFloating) return From(-60000);
    if constexpr (!kFloating) return std::numeric_limits<T>::min();
  }
  static T Highest() {
    if constexpr (kFloating) return From(60000);
    if constexpr (!kFloating) return std::numeric_limits<T>::max();
  }
  static T AboveLowest() {
    if constexpr (kFloating) return From(-59000);
    if constexpr (!kFloating) return static_cast<T>(Lowest() + 1);
  }
  static T BelowHighest() {
    if constexpr (kFloating) return From(59000);
    if constexpr (!kFloating) return static_cast<T>(Highest() - 1);
  }
};

template <typename T>
Tensor Filled(const Shape& shape, T value) {
  Tensor tensor = *Tensor::Allocate(kDTypeOf<T>, shape);
  std::fill_n(tensor.mutable_data<T>(), tensor.elements(), value);
  return tensor;
}

// x reduced over one axis, which is an input or an attribute as the opset has it.
Tensor Reduced(test::OpCall call, const Tensor& x, int64_t axis) {
  const int from = call.op_type == "ReduceSum" ? 13 : 18;
  if (call.opset >= from) return Apply(call, {x, Tensor::Of<int64_t>({1}, {axis})});
  call.attributes["axes"] = std::vector<int64_t>{axis};
  return Apply(call, {x});
}

template <typename T>
class ReduceIdentities : public testing::Test {};

using Types = testing::Types<float, double, Float16, Bfloat16, int8_t, int16_t, int32_t, int64_t,
                             uint8_t, uint16_t, uint32_t, uint64_t>;
TYPED_TEST_SUITE(ReduceIdentities, Types);

TYPED_TEST(ReduceIdentities, AreTheResultsOfTheEmptySet) {
  using E = Elements<TypeParam>;
  const Tensor nothing = *Tensor::Allocate(kDTypeOf<TypeParam>, {0, 3});
  for (const Isa isa : test::IsaLevels()) {
    for (const int opset : {12, 13, 18, 20}) {
      const auto expect = [&](const char* op, TypeParam identity) {
        EXPECT_TRUE(Close(Reduced({.op_type = op, .opset = opset, .isa = isa}, nothing, 0),
                          Filled({1, 3}, identity), Exact()))
            << op << " opset " << opset << " " << IsaName(isa);
      };
      expect("ReduceMax", E::LeastUpper());
      expect("ReduceMin", E::GreatestLower());
      expect("ReduceSum", E::From(0));
      expect("ReduceProd", E::From(1));
      expect("ReduceL1", E::From(0));
      expect("ReduceSumSquare", E::From(0));
    }
  }
}

// All elements are the least there is but one, which stands first, in the middle or last.
template <typename T>
void ExpectExtreme(const char* op, T others, T one, Isa isa) {
  for (int64_t n = 1; n <= 70; ++n) {
    for (const int64_t place : {int64_t{0}, n / 2, n - 1}) {
      Tensor row = Filled<T>({2, n}, others);
      row.mutable_data<T>()[n + place] = one;
      Tensor expected = Filled<T>({2, 1}, others);
      expected.mutable_data<T>()[1] = one;
      const test::OpCall call{.op_type = op, .opset = 18, .isa = isa};
      ASSERT_TRUE(Close(Reduced(call, row, 1), expected, Exact()))
          << op << " of " << n << " elements, " << IsaName(isa);
      Tensor column = Filled<T>({n, 3}, others);
      column.mutable_data<T>()[place * 3 + 1] = one;
      expected = Filled<T>({1, 3}, others);
      expected.mutable_data<T>()[1] = one;
      ASSERT_TRUE(Close(Reduced(call, column, 0), expected, Exact()))
          << op << " of a column of " << n << " elements, " << IsaName(isa);
    }
  }
}

TYPED_TEST(ReduceIdentities, AnExtremeIsAnElementWhateverTheLength) {
  using E = Elements<TypeParam>;
  for (const Isa isa : test::IsaLevels()) {
    ExpectExtreme("ReduceMax", E::Lowest(), E::AboveLowest(), isa);
    ExpectExtreme("ReduceMin", E::Highest(), E::BelowHighest(), isa);
  }
}

TYPED_TEST(ReduceIdentities, RowsOfNothingButTheIdentityGiveIt) {
  using E = Elements<TypeParam>;
  for (const Isa isa : test::IsaLevels()) {
    for (int64_t n = 1; n <= 70; ++n) {
      EXPECT_TRUE(Close(Reduced({.op_type = "ReduceMax", .opset = 18, .isa = isa},
                                Filled({2, n}, E::LeastUpper()), 1),
                        Filled({2, 1}, E::LeastUpper()), Exact()));
      EXPECT_TRUE(Close(Reduced({.op_type = "ReduceMin", .opset = 18, .isa = isa},
                                Filled({2, n}, E::GreatestLower()), 1),
                        Filled({2, 1}, E::GreatestLower()), Exact()));
    }
  }
}

TEST(ReduceBool, HasFalseAndTrueAsIdentitiesFromOpset20On) {
  const Tensor nothing = *Tensor::Allocate(DType::kBool, {0, 3});
  for (const Isa isa : test::IsaLevels()) {
    EXPECT_TRUE(Close(Reduced({.op_type = "ReduceMax", .opset = 20, .isa = isa}, nothing, 0),
                      Filled({1, 3}, false), Exact()));
    EXPECT_TRUE(Close(Reduced({.op_type = "ReduceMin", .opset = 20, .isa = isa}, nothing, 0),
                      Filled({1, 3}, true), Exact()));
    for (int64_t n = 1; n <= 70; ++n) {
      Tensor row = Filled<bool>({1, n}, false);
      row.mutable_data<bool>()[n - 1] = true;
      EXPECT_TRUE(Close(Reduced({.op_type = "ReduceMax", .opset = 20, .isa = isa}, row, 1),
                        Filled({1, 1}, true), Exact()));
      EXPECT_TRUE(Close(Reduced({.op_type = "ReduceMin", .opset = 20, .isa = isa}, row, 1),
                        Filled({1, 1}, n == 1), Exact()));
    }
  }
}

TEST(ReduceBool, IsRefusedBeforeAndBySums) {
  const Tensor bools = Filled<bool>({2, 3}, true);
  const auto error_of = [&](const char* op, int opset) {
    const auto y = test::RunOp({.op_type = op, .opset = opset}, {bools});
    EXPECT_FALSE(y.ok()) << op << " opset " << opset;
    return y.ok() ? "" : std::string(Message(y.status()));
  };
  for (const int opset : {12, 13, 18}) {
    EXPECT_THAT(error_of("ReduceMax", opset), HasSubstr("input 0 is of type bool"));
    EXPECT_THAT(error_of("ReduceMin", opset), HasSubstr("input 0 is of type bool"));
  }
  for (const char* op : {"ReduceSum", "ReduceProd", "ReduceMean", "ReduceL2"}) {
    EXPECT_THAT(error_of(op, 20), HasSubstr("input 0 is of type bool"));
  }
}

}  // namespace
}  // namespace tandem
