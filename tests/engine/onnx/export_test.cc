// Graphs written back as ONNX: what an import of the file finds again.
#include "engine/onnx/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/engine/onnx/import_testing.h"

namespace tandem::onnx_import {
namespace {

using graph::Dim;
using test::ModelBuilder;
using testing::ElementsAre;
using testing::HasSubstr;

ImportedModel Imported(const ModelBuilder& model) {
  StatusOr<ImportedModel> imported = Import(model);
  EXPECT_TRUE(imported.ok()) << imported.status();
  return *std::move(imported);
}

ImportedModel Again(const ImportedModel& model) {
  const StatusOr<std::string> bytes = SerializeModel(model);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  graph::ConstantStore constants;
  StatusOr<ImportedModel> again = ImportBytes(*bytes, {}, constants);
  EXPECT_TRUE(again.ok()) << again.status();
  return *std::move(again);
}

std::string ErrorOf(const ImportedModel& model) {
  const StatusOr<std::string> bytes = SerializeModel(model);
  EXPECT_EQ(bytes.status().code(), absl::StatusCode::kUnimplemented);
  return std::string(Message(bytes.status()));
}

graph::Node& NodeNamed(graph::Graph& graph, std::string_view name) {
  const auto& order = graph.order();
  const auto named =
      std::ranges::find_if(order, [&](graph::NodeId id) { return graph.node(id).name == name; });
  CHECK(named != order.end(), "no node is named '{}'", name);
  return graph.mutable_node(*named);
}

TEST(Export, NodesTypesAttributesAndConstantsComeBack) {
  const ImportedModel model =
      Imported(ModelBuilder(17)
                   .Input("x", DType::kFloat, {Dim::Symbol("N"), Dim(), 4})
                   .Initializer("w", Tensor::Of<float>({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}))
                   .Node("MatMul", {"x", "w"}, {"m"}, {}, "product")
                   .Node("LeakyRelu", {"m"}, {"y"}, {{"alpha", 0.25f}})
                   .Output("y", DType::kFloat, {Dim::Symbol("N"), Dim(), 2}));
  const ImportedModel again = Again(model);
  EXPECT_EQ(Nodes(again.graph), Nodes(model.graph));
  EXPECT_EQ(again.opsets, model.opsets);
  EXPECT_EQ(graph::ToString(again.graph.value(again.graph.inputs()[0]).type), "float[N,?,4]");
  const graph::ConstantRef w = again.graph.value(again.graph.FindValue("w")).constant;
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(w->hash(), model.graph.value(model.graph.FindValue("w")).constant->hash());
}

TEST(Export, AnEpilogueBecomesNodes) {
  ImportedModel model = Imported(ModelBuilder(17)
                                     .Input("x", DType::kFloat, {2, 2})
                                     .Input("w", DType::kFloat, {2, 2})
                                     .Input("r", DType::kFloat, {2, 2})
                                     .Node("Gemm", {"x", "w"}, {"y"}, {}, "product")
                                     .Output("y", DType::kFloat, {2, 2}));
  graph::Node& node = NodeNamed(model.graph, "product");
  model.graph.AppendInput(model.graph.order()[0], graph::kNoValue);
  model.graph.AppendInput(model.graph.order()[0], model.graph.FindValue("r"));
  node.epilogue = {{"Sub", {}, 3, true}, {"Clip", {{"min", 0.0f}, {"max", 6.0f}}}};
  const ImportedModel again = Again(model);
  EXPECT_THAT(Nodes(again.graph), ElementsAre("y/Gemm = Gemm-17(x, w)", "y/Sub = Sub-17(r, y/Gemm)",
                                              "y = Clip-17(y/Sub, y/min, y/max)"));
  model.opsets[""] = 10;
  node.opset = 10;
  EXPECT_EQ(Nodes(Again(model).graph).back(), "y = Clip-10(y/Sub) {max=6, min=0}");
}

TEST(Export, BoundsOfBytesAreBytes) {
  ImportedModel model = Imported(ModelBuilder(17)
                                     .Input("x", DType::kInt8, {4})
                                     .Node("Neg", {"x"}, {"y"}, {}, "node")
                                     .Output("y", DType::kInt8, {4}));
  NodeNamed(model.graph, "node").epilogue = {{"Clip", {{"min", -5.0f}, {"max", 6.0f}}}};
  const ImportedModel again = Again(model);
  const graph::Graph& graph = again.graph;
  EXPECT_EQ(Nodes(graph).back(), "y = Clip-17(y/Neg, y/min, y/max)");
  const graph::ConstantRef low = graph.value(graph.FindValue("y/min")).constant;
  ASSERT_EQ(low->dtype(), DType::kInt8);
  EXPECT_EQ(low->view().data<int8_t>()[0], -5);
}

TEST(Export, OutputsKeepTheirNames) {
  ImportedModel model = Imported(ModelBuilder(17)
                                     .Input("x", DType::kFloat, {2})
                                     .Initializer("c", Tensor::Of<float>({2}, {1, 2}))
                                     .Node("Relu", {"x"}, {"a"})
                                     .Node("Neg", {"x"}, {"b"})
                                     .Output("a", DType::kFloat, {2})
                                     .Output("b", DType::kFloat, {2})
                                     .Output("c", DType::kFloat, {2})
                                     .Output("x", DType::kFloat, {2}));
  // What a pass does that finds a to be b.
  model.graph.ReplaceUses(model.graph.FindValue("a"), model.graph.FindValue("b"));
  model.graph.RemoveDeadNodes();
  ASSERT_TRUE(model.graph.Sort().ok());
  const ImportedModel again = Again(model);
  EXPECT_THAT(Nodes(again.graph),
              ElementsAre("a = Neg-17(x)", "b = Identity-17(a)", "c = Identity-17(c_1)"));
  EXPECT_THAT(again.graph.output_names(), ElementsAre("a", "b", "c", "x"));
}

TEST(Export, ABodyReadsTheValuesAroundIt) {
  ModelBuilder body(17);
  body.Node("Add", {"x", "s"}, {"t"}).Node("Relu", {"t"}, {"u"}).Output("u");
  ModelBuilder other(17);
  other.Node("Identity", {"x"}, {"t"}).Output("t");
  const ImportedModel model = Imported(ModelBuilder(17)
                                           .Input("x", DType::kFloat, {2})
                                           .Input("on", DType::kBool, {})
                                           .Node("Neg", {"x"}, {"s"})
                                           .Node("If", {"on"}, {"y"})
                                           .Body("then_branch", body)
                                           .Body("else_branch", other)
                                           .Output("y", DType::kFloat, {2}));
  const ImportedModel again = Again(model);
  EXPECT_EQ(Nodes(again.graph), Nodes(model.graph));
  const graph::Graph& then_branch = BodyOf(again.graph, "y", "then_branch");
  EXPECT_THAT(CapturesOf(then_branch), ElementsAre("x", "s"));
  // else_branch is written first and has taken the name t: names are unique in the whole file.
  EXPECT_THAT(Nodes(then_branch), ElementsAre("t_1 = Add-17(x, s)", "u = Relu-17(t_1)"));
}

TEST(Export, WhatHasNoFormIsNamed) {
  ImportedModel model = Imported(ModelBuilder(17)
                                     .Input("x", DType::kFloat, {2, 2})
                                     .Node("Softmax", {"x"}, {"a"}, {}, "first")
                                     .Node("Softmax", {"a"}, {"b"}, {}, "second")
                                     .Node("Relu", {"b"}, {"y"}, {}, "third")
                                     .Output("y", DType::kFloat, {2, 2}));
  NodeNamed(model.graph, "first").domain = "tandem";
  NodeNamed(model.graph, "second").opset = 11;
  NodeNamed(model.graph, "third").opset = 14;  // means what 17 means
  NodeNamed(model.graph, "third").epilogue = {{"Swish", {}}};
  const std::string error = ErrorOf(model);
  EXPECT_THAT(error,
              HasSubstr("node 'first' (tandem.Softmax): operator tandem.Softmax has no form"));
  EXPECT_THAT(error, HasSubstr("node 'second' (Softmax): Softmax is meant as in opset 11 and the "
                               "model imports opset 17"));
  EXPECT_THAT(error,
              HasSubstr("node 'third' (Relu): Swish, which was fused into it, is not in opset 17"));
}

}  // namespace
}  // namespace tandem::onnx_import
