// Element-wise operators in front of a product: applied to A as it is read, where it pays, with the
// bits of one step after the other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/api/comparison.h"
#include "tests/support/random_tensor.h"
#include "tests/support/temp_directory.h"

namespace tandem {
namespace {

using test::LoadModel;
using test::ModelBuilder;
using test::RandomFloats;

const graph::Dim kN = graph::Dim::Symbol("N");

struct Line {
  std::string op;
  std::vector<std::string> inputs;
  std::string output;
};

struct Case {
  std::vector<Line> lines;  // from x to e
  int64_t columns = 37;
  bool gemm = false;
  graph::DimVector x = {kN, 13};
  bool batched = false;  // w is an input, with the leading extents of x
};

// y = e w behind the lines; constants s (a scalar), k (one a column of A) and f (one a row of it).
ModelBuilder Building(const Case& c) {
  ModelBuilder builder(20);
  builder.Input("x", DType::kFloat, c.x)
      .Initializer("s", Tensor::Scalar(1.5F))
      .Initializer("k", RandomFloats({13}, 2))
      .Initializer("f", RandomFloats({5, 1}, 3))
      .Initializer("b", RandomFloats({c.columns}, 4));
  if (c.batched) {
    graph::DimVector dims(c.x.begin(), c.x.end() - 2);
    dims.insert(dims.end(), {13, c.columns});
    builder.Input("w", DType::kFloat, dims);
  } else {
    builder.Initializer("w", RandomFloats({13, c.columns}, 1));
  }
  for (const Line& line : c.lines) builder.Node(line.op, line.inputs, {line.output});
  if (c.gemm) {
    builder.Node("Gemm", {"e", "w"}, {"p"});
  } else {
    builder.Node("MatMul", {"e", "w"}, {"p"});
  }
  builder.Node("Add", {"p", "b"}, {"y"});
  graph::DimVector result = c.x;
  result.back() = c.columns;
  builder.Output("y", DType::kFloat, result);
  return builder;
}

std::vector<Case> Fusing() {
  return {
      {{{"Relu", {"x"}, "e"}}},
      {{{"Gelu", {"x"}, "e"}}},
      {{{"Mul", {"x", "s"}, "e"}}, 255},
      {{{"Sub", {"s", "x"}, "e"}}, 37, true},
      {{{"Sub", {"k", "x"}, "a"}, {"Tanh", {"a"}, "d"}, {"Mul", {"d", "k"}, "e"}}, 256},
      {{{"PRelu", {"x", "k"}, "e"}}, 37, false, {kN, 5, 13}},
      {{{"Exp", {"x"}, "e"}}, 37, false, {kN, 2, 3, 13}},
      {{{"Relu", {"x"}, "e"}}, 37, false, {kN, 5, 13}, true},
      {{{"Mul", {"x", "k"}, "a"}, {"Sub", {"s", "a"}, "e"}}, 37, false, {kN, 2, 5, 13}, true},
  };
}

TEST(Prologue, IsAppliedAsTheProductReadsItsLeftSide) {
  for (const Case& c : Fusing()) {
    SCOPED_TRACE(c.lines[0].op);
    const std::string bytes = Building(c).Serialize();
    const Engine engine(EngineOptions{.threads = 1});
    const auto model = LoadModel(engine, bytes);
    ASSERT_NE(model, nullptr);
    const PlanReport report = test::ReportOf(*model, test::InputsOf(*model, 3));
    ASSERT_EQ(report.tasks.size(), 1U) << model->Explain();
    EXPECT_EQ(report.tasks[0].prologue.size(), c.lines.size());
    EXPECT_EQ(report.tasks[0].prologue[0], c.lines[0].op);
    for (const ValueReport& value : report.values) EXPECT_NE(value.memory, "arena") << value.name;
    // A right side that a request brings is packed into scratch.
    EXPECT_EQ(report.arena_bytes == 0, !c.batched);
  }
}

TEST(Prologue, KeepsTheBitsOfTheUnfusedNodes) {
  for (const Case& c : Fusing()) {
    SCOPED_TRACE(c.lines[0].op);
    const std::string bytes = Building(c).Serialize();
    test::ExpectMeans(bytes, {.oracle = bytes,
                              .options = {.threads = 1, .disabled_passes = {"fuse_prologue"}},
                              .batches = {1, 2, 3, 40}});
    test::ExpectItemsAlone(bytes, 3);
  }
}

TEST(Prologue, IsAppliedByTheReferenceKernelToo) {
  for (const Case& c : Fusing()) {
    SCOPED_TRACE(c.lines[0].op);
    const std::string bytes = Building(c).Serialize();
    const Engine plain(EngineOptions{.threads = 1, .prepack = false});
    const auto model = LoadModel(plain, bytes);
    ASSERT_NE(model, nullptr);
    EXPECT_THAT(model->Explain(), testing::HasSubstr("1 tasks"));
    const Engine oracle(test::WithoutPacks());
    const auto inputs = test::InputsOf(*model, 3);
    test::ExpectClose(test::Answers(*model, inputs),
                      test::Answers(*LoadModel(oracle, bytes), inputs), test::Exact());
  }
}

TEST(Prologue, AndARowReductionMeetInOneTask) {
  const std::string bytes =
      ModelBuilder(13)
          .Input("x", DType::kFloat, {kN, 150, 13})
          .Initializer("w", RandomFloats({13, 37}, 1))
          .Node("Sigmoid", {"x"}, {"e"})
          .Node("MatMul", {"e", "w"}, {"p"})
          .Node("ReduceMax", {"p"}, {"y"}, {{"axes", std::vector<int64_t>{-2}}})
          .Output("y", DType::kFloat, {kN, 1, 37})
          .Serialize();
  const Engine engine(EngineOptions{.threads = 1});
  EXPECT_THAT(LoadModel(engine, bytes)->Explain(), testing::HasSubstr("Sigmoid+ +ReduceMax"));
  test::ExpectMeans(bytes, {.oracle = bytes, .options = test::WithoutPasses()});
}

TEST(Prologue, AndRowReductionsAreExportedAsNodes) {
  for (const int opset : {13, 18}) {
    ModelBuilder builder(opset);
    builder.Input("x", DType::kFloat, {kN, 5, 13})
        .Initializer("w", RandomFloats({13, 37}, 1))
        .Initializer("s", Tensor::Scalar(1.5F))
        .Initializer("axes", Tensor::Of<int64_t>({1}, {-2}))
        .Node("Sub", {"s", "x"}, {"a"})
        .Node("Exp", {"a"}, {"e"})
        .Node("MatMul", {"e", "w"}, {"p"})
        .Node("Relu", {"p"}, {"r"})
        .Node("ReduceSum", {"r", "axes"}, {"y"}, {{"keepdims", int64_t{0}}})
        .Output("y", DType::kFloat, {kN, 37});
    const std::string bytes = builder.Serialize();
    const test::TempDirectory directory;
    const Engine engine(EngineOptions{.threads = 1});
    EXPECT_THAT(LoadModel(engine, bytes)->Explain(),
                testing::HasSubstr("Sub+ Exp+ +Relu +ReduceSum"));
    const auto exported = engine.Export(directory.Write("model.onnx", bytes));
    ASSERT_TRUE(exported.ok()) << exported.status();
    test::ExpectMeans(exported->bytes, {.oracle = bytes, .options = test::WithoutPasses()});
  }
}

// The lines stay a task of their own for this reason.
void ExpectDeclined(const std::string& bytes, const std::string& rule, const std::string& numbers) {
  const Engine engine(EngineOptions{.threads = 1});
  const auto model = LoadModel(engine, bytes);
  ASSERT_NE(model, nullptr);
  EXPECT_THAT(
      model->Explain(),
      testing::HasSubstr(numbers.empty() ? rule + "\n" : fmt::format("{} ({})", rule, numbers)));
  EXPECT_THAT(model->Explain(), testing::HasSubstr("pass fuse_prologue: 0 changes"));
  test::ExpectMeans(bytes,
                    {.oracle = bytes, .options = test::WithoutPasses(), .tolerance = test::Ulp(2)});
}

TEST(Prologue, OfManyColumnsDeclines) {
  ExpectDeclined(Building({{{"Gelu", {"x"}, "e"}}, 257}).Serialize(),
                 "gemm: A would be computed again for every group of columns",
                 "columns=257 limit=256");
  ExpectDeclined(Building({{{"Relu", {"x"}, "e"}}, 1025}).Serialize(),
                 "gemm: A would be computed again for every group of columns",
                 "columns=1025 limit=256");
}

TEST(Prologue, WithAnOperandOfRowsDeclines) {
  ExpectDeclined(Building({{{"Add", {"x", "f"}, "e"}}, 37, false, {kN, 5, 13}}).Serialize(),
                 "gemm: an operand is neither a scalar nor one element a column of A", "");
}

TEST(Prologue, OfATransposedLeftSideDeclines) {
  const std::string bytes = ModelBuilder(13)
                                .Input("x", DType::kFloat, {13, 6})
                                .Initializer("w", RandomFloats({13, 37}, 1))
                                .Node("Exp", {"x"}, {"e"})
                                .Node("Gemm", {"e", "w"}, {"y"}, {{"transA", int64_t{1}}})
                                .Output("y", DType::kFloat, {6, 37})
                                .Serialize();
  ExpectDeclined(bytes, "gemm: A is transposed before it is read", "");
}

TEST(Prologue, ThatOthersReadDeclines) {
  for (const bool output : {false, true}) {
    const Case c = {{{"Exp", {"x"}, "e"}}};
    ModelBuilder builder = Building(c);
    if (output) {
      builder.Output("e", DType::kFloat, c.x);
    } else {
      builder.Node("Softmax", {"e"}, {"z"}, {}, "z").Output("z", DType::kFloat, c.x);
    }
    ExpectDeclined(builder.Serialize(), "the element-wise result is read elsewhere, too",
                   output ? "'e' is a graph output" : "node 'z' (Softmax) reads 'e'");
  }
}

// Nothing is recorded where the question does not arise: the operand is no constant, or the left
// side grows by broadcasting.
TEST(Prologue, ThatReadsWhatARunBringsIsNone) {
  const std::string bytes = ModelBuilder(13)
                                .Input("x", DType::kFloat, {kN, 13})
                                .Input("z", DType::kFloat, {kN, 13})
                                .Initializer("w", RandomFloats({13, 37}, 1))
                                .Node("Add", {"x", "z"}, {"e"})
                                .Node("MatMul", {"e", "w"}, {"y"})
                                .Output("y", DType::kFloat, {kN, 37})
                                .Serialize();
  const Engine engine(EngineOptions{.threads = 1});
  EXPECT_THAT(LoadModel(engine, bytes)->Explain(), testing::HasSubstr("2 tasks"));
  test::ExpectMeans(bytes, {.oracle = bytes, .options = test::WithoutPasses()});
}

}  // namespace
}  // namespace tandem
