// Models of different precisions on one engine.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/cpu.h"
#include "server/models/repository.h"
#include "tests/support/model_builder.h"
#include "tests/support/random_tensor.h"
#include "tests/support/temp_directory.h"

namespace tandem::server {
namespace {

using tandem::test::ModelBuilder;
using tandem::test::RandomFloats;
using tandem::test::TempDirectory;

constexpr Precision kAll[] = {Precision::kF32Plain, Precision::kF32, Precision::kF32Strict,
                              Precision::kBf16};

// The file holds the name of a precision and nothing else.
StatusOr<ModelSettings> NameAlone(std::string_view text) {
  ASSIGN_OR_RETURN(const Precision precision, ParsePrecision(text));
  return ModelSettings{.precision = precision};
}

// A model whose convolution is computed in another way at each precision, where the CPU has some.
void WriteModel(const std::string& path) {
  const graph::Dim n = graph::Dim::Symbol("N");
  ModelBuilder(17)
      .Input("x", DType::kFloat, {n, 64, 12, 12})
      .Initializer("filters", RandomFloats({64, 64, 3, 3}, 1))
      .Initializer("classes", RandomFloats({64, 48}, 2))
      .Node("Conv", {"x", "filters"}, {"c"}, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}})
      .Node("GlobalAveragePool", {"c"}, {"g"})
      .Node("Flatten", {"g"}, {"f"})
      .Node("MatMul", {"f", "classes"}, {"y"})
      .Output("y", DType::kFloat, {n, 48})
      .WriteFile(path);
}

// What the model answers to one image; a failure fails the test.
std::vector<float> Answer(const Model& model) {
  const std::vector<NamedTensor> inputs = {{"x", RandomFloats({1, 64, 12, 12}, 3)}};
  const StatusOr<RunResult> result = model.Run(inputs);
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok()) return {};
  const auto y = result->outputs[0].tensor.span<float>();
  return {y.begin(), y.end()};
}

class PrecisionsTest : public testing::Test {
 protected:
  PrecisionsTest() { WriteModel(directory_ / "f32_plain/1/model.onnx"); }

  // A model of this name with the weights of the first one, in the same file.
  void AddAlias(const std::string& name) {
    std::filesystem::create_directories(directory_ / name);
    std::filesystem::create_directory_symlink("../f32_plain/1", directory_ / (name + "/1"));
  }
  std::unique_ptr<Repository> Load(const Engine& engine) {
    auto repository = std::make_unique<Repository>(
        RepositoryOptions{.root = directory_.path(), .parse_settings = NameAlone}, engine,
        metrics_);
    EXPECT_TRUE(repository->LoadAll().ok());
    EXPECT_TRUE(repository->AllReady());
    return repository;
  }
  // What an engine of this precision answers that holds nothing else.
  std::vector<float> Alone(Precision precision) {
    const Engine engine(EngineOptions{.threads = 2, .precision = precision});
    const auto model = engine.Load(directory_ / "f32_plain/1/model.onnx");
    EXPECT_TRUE(model.ok()) << model.status();
    return model.ok() ? Answer(**model) : std::vector<float>();
  }

  const TempDirectory directory_;
  Metrics metrics_{{.version = "1"}};
};

TEST_F(PrecisionsTest, ModelsOfOneFileHaveTheAnswersOfTheirOwn) {
  for (const Precision precision : kAll) {
    const std::string name(PrecisionName(precision));
    if (precision != Precision::kF32Plain) AddAlias(name);
    directory_.Write(name + "/config.pbtxt", name);
  }
  AddAlias("default");
  // Whichever comes first, as the daemon's or as a model's, the others find its packs.
  for (const Precision daemons : kAll) {
    const Engine engine(EngineOptions{.threads = 2, .precision = daemons});
    const auto repository = Load(engine);
    for (const Precision precision : kAll) {
      const auto served = repository->Find(PrecisionName(precision), "").value();
      EXPECT_EQ(served->model->info().precision, precision);
      EXPECT_EQ(Answer(*served->model), Alone(precision)) << PrecisionName(precision);
    }
    const auto served = repository->Find("default", "").value();
    EXPECT_EQ(served->model->info().precision, daemons);
    EXPECT_EQ(Answer(*served->model), Alone(daemons)) << PrecisionName(daemons);
  }
  if (DetectIsa() == Isa::kReference) GTEST_SKIP() << "this machine has one way to compute";
  EXPECT_NE(Alone(Precision::kF32Plain), Alone(Precision::kBf16));
}

TEST_F(PrecisionsTest, TheStrictOnesSwitchMinimalFilteringOffForOneModel) {
  for (const Precision precision : kAll) {
    const std::string name(PrecisionName(precision));
    if (precision != Precision::kF32Plain) AddAlias(name);
    directory_.Write(name + "/config.pbtxt", name);
  }
  const Engine engine(EngineOptions{.threads = 1, .isa = Isa::kVnni});
  const auto repository = Load(engine);
  const auto filtered_minimally = [&](const char* name) {
    const std::string plan = repository->Find(name, "").value()->model->Explain();
    EXPECT_NE(plan.find("conv."), plan.npos) << plan;
    return plan.find("conv.winograd") != plan.npos;
  };
  EXPECT_TRUE(filtered_minimally("f32"));
  EXPECT_TRUE(filtered_minimally("bf16"));
  EXPECT_FALSE(filtered_minimally("f32_plain"));
  EXPECT_FALSE(filtered_minimally("f32_strict"));
}

// A model that is loaded anew at another precision while the one before it is used.
TEST_F(PrecisionsTest, RequestsGoOnAtTheOldPrecisionWhileTheNewOneIsLoaded) {
  const Engine engine(EngineOptions{.threads = 2});
  directory_.Write("f32_plain/config.pbtxt", "f32_plain");
  auto old = Load(engine);
  const ServedModelRef before = old->Find("f32_plain", "").value();
  const std::vector<float> expected = Answer(*before->model);
  std::atomic<bool> done{false};
  std::atomic<int> answered{0};
  std::atomic<int> wrong{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < 2; ++i) {
    clients.emplace_back([&] {
      while (!done) {
        wrong += Answer(*before->model) == expected ? 0 : 1;
        ++answered;
      }
    });
  }
  const auto answer_more = [&] {
    const int more = answered + 4;
    while (answered < more) std::this_thread::yield();
  };
  answer_more();
  for (const Precision precision : {Precision::kBf16, Precision::kF32Strict, Precision::kF32}) {
    directory_.Write("f32_plain/config.pbtxt", PrecisionName(precision));
    auto next = Load(engine);
    old = std::move(next);
    const ServedModelRef after = old->Find("f32_plain", "").value();
    EXPECT_EQ(after->model->info().precision, precision);
    EXPECT_EQ(Answer(*after->model), Alone(precision)) << PrecisionName(precision);
    answer_more();
  }
  done = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(before->model->info().precision, Precision::kF32Plain);
}

}  // namespace
}  // namespace tandem::server
