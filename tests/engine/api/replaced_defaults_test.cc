// Models loaded so that requests may replace the defaults of inputs: a request that names one gets
// what a model gives in which it is a plain input, any other what a constant gives, alone and
// beside others, and both plans share what they have in common.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/api/comparison.h"
#include "tests/engine/api/default_models.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::Answers;
using test::DefaultModel;
using test::DefaultModels;
using test::ExpectClose;
using test::ModelBuilder;
using test::RandomFloats;
using test::Weight;
using testing::HasSubstr;

const graph::Dim kN = graph::Dim::Symbol("N");

std::shared_ptr<const Model> LoadReplaceable(const Engine& engine, const ModelBuilder& builder) {
  LoadOptions options;
  options.input_defaults = InputDefaults::kReplaceable;
  auto model = engine.LoadBytes(builder.Serialize(), options);
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *model : nullptr;
}

std::vector<NamedTensor> With(std::vector<NamedTensor> inputs, const std::string& name,
                              const Tensor& tensor) {
  inputs.push_back({name, tensor});
  return inputs;
}

Tensor Other(const DefaultModel& c) { return RandomFloats(c.w, 7, -0.5F, 0.5F); }

TEST(ReplacedDefaults, RequestsGetWhatAPlainInputAndAConstantGive) {
  for (const DefaultModel& c : DefaultModels()) {
    for (const int threads : {1, 2}) {
      const Engine engine(EngineOptions{.threads = threads});
      const auto model = LoadReplaceable(engine, Build(c, Weight::kDefault));
      const auto constant = test::LoadModel(engine, Build(c, Weight::kConstant).Serialize());
      const auto plain = test::LoadModel(engine, Build(c, Weight::kInput).Serialize());
      ASSERT_TRUE(model != nullptr && constant != nullptr && plain != nullptr);
      for (const int64_t batch : {1, 2, 3}) {
        SCOPED_TRACE(fmt::format("{}, {} threads, batch {}", c.name, threads, batch));
        const std::vector<NamedTensor> inputs = test::InputsOf(*model, batch);
        ASSERT_EQ(inputs.size(), 1u);
        ExpectClose(Answers(*model, inputs), Answers(*constant, inputs), test::Exact());
        for (const Tensor& w : {Other(c), DefaultOf(c)}) {
          const std::vector<NamedTensor> named = With(inputs, "w", w);
          ExpectClose(Answers(*model, named), Answers(*plain, named), test::Exact());
        }
        ExpectClose(Answers(*model, inputs), Answers(*constant, inputs), test::Exact());
      }
    }
  }
}

TEST(ReplacedDefaults, ItemsOfABatchAreAnsweredAsAlone) {
  for (const DefaultModel& c : DefaultModels()) {
    for (const int threads : {1, 2}) {
      SCOPED_TRACE(fmt::format("{}, {} threads", c.name, threads));
      const Engine engine(EngineOptions{.threads = threads});
      const auto model = LoadReplaceable(engine, Build(c, Weight::kDefault));
      ASSERT_NE(model, nullptr);
      if (!model->info().joinable) continue;
      std::vector<BatchItem> items;
      for (const int64_t rows : {1, 2, 3, 1}) items.push_back({test::InputsOf(*model, rows), {}});
      items[0].inputs = With(items[0].inputs, "w", Other(c));
      items[2].inputs = With(items[2].inputs, "w", RandomFloats(c.w, 8, -0.5F, 0.5F));
      const auto together = model->RunBatch(items, {});
      ASSERT_TRUE(together.ok()) << together.status();
      ASSERT_EQ(together->size(), items.size());
      for (size_t i = 0; i < items.size(); ++i) {
        const auto alone = Answers(*model, items[i].inputs);
        ASSERT_EQ((*together)[i].outputs.size(), 1u);
        EXPECT_TRUE(test::Close((*together)[i].outputs[0].tensor, alone.at("y"), test::Exact()))
            << "item " << i;
      }
      items = {items[2]};
      const auto single = model->RunBatch(items, {});
      ASSERT_TRUE(single.ok()) << single.status();
      ExpectClose({{"y", (*single)[0].outputs[0].tensor}}, Answers(*model, items[0].inputs),
                  test::Exact());
    }
  }
}

// y = x w + b, large enough for a batch to be worth two parts; w stands before x.
ModelBuilder LargeProduct(const graph::Dim& batch) {
  ModelBuilder builder(17);
  builder.Input("w", DType::kFloat, {1000, 800})
      .Input("x", DType::kFloat, {batch, 1000})
      .Input("b", DType::kFloat, {800})
      .Initializer("w", RandomFloats({1000, 800}, 1))
      .Initializer("b", RandomFloats({800}, 2))
      .Node("MatMul", {"x", "w"}, {"p"})
      .Node("Add", {"p", "b"}, {"y"})
      .Output("y", DType::kFloat, {batch, 800});
  return builder;
}

