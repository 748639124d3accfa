// Strings between nodes: they are made and ended one by one, wherever they lie.
#include <gtest/gtest.h>

#include "tests/engine/api/comparison.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::Answers;
using test::ExpectClose;
using test::LoadModel;
using test::ModelBuilder;
using Strings = std::vector<std::string>;

const graph::Dim kN = graph::Dim::Symbol("N");

Tensor StringVector(const Strings& values) {
  return Tensor::Of<std::string>({static_cast<int64_t>(values.size())}, values);
}

TEST(Strings, BetweenTwoNodesAreValues) {
  const std::string bytes = ModelBuilder(17)
                                .Input("x", DType::kInt64, {kN})
                                .Node("Cast", {"x"}, {"s"}, {{"to", int64_t{8}}})
                                .Node("Cast", {"s"}, {"y"}, {{"to", int64_t{1}}})
                                .Output("y", DType::kFloat, {kN})
                                .Serialize();
  const Tensor x = Tensor::Of<int64_t>({5}, {4, -1234567, 0, 7, 1});
  const Tensor y = Tensor::Of<float>({5}, {4, -1234567, 0, 7, 1});
  for (const int threads : {1, 4}) {
    const Engine engine(EngineOptions{.threads = threads});
    const auto model = LoadModel(engine, bytes);
    ASSERT_NE(model, nullptr);
    for (int run = 0; run < 3; ++run) {
      ExpectClose(Answers(*model, {{"x", x}}), {{"y", y}}, test::Exact());
    }
  }
}

// Short strings and long ones, through steps, a view and an output on the way, to a comparison.
TEST(Strings, GoThroughStepsViewsAndOutputs) {
  const Strings words = {"a", "a word that is too long for the place of a short one", ""};
  const std::string bytes = ModelBuilder(17)
                                .Input("x", DType::kInt64, {kN})
                                .Initializer("words", StringVector(words))
                                .Initializer("axes", Tensor::Of<int64_t>({1}, {0}))
                                .Node("Gather", {"words", "x"}, {"g"})
                                .Node("Concat", {"g", "words"}, {"c"}, {{"axis", int64_t{0}}})
                                .Node("Unsqueeze", {"c", "axes"}, {"u"})
                                .Node("Concat", {"u", "u"}, {"y"}, {{"axis", int64_t{0}}})
                                .Node("Equal", {"y", "u"}, {"same"})
                                .Output("y", DType::kString, {2, graph::Dim::Symbol("M")})
                                .Output("same", DType::kBool, {2, graph::Dim::Symbol("M")})
                                .Serialize();
  const Engine engine(EngineOptions{.threads = 2});
  const auto model = LoadModel(engine, bytes);
  ASSERT_NE(model, nullptr);
  const Strings row = {words[1], words[0], words[2], words[0], words[1], words[2]};
  Strings both = row;
  both.insert(both.end(), row.begin(), row.end());
  for (int run = 0; run < 3; ++run) {
    const auto answers = Answers(*model, {{"x", Tensor::Of<int64_t>({3}, {1, 0, 2})}});
    ExpectClose(answers,
                {{"y", Tensor::Of<std::string>({2, 6}, both)},
                 {"same", Tensor::Of<bool>({2, 6}, {true, true, true, true, true, true, true, true,
                                                    true, true, true, true})}},
                test::Exact());
  }
}

}  // namespace
}  // namespace tandem
