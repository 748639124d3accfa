#include "server/models/repository.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "server/models/batch_size.h"
#include "server/models/retry_hint.h"
#include "server/models/scan.h"
#include "server/models/wire_form.h"
#include "tests/server/fake_model.h"
#include "tests/support/model_builder.h"
#include "tests/support/temp_directory.h"

namespace tandem::server {
namespace {

using tandem::test::TempDirectory;
using test::FakeModel;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(ModelNames, AreShortAndPlain) {
  for (const char* name : {"a", "digits", "A-b_c.9", "9"}) EXPECT_TRUE(IsModelName(name)) << name;
  EXPECT_TRUE(IsModelName(std::string(128, 'm')));
  EXPECT_FALSE(IsModelName(std::string(129, 'm')));
  for (const char* name : {"", ".", "..", ".hidden", "a/b", "a b", "a\nb", "%2e%2e", "a\\b",
                           "\xe2\x88\x95", "../x", "m\x7f"}) {
    EXPECT_FALSE(IsModelName(name)) << name;
  }
  EXPECT_FALSE(IsModelName(std::string_view("a\0b", 3)));
}

TEST(Versions, ArePositiveDecimalNumbersWithoutLeadingZeros) {
  EXPECT_EQ(ParseVersion("1"), 1);
  EXPECT_EQ(ParseVersion("10"), 10);
  EXPECT_EQ(ParseVersion("9223372036854775807"), INT64_MAX);
  for (const char* text : {"", "0", "-1", "+1", "01", "abc", "1a", "1.0", " 1", "1 ", "latest",
                           "9223372036854775808", "99999999999999999999", "0x1"}) {
    EXPECT_FALSE(ParseVersion(text).has_value()) << text;
  }
}

ModelInfo Joinable(std::vector<graph::DimVector> inputs, std::vector<graph::DimVector> outputs) {
  ModelInfo info;
  info.joinable = true;
  for (auto& dims : inputs) info.inputs.push_back({"x", DType::kFloat, std::move(dims)});
  for (auto& dims : outputs) info.outputs.push_back({"y", DType::kFloat, std::move(dims)});
  return info;
}

const graph::Dim kN = graph::Dim::Symbol("N");
const graph::Dim kM = graph::Dim::Symbol("M");

TEST(MaxBatchSize, IsTheDefaultWhenAllPortsShareASymbolOrHaveOne) {
  EXPECT_EQ(MaxBatchSize(Joinable({{kN, 3}}, {{kN, 2}}), 32), 32);
  EXPECT_EQ(MaxBatchSize(Joinable({{kN, 3}, {kN}}, {{kN, 2}, {kN, kM}}), 7), 7);
  EXPECT_EQ(MaxBatchSize(Joinable({{1, 3}}, {{1, 2}}), 32), 32);
}

TEST(MaxBatchSize, IsZeroOtherwise) {
  EXPECT_EQ(MaxBatchSize(Joinable({{kN, 3}}, {{kM, 2}}), 32), 0);
  EXPECT_EQ(MaxBatchSize(Joinable({{kN, 3}}, {{1, 2}}), 32), 0);
  EXPECT_EQ(MaxBatchSize(Joinable({{2, 3}}, {{2, 2}}), 32), 0);
  EXPECT_EQ(MaxBatchSize(Joinable({{graph::Dim()}}, {{graph::Dim()}}), 32), 0);
  EXPECT_EQ(MaxBatchSize(Joinable({{kN * graph::Dim(2)}}, {{kN * graph::Dim(2)}}), 32), 0);
  EXPECT_EQ(MaxBatchSize(Joinable({{kN}, {}}, {{kN}}), 32), 0);
  EXPECT_EQ(MaxBatchSize(Joinable({}, {{kN}}), 32), 0);
  EXPECT_EQ(MaxBatchSize(Joinable({{kN}}, {{kN}}), 0), 0);
  ModelInfo apart = Joinable({{kN}}, {{kN}});
  apart.joinable = false;
  apart.not_joinable_reason = "for a reason";
  EXPECT_EQ(MaxBatchSize(apart, 32), 0);
}

TEST(MaxBatchSize, SaysWhyItIsZero) {
  EXPECT_EQ(WhyNotBatched(Joinable({{kN, 3}}, {{kN, 2}}), 32), "");
  EXPECT_EQ(WhyNotBatched(Joinable({{kN, 3}}, {{kM, 2}}), 32),
            "'x' starts with extent N and 'y' with M");
  EXPECT_EQ(WhyNotBatched(Joinable({{2, 3}}, {{2, 2}}), 32),
            "'x' starts with extent 2; a symbol or 1 is expected");
  EXPECT_EQ(WhyNotBatched(Joinable({{kN}}, {{}}), 32), "'y' has no first axis");
  EXPECT_EQ(WhyNotBatched(Joinable({}, {{kN}}), 32), "the model has no inputs");
  EXPECT_EQ(WhyNotBatched(Joinable({{kN}}, {}), 32), "the model has no outputs");
  EXPECT_EQ(WhyNotBatched(Joinable({{kN}}, {{kN}}), 0), "the default max_batch_size is 0");
  ModelInfo apart = Joinable({{kN}}, {{kN}});
  apart.joinable = false;
  apart.not_joinable_reason = "Softmax mixes items";
  EXPECT_EQ(WhyNotBatched(apart, 32), "Softmax mixes items");
}

// A repository whose loader notes the paths and takes "broken" in a file for an error.
class RepositoryTest : public testing::Test {
 protected:
  void AddVersion(const std::string& model_and_version, const std::string& content = "good") {
    directory_.Write(model_and_version + "/model.onnx", content);
  }
  void AddDirectory(const std::string& path) {
    std::filesystem::create_directories(directory_.path() + "/" + path);
  }
  std::unique_ptr<Repository> Open(RepositoryOptions options = {}) {
    options.root = directory_.path();
    return std::make_unique<Repository>(
        std::move(options),
        [this](const std::string& path, const LoadOptions& options) { return Load(path, options); },
        clock_, metrics_);
  }
  StatusOr<std::shared_ptr<const Model>> Load(const std::string& path, const LoadOptions& options) {
    if (on_load_) on_load_();
    if (options.stopped && options.stopped()) return Cancelled("stopped");
    precisions_.push_back(options.precision);
    loaded_.push_back(path.substr(directory_.path().size() + 1));
    std::ifstream file(path);
    std::string content;
    file >> content;
    if (content == "broken") {
      return InvalidArgument("file {}: node 'a' (Foo): no such operator", path);
    }
    if (content == "complex") {
      ModelInfo info = Joinable({{kN, 3}}, {{kN, 3}});
      info.outputs[0].name = "spectrum";
      info.outputs[0].dtype = DType::kComplex64;
      return std::make_shared<FakeModel>(std::move(info));
    }
    if (content == "throwing") throw std::runtime_error("out of luck");
    return std::make_shared<FakeModel>(Joinable({{kN, 3}}, {{kN, 3}}));
  }
  static void ExpectError(const Status& status, absl::StatusCode code, const std::string& text) {
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(Message(status)), HasSubstr(text));
  }

