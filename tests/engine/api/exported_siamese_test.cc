// Two towers that share all weights, as PyTorch exports them, with batch normalization, a residual
// and a linear layer in each: answered as PyTorch does, forked or not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "engine/onnx/tensor_proto.h"
#include "tests/engine/api/comparison.h"

namespace tandem {
namespace {

const std::string kFolder = TANDEM_SOURCE_DIR "/tests/data/siamese/";
constexpr double kShareOfScale = 1e-4;
constexpr uint64_t kWeightsOfATower = 4;  // three convolutions and a linear layer

std::string Bytes(const std::string& file) {
  std::ifstream stream(kFolder + file, std::ios::binary);
  EXPECT_TRUE(stream) << file;
  std::ostringstream bytes;
  bytes << stream.rdbuf();
  return bytes.str();
}

std::vector<NamedTensor> Read(std::string_view kind, int count) {
  std::vector<NamedTensor> tensors;
  for (int i = 0; i < count; ++i) {
    auto parsed =
        onnx_import::ParseNamedTensor(Bytes(fmt::format("test_data_set_0/{}_{}.pb", kind, i)));
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    if (parsed.ok()) tensors.push_back({parsed->name, std::move(parsed->tensor)});
  }
  return tensors;
}

test::NamedTensors ByName(const std::vector<NamedTensor>& tensors) {
  test::NamedTensors named;
  for (const NamedTensor& tensor : tensors) named[tensor.name] = tensor.tensor;
  return named;
}

TEST(ExportedSiamese, AnswersAsPyTorchForkedOrNotOnAnyThreads) {
  const std::string bytes = Bytes("model.onnx");
  const std::vector<NamedTensor> pairs = Read("input", 2);
  const test::NamedTensors expected = ByName(Read("output", 3));
  test::NamedTensors sequential;
  for (const bool towers : {false, true}) {
    for (const int threads : {1, 2, 4, 8}) {
      SCOPED_TRACE(fmt::format("towers {}, {} threads", towers, threads));
      const Engine engine(EngineOptions{.threads = threads, .towers = towers});
      const auto model = test::LoadModel(engine, bytes);
      ASSERT_NE(model, nullptr);
      EXPECT_EQ(test::ReportOf(*model, pairs).forks, towers ? 1 : 0);
      const uint64_t packs = engine.stats().packs_built;
      EXPECT_EQ(packs, kWeightsOfATower + 1) << "those of a tower and of the join";
      for (int run = 0; run < (towers ? 10 : 2); ++run) {
        const test::NamedTensors answers = test::Answers(*model, pairs);
        if (sequential.empty()) sequential = answers;
        test::ExpectClose(answers, sequential, test::Exact());
        test::ExpectClose(answers, expected, test::OfScale(kShareOfScale));
        ASSERT_FALSE(HasFailure()) << "run " << run;
      }
      EXPECT_EQ(engine.stats().packs_built, packs);
      EXPECT_THAT(test::PackingOfConstantsInRuns(test::ReportOf(*model, pairs)),
                  testing::IsEmpty());
    }
  }
}

TEST(ExportedSiamese, ABatchHasTheBitsOfItsPairs) {
  test::ExpectItemsAlone(Bytes("model.onnx"), 3);
}

TEST(ExportedSiamese, OrderOfTheNodesLeavesTheBits) {
  test::ExpectMeans(Bytes("model.onnx"), {.oracle = Bytes("model.onnx")});
}

TEST(ExportedSiamese, PassesAndPacksLeaveTheNumbers) {
  const std::vector<NamedTensor> pairs = Read("input", 2);
  const test::NamedTensors expected = ByName(Read("output", 3));
  for (const EngineOptions& options : {test::WithoutPasses(), test::WithoutPacks()}) {
    const Engine engine(options);
    const auto model = test::LoadModel(engine, Bytes("model.onnx"));
    ASSERT_NE(model, nullptr);
    test::ExpectClose(test::Answers(*model, pairs), expected, test::OfScale(kShareOfScale));
  }
}

}  // namespace
}  // namespace tandem
