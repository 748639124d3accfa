// Element-wise operators in the epilogue of the product before them: they fuse, and mean the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "tests/support/compare.h"
#include "tests/support/model_builder.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::ModelBuilder;
using test::RandomFloats;

// y = `op`(x W, b) or `op`(b, x W) with x [5, 7], W [7, 9] and b of `operand`.
std::string Product(const std::string& op, bool operand_is_first, const Shape& operand) {
  const std::vector<std::string> inputs =
      operand_is_first ? std::vector<std::string>{"b", "p"} : std::vector<std::string>{"p", "b"};
  return ModelBuilder(17)
      .Input("x", DType::kFloat, {5, 7})
      .Initializer("w", RandomFloats({7, 9}, 1))
      .Initializer("b", RandomFloats(operand, 2))
      .Node("MatMul", {"x", "w"}, {"p"})
      .Node(op, inputs, {"y"})
      .Output("y", DType::kFloat, {5, 9})
      .Serialize();
}

TEST(EpilogueTest, BinaryOperatorsFuseOnEitherSideWithTheSameBits) {
  const Engine fused(EngineOptions{.threads = 1});
  const Engine plain(EngineOptions{.threads = 1, .disabled_passes = {"fuse_epilogue"}});
  for (const std::string op : {"Add", "Sub", "Mul"}) {
    for (const bool first : {false, true}) {
      for (const Shape& operand : {Shape({9}), Shape({5, 9}), Shape({1})}) {
        SCOPED_TRACE(op + (first ? " of operand and product " : " of product and operand ") +
                     ToString(operand));
        const std::string bytes = Product(op, first, operand);
        const auto one = fused.LoadBytes(bytes);
        const auto other = plain.LoadBytes(bytes);
        ASSERT_TRUE(one.ok() && other.ok()) << one.status() << other.status();
        EXPECT_THAT((*one)->Explain(), testing::HasSubstr("fuse_epilogue: 1"));
        EXPECT_THAT((*other)->Explain(), testing::Not(testing::HasSubstr("fuse_epilogue: 1")));
        const std::vector<NamedTensor> inputs = {{"x", RandomFloats({5, 7}, 3)}};
        const auto a = (*one)->Run(inputs);
        const auto b = (*other)->Run(inputs);
        ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
        EXPECT_TRUE(test::Close(a->outputs[0].tensor, b->outputs[0].tensor, test::Exact()));
      }
    }
  }
}

}  // namespace
}  // namespace tandem
