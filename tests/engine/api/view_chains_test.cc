// Chains of Reshape, Transpose and Slice: a view of memory where the extents divide, else a copy
// that the plan shows; either way the numbers of the operators one by one.
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <random>

#include "tests/engine/api/comparison.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::ExpectMeans;
using test::LoadModel;
using test::ModelBuilder;
using test::RandomFloats;
using Ints = std::vector<int64_t>;

const graph::Dim kN = graph::Dim::Symbol("N");

Tensor IntVector(const Ints& values) {
  return Tensor::Of<int64_t>({static_cast<int64_t>(values.size())}, values);
}

// A chain from x [N,2,7,5] through views to y = Relu of the last one.
struct Views {
  std::string name;
  std::function<void(ModelBuilder&)> nodes;  // from x to "v"
  int moves;                                 // tasks of the plan that copy; a Slice always does
};

void AddReshape(ModelBuilder& b, const std::string& from, const std::string& to,
                const Ints& shape) {
  b.Initializer(to + "_shape", IntVector(shape)).Node("Reshape", {from, to + "_shape"}, {to});
}

void AddTranspose(ModelBuilder& b, const std::string& from, const std::string& to,
                  const Ints& perm) {
  b.Node("Transpose", {from}, {to}, {{"perm", perm}});
}

std::vector<Views> Cases() {
  return {
      {"axes that merge and part again",
       [](ModelBuilder& b) {
         AddReshape(b, "x", "a", {-1, 14, 5});
         AddReshape(b, "a", "b", {-1, 7, 2, 5});
         AddReshape(b, "b", "v", {-1, 70});
       },
       0},
      {"a transposition and its inverse around a split",
       [](ModelBuilder& b) {
         AddTranspose(b, "x", "a", {0, 3, 1, 2});
         AddReshape(b, "a", "b", {-1, 5, 14});
         AddReshape(b, "b", "c", {-1, 5, 2, 7});
         AddTranspose(b, "c", "v", {0, 2, 3, 1});
       },
       0},
      {"a split of what a transposition interleaved",
       [](ModelBuilder& b) {
         AddReshape(b, "x", "a", {-1, 7, 10});
         AddTranspose(b, "a", "b", {0, 2, 1});
         AddReshape(b, "b", "v", {-1, 5, 14});
       },
       1},
      {"every other element of that",
       [](ModelBuilder& b) {
         AddReshape(b, "x", "a", {-1, 7, 10});
         AddTranspose(b, "a", "b", {0, 2, 1});
         AddReshape(b, "b", "c", {-1, 5, 14});
         b.Initializer("first", IntVector({1}))
             .Initializer("end", IntVector({14}))
             .Initializer("axis", IntVector({2}))
             .Initializer("step", IntVector({2}))
             .Node("Slice", {"c", "first", "end", "axis", "step"}, {"v"});
       },
       2},
      {"primes that do not divide each other",
       [](ModelBuilder& b) {
         AddTranspose(b, "x", "a", {0, 2, 1, 3});
         AddReshape(b, "a", "b", {-1, 2, 35});
         AddTranspose(b, "b", "c", {0, 2, 1});
         AddReshape(b, "c", "v", {-1, 10, 7});
       },
       2},
  };
}

std::string Build(const Views& views) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {kN, 2, 7, 5});
  views.nodes(builder);
  return builder.Node("Relu", {"v"}, {"y"}).Output("y").Serialize();
}

// "kernel of the nodes" of every task that does more than name memory.
std::vector<std::string> MovesOf(const PlanReport& report) {
  std::vector<std::string> moves;
  for (const TaskReport& task : report.tasks) {
    if (task.kernel.starts_with("move")) moves.push_back(task.kernel + " of " + task.name);
  }
  return moves;
}

TEST(ViewChains, WhatDividesIsAViewAndWhatDoesNotIsACopyThatThePlanShows) {
  for (const Views& views : Cases()) {
    SCOPED_TRACE(views.name);
    const std::string bytes = Build(views);
    const Engine engine(EngineOptions{.threads = 1});
    const auto model = LoadModel(engine, bytes);
    ASSERT_NE(model, nullptr);
    const auto report = model->Report(std::vector<NamedShape>{{"x", {3, 2, 7, 5}}});
    ASSERT_TRUE(report.ok()) << report.status();
    const std::vector<std::string> moves = MovesOf(*report);
    EXPECT_EQ(std::ssize(moves), views.moves) << ToText(*report);
    ExpectMeans(bytes, {.oracle = bytes, .options = test::WithoutPacks()});
  }
}