  TempDirectory directory_;
  SteadyClock clock_;
  Metrics metrics_{{.version = "1"}};
  std::vector<std::string> loaded_;
  std::vector<std::optional<Precision>> precisions_;  // that the loads were asked for
  std::function<void()> on_load_;
};

TEST_F(RepositoryTest, LoadsTheHighestVersionOfEachModel) {
  AddVersion("b/2");
  AddVersion("b/10");
  AddVersion("b/9");
  AddVersion("a/1");
  auto repository = Open({.default_max_batch_size = 16});
  EXPECT_FALSE(repository->AllReady());
  ASSERT_TRUE(repository->LoadAll().ok());
  EXPECT_TRUE(repository->AllReady());
  EXPECT_THAT(loaded_, ElementsAre("a/1/model.onnx", "b/10/model.onnx"));
  const StatusOr<ServedModelRef> found = repository->Find("b", "");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ((*found)->name, "b");
  EXPECT_EQ((*found)->version, 10);
  EXPECT_EQ((*found)->max_batch_size, 16);
  EXPECT_NE((*found)->metrics, nullptr);
  EXPECT_EQ(repository->Find("b", "10").value(), *found);
  EXPECT_THAT(repository->ReadyVersions("b").value(), ElementsAre(10));
  EXPECT_EQ(metrics_.models_ready.value(), 2);
}

TEST_F(RepositoryTest, NamesThatAreNoVersionsOrModelsAreIgnored) {
  for (const char* name : {"m/01", "m/abc", "m/-1", "m/0", "m/.2", "m/99999999999999999999",
                           "bad name/1", ".hidden/1"}) {
    AddVersion(name);
  }
  AddVersion("m/3");
  directory_.Write("README", "no model");
  directory_.Write("m/4", "a file, no directory");
  auto repository = Open();
  ASSERT_TRUE(repository->LoadAll().ok());
  EXPECT_THAT(loaded_, ElementsAre("m/3/model.onnx"));
  EXPECT_EQ(repository->Index().size(), 1u);
  EXPECT_TRUE(repository->AllReady());
}

TEST_F(RepositoryTest, AVersionWithLeadingZerosIsNamedInTheReason) {
  AddVersion("m/01");
  AddVersion("zero/0");
  auto repository = Open();
  ASSERT_TRUE(repository->LoadAll().ok());
  ExpectError(repository->Find("m", "").status(), absl::StatusCode::kUnavailable,
              "model 'm': no version; a version is a directory with a positive number as its name; "
              "'01' is none: leading zeros are not allowed");
  EXPECT_THAT(std::string(Message(repository->Find("zero", "").status())),
              Not(HasSubstr("leading zeros")));
}

TEST_F(RepositoryTest, AVersionBeyondTheLargestNumberIsNamedInTheReason) {
  AddVersion("m/9223372036854775808");
  AddVersion("zeros/00009223372036854775808");
  AddVersion("largest/9223372036854775807");
  auto repository = Open();
  ASSERT_TRUE(repository->LoadAll().ok());
  ExpectError(repository->Find("m", "").status(), absl::StatusCode::kUnavailable,
              "model 'm': no version; a version is a directory with a positive number as its name; "
              "'9223372036854775808' is none: it passes 9223372036854775807, the largest version");
  EXPECT_THAT(std::string(Message(repository->Find("zeros", "").status())),
              HasSubstr("leading zeros"));
  EXPECT_TRUE(repository->Find("largest", "").ok());
}

TEST_F(RepositoryTest, ABrokenModelIsReportedAndTheOthersAreServed) {
  AddVersion("broken/7", "broken");
  AddVersion("good/1");
  AddVersion("throwing/1", "throwing");
  AddDirectory("empty");
  AddDirectory("fileless/5");
  auto repository = Open();
  ASSERT_TRUE(repository->LoadAll().ok());
  EXPECT_FALSE(repository->AllReady());
  EXPECT_TRUE(repository->Find("good", "").ok());
  const Status broken = repository->Find("broken", "").status();
  ExpectError(broken, absl::StatusCode::kUnavailable,
              "model 'broken' version 7: file broken/7/model.onnx: node 'a' (Foo)");
  EXPECT_FALSE(RetryAfter(broken).has_value());
  EXPECT_THAT(std::string(Message(broken)), Not(HasSubstr(directory_.path())));
  ExpectError(repository->Find("throwing", "1").status(), absl::StatusCode::kUnavailable,
              "model 'throwing' version 1: loading threw: out of luck");
  ExpectError(repository->Find("empty", "").status(), absl::StatusCode::kUnavailable, "no version");
  ExpectError(repository->Find("empty", "1").status(), absl::StatusCode::kNotFound, "no version");
  ExpectError(repository->Find("fileless", "").status(), absl::StatusCode::kUnavailable,
              "there is no file fileless/5/model.onnx");
  EXPECT_TRUE(repository->ReadyVersions("broken").value().empty());

  const std::vector<ModelStatus> index = repository->Index();
  ASSERT_EQ(index.size(), 5u);
  EXPECT_EQ(index[0].name, "broken");
  EXPECT_EQ(index[0].version, 7);
  EXPECT_EQ(index[0].state, ModelState::kUnavailable);
  EXPECT_THAT(index[0].reason, HasSubstr("no such operator"));
  EXPECT_EQ(index[1].name, "empty");
  EXPECT_EQ(index[1].version, 0);
  EXPECT_EQ(index[3].state, ModelState::kReady);
  EXPECT_EQ(metrics_.models_ready.value(), 1);
  EXPECT_EQ(metrics_.models_unavailable.value(), 4);
  EXPECT_EQ(metrics_.models_loading.value(), 0);
  EXPECT_EQ(metrics_.model_load_failures.value(), 4u);
}

// Links that are followed and links that are not, whatever level they stand at.
class RepositoryLinkTest : public RepositoryTest {
 protected:
  void Link(const std::string& target, const std::string& name) {
    const std::filesystem::path link = directory_.path() + "/" + name;
    std::filesystem::create_directories(link.parent_path());
    std::filesystem::create_symlink(target, link);
  }
  std::string ReasonOf(const std::string& model) {
    auto repository = Open();
    EXPECT_TRUE(repository->LoadAll().ok());
    const Status status = repository->Find(model, "").status();
    return std::string(Message(status));
  }

