// A forked run takes the memory of a sequential one and what its second tower computes; never a
// second set of weights.
#include <gtest/gtest.h>

#include <fstream>
#include <optional>
#include <string>

#include "tests/engine/api/comparison.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

constexpr int64_t kChannels = 160;
constexpr int kDepth = 6;
constexpr size_t kWeightBytes = kDepth * kChannels * kChannels * 9 * sizeof(float);
constexpr int kThreads = 8;  // so many that layers as large as these fork
// Of each thread: its stack, and what the allocator takes for it from the system in one piece.
constexpr size_t kSlackBytes = kThreads * (size_t{1} << 18);

// Two towers of convolutions over a and b [1,160,2,2] that share all weights, joined by Add.
std::string Towers() {
  const graph::DimVector dims = {1, kChannels, 2, 2};
  test::ModelBuilder builder(17);
  std::vector<std::string> ends = {"a", "b"};
  for (const std::string& tower : ends) builder.Input(tower, DType::kFloat, dims);
  for (int layer = 0; layer < kDepth; ++layer) {
    const std::string w = fmt::format("w{}", layer);
    builder.Initializer(w, test::RandomFloats({kChannels, kChannels, 3, 3},
                                              static_cast<uint32_t>(layer), -0.02F, 0.02F));
    for (std::string& end : ends) {
      const std::string next = fmt::format("{}{}", end[0], layer);
      builder.Node("Conv", {end, w}, {next}, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}});
      end = next;
    }
  }
  return builder.Node("Add", ends, {"y"}).Output("y", DType::kFloat, dims).Serialize();
}

// What the system says of this process, in bytes.
size_t StatusBytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != key + ":") continue;
    size_t kilobytes = 0;
    status >> kilobytes;
    return kilobytes * 1024;
  }
  return 0;
}

// Makes what is resident now the peak; false where the system does not let a process.
bool ResetPeak() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;
  return file.good();
}

struct Growth {
  size_t bytes = 0;        // of resident memory at its peak, by the first runs
  size_t arena_bytes = 0;  // of a run
  int forks = 0;
};

std::optional<Growth> GrowthOf(const std::string& bytes, const EngineOptions& options) {
  const Engine engine(options);
  const auto model = test::LoadModel(engine, bytes);
  if (model == nullptr || !ResetPeak()) return std::nullopt;
  const auto inputs = test::InputsOf(*model, 1);
  const PlanReport report = test::ReportOf(*model, inputs);
  const size_t before = StatusBytes("VmRSS");
  for (int run = 0; run < 50; ++run) test::Answers(*model, inputs);
  return Growth{StatusBytes("VmHWM") - before, report.arena_bytes.value_or(0), report.forks};
}

TEST(ForkMemory, AForkedRunTakesNoSecondSetOfWeights) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer's own memory grows with what it sees of the others";
#endif
  const std::string bytes = Towers();
  const auto forked = GrowthOf(bytes, {.threads = kThreads});
  const auto sequential = GrowthOf(bytes, {.threads = kThreads, .towers = false});
  if (!forked || !sequential) GTEST_SKIP() << "the peak of this process cannot be reset";
  EXPECT_EQ(forked->forks, 1);
  EXPECT_EQ(sequential->forks, 0);
  const size_t allowed = sequential->bytes + forked->arena_bytes + kSlackBytes;
  EXPECT_LE(forked->bytes, allowed);
  EXPECT_LT(allowed, kWeightBytes) << "a second set of weights would pass";
}

}  // namespace
}  // namespace tandem
