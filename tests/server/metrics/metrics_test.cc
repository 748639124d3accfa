#include "server/metrics/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "server/metrics/process.h"
#include "tests/support/temp_directory.h"

namespace tandem::server {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Histogram, APointOnABoundBelongsToTheBucketBelow) {
  static constexpr auto kBounds = std::to_array<int64_t>({10, 20});
  Histogram histogram(kBounds);
  for (int64_t value : {0, 10, 11, 20, 21, 1000}) histogram.Observe(value);
  EXPECT_EQ(histogram.bucket(0), 2u);
  EXPECT_EQ(histogram.bucket(1), 2u);
  EXPECT_EQ(histogram.bucket(2), 2u);
  EXPECT_EQ(histogram.count(), 6u);
  EXPECT_EQ(histogram.sum(), 1062);
}

TEST(Histogram, ConcurrentObservationsAreAllCounted) {
  Histogram histogram(ItemBounds());
  std::vector<std::thread> threads;
  constexpr int kThreads = 4;
  constexpr int kEach = 10'000;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) histogram.Observe(3);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(histogram.count(), uint64_t{kThreads} * kEach);
  EXPECT_EQ(histogram.sum(), int64_t{3} * kThreads * kEach);
}

TEST(Bounds, RiseAndFitAHistogram) {
  for (std::span<const int64_t> bounds : {DurationBounds(), ItemBounds()}) {
    EXPECT_LE(bounds.size(), Histogram::kMaxBounds);
    for (size_t i = 1; i < bounds.size(); ++i) EXPECT_LT(bounds[i - 1], bounds[i]);
  }
}

// One model with a known history.
std::shared_ptr<ModelMetrics> Digits(Metrics& metrics) {
  std::shared_ptr<ModelMetrics> model = metrics.AddModel("digits", 3);
  model->received.Add(6);
  model->succeeded.Add(2);
  model->inferences.Add(5);
  model->run_items.Observe(5);
  model->Failed(FailureReason::kQueueFull);
  model->Failed(FailureReason::kDeadlineExceeded);
  model->Failed(FailureReason::kInternal);
  model->queued.Add(1);
  for (int i = 0; i < 2; ++i) {
    model->request_duration.Observe(3'000'000);
    model->queue_duration.Observe(1'000'000);
    model->compute_duration.Observe(2'000'000);
  }
  model->load_duration_ns = 1'500'000'000;
  return model;
}

TEST(Export, ShowsWhatAModelCountedInBaseUnits) {
  Metrics metrics({.version = "1.2.3"});
  const auto model = Digits(metrics);
  const std::string text = metrics.Export();
  const std::string labels = R"({model="digits",version="3")";
  for (const std::string& line :
       {"tandem_requests_received_total" + labels + "} 6\n",
        "tandem_requests_succeeded_total" + labels + "} 2\n",
        "tandem_requests_failed_total" + labels + ",reason=\"queue_full\"} 1\n",
        "tandem_requests_failed_total" + labels + ",reason=\"deadline_exceeded\"} 1\n",
        "tandem_requests_failed_total" + labels + ",reason=\"cancelled\"} 0\n",
        "tandem_requests_queued" + labels + "} 1\n", "tandem_requests_running" + labels + "} 0\n",
        "tandem_inferences_total" + labels + "} 5\n",
        "tandem_model_load_duration_seconds" + labels + "} 1.5\n",
        "tandem_request_duration_seconds_count" + labels + "} 2\n",
        "tandem_request_duration_seconds_bucket" + labels + ",le=\"+Inf\"} 2\n",
        "tandem_run_items_bucket" + labels + ",le=\"4\"} 0\n",
        "tandem_run_items_bucket" + labels + ",le=\"8\"} 1\n",
        "tandem_run_items_sum" + labels + "} 5\n",
        std::string("tandem_build_info{version=\"1.2.3\"} 1\n")}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, HasSubstr("tandem_request_compute_duration_seconds_sum" + labels + "} 0.004"));
}

TEST(Export, BoundsOfDurationsAreDecimalNumbers) {
  Metrics metrics({.version = "1"});
  const auto model = Digits(metrics);
  const std::string text = metrics.Export();
  for (const char* bound :
       {"5e-05", "0.0001", "0.00025", "0.0005", "0.001", "0.0025", "0.005", "0.01", "0.025", "0.05",
        "0.1", "0.25", "0.5", "1", "2.5", "5", "10", "30", "60"}) {
    EXPECT_THAT(
        text,
        HasSubstr(R"(tandem_request_duration_seconds_bucket{model="digits",version="3",le=")" +
                  std::string(bound) + R"("} )"));
  }
}

