// An input may be handed over channels-last though the model's file declares it channels-first.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "tests/engine/api/comparison.h"
#include "tests/support/model_builder.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::ModelBuilder;
using test::RandomFloats;
using testing::HasSubstr;
using testing::Not;

const graph::Dim kItems = graph::Dim::Symbol("N");

// y: a convolution of image x; f: x as a row, so that its elements' order shows; x2: x itself.
ModelBuilder Images() {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {kItems, 3, 6, 5})
      .Initializer("w", RandomFloats({4, 3, 3, 3}, 1))
      .Node("Conv", {"x", "w"}, {"y"})
      .Node("Flatten", {"x"}, {"f"})
      .Node("Identity", {"x"}, {"x2"})
      .Output("y", DType::kFloat, {kItems, 4, 4, 3})
      .Output("f", DType::kFloat, {kItems, 90})
      .Output("x2", DType::kFloat, {kItems, 3, 6, 5});
  return builder;
}

// The image as a tensor of shape N H W C.
Tensor ChannelsLast(const Tensor& image) {
  const Shape& shape = image.shape();
  Tensor moved = *Tensor::Allocate(DType::kFloat, {shape[0], shape[2], shape[3], shape[1]});
  const int64_t pixels = shape[2] * shape[3];
  for (int64_t n = 0; n < shape[0]; ++n) {
    for (int64_t c = 0; c < shape[1]; ++c) {
      for (int64_t p = 0; p < pixels; ++p) {
        moved.mutable_data<float>()[(n * pixels + p) * shape[1] + c] =
            image.data<float>()[(n * shape[1] + c) * pixels + p];
      }
    }
  }
  return moved;
}

const LoadOptions kLast{.stopped = {}, .input_layouts = {{"x", Layout::kChannelsLast}}};

TEST(InputLayoutsTest, AChannelsLastInputGivesTheBitsOfTheDeclaredOne) {
  const std::string bytes = Images().Serialize();
  for (const int threads : {1, 4}) {
    const Engine engine(EngineOptions{.threads = threads});
    const auto declared = engine.LoadBytes(bytes);
    ASSERT_TRUE(declared.ok()) << declared.status();
    const auto last = engine.LoadBytes(bytes, kLast);
    ASSERT_TRUE(last.ok()) << last.status();
    for (const int64_t items : {0, 1, 3, 8}) {
      SCOPED_TRACE(testing::Message() << items << " items, " << threads << " threads");
      const Tensor image = RandomFloats({items, 3, 6, 5}, 2);
      test::ExpectClose(test::Answers(**last, {{"x", ChannelsLast(image)}}),
                        test::Answers(**declared, {{"x", image}}), test::Exact());
    }
  }
}

TEST(InputLayoutsTest, NothingIsMovedWhereTheReadersComputeChannelsLast) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {kItems, 3, 6, 5})
      .Initializer("w", RandomFloats({4, 3, 3, 3}, 1))
      .Node("Conv", {"x", "w"}, {"c"})
      .Node("GlobalAveragePool", {"c"}, {"y"})
      .Output("y", DType::kFloat, {kItems, 4, 1, 1});
  const Engine engine(EngineOptions{.threads = 1});
  const auto declared = engine.LoadBytes(builder.Serialize());
  const auto last = engine.LoadBytes(builder.Serialize(), kLast);
  ASSERT_TRUE(declared.ok() && last.ok()) << last.status();
  EXPECT_THAT((*declared)->Explain(), HasSubstr("'x' to channels_last"));
  EXPECT_THAT((*last)->Explain(), Not(HasSubstr("channels_last'")));
  EXPECT_THAT((*last)->Explain(), Not(HasSubstr("move.transpose")));
  EXPECT_THAT((*last)->Explain(), Not(HasSubstr("'x' to channels_last")));
}

TEST(InputLayoutsTest, TheModelSaysTheShapeThatRequestsHave) {
  const Engine engine(EngineOptions{.threads = 1});
  const auto model = engine.LoadBytes(Images().Serialize(), kLast);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->info().inputs[0].name, "x");
  EXPECT_EQ(graph::ToString((*model)->info().inputs[0].dims), "[N,6,5,3]");
  EXPECT_TRUE((*model)->info().joinable) << (*model)->info().not_joinable_reason;
  const std::vector<NamedTensor> declared = {{"x", RandomFloats({1, 3, 6, 5}, 2)}};
  EXPECT_THAT((*model)->Validate(declared).ToString(), HasSubstr("[N,6,5,3]"));
}

TEST(InputLayoutsTest, AnInputThatIsNoImageIsNamed) {
  ModelBuilder builder(17);
  builder.Input("row", DType::kFloat, {kItems, 3})
      .Input("b", DType::kFloat, {1, 3, 1})
      .Initializer("b", RandomFloats({1, 3, 1}, 1))
      .Node("Add", {"row", "b"}, {"y"})
      .Output("y", DType::kFloat, {1, 3, 3});
  const Engine engine(EngineOptions{.threads = 1});
  const auto load = [&](const std::string& name) {
    return engine
        .LoadBytes(builder.Serialize(),
                   {.stopped = {}, .input_layouts = {{name, Layout::kChannelsLast}}})
        .status()
        .ToString();
  };
  EXPECT_THAT(load("z"), HasSubstr("'z', which is no input of the model"));
  EXPECT_THAT(load("row"), HasSubstr("input 'row' is declared as float[N,3]"));
  EXPECT_THAT(load("b"), HasSubstr("input 'b', which has a default"));
}

}  // namespace
}  // namespace tandem