// Random chains of views, cut by operators that work in place, against each operator by itself.
class Chain {
 public:
  Chain(const Shape& start, uint32_t seed) : generator_(seed), current_(RandomFloats(start, seed)) {
    builder_.Input("v0", DType::kFloat, graph::ToDims(start));
    inputs_ = {{"v0", current_}};
    while (links_ < 9) Extend();
  }

  void Expect() {
    const std::string last = Name(links_);
    builder_.Output(last, DType::kFloat, graph::ToDims(current_.shape()));
    const std::string bytes = builder_.Serialize();
    for (const int threads : {1, 2}) {
      const Engine engine(EngineOptions{.threads = threads});
      const auto model = LoadModel(engine, bytes);
      ASSERT_NE(model, nullptr);
      EXPECT_TRUE(test::Close(test::Answers(*model, inputs_).at(last), current_, test::Exact()));
    }
  }

 private:
  static std::string Name(int i) { return fmt::format("v{}", i); }
  int64_t Pick(int64_t n) { return static_cast<int64_t>(generator_() % static_cast<uint32_t>(n)); }

  // A prime that divides the extent, or 1.
  int64_t Part(int64_t extent) {
    const Ints primes = {2, 3, 5, 7, 11};
    const size_t first = static_cast<size_t>(Pick(5));
    for (size_t i = 0; i < 5; ++i) {
      const int64_t prime = primes[(first + i) % 5];
      if (extent % prime == 0 && extent > prime) return prime;
    }
    return 1;
  }

  void Add(const std::string& op, const std::vector<Tensor>& constants,
           const graph::Attributes& attributes = {}) {
    std::vector<Tensor> inputs = {current_};
    std::vector<std::string> names = {Name(links_)};
    for (size_t i = 0; i < constants.size(); ++i) {
      names.push_back(fmt::format("c{}_{}", links_, i));
      builder_.Initializer(names.back(), constants[i]);
      inputs.push_back(constants[i]);
    }
    ++links_;
    builder_.Node(op, names, {Name(links_)}, attributes);
    current_ = test::Apply({.op_type = op, .attributes = attributes}, inputs);
  }

  void Extend() {
    const int64_t rank = current_.shape().rank();
    const int64_t axis = Pick(rank);
    switch (Pick(6)) {
      case 0: {
        Ints perm(static_cast<size_t>(rank));
        std::iota(perm.begin(), perm.end(), 0);
        for (size_t i = perm.size() - 1; i > 0; --i) {
          std::swap(perm[i], perm[static_cast<size_t>(Pick(static_cast<int64_t>(i) + 1))]);
        }
        return Add("Transpose", {}, {{"perm", perm}});
      }
      case 1: {
        if (rank < 2) return Add("Unsqueeze", {IntVector({0})});
        // Two neighbours become one, with the first element of a pair in front.
        Ints merged;
        const int64_t at = Pick(rank - 1);
        for (int i = 0; i < rank; ++i) {
          if (i == at + 1) {
            merged.back() *= current_.shape()[i];
          } else {
            merged.push_back(current_.shape()[i]);
          }
        }
        return Add("Reshape", {IntVector(merged)});
      }
      case 2: {
        const int64_t extent = current_.shape()[static_cast<int>(axis)];
        const int64_t part = Part(extent);
        if (rank > 6 || part == 1) return Add("Tanh", {});
        Ints split(current_.shape().dims().begin(), current_.shape().dims().end());
        split[static_cast<size_t>(axis)] = extent / part;
        split.insert(split.begin() + axis + 1, part);
        return Add("Reshape", {IntVector(split)});
      }
      case 3: {
        const int64_t extent = current_.shape()[static_cast<int>(axis)];
        if (extent < 2) return Add("Neg", {});
        return Add("Slice", {IntVector({Pick(2)}), IntVector({extent}), IntVector({axis}),
                             IntVector({1 + Pick(2)})});
      }
      case 4:
        return Add("Softmax", {}, {{"axis", axis}});
      default:
        return Add("Neg", {});
    }
  }

  std::mt19937 generator_;
  ModelBuilder builder_{17};
  std::vector<NamedTensor> inputs_;
  Tensor current_;
  int links_ = 0;
};

TEST(ViewChains, RandomChainsAreTheirOperatorsOneByOne) {
  for (const Shape& start : {Shape{2, 3, 4, 5}, Shape{3, 7, 5, 11}, Shape{6, 14, 10}}) {
    for (uint32_t seed = 1; seed <= 100; ++seed) {
      SCOPED_TRACE(fmt::format("{} {}", ToString(start), seed));
      Chain(start, seed).Expect();
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace tandem