TEST(Export, ShowsTritonsNamesUnlessSwitchedOff) {
  Metrics metrics({.version = "1"});
  const auto model = Digits(metrics);
  const std::string text = metrics.Export();
  const std::string labels = R"({model="digits",version="3")";
  for (const std::string& line :
       {"nv_inference_request_success" + labels + "} 2\n",
        "nv_inference_request_failure" + labels + ",reason=\"REJECTED\"} 1\n",
        "nv_inference_request_failure" + labels + ",reason=\"CANCELED\"} 1\n",
        "nv_inference_request_failure" + labels + ",reason=\"BACKEND\"} 1\n",
        "nv_inference_request_failure" + labels + ",reason=\"OTHER\"} 0\n",
        "nv_inference_count" + labels + "} 5\n", "nv_inference_exec_count" + labels + "} 1\n",
        "nv_inference_pending_request_count" + labels + "} 1\n",
        "nv_inference_request_duration_us" + labels + "} 6000\n",
        "nv_inference_queue_duration_us" + labels + "} 2000\n",
        "nv_inference_compute_infer_duration_us" + labels + "} 4000\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  Metrics plain({.version = "1", .triton_metrics = false});
  const auto other = Digits(plain);
  EXPECT_THAT(plain.Export(), Not(HasSubstr("nv_")));
}

TEST(Export, EachFailureReasonIsOneOfTritons) {
  const std::vector<std::pair<FailureReason, std::string>> rows = {
      {FailureReason::kQueueFull, "REJECTED"},
      {FailureReason::kQueueTimeout, "REJECTED"},
      {FailureReason::kDraining, "REJECTED"},
      {FailureReason::kCancelled, "CANCELED"},
      {FailureReason::kDeadlineExceeded, "CANCELED"},
      {FailureReason::kResourceExhausted, "BACKEND"},
      {FailureReason::kInternal, "BACKEND"},
      {FailureReason::kInvalidArgument, "OTHER"},
      {FailureReason::kOther, "OTHER"}};
  ASSERT_EQ(rows.size(), kFailureReasons);
  for (const auto& [reason, triton] : rows) {
    Metrics metrics({.version = "1"});
    const auto model = metrics.AddModel("m", 1);
    model->Failed(reason);
    EXPECT_THAT(metrics.Export(),
                HasSubstr(R"(nv_inference_request_failure{model="m",version="1",reason=")" +
                          triton + "\"} 1\n"))
        << FailureReasonName(reason);
  }
}

TEST(Export, ARequestThatReachedNoModelIsCountedByReason) {
  Metrics metrics({.version = "1"});
  metrics.unserved[static_cast<size_t>(UnservedReasonOf(Unavailable("loading")))].Add();
  metrics.unserved[static_cast<size_t>(UnservedReasonOf(InvalidArgument("version")))].Add(2);
  metrics.unserved[static_cast<size_t>(UnservedReasonOf(NotFound("model")))].Add(3);
  metrics.unserved[static_cast<size_t>(UnservedReasonOf(Internal("bytes")))].Add(4);
  for (const std::string line : {"{reason=\"model_not_ready\"} 1\n", "{reason=\"bad_version\"} 2\n",
                                 "{reason=\"unknown_model\"} 3\n", "{reason=\"unreadable\"} 4\n"}) {
    EXPECT_THAT(metrics.Export(), HasSubstr("tandem_requests_unserved_total" + line));
  }
}

TEST(Export, EveryFailureReasonHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (size_t i = 0; i < kFailureReasons; ++i) {
    names.insert(FailureReasonName(static_cast<FailureReason>(i)));
  }
  EXPECT_EQ(names.size(), kFailureReasons);
}

TEST(Export, AModelIsShownForAsLongAsItIsHeld) {
  Metrics metrics({.version = "1"});
  EXPECT_THAT(metrics.Export(), Not(HasSubstr("model=")));
  auto model = metrics.AddModel("m", 1);
  EXPECT_EQ(metrics.AddModel("m", 1), model);
  EXPECT_NE(metrics.AddModel("m", 2), model);
  EXPECT_THAT(metrics.Export(), HasSubstr("{model=\"m\",version=\"1\"}"));
  model.reset();
  EXPECT_THAT(metrics.Export(), Not(HasSubstr("model=")));
}

TEST(Export, AsksTheEngineForAsLongAsItHasASampler) {
  Metrics metrics({.version = "1"});
  EXPECT_THAT(metrics.Export(), Not(HasSubstr("tandem_pack_bytes")));
  metrics.SetEngineSampler([] {
    return EngineSample{.packs_built = 1,
                        .packs_shared = 2,
                        .constant_bytes = 3,
                        .pack_bytes = 4,
                        .arena_bytes = 5};
  });
  const std::string text = metrics.Export();
  for (const char* line :
       {"tandem_packs_built_total 1\n", "tandem_packs_shared_total 2\n",
        "tandem_constant_bytes 3\n", "tandem_pack_bytes 4\n", "tandem_arena_bytes 5\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  metrics.SetEngineSampler({});
  EXPECT_THAT(metrics.Export(), Not(HasSubstr("tandem_pack_bytes")));
}

TEST(Export, CountsModelsByState) {
  Metrics metrics({.version = "1"});
  metrics.models_ready.Set(3);
  metrics.models_unavailable.Set(1);
  metrics.model_load_failures.Add();
  const std::string text = metrics.Export();
  EXPECT_THAT(text, HasSubstr("tandem_models{state=\"ready\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("tandem_models{state=\"loading\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("tandem_models{state=\"unavailable\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("tandem_model_load_failures_total 1\n"));
}

TEST(Export, DescribesEachFamilyOnceBeforeItsValues) {
  Metrics metrics({.version = "1"});
  const auto model = Digits(metrics);
  metrics.SetEngineSampler([] { return EngineSample{}; });
  std::set<std::string> described;
  std::istringstream lines(metrics.Export());
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, std::regex("# TYPE (\\S+) .*"))) {
      EXPECT_TRUE(described.insert(match[1]).second) << line;
    } else if (std::regex_search(line, match, std::regex("^([a-z_]+)[{ ]"))) {
      const std::string family =
          std::regex_replace(match[1].str(), std::regex("_(bucket|sum|count)$"), "");
      EXPECT_TRUE(described.contains(match[1]) || described.contains(family)) << line;
    }
  }
  EXPECT_GT(described.size(), 30u);
}

// Prometheus' own lint: units, suffixes, help texts. Triton's names break its rules.
TEST(Export, OurNamesPassPromtool) {
  if (std::system("command -v promtool >/dev/null") != 0) GTEST_SKIP() << "no promtool";
  Metrics metrics({.version = "1", .triton_metrics = false});
  const auto model = Digits(metrics);
  metrics.SetEngineSampler([] { return EngineSample{}; });
  const test::TempDirectory directory;
  const std::string path = directory.path() + "/metrics";
  std::ofstream(path) << metrics.Export();
  EXPECT_EQ(std::system(("promtool check metrics < " + path).c_str()), 0);
}

TEST(Export, ScrapesWhileEverythingCounts) {
  Metrics metrics({.version = "1"});
  const auto model = metrics.AddModel("m", 1);
  std::atomic<bool> done{false};
  std::thread counting([&] {
    while (!done) {
      model->request_duration.Observe(1000);
      model->Refused(FailureReason::kQueueFull);
      metrics.AddModel("n", 1);
    }
  });
  for (int i = 0; i < 50; ++i) EXPECT_FALSE(metrics.Export().empty());
  done = true;
  counting.join();
}

TEST(ReasonOf, FollowsTheStatusCode) {
  EXPECT_EQ(ReasonOf(InvalidArgument("")), FailureReason::kInvalidArgument);
  EXPECT_EQ(ReasonOf(DeadlineExceeded("")), FailureReason::kDeadlineExceeded);
  EXPECT_EQ(ReasonOf(Cancelled("")), FailureReason::kCancelled);
  EXPECT_EQ(ReasonOf(ResourceExhausted("")), FailureReason::kResourceExhausted);
  EXPECT_EQ(ReasonOf(Internal("")), FailureReason::kInternal);
  EXPECT_EQ(ReasonOf(NotFound("")), FailureReason::kOther);
}

TEST(SampleProcess, ReadsThisProcess) {
  const ProcessSample sample = SampleProcess();
  ASSERT_TRUE(sample.resident_bytes && sample.peak_resident_bytes && sample.threads &&
              sample.open_files && sample.cpu_seconds);
  EXPECT_GT(*sample.resident_bytes, 0);
  EXPECT_GE(*sample.peak_resident_bytes, *sample.resident_bytes);
  EXPECT_GE(*sample.threads, 1);
  EXPECT_GE(*sample.open_files, 3);
}

TEST(SampleProcess, LeavesOutWhatIsNotThere) {
  const test::TempDirectory empty;
  const ProcessSample sample = SampleProcess(empty.path());
  EXPECT_FALSE(sample.resident_bytes.has_value());
  EXPECT_FALSE(sample.open_files.has_value());
}

}  // namespace
}  // namespace tandem::server