void ExpectRowsAlone(const Model& model, const std::vector<NamedTensor>& shared, int64_t rows) {
  const Tensor x = RandomFloats({rows, 1000}, 3);
  const auto together = Answers(model, With(shared, "x", x));
  ASSERT_EQ(together.count("y"), 1u);
  for (int64_t row = 0; row < rows; ++row) {
    const auto alone = Answers(model, With(shared, "x", x.Rows(row, row + 1)));
    ExpectClose(alone, {{"y", together.at("y").Rows(row, row + 1)}}, test::Exact());
  }
}

TEST(ReplacedDefaults, AreSharedByAllPartsOfABatch) {
  for (const graph::Dim& batch : {kN, graph::Dim(1)}) {
    const Engine engine(EngineOptions{.threads = 2});
    const auto model = LoadReplaceable(engine, LargeProduct(batch));
    ASSERT_NE(model, nullptr);
    const std::vector<NamedTensor> shared = {{"w", RandomFloats({1000, 800}, 5)}};
    std::vector<NamedShape> shapes = {{"w", {1000, 800}}, {"x", {3, 1000}}};
    const auto report = model->Report(shapes);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_GT(report->parts, 1) << ToString(batch);
    ExpectRowsAlone(*model, shared, 3);
    ExpectRowsAlone(*model, {}, 3);
  }
}

TEST(ReplacedDefaults, ThoseThatARequestDoesNotNameKeepTheirValue) {
  const Engine engine(EngineOptions{.threads = 2});
  const auto model = LoadReplaceable(engine, LargeProduct(kN));
  ASSERT_NE(model, nullptr);
  const Tensor x = RandomFloats({2, 1000}, 3);
  const Tensor w = RandomFloats({1000, 800}, 1);
  const Tensor b = RandomFloats({800}, 2);
  const Tensor other_w = RandomFloats({1000, 800}, 5);
  const Tensor other_b = RandomFloats({800}, 6);
  const std::vector<NamedTensor> inputs = {{"x", x}};
  ExpectClose(Answers(*model, With(inputs, "w", other_w)),
              Answers(*model, With(With(inputs, "b", b), "w", other_w)), test::Exact());
  ExpectClose(Answers(*model, With(inputs, "b", other_b)),
              Answers(*model, With(With(inputs, "w", w), "b", other_b)), test::Exact());
}

// What the file calls by the name of the batch has as many rows as x, and may not be cut apart from
// it.
TEST(ReplacedDefaults, WithTheExtentOfTheBatchAreNotCutIntoParts) {
  constexpr int64_t kColumns = 50000;
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {kN, kColumns})
      .Input("w", DType::kFloat, {kN, kColumns})
      .Initializer("w", RandomFloats({2, kColumns}, 1))
      .Node("Add", {"x", "w"}, {"y"})
      .Output("y", DType::kFloat, {kN, kColumns});
  const Engine engine(EngineOptions{.threads = 2});
  const auto model = LoadReplaceable(engine, builder);
  ASSERT_NE(model, nullptr);
  const Tensor x = RandomFloats({4, kColumns}, 2);
  const Tensor w = RandomFloats({4, kColumns}, 3);
  const auto y = Answers(*model, {{"x", x}, {"w", w}});
  ASSERT_EQ(y.count("y"), 1u);
  for (int64_t i = 0; i < x.elements(); ++i) {
    const auto at = [i](const Tensor& tensor) {
      return tensor.span<float>()[static_cast<size_t>(i)];
    };
    ASSERT_EQ(at(y.at("y")), at(x) + at(w)) << i;
  }
  const Status refused = model->Validate(std::vector<NamedTensor>{{"x", x}, {"w", w.Rows(0, 2)}});
  EXPECT_EQ(std::string(Message(refused)),
            "input 'w' has extent 2 on axis 0 where input 'x' has 4 for 'N'");
}

TEST(ReplacedDefaults, AreCheckedAsAnyInput) {
  const Engine engine(EngineOptions{.threads = 1});
  const auto model = LoadReplaceable(engine, LargeProduct(kN));
  ASSERT_NE(model, nullptr);
  const std::vector<NamedTensor> inputs = {{"x", RandomFloats({2, 1000}, 3)}};
  const auto error = [&](const std::vector<NamedTensor>& more) {
    const Status status = model->Validate(more);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(model->Run(more).status(), status);
    return std::string(Message(status));
  };
  const Tensor b = RandomFloats({800}, 1);
  EXPECT_THAT(error(With(inputs, "b", RandomFloats({1}, 1))),
              HasSubstr("input 'b' has shape [1] where [800] is expected"));
  EXPECT_THAT(error(With(inputs, "b", Tensor::Of<int64_t>({1}, {1}))),
              HasSubstr("input 'b' has dtype int64 where float is expected"));
  EXPECT_THAT(error(With(With(inputs, "b", b), "b", b)), HasSubstr("'b' is given twice"));
  EXPECT_THAT(error({{"b", b}}), HasSubstr("input 'x' (float[N,1000]) is missing"));
  EXPECT_THAT(error(With(inputs, "c", b)), HasSubstr("no input 'c'"));
  EXPECT_TRUE(model->info().inputs[0].optional);
}

