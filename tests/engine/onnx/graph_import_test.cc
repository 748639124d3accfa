#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include "engine/graph/opset.h"
#include "tests/engine/onnx/import_testing.h"

namespace tandem::onnx_import {
namespace {

using graph::Dim;
using test::ModelBuilder;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Tensor Pair() { return Tensor::Of<float>({2}, {1, 2}); }

// An input x and an output y, both float[2]; nodes are added by the test.
ModelBuilder XToY() {
  ModelBuilder model;
  model.Input("x", DType::kFloat, {2}).Output("y", DType::kFloat, {2});
  return model;
}

// As XToY, with the node y = Relu(x).
ModelBuilder Relu() {
  ModelBuilder model = XToY();
  model.Node("Relu", {"x"}, {"y"});
  return model;
}

TEST(GraphImport, TheModelSaysWhoMadeItAndWhatItImports) {
  ModelBuilder model = Relu();
  model.ImportOpset("custom", 3);
  model.proto().set_producer_version("1.2");
  auto& entry = *model.proto().add_metadata_props();
  entry.set_key("author");
  entry.set_value("nobody");
  const StatusOr<ImportedModel> imported = Import(model);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->producer, "tandem tests 1.2");
  EXPECT_EQ(imported->ir_version, 8);
  EXPECT_EQ(imported->opsets, (std::map<std::string, int>{{"", 17}, {"custom", 3}}));
  EXPECT_EQ(imported->metadata, (std::map<std::string, std::string>{{"author", "nobody"}}));
  *model.proto().add_metadata_props() = entry;
  EXPECT_THAT(ErrorOf(model), HasSubstr("metadata key 'author' is given twice"));
}

TEST(GraphImport, TypesComeFromInputsOutputsAndValueInfo) {
  ModelBuilder model;
  model.Input("x", DType::kFloat, {Dim::Symbol("N"), 3, Dim()})
      .Node("Shape", {"x"}, {"s"})
      .Node("Cast", {"s"}, {"y"}, {{"to", int64_t{1}}})
      .Output("y", DType::kFloat, {3});
  auto& tensor = *model.proto().mutable_graph()->add_value_info();
  tensor.set_name("s");
  tensor.mutable_type()->mutable_tensor_type()->set_elem_type(7);
  const graph::Graph graph = GraphOf(model);
  const auto type = [&](const std::string& name) {
    return graph::ToString(graph.value(graph.FindValue(name)).type);
  };
  EXPECT_EQ(type("x"), "float[N,3,?]");
  EXPECT_EQ(type("s"), "int64[...]");
  EXPECT_EQ(type("y"), "float[3]");
}

TEST(GraphImport, BeforeIr4AnInitializerIsNoInputAndFromThenOnItIsADefault) {
  ModelBuilder model;
  model.Input("x", DType::kFloat, {2})
      .Input("w", DType::kFloat, {2})
      .Initializer("w", Pair())
      .Node("Add", {"x", "w"}, {"y"})
      .Output("y", DType::kFloat, {2});
  for (const int version : {1, 3, 4, 8}) {
    model.IrVersion(version);
    const graph::Graph graph = GraphOf(model);
    const graph::Value& w = graph.value(graph.FindValue("w"));
    EXPECT_EQ(w.is_input, version >= 4) << version;
    EXPECT_NE(w.constant, nullptr) << version;
    EXPECT_EQ(Names(graph, graph.inputs()),
              version >= 4 ? std::vector<std::string>({"x", "w"}) : std::vector<std::string>({"x"}))
        << version;
  }
  model.IrVersion(0);
  EXPECT_THAT(ErrorOf(model), HasSubstr("IR version 0 is not known"));
}

TEST(GraphImport, ASparseInitializerBeforeIr4IsNoInputEither) {
  ModelBuilder model = XToY();
  model.Input("w", DType::kFloat, {2}).Node("Add", {"x", "w"}, {"y"});
  auto& sparse = *model.proto().mutable_graph()->add_sparse_initializer();
  ModelBuilder parts;
  parts.Initializer("w", Tensor::Of<float>({1}, {5}));
  parts.Initializer("i", Tensor::Of<int64_t>({1}, {1}));
  *sparse.mutable_values() = parts.proto().graph().initializer(0);
  *sparse.mutable_indices() = parts.proto().graph().initializer(1);
  sparse.add_dims(2);
  for (const int version : {3, 8}) {
    model.IrVersion(version);
    const graph::Graph graph = GraphOf(model);
    const graph::Value& w = graph.value(graph.FindValue("w"));
    EXPECT_EQ(w.is_input, version >= 4) << version;
    ASSERT_NE(w.constant, nullptr) << version;
    EXPECT_THAT(w.constant->view().span<float>(), ElementsAre(0, 5));
  }
}

TEST(GraphImport, AnInitializerMustBeWhatItIsDeclaredAs) {
  ModelBuilder model = XToY();
  model.Input("w", DType::kFloat, {3}).Initializer("w", Pair()).Node("Add", {"x", "w"}, {"y"});
  EXPECT_THAT(ErrorOf(model),
              AllOf(HasSubstr("'w'"), HasSubstr("declared as float[3]"), HasSubstr("is float[2]")));
  ModelBuilder said = XToY();
  said.Initializer("w", Pair()).Node("Add", {"x", "w"}, {"y"});
  auto& info = *said.proto().mutable_graph()->add_value_info();
  info.set_name("w");
  info.mutable_type()->mutable_tensor_type()->set_elem_type(7);
  EXPECT_THAT(ErrorOf(said), HasSubstr("declared as int64[...]"));
  ModelBuilder open = XToY();
  open.Input("w", DType::kFloat, {Dim::Symbol("N")})
      .Initializer("w", Pair())
      .Node("Add", {"x", "w"}, {"y"});
  EXPECT_EQ(ErrorOf(open), "no error");
}

TEST(GraphImport, NodesMayBeUnsortedAndUnnamedAndOmitPorts) {
  ModelBuilder model;
  model.Input("x", DType::kFloat, {2})
      .Node("Clip", {"a", "", "x"}, {"b"})
      .Node("Dropout", {"x"}, {"a", ""})
      .Node("Relu", {"b"}, {"y"})
      .Output("y", DType::kFloat, {2});
  const graph::Graph graph = GraphOf(model);
  EXPECT_THAT(Nodes(graph),
              ElementsAre("a, - = Dropout-17(x)", "b = Clip-17(a, -, x)", "y = Relu-17(b)"));
}

TEST(GraphImport, NamesAreOpaque) {
  ModelBuilder model;
  const std::string odd("a:0/b \x01\xff", 8);
  model.Input(odd, DType::kFloat, {2}).Node("Relu", {odd}, {"y_1"}).Output("y_1");
  const graph::Graph graph = GraphOf(model);
  EXPECT_THAT(Names(graph, graph.inputs()), ElementsAre(odd));
}

TEST(GraphImport, InputsAndInitializersMayBeOutputs) {
  ModelBuilder model;
  model.Input("x", DType::kFloat, {2}).Initializer("w", Pair());
  model.Output("w", DType::kFloat, {2}).Output("x", DType::kFloat, {2});
  const graph::Graph graph = GraphOf(model);
  EXPECT_THAT(graph.output_names(), ElementsAre("w", "x"));
  EXPECT_THAT(Names(graph, graph.outputs()), ElementsAre("w", "x"));
  EXPECT_THAT(Nodes(graph), IsEmpty());
}

TEST(GraphImport, ANameThatNothingDefinesIsRefused) {
  ModelBuilder model = XToY();
  model.Node("Add", {"x", "ghost"}, {"y"}, {}, "sum");
  EXPECT_THAT(ErrorOf(model), AllOf(HasSubstr("node 'sum' (Add)"), HasSubstr("'ghost' is read")));
}

TEST(GraphImport, ACycleIsRefusedNamingItsNodes) {
  ModelBuilder model = XToY();
  model.Node("Add", {"x", "c"}, {"b"}, {}, "first")
      .Node("Relu", {"b"}, {"c"}, {}, "second")
      .Node("Relu", {"x"}, {"y"}, {}, "innocent");
  EXPECT_THAT(ErrorOf(model), AllOf(HasSubstr("cycle"), HasSubstr("'first'"), HasSubstr("'second'"),
                                    testing::Not(HasSubstr("innocent"))));
  ModelBuilder self = XToY();
  self.Node("Add", {"x", "y"}, {"y"});
  EXPECT_THAT(ErrorOf(self), HasSubstr("cycle"));
}

TEST(GraphImport, EveryNameIsDefinedOnce) {
  EXPECT_THAT(ErrorOf(Relu().Node("Relu", {"x"}, {"y"}, {}, "again")),
              AllOf(HasSubstr("node 'again'"), HasSubstr("'y' is defined twice")));
  EXPECT_THAT(ErrorOf(Relu().Node("Relu", {"x"}, {"x"})), HasSubstr("'x' is defined twice"));
  EXPECT_THAT(ErrorOf(Relu().Initializer("w", Pair()).Node("Relu", {"x"}, {"w"})),
              HasSubstr("'w' is defined twice"));
  EXPECT_THAT(ErrorOf(Relu().Node("Split", {"x"}, {"a", "a"})), HasSubstr("'a' is defined twice"));
  EXPECT_THAT(ErrorOf(Relu().Input("x", DType::kFloat, {2})), HasSubstr("'x' is defined twice"));
  EXPECT_THAT(ErrorOf(Relu().Initializer("w", Pair()).Initializer("w", Pair())),
              HasSubstr("two initializers are named 'w'"));
  EXPECT_THAT(ErrorOf(Relu().Initializer("", Pair())), HasSubstr("has no name"));
  EXPECT_THAT(ErrorOf(Relu().Input("", DType::kFloat, {2})), HasSubstr("no name"));
}

TEST(GraphImport, OutputsAreProducedAndDistinct) {
  EXPECT_THAT(ErrorOf(Relu().Output("z", DType::kFloat, {2})),
              HasSubstr("graph output 'z' is not produced"));
  EXPECT_THAT(ErrorOf(Relu().Output("y", DType::kFloat, {2})),
              HasSubstr("two graph outputs are named 'y'"));
  EXPECT_THAT(ErrorOf(Relu().Output("")), HasSubstr("a graph output has no name"));
  ModelBuilder none;
  none.Input("x", DType::kFloat, {2}).Node("Relu", {"x"}, {"y"});
  EXPECT_THAT(ErrorOf(none), HasSubstr("no outputs"));
  EXPECT_THAT(ErrorOf(ModelBuilder()), HasSubstr("no outputs"));
}

TEST(GraphImport, InputsHaveTypesThatExist) {
  EXPECT_THAT(ErrorOf(Relu().Input("z")), HasSubstr("graph input 'z' has no type"));
  EXPECT_THAT(ErrorOf(Relu().Input("z", DType::kUndefined, {2})),
              HasSubstr("graph input 'z' has no type"));
  EXPECT_THAT(ErrorOf(Relu().Input("z", static_cast<DType>(99), {2})),
              AllOf(HasSubstr("'z'"), HasSubstr("element type 99 is not known")));
  EXPECT_THAT(ErrorOf(Relu().Input("z", DType::kFloat, {-2})), HasSubstr("extent -2 of axis 0"));
  EXPECT_THAT(ErrorOf(Relu().Input("z", DType::kFloat, graph::DimVector(65, Dim(1)))),
              HasSubstr("65 axes"));
  EXPECT_EQ(ErrorOf(Relu().Input("z", DType::kFloat, graph::DimVector(64, Dim(-1)))), "no error");
  ModelBuilder opaque = Relu();
  opaque.Input("z");
  ::onnx::TypeProto& type = *opaque.proto().mutable_graph()->mutable_input(1)->mutable_type();
  type.mutable_opaque_type()->set_name("Handle");
  EXPECT_THAT(ErrorOf(opaque), HasSubstr("opaque type 'Handle'"));
  type.mutable_map_type()->set_key_type(1);
  EXPECT_THAT(ErrorOf(opaque), HasSubstr("a map has keys of type float"));
}

TEST(GraphImport, SequencesOptionalsAndMapsAreTypes) {
  ModelBuilder model = Relu();
  model.Input("z");
  ::onnx::TypeProto& type = *model.proto().mutable_graph()->mutable_input(1)->mutable_type();
  ::onnx::TypeProto& element = *type.mutable_optional_type()
                                    ->mutable_elem_type()
                                    ->mutable_sequence_type()
                                    ->mutable_elem_type();
  element.mutable_map_type()->set_key_type(8);
  element.mutable_map_type()->mutable_value_type()->mutable_tensor_type()->set_elem_type(1);
  const graph::Graph graph = GraphOf(model);
  EXPECT_EQ(graph::ToString(graph.value(graph.FindValue("z")).type),
            "optional(sequence(map(string,float[...])))");
}

TEST(GraphImport, OpsetsThatAreNotKnownAreRefused) {
  EXPECT_THAT(ErrorOf(ModelBuilder(0)), HasSubstr("opset 0 of domain ''"));
  EXPECT_THAT(ErrorOf(ModelBuilder(-1)), HasSubstr("opset -1"));
  EXPECT_THAT(ErrorOf(ModelBuilder(graph::kNewestOpset + 1)),
              HasSubstr("versions 1 to 28 are known"));
  EXPECT_THAT(ErrorOf(ModelBuilder(9999)), HasSubstr("opset 9999"));
  EXPECT_THAT(ErrorOf(Relu().ImportOpset("ai.onnx", 16)),
              HasSubstr("imported in versions 17 and 16"));
  EXPECT_EQ(ErrorOf(Relu().ImportOpset("ai.onnx", 17)), "no error");
  ModelBuilder missing = Relu();
  missing.proto().clear_opset_import();
  EXPECT_THAT(ErrorOf(missing), HasSubstr("imports no opset"));
  missing.ImportOpset("custom", 1);
  EXPECT_THAT(ErrorOf(missing), HasSubstr("node #0 -> 'y' (Relu): no opset of its domain ''"));
}

TEST(GraphImport, OpsetsAndDomainsThatAreNotKnownHideNothingElse) {
  ModelBuilder model(9999);
  model.ImportOpset("custom", 0)
      .Input("x", DType::kFloat, {2})
      .Node("NoSuchOp", {"x"}, {"a"}, {}, "first")
      .Node("Twist", {"a"}, {"b"}, {}, "second", "missing")
      .Node("Softmax", {"x"}, {"c"}, {{"axis", int64_t{7}}}, "third")
      .Node("Add", {"a", "c"}, {"d"})
      .Node("Relu", {"x"}, {"y"}, {{"flavour", int64_t{1}}}, "fourth")
      .Output("y", DType::kFloat, {2});
  EXPECT_THAT(ErrorOf(model),
              AllOf(HasSubstr("opset 9999 of domain ''"), HasSubstr("opset 0 of domain 'custom'"),
                    HasSubstr("node 'first' (NoSuchOp): operator NoSuchOp"),
                    HasSubstr("node 'second' (missing.Twist): no opset of its domain 'missing'"),
                    HasSubstr("node 'third' (Softmax)"),
                    HasSubstr("node 'fourth' (Relu): opset 28 of Relu has no attribute 'flavour'"),
                    testing::Not(HasSubstr("undefined"))));
}

TEST(GraphImport, NodesHaveTheVersionOfTheirDomain) {
  ModelBuilder model;
  model.ImportOpset("custom", 4)
      .Input("x", DType::kFloat, {2})
      .Node("Relu", {"x"}, {"a"}, {}, "", "ai.onnx")
      .Node("Twist", {"a"}, {"y"}, {}, "", "custom")
      .Output("y");
  EXPECT_THAT(Nodes(GraphOf(model)), ElementsAre("a = Relu-17(x)", "y = custom.Twist-4(a)"));
  model.Node("Twist", {"x"}, {"z"}, {}, "n", "unknown.domain");
  EXPECT_THAT(ErrorOf(model), HasSubstr("no opset of its domain 'unknown.domain'"));
}

TEST(GraphImport, ANodeHasAnOperatorType) {
  EXPECT_THAT(ErrorOf(Relu().Node("", {"x"}, {"z"})), HasSubstr("no operator type"));
}

TEST(GraphImport, AModelHasAGraphAndNotTooManyNodes) {
  ModelBuilder empty = Relu();
  empty.proto().clear_graph();
  EXPECT_THAT(ErrorOf(empty), HasSubstr("the model has no graph"));
  ModelBuilder many;
  many.Input("x", DType::kFloat, {2}).Output("x", DType::kFloat, {2});
  for (int i = 0; i < kMaxNodes; ++i) many.proto().mutable_graph()->add_node()->set_op_type("Relu");
  for (::onnx::NodeProto& node : *many.proto().mutable_graph()->mutable_node()) node.add_input("x");
  EXPECT_EQ(ErrorOf(many), "no error");
  many.Node("Relu", {"x"}, {});
  EXPECT_THAT(ErrorOf(many), HasSubstr("more than 500000 nodes"));
}

}  // namespace
}  // namespace tandem::onnx_import
