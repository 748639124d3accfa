#include <gtest/gtest.h>

#include "tests/support/compare.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::Close;
using test::Exact;
using Ints = std::vector<int64_t>;

const graph::Attributes kTwoByTwo = {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}};

TEST(MaxUnpool, PutsWhatMaxPoolTookBackInItsPlace) {
  for (const Shape& shape : {Shape{2, 3, 4, 6}, Shape{1, 1, 8, 2}}) {
    const Tensor x = test::RandomFloats(shape, 1, 1, 2);
    const auto pooled =
        test::RunOp({.op_type = "MaxPool", .attributes = kTwoByTwo, .outputs = 2}, {x});
    ASSERT_TRUE(pooled.ok()) << pooled.status();
    const Tensor y = test::Apply({.op_type = "MaxUnpool", .attributes = kTwoByTwo}, *pooled);
    ASSERT_EQ(y.shape(), shape);
    const Tensor again = test::Apply({.op_type = "MaxPool", .attributes = kTwoByTwo}, {y});
    EXPECT_TRUE(Close(again, (*pooled)[0], Exact()));
    int64_t others = 0;
    for (int64_t i = 0; i < y.elements(); ++i) {
      const float value = y.data<float>()[i];
      if (value == 0) {
        ++others;
      } else {
        EXPECT_EQ(value, x.data<float>()[i]);
      }
    }
    EXPECT_EQ(others, y.elements() / 4 * 3);
  }
}

TEST(MaxUnpool, ALargerOutputShapeAddsZerosBehindEveryAxis) {
  const Tensor x = Tensor::Of<float>({1, 1, 2, 2}, {1, 2, 3, 4});
  const Tensor indices = Tensor::Of<int64_t>({1, 1, 2, 2}, {5, 7, 13, 15});
  const Tensor shape = Tensor::Of<int64_t>({4}, {1, 1, 5, 5});
  const Tensor y =
      test::Apply({.op_type = "MaxUnpool", .attributes = kTwoByTwo}, {x, indices, shape});
  EXPECT_TRUE(Close(y, Tensor::Of<float>({1, 1, 5, 5}, {0, 0, 0, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0,
                                                        0, 0, 0, 3, 0, 4, 0, 0, 0, 0, 0, 0}),
                    Exact()));
}

TEST(MaxUnpool, AnIndexOutsideOfTheOutputFailsTheRun) {
  const Tensor x = Tensor::Of<float>({1, 1, 1, 1}, {1});
  const auto y = test::RunOp({.op_type = "MaxUnpool", .attributes = kTwoByTwo},
                             {x, Tensor::Of<int64_t>({1, 1, 1, 1}, {4})});
  EXPECT_EQ(Message(y.status()),
            "index 0 of the indices is 4 where -4 to 3 are expected for an axis of extent 4");
}

TEST(MaxUnpool, RefusesWhatItCannotMean) {
  const Tensor x = Tensor::Of<float>({1, 1, 1, 1}, {1});
  const Tensor index = Tensor::Of<int64_t>({1, 1, 1, 1}, {0});
  const auto error = [&](const graph::Attributes& attributes, const std::vector<Tensor>& inputs) {
    return std::string(
        Message(test::RunOp({.op_type = "MaxUnpool", .attributes = attributes}, inputs).status()));
  };
  EXPECT_EQ(error(kTwoByTwo, {x, index, Tensor::Of<int64_t>({4}, {1, 1, 1, 2})}),
            "the output shape (input 2) is [1,1,1,2] where [1,1,2,2] or more is expected");
  EXPECT_EQ(error({{"kernel_shape", Ints{2}}}, {x, index}),
            "X has shape [1,1,1,1] where 1 spatial axes after N and C are expected");
  graph::Attributes padded = kTwoByTwo;
  padded["auto_pad"] = std::string("VALID");
  EXPECT_EQ(error(padded, {x, index}),
            "opset 17 of MaxUnpool has no attribute 'auto_pad' (\"VALID\")");
}

}  // namespace
}  // namespace tandem
