// Pointwise and depthwise convolutions that run as one: with the bits of one after the other, and
// without the memory between them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <algorithm>

#include "tests/engine/api/comparison.h"
#include "tests/support/random_tensor.h"
#include "tests/support/temp_directory.h"

namespace tandem {
namespace {

using test::ExpectMeans;
using test::LoadModel;
using test::ModelBuilder;
using test::RandomFloats;
using testing::ElementsAre;
using Ints = std::vector<int64_t>;

const graph::Dim kN = graph::Dim::Symbol("N");

// x -> pointwise -> Relu -> depthwise -> activation -> pointwise -> Add(residual) -> Relu -> y
struct Block {
  int64_t inputs = 0;  // 0: no pointwise convolution at first
  int64_t channels = 22;
  int64_t out = 12;
  int64_t height = 15;
  int64_t width = 17;
  int64_t kernel = 3;
  int64_t stride = 1;
  std::string activation = "HardSwish";
};

std::string Build(const Block& block) {
  const int64_t pad = (block.kernel - 1) / 2;
  const graph::Attributes spatial = {{"group", block.channels},
                                     {"strides", Ints{block.stride, block.stride}},
                                     {"pads", Ints{pad, pad, pad, pad}}};
  const int64_t height = (block.height - 1) / block.stride + 1;
  const int64_t width = (block.width - 1) / block.stride + 1;
  const int64_t inputs = block.inputs == 0 ? block.channels : block.inputs;
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {kN, inputs, block.height, block.width});
  if (block.inputs > 0) {
    builder.Initializer("u", RandomFloats({block.channels, block.inputs, 1, 1}, 6))
        .Initializer("g", RandomFloats({block.channels}, 7))
        .Node("Conv", {"x", "u", "g"}, {"e"})
        .Node("Relu", {"e"}, {"f"});
  }
  return builder.Input("r", DType::kFloat, {kN, block.out, height, width})
      .Initializer("v", RandomFloats({block.channels, 1, block.kernel, block.kernel}, 1))
      .Initializer("b", RandomFloats({block.channels}, 2))
      .Initializer("s", RandomFloats({block.channels, 1, 1}, 3))
      .Initializer("w", RandomFloats({block.out, block.channels, 1, 1}, 4))
      .Initializer("c", RandomFloats({block.out}, 5))
      .Node("Conv", {block.inputs > 0 ? "f" : "x", "v", "b"}, {"d"}, spatial)
      .Node("Mul", {"d", "s"}, {"m"})
      .Node(block.activation, {"m"}, {"a"})
      .Node("Conv", {"a", "w", "c"}, {"p"})
      .Node("Add", {"p", "r"}, {"q"})
      .Node("Relu", {"q"}, {"y"})
      .Output("y", DType::kFloat, {kN, block.out, height, width})
      .Serialize();
}

PlanReport Plan(const std::string& bytes, EngineOptions options = {.threads = 2}) {
  const Engine engine(std::move(options));
  const auto model = LoadModel(engine, bytes);
  return test::ReportOf(*model, test::InputsOf(*model, 3));
}

const TaskReport* PairOf(const PlanReport& report) {
  for (const TaskReport& task : report.tasks) {
    if (!task.prologue.empty() && task.prologue.front() == "Conv") return &task;
  }
  return nullptr;
}

TEST(DepthwiseStrips, TheWholeBlockIsOneTask) {
  const PlanReport report = Plan(Build({}));
  const TaskReport* task = PairOf(report);
  ASSERT_NE(task, nullptr);
  EXPECT_THAT(task->prologue, ElementsAre("Conv", "Add", "Mul", "HardSwish"));
  EXPECT_THAT(task->epilogue, ElementsAre("Add", "Relu"));
  for (const ValueReport& value : report.values) EXPECT_NE(value.name, "d");
  const PlanReport apart = Plan(Build({}), {.threads = 2, .disabled_passes = {"fuse_depthwise"}});
  EXPECT_EQ(PairOf(apart), nullptr);
  EXPECT_EQ(apart.tasks.size(), report.tasks.size() + 1);
  EXPECT_EQ(apart.packs.size(), report.packs.size());
}

// With its expansion, which is just large enough.
const Block kBottleneck = {.inputs = 5, .channels = 32, .height = 64, .width = 64};

TEST(DepthwiseStrips, AnInvertedBottleneckIsOneTask) {
  const PlanReport report = Plan(Build(kBottleneck));
  const TaskReport* task = PairOf(report);
  ASSERT_NE(task, nullptr);
  EXPECT_THAT(task->prologue,
              ElementsAre("Conv", "Add", "Relu", "Conv", "Add", "Mul", "HardSwish"));
  EXPECT_THAT(task->epilogue, ElementsAre("Add", "Relu"));
  for (const ValueReport& value : report.values) {
    EXPECT_NE(value.name, "f");
    EXPECT_NE(value.name, "d");
  }
}

TEST(DepthwiseStrips, ItsCostIsThatOfAllConvolutions) {
  for (const Block& block : {Block{}, kBottleneck, Block{.height = 31, .stride = 2}}) {
    const PlanReport report = Plan(Build(block));
    const PlanReport apart =
        Plan(Build(block), {.threads = 2, .disabled_passes = {"fuse_depthwise"}});
    ASSERT_NE(PairOf(report), nullptr);
    double products = 0;
    for (const TaskReport& task : apart.tasks) products += task.multiply_adds.value_or(0);
    double together = 0;
    for (const TaskReport& task : report.tasks) together += task.multiply_adds.value_or(0);
    EXPECT_EQ(together, products);
  }
}

TEST(DepthwiseStrips, TheNumbersAreThoseOfTheNodesOneByOne) {
  for (const Block& block :
       {Block{}, Block{.channels = 33, .out = 40, .kernel = 5}, Block{.height = 31, .stride = 2},
        Block{.channels = 3, .out = 1, .width = 130, .activation = "LeakyRelu"},
        Block{.channels = 530, .out = 70, .activation = "Sigmoid"}, kBottleneck,
        Block{.inputs = 3, .channels = 33, .height = 99, .width = 77, .stride = 2}}) {
    SCOPED_TRACE(fmt::format("{} -> {} channels", block.channels, block.out));
    const std::string bytes = Build(block);
    if (block.stride == 1 || block.inputs > 0) {
      const PlanReport report = Plan(bytes);
      ASSERT_NE(PairOf(report), nullptr);
      EXPECT_EQ(std::ranges::count(PairOf(report)->prologue, "Conv"), block.inputs > 0 ? 2 : 1);
    }
    ExpectMeans(bytes, {.oracle = bytes, .options = test::WithoutPasses()});
    ExpectMeans(bytes, {.oracle = bytes,
                        .options = test::WithoutPacks(),
                        .tolerance = test::Reduction(block.channels + block.kernel * block.kernel),
                        .batches = {2}});
  }
}

struct OfBlock : testing::TestWithParam<Block> {};
INSTANTIATE_TEST_SUITE_P(DepthwiseStrips, OfBlock, testing::Values(Block{}, kBottleneck));

TEST_P(OfBlock, EachInstructionSetHasTheBitsOfTheNodesOneByOne) {
  const std::string bytes = Build(GetParam());
  for (const Isa isa : {Isa::kReference, Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    if (isa > DetectIsa()) continue;
    SCOPED_TRACE(IsaName(isa));
    const Engine engine(EngineOptions{.threads = 2, .isa = isa});
    const Engine apart(
        EngineOptions{.threads = 1, .isa = isa, .disabled_passes = {"fuse_depthwise"}});
    const auto model = LoadModel(engine, bytes);
    const auto oracle = LoadModel(apart, bytes);
    const auto inputs = test::InputsOf(*model, 3);
    test::ExpectClose(test::Answers(*model, inputs), test::Answers(*oracle, inputs), test::Exact());
  }
}

TEST_P(OfBlock, ItemsOfABatchHaveTheBitsThatTheyHaveAlone) {
  for (const int64_t items : {2, 3, 7}) test::ExpectItemsAlone(Build(GetParam()), items);
}

// The extents between the convolutions are declared, those of the request are open: nothing is
// known of the request when the plan is made.
TEST(DepthwiseStrips, AnImageThatIsOpenBeforeTheConvolutions) {
  const graph::Dim open = graph::Dim::Symbol("H");
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {kN, 3, open, open})
      .Initializer("u", RandomFloats({32, 3, 1, 1}, 1))
      .Initializer("v", RandomFloats({32, 1, 5, 5}, 2))
      .Initializer("w", RandomFloats({4, 32, 1, 1}, 3))
      .Node("Conv", {"x", "u"}, {"a"})
      .Node("Conv", {"a", "v"}, {"d"}, {{"group", int64_t{32}}})
      .Node("Conv", {"d", "w"}, {"y"})
      .Output("y");
  for (const auto& [name, size] : {std::pair("a", 68), std::pair("d", 64)}) {
    auto& info = *builder.proto().mutable_graph()->add_value_info();
    info.set_name(name);
    auto& type = *info.mutable_type()->mutable_tensor_type();
    type.set_elem_type(::onnx::TensorProto::FLOAT);
    for (const int extent : {2, 32, size, size}) {
      type.mutable_shape()->add_dim()->set_dim_value(extent);
    }
  }
  const std::string bytes = builder.Serialize();
  const Engine engine(EngineOptions{.threads = 2});
  const auto model = LoadModel(engine, bytes);
  const std::vector<NamedTensor> inputs = {{"x", RandomFloats({2, 3, 68, 68}, 4)}};
  const auto answer = model->Run(inputs);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->outputs[0].tensor.shape(), (Shape{2, 4, 64, 64}));
}

