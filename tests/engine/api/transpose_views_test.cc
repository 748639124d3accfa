// A transpose between the two orders of an image's axes costs nothing where the image lies
// channels-last anyhow.
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
using testing::HasSubstr;
using testing::Not;
using Ints = std::vector<int64_t>;

// x -> Conv -> c -> Transpose -> t -> Softmax -> s -> Transpose -> u -> Conv -> y.
std::string Sandwich(const std::vector<std::string>& outputs) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {2, 3, 6, 5})
      .Initializer("w", RandomFloats({4, 3, 1, 1}, 1))
      .Initializer("v", RandomFloats({2, 4, 3, 3}, 2))
      .Node("Conv", {"x", "w"}, {"c"})
      .Node("Transpose", {"c"}, {"t"}, {{"perm", Ints{0, 2, 3, 1}}})
      .Node("Softmax", {"t"}, {"s"}, {{"axis", int64_t{-1}}})
      .Node("Transpose", {"s"}, {"u"}, {{"perm", Ints{0, 3, 1, 2}}})
      .Node("Conv", {"u", "v"}, {"y"});
  const std::map<std::string, graph::DimVector> dims = {{"c", {2, 4, 6, 5}},
                                                        {"t", {2, 6, 5, 4}},
                                                        {"s", {2, 6, 5, 4}},
                                                        {"u", {2, 4, 6, 5}},
                                                        {"y", {2, 2, 4, 3}}};
  for (const std::string& output : outputs) builder.Output(output, DType::kFloat, dims.at(output));
  return builder.Serialize();
}

std::map<std::string, Tensor> Answers(const Engine& engine, const std::string& bytes) {
  const auto model = engine.LoadBytes(bytes);
  EXPECT_TRUE(model.ok()) << model.status();
  const auto result = (*model)->Run(std::vector<NamedTensor>{{"x", RandomFloats({2, 3, 6, 5}, 3)}});
  EXPECT_TRUE(result.ok()) << result.status();
  std::map<std::string, Tensor> outputs;
  for (const NamedTensor& output : result->outputs) outputs[output.name] = output.tensor;
  return outputs;
}

// Element [n, c, h, w] of `image` is element [n, h, w, c] of `last`.
void ExpectSameImage(const Tensor& image, const Tensor& last) {
  const Shape& shape = image.shape();
  ASSERT_EQ(last.shape(), Shape({shape[0], shape[2], shape[3], shape[1]}));
  for (int64_t n = 0; n < shape[0]; ++n) {
    for (int64_t c = 0; c < shape[1]; ++c) {
      for (int64_t i = 0; i < shape[2] * shape[3]; ++i) {
        ASSERT_EQ(image.data<float>()[(n * shape[1] + c) * shape[2] * shape[3] + i],
                  last.data<float>()[(n * shape[2] * shape[3] + i) * shape[1] + c]);
      }
    }
  }
}

TEST(TransposeViewsTest, BothTransposesAreViewsBetweenConvolutions) {
  const Engine engine(EngineOptions{.threads = 1});
  const auto model = engine.LoadBytes(Sandwich({"y"}));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT((*model)->Explain(), Not(HasSubstr("move.transpose")));
}

TEST(TransposeViewsTest, EveryValueKeepsItsMeaningWhicheverIsAnOutput) {
  const Engine engine(EngineOptions{.threads = 1});
  const auto all = Answers(engine, Sandwich({"c", "t", "s", "u", "y"}));
  ExpectSameImage(all.at("c"), all.at("t"));
  ExpectSameImage(all.at("u"), all.at("s"));
  for (const std::string name : {"c", "t", "s", "u", "y"}) {
    const auto one = Answers(engine, Sandwich({name}));
    EXPECT_TRUE(test::Close(one.at(name), all.at(name), test::Exact())) << name;
  }
}

TEST(TransposeViewsTest, ANativeImageIsMoved) {
  const std::string bytes = ModelBuilder(17)
                                .Input("x", DType::kFloat, {2, 3, 6, 5})
                                .Node("Transpose", {"x"}, {"y"}, {{"perm", Ints{0, 2, 3, 1}}})
                                .Output("y", DType::kFloat, {2, 6, 5, 3})
                                .Serialize();
  const Engine engine(EngineOptions{.threads = 1});
  const auto outputs = Answers(engine, bytes);
  ExpectSameImage(RandomFloats({2, 3, 6, 5}, 3), outputs.at("y"));
}

}  // namespace
}  // namespace tandem
