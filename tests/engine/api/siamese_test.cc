// Towers of shared weights that meet: forked or not, whatever they contain and however they end,
// they compute what towers with weights of their own compute one after the other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <thread>

#include "tests/engine/api/comparison.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::ExpectMeans;
using test::LoadModel;
using test::ModelBuilder;
using test::RandomFloats;
using Ints = std::vector<int64_t>;

const graph::Dim kN = graph::Dim::Symbol("N");

enum class Weights { kShared, kCopies };

// Towers of Conv and Relu that end in a Conv, then their sum and a Relu.
struct Siamese {
  int towers = 2;
  int depth = 6;
  int64_t channels = 8;
  int64_t extent = 16;  // of the images, both ways
  bool interleaved = true;
  bool swapped = false;    // the sum reads the towers from last to first
  bool constants = false;  // a Constant and a Shape in each tower
  bool mask = false;       // an input that scales the sum
  bool visible = false;    // the end of the first tower is an output
  bool halfway = false;    // and so is a value on its way
  bool product = false;    // the towers meet in a second output, too
  bool heads = false;      // and convolutions follow each of both
};

class SiameseBuilder {
 public:
  SiameseBuilder(const Siamese& siamese, Weights weights) : siamese_(siamese), weights_(weights) {}

  std::string Build() {
    for (int t = 0; t < siamese_.towers; ++t) {
      ends_.push_back(fmt::format("x{}", t));
      builder_.Input(ends_.back(), DType::kFloat, Dims());
      if (t == 0 || weights_ == Weights::kCopies) AddWeights(t);
    }
    if (siamese_.interleaved) {
      for (int layer = 0; layer < siamese_.depth; ++layer) {
        for (int t = 0; t < siamese_.towers; ++t) AddLayer(t, layer);
      }
    } else {
      for (int t = 0; t < siamese_.towers; ++t) {
        for (int layer = 0; layer < siamese_.depth; ++layer) AddLayer(t, layer);
      }
    }
    return Join();
  }

 private:
  graph::DimVector Dims() const {
    return {kN, siamese_.channels, siamese_.extent, siamese_.extent};
  }

  std::string WeightName(int tower, int layer) const {
    return fmt::format("w{}_{}", weights_ == Weights::kShared ? 0 : tower, layer);
  }

  void AddWeights(int tower) {
    for (int layer = 0; layer < siamese_.depth; ++layer) {
      builder_.Initializer(WeightName(tower, layer),
                           RandomFloats({siamese_.channels, siamese_.channels, 3, 3},
                                        static_cast<uint32_t>(layer), -0.2F, 0.2F));
    }
  }

  void AddLayer(int tower, int layer) {
    std::string& end = ends_[static_cast<size_t>(tower)];
    const std::string name = fmt::format("t{}_{}", tower, layer);
    builder_.Node("Conv", {end, WeightName(tower, layer)}, {name}, {{"pads", Ints{1, 1, 1, 1}}});
    end = name;
    if (layer + 1 == siamese_.depth) return;
    builder_.Node("Relu", {name}, {name + "r"});
    end = name + "r";
    if (siamese_.constants && layer == 1) AddConstants(end);
    if (siamese_.halfway && tower == 0 && layer == 2) builder_.Output(end, DType::kFloat, Dims());
  }

  // Adds a Constant and multiplies by the width, which comes from a Shape.
  void AddConstants(std::string& end) {
    builder_
        .Node("Constant", {}, {end + "k"},
              {{"value", test::TensorAttribute(Tensor::Of<float>({1}, {0.25F}))}})
        .Node("Add", {end, end + "k"}, {end + "a"})
        .Node("Shape", {end + "a"}, {end + "s"}, {{"start", int64_t{3}}})
        .Node("Cast", {end + "s"}, {end + "f"}, {{"to", int64_t{1}}})
        .Node("Mul", {end + "a", end + "f"}, {end + "m"});
    end += "m";
  }

  // The end of the convolutions behind `value`, with the weights of the first tower.
  std::string Head(std::string value) {
    for (int layer = 0; siamese_.heads && layer < siamese_.depth; ++layer) {
      const std::string next = value + "c";
      builder_.Node("Conv", {value, WeightName(0, layer)}, {next}, {{"pads", Ints{1, 1, 1, 1}}});
      value = next;
    }
    return value;
  }

  std::string Join() {
    std::vector<std::string> ends = ends_;
    if (siamese_.visible) builder_.Output(ends[0], DType::kFloat, Dims());
    if (siamese_.swapped) std::ranges::reverse(ends);
    if (siamese_.product) {
      builder_.Node("Mul", {ends[0], ends[1]}, {"product"})
          .Output(Head("product"), DType::kFloat, Dims());
    }
    builder_.Node(ends.size() == 2 ? "Add" : "Sum", ends, {"sum"});
    if (siamese_.mask) {
      builder_.Input("mask", DType::kFloat, {kN, 1, siamese_.extent, siamese_.extent})
          .Node("Mul", {"sum", "mask"}, {"kept"});
    }
    return builder_.Node("Relu", {Head(siamese_.mask ? "kept" : "sum")}, {"y"})
        .Output("y", DType::kFloat, Dims())
        .Serialize();
  }