// Quantised weights become constant late; a BatchNormalization behind them is folded all the same.
TEST(DepthwiseStrips, ANormalizationBehindQuantisedWeightsIsFoldedFirst) {
  constexpr int64_t kOut = 8;
  std::vector<int8_t> weights;
  for (int i = 0; i < kOut * 22; ++i) weights.push_back(static_cast<int8_t>(i * 37 % 255 - 127));
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {kN, 22, 16, 16})
      .Initializer("v", RandomFloats({22, 1, 3, 3}, 1))
      .Initializer("q", Tensor::Of<int8_t>({kOut, 22, 1, 1}, weights))
      .Initializer("scale", RandomFloats({kOut}, 2, 0.01F, 0.02F))
      .Initializer("zero", Tensor::Of<int8_t>({kOut}, std::vector<int8_t>(kOut, 0)))
      .Node("Conv", {"x", "v"}, {"d"}, {{"group", int64_t{22}}, {"pads", Ints{1, 1, 1, 1}}})
      .Node("DequantizeLinear", {"q", "scale", "zero"}, {"w"}, {{"axis", int64_t{0}}})
      .Node("Conv", {"d", "w"}, {"p"});
  for (const char* name : {"gain", "shift", "mean", "variance"}) {
    builder.Initializer(name, RandomFloats({kOut}, 3, 0.5F, 1));
  }
  builder.Node("BatchNormalization", {"p", "gain", "shift", "mean", "variance"}, {"n"})
      .Node("Relu", {"n"}, {"y"})
      .Output("y", DType::kFloat, {kN, kOut, 16, 16});
  const std::string bytes = builder.Serialize();
  const PlanReport report = Plan(bytes);
  ASSERT_NE(PairOf(report), nullptr);
  EXPECT_THAT(PairOf(report)->epilogue, ElementsAre("Relu"));
  ExpectMeans(bytes, {.oracle = bytes,
                      .options = test::WithoutPasses(),
                      .tolerance = test::Reduction(22 + 3 * 3)});
}

