// The networks of tests/networks/zoo as PyTorch exports them, against PyTorch's answers: in batches
// of all sizes, on any number of threads, with passes and without, in any order of their nodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "engine/onnx/tensor_proto.h"
#include "engine/optimizer/optimizer.h"
#include "tests/engine/api/comparison.h"
#include "tests/support/op_runner.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

const fs::path kNetworks = TANDEM_SOURCE_DIR "/tests/data/networks";
constexpr double kShareOfScale = 1e-4;

using Tensors = std::vector<NamedTensor>;

// A request of eight items and the framework's answer.
struct Exchange {
  Tensors inputs;
  Tensors outputs;
};

std::vector<std::string> Networks() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kNetworks)) {
    names.push_back(entry.path().filename());
  }
  std::ranges::sort(names);
  return names;
}

std::string Bytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

std::string ModelBytes(const std::string& network) {
  return Bytes(kNetworks / network / "model.onnx");
}

Tensors ReadTensors(const fs::path& folder, std::string_view kind) {
  Tensors tensors;
  for (int port = 0;; ++port) {
    const fs::path path = folder / fmt::format("{}_{}.pb", kind, port);
    if (!fs::exists(path)) return tensors;
    auto parsed = onnx_import::ParseNamedTensor(Bytes(path));
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    if (parsed.ok()) tensors.push_back({parsed->name, std::move(parsed->tensor)});
  }
}

std::vector<Exchange> Exchanges(const std::string& network) {
  std::vector<Exchange> exchanges;
  for (int set = 0;; ++set) {
    const fs::path folder = kNetworks / network / fmt::format("test_data_set_{}", set);
    if (!fs::exists(folder)) return exchanges;
    exchanges.push_back({ReadTensors(folder, "input"), ReadTensors(folder, "output")});
  }
}

// Items [begin, end) of a request; what all items share stays as it is.
Tensors Items(const Model& model, Tensors inputs, int64_t begin, int64_t end) {
  for (NamedTensor& input : inputs) {
    const auto port = std::ranges::find(model.info().inputs, input.name, &Port::name);
    if (port == model.info().inputs.end()) continue;  // the run refuses it
    const bool shared = port->dims[0].is_number() && !model.info().batch_fixed_at_one;
    if (!shared) input.tensor = input.tensor.Rows(begin, end);
  }
  return inputs;
}

// Rows of every output, given as pairs of name and tensor.
template <typename Outputs>
test::NamedTensors Rows(const Outputs& outputs, int64_t begin, int64_t end) {
  test::NamedTensors rows;
  for (const auto& [name, tensor] : outputs) rows[name] = tensor.Rows(begin, end);
  return rows;
}

class ExportedNetwork : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Zoo, ExportedNetwork, testing::ValuesIn(Networks()),
                         [](const auto& network) { return network.param; });

// Compares answers with PyTorch's, in batches of several sizes and on several numbers of threads.
void ExpectAnswersOfSingleRuns(const std::string& network, Precision precision, double share) {
  const std::string bytes = ModelBytes(network);
  for (const Exchange& exchange : Exchanges(network)) {
    std::vector<test::NamedTensors> alone;  // on one thread
    for (const int threads : {1, 2, 4}) {
      const Engine engine(EngineOptions{.threads = threads, .precision = precision});
      const auto model = test::LoadModel(engine, bytes);
      ASSERT_NE(model, nullptr);
      const uint64_t packs = engine.stats().packs_built;
      for (int64_t item = 0; threads == 1 && item < 8; ++item) {
        alone.push_back(test::Answers(*model, Items(*model, exchange.inputs, item, item + 1)));
      }
      for (const int64_t items : {1, 2, 3, 7, 8}) {
        SCOPED_TRACE(fmt::format("{} items, {} threads", items, threads));
        const test::NamedTensors answers =
            test::Answers(*model, Items(*model, exchange.inputs, 0, items));
        test::ExpectClose(answers, Rows(exchange.outputs, 0, items), test::OfScale(share));
        ASSERT_FALSE(testing::Test::HasFailure());
        for (int64_t item = 0; item < items; ++item) {
          test::ExpectClose(Rows(answers, item, item + 1), alone[static_cast<size_t>(item)],
                            test::Exact());
        }
      }
      EXPECT_EQ(engine.stats().packs_built, packs);
      EXPECT_THAT(test::PackingOfConstantsInRuns(test::ReportOf(*model, exchange.inputs)),
                  testing::IsEmpty());
    }
  }
}