  const Siamese siamese_;
  const Weights weights_;
  ModelBuilder builder_{17};
  std::vector<std::string> ends_;
};

std::string Build(const Siamese& siamese, Weights weights = Weights::kShared) {
  return SiameseBuilder(siamese, weights).Build();
}

PlanReport ReportOf(const Model& model) {
  std::vector<NamedShape> shapes;
  for (const NamedTensor& input : test::InputsOf(model, 1)) {
    shapes.push_back({input.name, input.tensor.shape()});
  }
  const auto report = model.Report(shapes);
  EXPECT_TRUE(report.ok()) << report.status();
  return report.ok() ? *report : PlanReport{};
}

int Forks(const Model& model) { return ReportOf(model).forks; }

// What the schedule says of branches that do not fork.
std::vector<Decline> ScheduleDeclines(const Model& model) {
  std::vector<Decline> declines;
  for (const Decline& decline : ReportOf(model).declines) {
    if (decline.pass == "schedule") declines.push_back(decline);
  }
  return declines;
}

void ExpectTowers(const Siamese& siamese) {
  const std::string bytes = Build(siamese);
  ExpectMeans(bytes, {.oracle = Build(siamese, Weights::kCopies),
                      .options = {.threads = 1, .towers = false}});
  const Engine engine(EngineOptions{.threads = 2});
  const auto model = LoadModel(engine, bytes);
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(Forks(*model), siamese.heads ? 2 : 1);
  EXPECT_EQ(engine.stats().packs_built, static_cast<uint64_t>(siamese.depth));
}

TEST(Siamese, TowersThatEndInAConvolutionMeetInAnAdd) {
  for (const bool interleaved : {true, false}) {
    for (const bool swapped : {true, false}) {
      SCOPED_TRACE(fmt::format("interleaved {}, swapped {}", interleaved, swapped));
      ExpectTowers({.interleaved = interleaved, .swapped = swapped});
    }
  }
}

TEST(Siamese, AConstantAndAShapeInATowerChangeNothing) { ExpectTowers({.constants = true}); }

TEST(Siamese, AThirdInputMayEnterBehindTheSum) { ExpectTowers({.mask = true}); }

TEST(Siamese, AnOutputOfOneTowerIsReturned) {
  ExpectTowers({.visible = true});
  ExpectTowers({.swapped = true, .constants = true, .mask = true, .visible = true});
}

TEST(Siamese, AnOutputOnTheWayOfATowerChangesNothing) {
  ExpectTowers({.halfway = true});
  ExpectTowers({.interleaved = false, .visible = true, .halfway = true});
}

TEST(Siamese, TowersThatMeetInSeveralOutputsFork) {
  ExpectTowers({.product = true});
  ExpectTowers({.interleaved = false, .swapped = true, .product = true});
  ExpectTowers({.constants = true, .visible = true, .halfway = true, .product = true});
  ExpectTowers({.product = true, .heads = true});
  ExpectTowers({.interleaved = false, .visible = true, .product = true, .heads = true});
}

TEST(Siamese, ThreeTowersFork) { ExpectTowers({.towers = 3}); }

TEST(Siamese, TowersThatAreNotWorthAForkSayWhatTheyCost) {
  const Engine engine(EngineOptions{.threads = 2});
  for (const bool product : {false, true}) {
    const auto model = LoadModel(engine, Build({.depth = 2, .product = product}));
    ASSERT_NE(model, nullptr);
    EXPECT_EQ(Forks(*model), 0);
    const std::vector<Decline> declines = ScheduleDeclines(*model);
    ASSERT_EQ(declines.size(), product ? 2U : 1U);  // so are the ways to the outputs
    EXPECT_THAT(declines[0].node, testing::HasSubstr("(Conv)"));
    EXPECT_EQ(declines[0].role, "branch of 3 tasks");
    EXPECT_EQ(declines[0].rule, "costs less than a fork is worth");
    EXPECT_THAT(declines[0].numbers, testing::MatchesRegex("[0-9]+\\.[0-9]+ us < 20\\.00 us"));
  }
  const auto model = LoadModel(engine, Build({}));
  ASSERT_NE(model, nullptr);
  EXPECT_TRUE(ScheduleDeclines(*model).empty());
}

TEST(Siamese, TowersThatAreSwitchedOffSaySo) {
  const Engine engine(EngineOptions{.threads = 2, .towers = false});
  const auto model = LoadModel(engine, Build({}));
  ASSERT_NE(model, nullptr);
  const std::vector<Decline> declines = ScheduleDeclines(*model);
  ASSERT_EQ(declines.size(), 1U);
  EXPECT_EQ(declines[0].rule, "towers are switched off");
}

