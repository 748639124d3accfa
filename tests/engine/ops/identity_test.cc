#include <gtest/gtest.h>

#include "tests/support/compare.h"
#include "tests/support/op_runner.h"

namespace tandem {
namespace {

TEST(Identity, ReturnsItsInput) {
  const Tensor x = Tensor::Of<float>({2, 2}, {1, 2, 3, 4});
  const auto y = test::RunOp({.op_type = "Identity"}, {x});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_TRUE(test::Close((*y)[0], x, test::Exact()));
}

TEST(Identity, AnUnknownAttributeIsRefusedByName) {
  const auto y = test::RunOp({.op_type = "Identity", .attributes = {{"axis", int64_t{3}}}},
                             {Tensor::Scalar<float>(1)});
  ASSERT_FALSE(y.ok());
  EXPECT_EQ(std::string(Message(y.status())), "opset 17 of Identity has no attribute 'axis' (3)");
}

}  // namespace
}  // namespace tandem