TEST_P(ExportedNetwork, AnswersAsPyTorchWithTheBitsOfSingleRunsInEveryBatchOnAnyThreads) {
  ExpectAnswersOfSingleRuns(GetParam(), Precision::kF32Plain, kShareOfScale);
}

// Random weights make more of what a product loses than trained ones.
TEST_P(ExportedNetwork, AnswersWithSumsOfPartsNearlyAsPyTorchWithTheBitsOfSingleRuns) {
  ExpectAnswersOfSingleRuns(GetParam(), Precision::kF32, 5 * kShareOfScale);
}

TEST_P(ExportedNetwork, AnswersAsPyTorchOnEveryInstructionSetPackedOrNot) {
  const std::string bytes = ModelBytes(GetParam());
  const Exchange exchange = Exchanges(GetParam()).front();
  for (const Isa isa : test::IsaLevels()) {
    for (const bool prepack : {true, false}) {
      SCOPED_TRACE(fmt::format("{}, prepack {}", IsaName(isa), prepack));
      const Engine engine(EngineOptions{
          .threads = 2, .isa = isa, .precision = Precision::kF32Plain, .prepack = prepack});
      const auto model = test::LoadModel(engine, bytes);
      ASSERT_NE(model, nullptr);
      test::ExpectClose(test::Answers(*model, Items(*model, exchange.inputs, 0, 2)),
                        Rows(exchange.outputs, 0, 2), test::OfScale(kShareOfScale));
    }
  }
}

TEST_P(ExportedNetwork, WhatTheEngineExportsAnswersAsWell) {
  const Engine engine(EngineOptions{.threads = 2});
  const auto exported = engine.Export(kNetworks / GetParam() / "model.onnx");
  ASSERT_TRUE(exported.ok()) << exported.status();
  const auto model = test::LoadModel(
      Engine(EngineOptions{.threads = 2, .precision = Precision::kF32Plain}), exported->bytes);
  ASSERT_NE(model, nullptr);
  for (const Exchange& exchange : Exchanges(GetParam())) {
    test::ExpectClose(test::Answers(*model, Items(*model, exchange.inputs, 0, 3)),
                      Rows(exchange.outputs, 0, 3), test::OfScale(kShareOfScale));
  }
}

// The rows of gpt2 are its items times an extent that is not known; those of siamfc share an input.
const std::set<std::string> kStayAlone = {"gpt2", "siamfc"};

TEST_P(ExportedNetwork, RequestsThatRideTogetherAreAnsweredAsAlone) {
  const Engine engine(EngineOptions{.threads = 2});
  const auto model = test::LoadModel(engine, ModelBytes(GetParam()));
  ASSERT_NE(model, nullptr);
  ASSERT_EQ(model->info().joinable, !kStayAlone.contains(GetParam()))
      << model->info().not_joinable_reason;
  if (!model->info().joinable) GTEST_SKIP() << model->info().not_joinable_reason;
  const Exchange exchange = Exchanges(GetParam()).front();
  const std::vector<std::pair<int64_t, int64_t>> requests = {{0, 1}, {1, 4}, {4, 6}};
  std::vector<BatchItem> batch;
  for (const auto& [begin, end] : requests) {
    batch.push_back({.inputs = Items(*model, exchange.inputs, begin, end)});
  }
  const auto results = model->RunBatch(batch, {});
  ASSERT_TRUE(results.ok()) << results.status();
  ASSERT_EQ(results->size(), batch.size());
  for (size_t i = 0; i < batch.size(); ++i) {
    test::NamedTensors answers;
    for (const auto& [name, tensor] : (*results)[i].outputs) answers[name] = tensor;
    test::ExpectClose(answers, test::Answers(*model, batch[i].inputs), test::Exact());
  }
}