// Small images of many channels: the work of a tower that is worth a fork, in the fewest steps.
TEST(Siamese, AThousandForkedRunsHaveTheBitsOfASequentialOne) {
  const std::string bytes = Build({.channels = 30, .extent = 2});
  const Engine sequential(EngineOptions{.threads = 1, .towers = false});
  const auto oracle = LoadModel(sequential, bytes);
  ASSERT_NE(oracle, nullptr);
  EXPECT_EQ(Forks(*oracle), 0);
  const auto inputs = test::InputsOf(*oracle, 1);
  const auto expected = test::Answers(*oracle, inputs);
  for (const int threads : {1, 2, 4, 8}) {
    const Engine engine(EngineOptions{.threads = threads});
    const auto model = LoadModel(engine, bytes);
    ASSERT_NE(model, nullptr);
    EXPECT_EQ(Forks(*model), 1);
    for (int run = 0; run < 1000; ++run) {
      test::ExpectClose(test::Answers(*model, inputs), expected, test::Exact());
      ASSERT_FALSE(HasFailure()) << threads << " threads, run " << run;
    }
    EXPECT_EQ(engine.stats().packs_built, 6u);
  }
}

// Two towers that each end in a Gather whose index a request brings; the left one takes longer.
std::string LookUps() {
  ModelBuilder builder(17);
  builder.Initializer("w", RandomFloats({128, 128}, 1, -0.1F, 0.1F));
  for (const std::string tower : {"left", "right"}) {
    std::string last = tower + "_x";
    builder.Input(last, DType::kFloat, {64, 128}).Input(tower + "_index", DType::kInt64, {1});
    for (int i = 0; i < (tower == "left" ? 8 : 1); ++i) {
      const std::string next = fmt::format("{}{}", tower, i);
      builder.Node("MatMul", {last, "w"}, {next});
      last = next;
    }
    builder.Node("Gather", {last, tower + "_index"}, {tower + "_row"}, {}, tower);
  }
  return builder.Node("Add", {"left_row", "right_row"}, {"y"})
      .Output("y", DType::kFloat, {1, 128})
      .Serialize();
}

TEST(Siamese, OfTowersThatFailTheFirstInThePlanIsReported) {
  const Engine engine(EngineOptions{.threads = 2});
  const auto model = LoadModel(engine, LookUps());
  ASSERT_NE(model, nullptr);
  ASSERT_EQ(Forks(*model), 1);
  const auto error = [&](int64_t left, int64_t right) {
    const Tensor x = RandomFloats({64, 128}, 2);
    const auto run =
        model->Run(std::vector<NamedTensor>{{"left_x", x},
                                            {"right_x", x},
                                            {"left_index", Tensor::Of<int64_t>({1}, {left})},
                                            {"right_index", Tensor::Of<int64_t>({1}, {right})}});
    return run.ok() ? "" : std::string(Message(run.status()));
  };
  for (int run = 0; run < 50; ++run) {
    EXPECT_EQ(error(0, 63), "");
    EXPECT_THAT(error(500, 0), testing::HasSubstr("node 'left' (Gather)"));
    EXPECT_THAT(error(0, 500), testing::HasSubstr("node 'right' (Gather)"));
    EXPECT_THAT(error(500, 500), testing::HasSubstr("node 'left' (Gather)"));
    ASSERT_FALSE(HasFailure()) << run;
  }
}

// The most threads that a run was on, of many runs: in some the other thread may not be there in
// time.
size_t MostThreads(const Model& model) {
  const auto inputs = test::InputsOf(model, 1);
  size_t most = 0;
  for (int run = 0; run < 2000 && most < 2; ++run) {
    std::mutex mutex;
    std::set<std::thread::id> seen;
    RunOptions options;
    options.stopped = [&] {
      const std::lock_guard lock(mutex);
      seen.insert(std::this_thread::get_id());
      return false;
    };
    const auto result = model.Run(inputs, options);
    EXPECT_TRUE(result.ok()) << result.status();
    most = std::max(most, seen.size());
  }
  return most;
}

TEST(Siamese, AnEngineOfOneThreadTakesNoneFromAnother) {
  const Engine small(EngineOptions{.threads = 1});
  const Engine engine(EngineOptions{.threads = 2});
  const auto model = LoadModel(engine, Build({.depth = 12}));
  ASSERT_NE(model, nullptr);
  EXPECT_GE(MostThreads(*model), 2U);
}

// What a forked run takes more is what the second tower computes, never a second set of weights.
TEST(Siamese, ForkedTowersShareTheirPacks) {
  const std::string bytes = Build({});
  std::vector<PlanReport> reports;
  for (const bool towers : {false, true}) {
    const Engine engine(EngineOptions{.threads = 2, .towers = towers});
    const auto model = LoadModel(engine, bytes);
    ASSERT_NE(model, nullptr);
    const Shape shape = {1, 8, 16, 16};
    const auto report = model->Report(std::vector<NamedShape>{{"x0", shape}, {"x1", shape}});
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->packs.size(), 6u);
    EXPECT_EQ(engine.stats().pack_bytes, report->pack_bytes);
    EXPECT_EQ(engine.stats().constant_bytes, 0u);
    reports.push_back(*report);
  }
  EXPECT_EQ(reports[0].pack_bytes, reports[1].pack_bytes);
  EXPECT_LE(*reports[1].arena_bytes, 2 * *reports[0].arena_bytes);
}

}  // namespace
}  // namespace tandem