// One model alone in an engine: what it says of its memory is what the stores hold.
TEST(ReplacedDefaults, PlansShareTheirWeightsAndAllBytesAreCounted) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {kN, 64})
      .Input("w", DType::kFloat, {48, 32})
      .Initializer("m", RandomFloats({64, 48}, 1))
      .Initializer("w", RandomFloats({48, 32}, 2))
      .Initializer("row", RandomFloats({64}, 3))
      .Node("Mul", {"x", "row"}, {"s"})
      .Node("MatMul", {"s", "m"}, {"p"})
      .Node("MatMul", {"p", "w"}, {"y"})
      .Output("y", DType::kFloat, {kN, 32});
  const Engine engine(EngineOptions{.threads = 1});
  const auto model = LoadReplaceable(engine, builder);
  ASSERT_NE(model, nullptr);
  const EngineStats stats = engine.stats();
  EXPECT_EQ(stats.packs_built, 2u) << "m is packed once, w once, for the plan of constants";
  EXPECT_EQ(stats.packs_shared, 1u);
  EXPECT_EQ(model->info().pack_bytes, stats.pack_bytes);
  EXPECT_EQ(model->info().constant_bytes, stats.constant_bytes);
  EXPECT_GE(model->info().constant_bytes, size_t{48 * 32 * 4}) << "the default is kept";
  const Engine other(EngineOptions{.threads = 1});
  const auto fixed = test::LoadModel(other, builder.Serialize());
  ASSERT_NE(fixed, nullptr);
  EXPECT_EQ(model->info().pack_bytes, fixed->info().pack_bytes);
  EXPECT_EQ(model->info().constant_bytes, fixed->info().constant_bytes + 48 * 32 * 4);
  const auto none =
      test::LoadModel(engine, Build(DefaultModels()[0], Weight::kConstant).Serialize());
  EXPECT_THAT(none->Explain(), testing::Not(HasSubstr("replace")));
}

TEST(ReplacedDefaults, BothPlansAreExplained) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {kN, 40})
      .Input("w", DType::kFloat, {40, 30})
      .Initializer("w", RandomFloats({40, 30}, 2))
      .Node("Tanh", {"w"}, {"t"}, {}, "bend")
      .Node("MatMul", {"x", "t"}, {"y"})
      .Output("y", DType::kFloat, {kN, 30});
  const Engine engine(EngineOptions{.threads = 1});
  const auto model = LoadReplaceable(engine, builder);
  ASSERT_NE(model, nullptr);
  const std::string text = model->Explain();
  EXPECT_THAT(text, HasSubstr("\nfor requests that replace defaults\n"));
  EXPECT_THAT(text, HasSubstr("node 'bend' (Tanh)"));
  const std::vector<NamedTensor> inputs = test::InputsOf(*model, 2);
  EXPECT_EQ(test::ReportOf(*model, inputs).tasks.size(), 1u);
  const PlanReport report = test::ReportOf(*model, With(inputs, "w", RandomFloats({40, 30}, 3)));
  EXPECT_EQ(report.tasks.size(), 2u);
  EXPECT_EQ(report.pack_bytes, 0u);
  const auto declined =
      std::ranges::find(report.declines, "a request may replace this default", &Decline::rule);
  ASSERT_NE(declined, report.declines.end());
  EXPECT_EQ(declined->node, "node 'bend' (Tanh)");
}

// A shape that a request may replace leaves the extents of the output open.
TEST(ReplacedDefaults, OutputsAreDescribedAsRequestsMayLeaveThem) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {4, 6})
      .Input("shape", DType::kInt64, {2})
      .Initializer("shape", Tensor::Of<int64_t>({2}, {3, 8}))
      .Node("Reshape", {"x", "shape"}, {"y"})
      .Output("y");
  const Engine engine(EngineOptions{.threads = 1});
  const auto model = LoadReplaceable(engine, builder);
  ASSERT_NE(model, nullptr);
  ASSERT_EQ(model->info().outputs[0].dims.size(), 2u);
  EXPECT_FALSE(model->info().outputs[0].dims[0].is_number());
  const Tensor x = RandomFloats({4, 6}, 1);
  EXPECT_EQ(Answers(*model, {{"x", x}}).at("y").shape(), Shape({3, 8}));
  const Tensor shape = Tensor::Of<int64_t>({2}, {2, 12});
  EXPECT_EQ(Answers(*model, {{"x", x}, {"shape", shape}}).at("y").shape(), Shape({2, 12}));
}

}  // namespace
}  // namespace tandem
