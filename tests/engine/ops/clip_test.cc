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

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kMax = std::numeric_limits<float>::max();

TEST(Clip, BoundsAreAttributesBeforeOpset11) {
  const Tensor x = Tensor::Of<float>({4}, {-kInf, -2, 3, kNan});
  EXPECT_TRUE(Close(Apply({.op_type = "Clip", .opset = 6, .attributes = {{"max", 2.0f}}}, {x}),
                    Tensor::Of<float>({4}, {-kMax, -2, 2, kNan}), Exact()));
}

TEST(Clip, BoundsAreOptionalInputsFromOpset11On) {
  const Tensor x = Tensor::Of<float>({4}, {-kInf, -2, 3, kInf});
  const Tensor low = Tensor::Scalar(-1.0f);
  const Tensor high = Tensor::Scalar(2.0f);
  EXPECT_TRUE(Close(Apply({.op_type = "Clip"}, {x}), Tensor::Of<float>({4}, {-kMax, -2, 3, kMax}),
                    Exact()));
  EXPECT_TRUE(Close(Apply({.op_type = "Clip"}, {x, low}), Tensor::Of<float>({4}, {-1, -1, 3, kMax}),
                    Exact()));
  EXPECT_TRUE(Close(Apply({.op_type = "Clip"}, {x, Tensor(), high}),
                    Tensor::Of<float>({4}, {-kMax, -2, 2, 2}), Exact()));
  EXPECT_TRUE(Close(Apply({.op_type = "Clip"}, {x, low, high}),
                    Tensor::Of<float>({4}, {-1, -1, 2, 2}), Exact()));
}

TEST(Clip, TheUpperBoundWinsWhenTheBoundsAreCrossed) {
  const Tensor x = Tensor::Of<float>({4}, {-2, 0, 2, 5});
  for (const Isa isa : test::IsaLevels()) {
    EXPECT_TRUE(Close(
        Apply({.op_type = "Clip", .isa = isa}, {x, Tensor::Scalar(3.0f), Tensor::Scalar(1.0f)}),
        Tensor::Of<float>({4}, {1, 1, 1, 1}), Exact()));
  }
}

TEST(Clip, NanStaysAndANanBoundIsNone) {
  const Tensor x = Tensor::Of<float>({2}, {kNan, 1});
  for (const Isa isa : test::IsaLevels()) {
    EXPECT_TRUE(Close(Apply({.op_type = "Clip", .isa = isa}, {x, Tensor::Scalar(0.0f)}),
                      Tensor::Of<float>({2}, {kNan, 1}), Exact()));
    EXPECT_TRUE(Close(Apply({.op_type = "Clip", .isa = isa}, {x, Tensor::Scalar(kNan)}),
                      Tensor::Of<float>({2}, {kNan, 1}), Exact()));
  }
}

TEST(Clip, EveryLengthAndIntegersAreExact) {
  for (int64_t n = 0; n <= 70; ++n) {
    const Tensor x = test::RandomFloats({n}, 3, -2, 2);
    const Tensor expected = *Tensor::Copy(x.view());
    for (int64_t i = 0; i < n; ++i) {
      expected.mutable_data<float>()[i] = std::clamp(x.data<float>()[i], -1.0f, 0.5f);
    }
    for (const Isa isa : test::IsaLevels()) {
      EXPECT_TRUE(Close(
          Apply({.op_type = "Clip", .isa = isa}, {x, Tensor::Scalar(-1.0f), Tensor::Scalar(0.5f)}),
          expected, Exact()))
          << IsaName(isa) << " " << n;
    }
  }
  constexpr int64_t kBig = (int64_t{1} << 53) + 1;
  const Tensor x = Tensor::Of<int64_t>({2}, {kBig, -kBig});
  EXPECT_TRUE(Close(Apply({.op_type = "Clip"}, {x, Tensor::Scalar<int64_t>(kBig - 1)}),
                    Tensor::Of<int64_t>({2}, {kBig, kBig - 1}), Exact()));
}

TEST(Clip, ABoundThatIsNoScalarIsRefused) {
  const Tensor x = test::RandomFloats({3}, 1);
  const auto y = test::RunOp({.op_type = "Clip"}, {x, x});
  ASSERT_FALSE(y.ok());
  EXPECT_EQ(std::string(Message(y.status())), "input 1 has shape [3] where a scalar is expected");
}

}  // namespace
}  // namespace tandem