  const TempDirectory outside_;
};

TEST_F(RepositoryLinkTest, OneThatLeavesTheRepositoryIsRefusedAtEveryLevel) {
  outside_.Write("secret/1/model.onnx", "good");
  Link(outside_.path() + "/secret/1/model.onnx", "file/3/model.onnx");
  Link(outside_.path() + "/secret/1", "version/3");
  Link(outside_.path() + "/secret", "model");
  Link(std::filesystem::relative(outside_ / "secret/1/model.onnx", directory_ / "relative/3"),
       "relative/3/model.onnx");
  for (const std::string place : {"file/3", "version/3", "model/1", "relative/3"}) {
    const std::string model = place.substr(0, place.size() - 2);
    const std::string reason = ReasonOf(model);
    EXPECT_EQ(reason,
              fmt::format("model '{}' version {}: {}/model.onnx: a symbolic link on its way "
                          "leaves the repository",
                          model, place.back(), place));
  }
  EXPECT_TRUE(loaded_.empty());
}

TEST_F(RepositoryLinkTest, OneThatLeadsToAFolderWithTheRepositorysNameAsItsBeginningIsRefused) {
  const std::string beside = directory_.path() + "-beside";
  std::filesystem::create_directories(beside);
  std::ofstream(beside + "/model.onnx") << "good";
  Link(beside + "/model.onnx", "m/1/model.onnx");
  EXPECT_THAT(ReasonOf("m"), HasSubstr("leaves the repository"));
  std::filesystem::remove_all(beside);
}

TEST_F(RepositoryLinkTest, OneThatStaysInTheRepositoryIsFollowed) {
  AddVersion("m/1");
  Link("../1/model.onnx", "m/2/model.onnx");
  Link("m", "alias");
  Link("1", "m/3");
  auto repository = Open();
  ASSERT_TRUE(repository->LoadAll().ok());
  EXPECT_EQ(repository->Find("m", "").value()->version, 3);
  EXPECT_EQ(repository->Find("alias", "").value()->version, 3);
  EXPECT_THAT(loaded_, ElementsAre("m/1/model.onnx", "m/1/model.onnx"));
}

TEST_F(RepositoryLinkTest, OneThatLeadsNowhereOrRoundIsNoFile) {
  Link("nowhere", "m/1/model.onnx");
  Link("model.onnx", "round/1/model.onnx");
  EXPECT_THAT(ReasonOf("m"), HasSubstr("there is no file m/1/model.onnx"));
  EXPECT_THAT(ReasonOf("round"), HasSubstr("there is no file round/1/model.onnx"));
}

TEST_F(RepositoryLinkTest, OneThatLeadsNowhereInThePlaceOfAModelOrVersionIsReported) {
  AddVersion("m/1");
  Link("nowhere", "m/2");
  Link("nowhere", "model");
  Link("round", "round");
  Link("nowhere", ".hidden");
  Link("nowhere", "m/notes");
  auto repository = Open();
  ASSERT_TRUE(repository->LoadAll().ok());
  const std::vector<ModelStatus> index = repository->Index();
  ASSERT_EQ(index.size(), 3u);
  EXPECT_EQ(index[0].reason,
            "model 'm' version 2: there is no file m/2/model.onnx: the symbolic link m/2 leads "
            "nowhere");
  EXPECT_EQ(index[1].reason, "model 'model': the symbolic link model leads nowhere");
  EXPECT_EQ(index[2].reason, "model 'round': the symbolic link round leads nowhere");
  for (const ModelStatus& model : index) EXPECT_EQ(model.state, ModelState::kUnavailable);
  EXPECT_EQ(metrics_.model_load_failures.value(), 3u);
}

TEST_F(RepositoryLinkTest, TheRepositoryItselfMayBeOne) {
  AddVersion("m/1", "broken");
  const std::string link = outside_.path() + "/models";
  std::filesystem::create_directory_symlink(directory_.path(), link);
  Repository repository(
      {.root = link},
      [this](const std::string& path, const LoadOptions& options) { return Load(path, options); },
      clock_, metrics_);
  ASSERT_TRUE(repository.LoadAll().ok());
  EXPECT_EQ(Message(repository.Find("m", "").status()),
            "model 'm' version 1: file m/1/model.onnx: node 'a' (Foo): no such operator");
}

TEST_F(RepositoryTest, AModelWithAPortThatHasNoWireFormIsRefused) {
  AddVersion("fourier/1", "complex");
  auto repository = Open();
  ASSERT_TRUE(repository->LoadAll().ok());
  ExpectError(repository->Find("fourier", "").status(), absl::StatusCode::kUnavailable,
              "output 'spectrum' is of type complex64, which has no form on the wire");
}

TEST(WireForm, FourteenTypesHaveOne) {
  int have = 0;
  for (int number = 1; IsKnownDType(number); ++number) {
    ModelInfo info;
    info.inputs.push_back({.name = "x", .dtype = static_cast<DType>(number)});
    have += CheckWireForm(info).ok() ? 1 : 0;
  }
  EXPECT_EQ(have, 14);
}

TEST_F(RepositoryTest, UnknownNamesAndVersionsAreNotFound) {
  AddVersion("m/3");
  auto repository = Open();
  ASSERT_TRUE(repository->LoadAll().ok());
  ExpectError(repository->Find("other", "").status(), absl::StatusCode::kNotFound,
              "model 'other' is not in the repository");
  ExpectError(repository->Find("m", "2").status(), absl::StatusCode::kNotFound,
              "model 'm' has no version 2; version 3 is served");
  ExpectError(repository->ReadyVersions("other").status(), absl::StatusCode::kNotFound, "other");
  for (const char* name : {"", "..", "a/b", "%2e%2e", "../m"}) {
    ExpectError(repository->Find(name, "").status(), absl::StatusCode::kNotFound,
                fmt::format("model '{}' came; a name of 1 to 128 of A-Z a-z 0-9 _ . - that starts "
                            "with no dot was expected",
                            name));
  }
}

TEST_F(RepositoryTest, AVersionThatIsNoPositiveNumberIsInvalid) {
  AddVersion("m/1");
  auto repository = Open();
  ASSERT_TRUE(repository->LoadAll().ok());
  for (const char* version : {"-1", "01", "latest", "9223372036854775808", "0", "1.0", " 1"}) {
    ExpectError(repository->Find("m", version).status(), absl::StatusCode::kInvalidArgument,
                fmt::format("model 'm': version '{}' came; a positive decimal number without "
                            "leading zeros up to 9223372036854775807, or an empty text for the "
                            "highest version, was expected",
                            version));
  }
}

TEST_F(RepositoryTest, WhatAClientSendsIsRepeatedAsOneShortLine) {
  auto repository = Open();
  ASSERT_TRUE(repository->LoadAll().ok());
  const std::string odd = "\n" + std::string(1 << 20, 'a');
  const std::string quoted = "'\\x0a" + std::string(95, 'a') + "...'";
  ExpectError(repository->Find(odd, "").status(), absl::StatusCode::kNotFound, quoted + " came");
  ExpectError(repository->Find("m", odd).status(), absl::StatusCode::kInvalidArgument,
              "model 'm': version " + quoted + " came");
}

TEST_F(RepositoryTest, AModelThatIsLoadingIsUnavailableAndLookupsDoNotWait) {
  AddVersion("m/1");
  AddVersion("n/1");
  auto repository = Open();
  int loads = 0;
  on_load_ = [&] {
    EXPECT_FALSE(repository->AllReady());
    ExpectError(repository->Find("n", "").status(), absl::StatusCode::kUnavailable,
                "model 'n' version 1 is loading");
    EXPECT_EQ(RetryAfter(repository->Find("n", "").status()), std::chrono::milliseconds(1000));
    EXPECT_EQ(repository->Index()[1].state, ModelState::kLoading);
    EXPECT_EQ(metrics_.models_loading.value(), 2 - loads);
    ++loads;
  };
  ASSERT_TRUE(repository->LoadAll().ok());
  EXPECT_EQ(loads, 2);
  EXPECT_TRUE(repository->AllReady());
}

TEST_F(RepositoryTest, LoadingCanBeStopped) {
  for (const char* name : {"a/1", "b/1", "c/1"}) AddVersion(name);
  auto repository = Open();
  bool stop = false;
  int loads = 0;
  on_load_ = [&] { stop = ++loads == 2; };
  const Status status = repository->LoadAll([&] { return stop; });
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
  EXPECT_EQ(loads, 2);
  EXPECT_FALSE(repository->AllReady());
  EXPECT_TRUE(repository->Find("a", "").ok());
  ExpectError(repository->Find("b", "").status(), absl::StatusCode::kUnavailable, "loading");
  EXPECT_EQ(metrics_.model_load_failures.value(), 0u);
}

TEST_F(RepositoryTest, ARootThatIsNoDirectoryIsNotFound) {
  const std::string file = directory_.Write("file", "x");
  for (const std::string& root : {file, directory_.path() + "/missing", std::string()}) {
    Repository repository({.root = root}, ModelLoader(), clock_, metrics_);
    const Status status = repository.LoadAll();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
    EXPECT_FALSE(repository.AllReady());
  }
}

TEST_F(RepositoryTest, AnEmptyRepositoryIsReady) {
  auto repository = Open();
  ASSERT_TRUE(repository->LoadAll().ok());
  EXPECT_TRUE(repository->AllReady());
  EXPECT_TRUE(repository->Index().empty());
}

TEST_F(RepositoryTest, AHeldModelOutlivesTheRepository) {
  AddVersion("m/1");
  auto repository = Open();
  ASSERT_TRUE(repository->LoadAll().ok());
  const ServedModelRef held = repository->Find("m", "").value();
  repository.reset();
  EXPECT_EQ(held->model->Explain(), "fake");
  EXPECT_THAT(metrics_.Export(), HasSubstr("model=\"m\""));
}

TEST_F(RepositoryTest, ReadersAndTheLoaderRunSideBySide) {
  for (int i = 0; i < 50; ++i) AddVersion("m" + std::to_string(i) + "/1");
  auto repository = Open();
  std::atomic<bool> done{false};
  std::thread reader([&] {
    while (!done) {
      const StatusOr<ServedModelRef> found = repository->Find("m7", "");
      if (found.ok()) {
        EXPECT_EQ((*found)->version, 1);
      }
      EXPECT_LE(repository->Index().size(), 50u);
      repository->AllReady();
      metrics_.Export();
    }
  });
  EXPECT_TRUE(repository->LoadAll().ok());
  done = true;
  reader.join();
}

// In the place of the text that the transport reads: the name of a precision, and what else there
// is behind it.
StatusOr<ModelSettings> PrecisionFirst(std::string_view text) {
  ModelSettings settings;
  const size_t end = text.find(' ');
  ASSIGN_OR_RETURN(settings.precision, ParsePrecision(text.substr(0, end)));
  if (end != text.npos) settings.without_effect.emplace_back(text.substr(end + 1));
  return settings;
}

TEST_F(RepositoryTest, AModelIsLoadedWithItsOwnSettingsAndTheOthersWithTheDaemons) {
  for (const char* name : {"a/1", "b/1", "c/2", "c/3"}) AddVersion(name);
  directory_.Write("b/config.pbtxt", "bf16");
  directory_.Write("c/config.pbtxt", "f32_plain beside");
  directory_.Write("c/3/config.pbtxt", "no place for it");
  auto repository = Open({.parse_settings = PrecisionFirst});
  ASSERT_TRUE(repository->LoadAll().ok());
  EXPECT_TRUE(repository->AllReady());
  EXPECT_THAT(loaded_, ElementsAre("a/1/model.onnx", "b/1/model.onnx", "c/3/model.onnx"));
  EXPECT_THAT(precisions_, ElementsAre(std::nullopt, Precision::kBf16, Precision::kF32Plain));
}

TEST_F(RepositoryTest, AModelWithSettingsThatAreNoneIsNotLoadedAndTheOthersAre) {
  AddVersion("m/7");
  AddVersion("n/1");
  directory_.Write("m/config.pbtxt", "fp16");
  auto repository = Open({.parse_settings = PrecisionFirst});
  ASSERT_TRUE(repository->LoadAll().ok());
  EXPECT_FALSE(repository->AllReady());
  EXPECT_THAT(loaded_, ElementsAre("n/1/model.onnx"));
  ExpectError(repository->Find("m", "").status(), absl::StatusCode::kUnavailable,
              "model 'm' version 7: m/config.pbtxt: 'fp16' came; f32_plain, f32, f32_strict or "
              "bf16 was expected");
  EXPECT_EQ(metrics_.model_load_failures.value(), 1u);
}

TEST(RepositoryOnAnEngine, ServesARealModelAndExportsTheEnginesNumbers) {
  const TempDirectory directory;
  tandem::test::ModelBuilder(17)
      .Input("x", DType::kFloat, {kN, 2})
      .Node("Relu", {"x"}, {"y"})
      .Output("y", DType::kFloat, {kN, 2})
      .WriteFile(directory.path() + "/relu/4/model.onnx");
  directory.Write("garbage/1/model.onnx", "this is no model");
  Metrics metrics({.version = "1"});
  const Engine engine(EngineOptions{.threads = 1});
  Repository repository({.root = directory.path()}, engine, metrics);
  ASSERT_TRUE(repository.LoadAll().ok());
  const StatusOr<ServedModelRef> relu = repository.Find("relu", "4");
  ASSERT_TRUE(relu.ok()) << relu.status();
  EXPECT_EQ((*relu)->max_batch_size, 32);
  const std::vector<NamedTensor> inputs = {{"x", Tensor::Of<float>({1, 2}, {-1, 2})}};
  const StatusOr<RunResult> result = (*relu)->model->Run(inputs);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->outputs[0].tensor.span<float>(), ElementsAre(0, 2));
  const std::string reason(Message(repository.Find("garbage", "").status()));
  EXPECT_THAT(reason, HasSubstr("model 'garbage' version 1: "));
  EXPECT_THAT(reason, Not(HasSubstr(directory.path())));
  EXPECT_THAT(metrics.Export(), HasSubstr("tandem_packs_built_total"));
}

}  // namespace
}  // namespace tandem::server
