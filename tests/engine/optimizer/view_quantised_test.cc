#include <gtest/gtest.h>

#include "tests/engine/optimizer/pass_testing.h"
#include "tests/support/interpreter.h"
#include "tests/support/random_bytes.h"

namespace tandem::optimizer::test {
namespace {

using tandem::test::Exact;
using tandem::test::GraphBuilder;
using tandem::test::RandomBytes;
using tandem::test::RandomFloats;

// 'w' dequantised from [40, 60] bytes with scales along axis 1.
struct Builder : GraphBuilder {
  explicit Builder(const graph::Attributes& attributes = {}, int opset = 21) : GraphBuilder(opset) {
    Input("x", DType::kFloat, {2, 40});
    Constant("w8", RandomBytes<int8_t>({40, 60}, 1));
    Constant("zeros", RandomBytes<int8_t>({60}, 2));
    Constant("scales", RandomFloats({60}, 3, 0.001F, 0.1F));
    attributes_ = attributes;
  }
  Builder& Dequantise(const std::vector<std::string>& inputs = {"w8", "scales", "zeros"}) {
    Node("DequantizeLinear", inputs, {"w"}, attributes_);
    return *this;
  }

 private:
  graph::Attributes attributes_;
};

PassOutcome View(GraphBuilder& builder, const OptimizeOptions& options = {}) {
  return RunPass("view_quantised", builder, Exact(), options);
}

void ExpectView(const PassOutcome& outcome) {
  const graph::ConstantRef weight = outcome.graph.value(outcome.graph.FindValue("w")).constant;
  ASSERT_NE(weight, nullptr);
  EXPECT_TRUE(weight->is_view());
  EXPECT_EQ(weight->held().view().byte_size(), size_t{40 * 60});
}

TEST(ViewQuantised, AWeightOfAProductIsAViewOfItsBytes) {
  Builder builder;
  builder.Dequantise().Node("MatMul", {"x", "w"}, {"y"}).Output("y");
  ExpectView(View(builder));
}

TEST(ViewQuantised, AndBehindATranspose) {
  Builder builder;
  builder.Dequantise()
      .Node("Transpose", {"w"}, {"t"})
      .Input("z", DType::kFloat, {2, 60})
      .Node("MatMul", {"z", "t"}, {"y"})
      .Output("y");
  ExpectView(View(builder));
}

// The node stays for those that do not pack.
TEST(ViewQuantised, AmongOtherReadersThoseThatPackReadTheView) {
  Builder builder;
  builder.Dequantise()
      .Node("MatMul", {"x", "w"}, {"y"}, {}, "product")
      .Node("Transpose", {"w"}, {"t"})
      .Node("MatMul", {"w", "t"}, {"square"}, {}, "square")
      .Node("Relu", {"w"}, {"r"});
  builder.Output("y").Output("square").Output("r").Output("w");
  const PassOutcome outcome = View(builder);
  int viewing = 0;
  for (const graph::NodeId id : outcome.graph.order()) {
    const graph::Node& node = outcome.graph.node(id);
    if (node.op_type != "MatMul") continue;
    EXPECT_EQ(outcome.graph.constant_input(node, 0), nullptr) << node.name;
    const graph::ConstantRef weight = outcome.graph.constant_input(node, 1);
    if (weight != nullptr) viewing += weight->is_view() ? 1 : 0;
  }
  EXPECT_EQ(viewing, 1) << "the other one's is a Transpose of the view";
  EXPECT_EQ(outcome.report.declines.size(), 1u) << "the node that stays is no weight";
}

TEST(ViewQuantised, WithoutAReaderThatPacksItStays) {
  Builder builder;
  builder.Dequantise().Node("Relu", {"w"}, {"r"}).Output("r");
  ExpectDeclined(View(builder), "what reads it wants floats");
}

TEST(ViewQuantised, ScalesInBlocksStopIt) {
  Builder builder({{"block_size", int64_t{20}}, {"axis", int64_t{0}}});
  builder.Constant("blocks", RandomFloats({2, 60}, 4, 0.001F, 0.1F));
  builder.Dequantise({"w8", "blocks"}).Node("MatMul", {"x", "w"}, {"y"}).Output("y");
  ExpectDeclined(View(builder), "not in blocks");
}

TEST(ViewQuantised, OtherWidthsStopIt) {
  Builder builder;
  builder.Constant("w16", tandem::Tensor::Of<int32_t>({40, 60}, std::vector<int32_t>(2400, 7)));
  builder.Dequantise({"w16", "scales"}).Node("MatMul", {"x", "w"}, {"y"}).Output("y");
  ExpectDeclined(View(builder), "only 8 bits");
}

TEST(ViewQuantised, AScaleThatIsNoConstantStopsIt) {
  Builder builder;
  builder.Input("given", DType::kFloat, {60});
  builder.Dequantise({"w8", "given"}).Node("MatMul", {"x", "w"}, {"y"}).Output("y");
  EXPECT_TRUE(View(builder).unchanged);
}

TEST(ViewQuantised, AModelThatIsWrittenOutKeepsTheNode) {
  Builder builder;
  builder.Dequantise().Node("MatMul", {"x", "w"}, {"y"}).Output("y");
  OptimizeOptions options;
  options.written_opset = 21;
  EXPECT_TRUE(View(builder, options).unchanged);
}

TEST(ViewQuantised, ASmallWeightIsWrittenOutForAnyReader) {
  GraphBuilder builder(21);
  builder.Input("x", DType::kFloat, {2, 3})
      .Constant("w8", tandem::Tensor::Of<uint8_t>({3}, {1, 128, 255}))
      .Constant("scale", tandem::Tensor::Scalar(0.5F))
      .Node("DequantizeLinear", {"w8", "scale"}, {"w"})
      .Node("Add", {"x", "w"}, {"y"})
      .Output("y");
  EXPECT_FALSE(View(builder).unchanged);
}

// Products of integers come first, whatever has to happen before they are found.
TEST(ViewQuantised, LeavesTheNodeToProductsOfIntegers) {
  GraphBuilder builder(21);
  builder.Input("x", DType::kUint8, {2, 40})
      .Constant("w8", RandomBytes<int8_t>({40, 60}, 1))
      .Constant("scale", tandem::Tensor::Scalar(0.01F))
      .Constant("zero", tandem::Tensor::Scalar(uint8_t{3}))
      .Node("DequantizeLinear", {"x", "scale", "zero"}, {"a"})
      .Node("DequantizeLinear", {"w8", "scale"}, {"w"})
      .Node("MatMul", {"a", "w"}, {"product"})
      .Node("Identity", {"product"}, {"same"})
      .Node("QuantizeLinear", {"same", "scale", "zero"}, {"y"})
      .Output("y");
  graph::Graph graph = builder.Build();
  ASSERT_TRUE(Optimize(graph, builder.constants(), {}).ok());
  ASSERT_EQ(graph.order().size(), 1u);
  EXPECT_EQ(graph.node(graph.order()[0]).op_type, "QLinearMatMul");
}

}  // namespace
}  // namespace tandem::optimizer::test