TEST(DepthwiseStrips, TheResultBetweenTakesNoMemory) {
  const Block block{.channels = 32, .out = 8, .height = 64, .width = 64};
  const PlanReport together = Plan(Build(block));
  const PlanReport apart =
      Plan(Build(block), {.threads = 2, .disabled_passes = {"fuse_depthwise"}});
  const auto bytes_of = [](const PlanReport& report) {
    size_t bytes = 0;
    for (const ValueReport& value : report.values) {
      if (value.memory == "arena") bytes += value.bytes;
    }
    return bytes;
  };
  const auto between = std::ranges::find(apart.values, "a", &ValueReport::name);
  ASSERT_NE(between, apart.values.end());
  EXPECT_GE(between->bytes, size_t{32} * 64 * 64 * sizeof(float));
  EXPECT_EQ(bytes_of(apart) - bytes_of(together), between->bytes);
}

TEST_P(OfBlock, TheExportedModelIsThePlainOne) {
  const std::string bytes = Build(GetParam());
  const test::TempDirectory directory;
  const std::string path = directory.Write("block.onnx", bytes);
  const Engine engine(EngineOptions{.threads = 1});
  const auto exported = engine.Export(path);
  ASSERT_TRUE(exported.ok()) << exported.status();
  ExpectMeans(exported->bytes, {.oracle = bytes, .options = test::WithoutPasses()});
}

}  // namespace
}  // namespace tandem