// Exports of four kinds: convolutions, shifted windows, a cache, a detector.
class RearrangedNetwork : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Zoo, RearrangedNetwork,
                         testing::Values("mobilenet_v3", "swin_v2", "gpt2", "yolo11"),
                         [](const auto& network) { return network.param; });

// All passes, each one left out, and none.
std::vector<std::vector<std::string>> DisabledPasses() {
  std::vector<std::vector<std::string>> sets = {{}, optimizer::PassNames()};
  for (const std::string& pass : optimizer::PassNames()) sets.push_back({pass});
  return sets;
}

TEST_P(RearrangedNetwork, OrderAndThreadsLeaveTheBitsAndPassesTheNumbers) {
  constexpr int64_t kItems = 3;
  const std::vector<std::string> orders = test::OrdersOf(ModelBytes(GetParam()));
  const Exchange exchange = Exchanges(GetParam()).front();
  for (const std::vector<std::string>& disabled : DisabledPasses()) {
    test::NamedTensors first;
    for (size_t order = 0; order < orders.size(); ++order) {
      for (const int threads : {1, 4}) {
        SCOPED_TRACE(fmt::format("without {} passes, the first is {}, order {}, {} threads",
                                 disabled.size(), disabled.empty() ? "-" : disabled[0], order,
                                 threads));
        const Engine engine(EngineOptions{.threads = threads, .disabled_passes = disabled});
        const auto model = test::LoadModel(engine, orders[order]);
        ASSERT_NE(model, nullptr);
        const test::NamedTensors answers =
            test::Answers(*model, Items(*model, exchange.inputs, 0, kItems));
        if (first.empty()) {
          first = answers;
          test::ExpectClose(answers, Rows(exchange.outputs, 0, kItems),
                            test::OfScale(kShareOfScale));
        }
        test::ExpectClose(answers, first, test::Exact());
        ASSERT_FALSE(testing::Test::HasFailure());
      }
    }
  }
}

// [N, length, ...] at one place of its length, which stays an axis.
Tensor Place(const Tensor& tensor, int64_t place) {
  const graph::Attributes at = {{"axes", std::vector<int64_t>{1}},
                                {"starts", std::vector<int64_t>{place}},
                                {"ends", std::vector<int64_t>{place + 1}}};
  return test::Apply({.op_type = "Slice", .opset = 9, .attributes = at}, {tensor});
}

TEST(ExportedGpt2, AWordAtATimeOnItsOwnCacheIsAnsweredAsTheWholeText) {
  const Engine engine(EngineOptions{.threads = 2});
  const auto model = test::LoadModel(engine, ModelBytes("gpt2"));
  ASSERT_NE(model, nullptr);
  const Exchange text = Exchanges("gpt2").back();  // its cache is empty
  const Tensor& words = text.inputs[0].tensor;
  ASSERT_EQ(text.inputs[1].tensor.shape()[2], 0);
  Tensors inputs = text.inputs;
  for (int64_t place = 0; place < words.shape()[1]; ++place) {
    inputs[0].tensor = Place(words, place);
    const test::NamedTensors answers = test::Answers(*model, inputs);
    EXPECT_TRUE(test::Close(answers.at("logits"), Place(text.outputs[0].tensor, place),
                            test::OfScale(kShareOfScale)))
        << "place " << place;
    for (size_t i = 1; i < inputs.size(); ++i) {
      inputs[i].tensor = answers.at("present" + inputs[i].name.substr(strlen("past")));
    }
  }
  for (size_t i = 1; i < inputs.size(); ++i) {
    EXPECT_TRUE(test::Close(inputs[i].tensor, text.outputs[i].tensor, test::OfScale(kShareOfScale)))
        << inputs[i].name;
  }
}

}  // namespace
}  // namespace tandem
