// Rolls along one axis or several: cheap, right in any batch, and right where they end in a window.
#include "tests/engine/api/rolls.h"

#include <gtest/gtest.h>

#include "tests/engine/api/comparison.h"

namespace tandem {
namespace {

using test::ExpectItemsAlone;
using test::ExpectMeans;
using test::LoadModel;
using test::ModelBuilder;
using test::Roll;
using test::Turn;
using Ints = std::vector<int64_t>;

const graph::Dim kN = graph::Dim::Symbol("N");

// Along H, along H and W, along H, W and C of x [N,8,8,6].
std::vector<std::vector<Turn>> Turns() {
  std::vector<std::vector<Turn>> all;
  for (const int64_t shift : {1, 3, 5, 7}) {
    const Turn h = {.shift = shift, .axis = 1};
    const Turn w = {.shift = 8 - shift, .axis = 2};
    const Turn c = {.shift = shift % 6 == 0 ? 1 : shift % 6, .axis = 3, .extent = 6};
    all.push_back({h});
    all.push_back({h, w});
    all.push_back({h, w, c});
    all.push_back({c});
  }
  return all;
}

std::string Name(const std::vector<Turn>& turns) {
  std::string name;
  for (const Turn& turn : turns) name += fmt::format("{} along {}, ", turn.shift, turn.axis);
  return name;
}

enum class End { kRolled, kWindows };

// x rolled, and cut into windows of 4 by 4.
std::string Rolled(Roll roll, const std::vector<Turn>& turns, End end) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {kN, 8, 8, 6});
  std::string from = "x";
  for (size_t i = 0; i < turns.size(); ++i) {
    const bool last = end == End::kRolled && i + 1 == turns.size();
    const std::string to = last ? "y" : fmt::format("r{}", i);
    AddRoll(roll, from, to, turns[i], builder);
    from = to;
  }
  if (end == End::kRolled) {
    return builder.Output("y", DType::kFloat, {kN, 8, 8, 6}).Serialize();
  }
  return builder.Initializer("cut", Tensor::Of<int64_t>({6}, {-1, 2, 4, 2, 4, 6}))
      .Initializer("tokens", Tensor::Of<int64_t>({4}, {-1, 4, 16, 6}))
      .Node("Reshape", {from, "cut"}, {"apart"})
      .Node("Transpose", {"apart"}, {"windows"}, {{"perm", Ints{0, 1, 3, 2, 4, 5}}})
      .Node("Reshape", {"windows", "tokens"}, {"y"})
      .Output("y", DType::kFloat, {kN, 4, 16, 6})
      .Serialize();
}

TEST(Rolls, AreThoseOfAGather) {
  for (const std::vector<Turn>& turns : Turns()) {
    SCOPED_TRACE(Name(turns));
    for (const End end : {End::kRolled, End::kWindows}) {
      const std::string bytes = Rolled(Roll::kSlices, turns, end);
      ExpectMeans(bytes, {.oracle = Rolled(Roll::kGather, turns, end)});
      ExpectItemsAlone(bytes, 3);
    }
  }
}

// Tasks of the plan that copy elements, and the bytes they read and write.
struct Moves {
  int tasks = 0;
  double bytes = 0;
  std::string text;
};

Moves MovesOf(const std::string& bytes) {
  const Engine engine(EngineOptions{.threads = 1});
  const auto model = LoadModel(engine, bytes);
  if (model == nullptr) return {};
  const auto report = model->Report(std::vector<NamedShape>{{"x", {2, 8, 8, 6}}});
  EXPECT_TRUE(report.ok()) << report.status();
  if (!report.ok()) return {};
  Moves moves = {.text = ToText(*report)};
  for (const TaskReport& task : report->tasks) {
    if (task.kernel == "view") continue;
    ++moves.tasks;
    EXPECT_TRUE(task.moved_bytes.has_value()) << task.name;
    moves.bytes += task.moved_bytes.value_or(0);
  }
  return moves;
}

constexpr double kImageBytes = 2 * 8 * 8 * 6 * sizeof(float);

// Into its part and from there into the result.
TEST(Rolls, CopyEveryElementAtMostTwiceForEachAxis) {
  for (const std::vector<Turn>& turns : Turns()) {
    SCOPED_TRACE(Name(turns));
    const Moves moves = MovesOf(Rolled(Roll::kSlices, turns, End::kRolled));
    EXPECT_LE(moves.tasks, 3 * std::ssize(turns)) << moves.text;
    EXPECT_LE(moves.bytes, 2 * 2 * kImageBytes * static_cast<double>(turns.size())) << moves.text;
  }
}

TEST(Rolls, AreCopiedOnceMoreIntoWindows) {
  for (const std::vector<Turn>& turns : Turns()) {
    SCOPED_TRACE(Name(turns));
    const Moves rolled = MovesOf(Rolled(Roll::kSlices, turns, End::kRolled));
    const Moves windows = MovesOf(Rolled(Roll::kSlices, turns, End::kWindows));
    EXPECT_EQ(windows.tasks, rolled.tasks + 1) << windows.text;
    EXPECT_LE(windows.bytes, rolled.bytes + 2 * kImageBytes) << windows.text;
  }
}

}  // namespace
}  // namespace tandem
