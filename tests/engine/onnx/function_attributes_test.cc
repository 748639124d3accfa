#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include "tests/engine/onnx/import_testing.h"

namespace tandem::onnx_import {
namespace {

using ::onnx::AttributeProto;
using test::ModelBuilder;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const int64_t kInt = 0;

// A function F with attribute `alpha`, whose node b = LeakyRelu(a) takes it; the test calls it.
ModelBuilder Leaky() {
  ModelBuilder model;
  model.ImportOpset("f", 1).Input("x", DType::kFloat, {2}).Output("y");
  ModelBuilder function;
  function.Input("a").Node("LeakyRelu", {"a"}, {"b"}).Reference("alpha", 0.0f, "slope").Output("b");
  model.Function("f", "F", function, {"slope"});
  return model;
}

TEST(FunctionAttributes, AReferenceTakesTheValueOfTheCall) {
  ModelBuilder model = Leaky();
  model.Node("F", {"x"}, {"h"}, {{"slope", 0.5f}}, "", "f")
      .Node("F", {"h"}, {"y"}, {{"slope", 0.25f}}, "", "f");
  EXPECT_THAT(Nodes(GraphOf(model)),
              ElementsAre("h = LeakyRelu-17(x) {alpha=0.5}", "y = LeakyRelu-17(h) {alpha=0.25}"));
}

TEST(FunctionAttributes, WithoutValueAndDefaultTheAttributeIsAbsent) {
  ModelBuilder model = Leaky();
  model.Node("F", {"x"}, {"y"}, {}, "", "f");
  EXPECT_THAT(Nodes(GraphOf(model)), ElementsAre("y = LeakyRelu-17(x)"));
}

TEST(FunctionAttributes, ADefaultHoldsUnlessTheCallSaysOtherwise) {
  ModelBuilder model;
  model.ImportOpset("f", 1).IrVersion(9).Input("x", DType::kFloat, {2}).Output("y");
  ModelBuilder function;
  function.Input("a")
      .Node("Op", {"a"}, {"b"}, {}, "", "")
      .Reference("f", 0.0f, "slope")
      .Reference("is", std::vector<int64_t>(), "axes")
      .Output("b");
  model.Function("f", "F", function)
      .FunctionDefaults({{"slope", 0.125f}, {"axes", std::vector<int64_t>{1, 2}}})
      .Node("F", {"x"}, {"h"}, {}, "", "f")
      .Node("F", {"h"}, {"y"}, {{"slope", 3.0f}}, "", "f");
  EXPECT_THAT(Nodes(GraphOf(model)),
              ElementsAre("h = Op-17(x) {f=0.125, is=[1,2]}", "y = Op-17(h) {f=3, is=[1,2]}"));
  model.Function("f", "G", function, {"slope"}).FunctionDefaults({{"slope", 1.0f}});
  EXPECT_THAT(ErrorOf(model), HasSubstr("function 'G': attribute 'slope' is listed twice"));
}

TEST(FunctionAttributes, DefaultsHaveNamesAndRefToNothing) {
  ModelBuilder unnamed = Leaky();
  unnamed.FunctionDefaults({{"", 1.0f}});
  EXPECT_THAT(ErrorOf(unnamed), HasSubstr("function 'F': an attribute has no name"));
  ModelBuilder referring = Leaky();
  AttributeProto reference;
  reference.set_name("more");
  reference.set_ref_attr_name("slope");
  referring.proto().mutable_functions(0)->mutable_unknown_fields()->AddLengthDelimited(
      11, reference.SerializeAsString());
  EXPECT_THAT(ErrorOf(referring), HasSubstr("default of attribute 'more' refers to an attribute"));
  ModelBuilder twice = Leaky();
  twice.Function("f", "G", ModelBuilder(), {"p", "p"});
  EXPECT_THAT(ErrorOf(twice), HasSubstr("function 'G': attribute 'p' is listed twice"));
}

// F hands its attribute `slope` on to G as `alpha`.
ModelBuilder HandingOn(const graph::Attribute& like, const std::string& referred) {
  ModelBuilder model;
  model.ImportOpset("f", 1).Input("x", DType::kFloat, {2}).Output("y");
  ModelBuilder outer;
  outer.Input("a")
      .Node("G", {"a"}, {"b"}, {}, "inner", "f")
      .Reference("alpha", like, referred)
      .Output("b");
  ModelBuilder inner;
  inner.Input("a").Node("LeakyRelu", {"a"}, {"b"}).Reference("alpha", 0.0f, "alpha").Output("b");
  model.Function("f", "F", outer, {"slope"}).Function("f", "G", inner, {"alpha"});
  return model;
}

TEST(FunctionAttributes, AreHandedOnThroughCalls) {
  ModelBuilder model = HandingOn(0.0f, "slope");
  model.Node("F", {"x"}, {"h"}, {{"slope", 0.5f}}, "", "f").Node("F", {"h"}, {"y"}, {}, "", "f");
  EXPECT_THAT(Nodes(GraphOf(model)),
              ElementsAre("h = LeakyRelu-17(x) {alpha=0.5}", "y = LeakyRelu-17(h)"));
}

TEST(FunctionAttributes, HandingOnLeavesTheDefaultWhereTheCallGivesNothing) {
  ModelBuilder model = HandingOn(0.0f, "slope");
  model.proto().mutable_functions(1)->clear_attribute();
  model.FunctionDefaults({{"alpha", 0.75f}});
  model.Node("F", {"x"}, {"y"}, {}, "", "f");
  EXPECT_THAT(Nodes(GraphOf(model)), ElementsAre("y = LeakyRelu-17(x) {alpha=0.75}"));
}

TEST(FunctionAttributes, HandingOnChecksNameAndKind) {
  ModelBuilder unknown = HandingOn(0.0f, "ghost");
  unknown.Node("F", {"x"}, {"y"}, {{"slope", 0.5f}}, "", "f");
  EXPECT_THAT(ErrorOf(unknown),
              AllOf(HasSubstr("attribute 'alpha'"), HasSubstr("refers to 'ghost'")));
  ModelBuilder other = HandingOn(kInt, "slope");
  other.Node("F", {"x"}, {"y"}, {{"slope", 0.5f}}, "", "f");
  EXPECT_THAT(ErrorOf(other), HasSubstr("refers to an attribute of type FLOAT as INT"));
}

TEST(FunctionAttributes, ACallGivesOnlyAttributesThatTheFunctionHasAndEachOnce) {
  ModelBuilder unknown = Leaky();
  unknown.Node("F", {"x"}, {"y"}, {{"steep", 0.5f}}, "n", "f");
  EXPECT_THAT(ErrorOf(unknown), AllOf(HasSubstr("node 'n' (f.F)"),
                                      HasSubstr("function 'f.F' has no attribute 'steep'")));
  ModelBuilder twice = Leaky();
  twice.Node("F", {"x"}, {"y"}, {{"slope", 0.5f}}, "n", "f");
  test::AddAttributes({{"slope", 0.5f}}, *twice.proto().mutable_graph()->mutable_node(0));
  EXPECT_THAT(ErrorOf(twice), AllOf(HasSubstr("attribute 'slope'"), HasSubstr("given twice")));
  ModelBuilder outside = Leaky();
  outside.Node("F", {"x"}, {"y"}, {}, "n", "f").Reference("slope", 0.0f, "slope");
  EXPECT_THAT(ErrorOf(outside), HasSubstr("lies in none"));
}

TEST(FunctionAttributes, AReferenceNamesAnAttributeOfItsFunctionAndItsKind) {
  ModelBuilder unknown = Leaky();
  unknown.Node("F", {"x"}, {"y"}, {}, "n", "f");
  auto& reference = *unknown.proto().mutable_functions(0)->mutable_node(0)->mutable_attribute(0);
  reference.set_ref_attr_name("ghost");
  EXPECT_THAT(ErrorOf(unknown), HasSubstr("refers to 'ghost', which is no attribute"));
  ModelBuilder kind = Leaky();
  kind.Node("F", {"x"}, {"y"}, {{"slope", kInt}}, "n", "f");
  EXPECT_THAT(ErrorOf(kind), HasSubstr("refers to an attribute of type INT as FLOAT"));
}

TEST(FunctionAttributes, AReferenceHoldsNoValueOfItsOwn) {
  ModelBuilder model = Leaky();
  model.Node("F", {"x"}, {"y"}, {{"slope", 0.5f}}, "n", "f");
  model.proto().mutable_functions(0)->mutable_node(0)->mutable_attribute(0)->set_f(2);
  EXPECT_THAT(ErrorOf(model), AllOf(HasSubstr("refers to 'slope'"), HasSubstr("holds a value")));
}

TEST(FunctionAttributes, ReferencesReachIntoBodiesOfTheFunction) {
  ModelBuilder branch;
  branch.Node("LeakyRelu", {"a"}, {"r"}).Reference("alpha", 0.0f, "slope").Output("r");
  ModelBuilder function;
  function.Input("a").Node("If", {"a"}, {"b"}).Body("then_branch", branch).Output("b");
  ModelBuilder model;
  model.ImportOpset("f", 1).Input("x", DType::kFloat, {2}).Output("y");
  model.Function("f", "F", function, {"slope"}).Node("F", {"x"}, {"y"}, {{"slope", 0.5f}}, "", "f");
  const graph::Graph graph = GraphOf(model);
  EXPECT_THAT(Nodes(BodyOf(graph, "y", "then_branch")),
              ElementsAre("r = LeakyRelu-17(x) {alpha=0.5}"));
}

// A function F(a) whose If takes its branch from attribute `branch`; z is a name of the function.
ModelBuilder TakingABranch() {
  ModelBuilder model;
  model.ImportOpset("f", 1).Input("x", DType::kFloat, {2}).Output("y");
  ModelBuilder function(13);
  function.Input("a").Node("Neg", {"a"}, {"z"}).Node("If", {"z"}, {"b"}).Output("b");
  auto& reference = *function.proto().mutable_graph()->mutable_node(1)->add_attribute();
  reference.set_name("then_branch");
  reference.set_type(AttributeProto::GRAPH);
  reference.set_ref_attr_name("branch");
  model.Function("f", "F", function, {"branch"});
  return model;
}

TEST(FunctionAttributes, ABodyThatACallGivesReadsTheNamesAndVersionsAroundTheCall) {
  ModelBuilder branch;
  branch.Node("Add", {"x", "z"}, {"r"}).Output("r");
  ModelBuilder model = TakingABranch();
  model.Node("Abs", {"x"}, {"z"}).Node("F", {"x"}, {"y"}, {}, "n", "f").Body("branch", branch);
  const graph::Graph graph = GraphOf(model);
  EXPECT_EQ(NodeOf(graph, "y").opset, 13);
  EXPECT_THAT(Names(graph, NodeOf(graph, "y").inputs), ElementsAre("n/z", "x", "z"));
  const graph::Graph& then = BodyOf(graph, "y", "then_branch");
  EXPECT_THAT(CapturesOf(then), ElementsAre("x", "z"));
  EXPECT_THAT(Nodes(then), ElementsAre("r = Add-17(x, z)"));
}

TEST(FunctionAttributes, ABodyThatIsADefaultSeesNoNamesAndHasTheVersionsOfItsFunction) {
  const auto with_default = [](const ModelBuilder& branch) {
    ModelBuilder model = TakingABranch();
    AttributeProto attribute;
    attribute.set_name("branch");
    attribute.set_type(AttributeProto::GRAPH);
    *attribute.mutable_g() = branch.proto().graph();
    ::onnx::FunctionProto& function = *model.proto().mutable_functions(0);
    function.clear_attribute();
    function.mutable_unknown_fields()->AddLengthDelimited(11, attribute.SerializeAsString());
    // G hands a default of its own, which it imports opset 15 for, on to F.
    ModelBuilder outer(15);
    outer.Input("a").Node("F", {"a"}, {"b"}, {}, "", "f").Output("b");
    auto& reference = *outer.proto().mutable_graph()->mutable_node(0)->add_attribute();
    reference.set_name("branch");
    reference.set_type(AttributeProto::GRAPH);
    reference.set_ref_attr_name("branch");
    model.Function("f", "G", outer);
    model.proto().mutable_functions(1)->mutable_unknown_fields()->MergeFrom(
        function.unknown_fields());
    return model;
  };
  ModelBuilder branch;
  branch.Node("Constant", {}, {"r"}, {{"value_float", 1.0f}}).Output("r");
  ModelBuilder direct = with_default(branch);
  direct.Node("F", {"x"}, {"y"}, {}, "n", "f");
  const graph::Graph graph = GraphOf(direct);
  const graph::Graph& then = BodyOf(graph, "y", "then_branch");
  EXPECT_EQ(then.captures(), 0);
  EXPECT_EQ(then.node(then.order()[0]).opset, 13);
  ModelBuilder handed = with_default(branch);
  handed.Node("G", {"x"}, {"y"}, {}, "n", "f");
  const graph::Graph outer = GraphOf(handed);
  const graph::Graph& inner = BodyOf(outer, "y", "then_branch");
  EXPECT_EQ(inner.node(inner.order()[0]).opset, 15);
  ModelBuilder reading;
  reading.Node("Relu", {"a"}, {"r"}).Output("r");
  EXPECT_THAT(ErrorOf(with_default(reading).Node("F", {"x"}, {"y"}, {}, "n", "f")),
              HasSubstr("'a' is read"));
}

TEST(FunctionAttributes, ValuesThatCallsMultiplyAreBounded) {
  ModelBuilder constant;
  constant.Node("Op", {}, {"b"}, {{"big", std::vector<int64_t>(1 << 17, 1)}}).Output("b");
  ModelBuilder model;
  model.ImportOpset("f", 1).Input("x", DType::kFloat, {2}).Output("x", DType::kFloat, {2});
  model.Function("f", "F", constant);
  for (int i = 0; i < 20; ++i) model.Node("F", {}, {"v" + std::to_string(i)}, {}, "", "f");
  EXPECT_EQ(ErrorOf(model), "no error");
  for (int i = 0; i < 200; ++i) model.Node("F", {}, {"w" + std::to_string(i)}, {}, "", "f");
  EXPECT_THAT(ErrorOf(model), HasSubstr("functions multiply"));
}

TEST(FunctionAttributes, NamesThatCallsMultiplyAreBounded) {
  ModelBuilder model;
  model.ImportOpset("f", 1).Input("x", DType::kFloat, {2}).Output("x", DType::kFloat, {2});
  ModelBuilder function;
  for (int i = 0; i < 1000; ++i) function.Node("Op", {}, {"v" + std::to_string(i)});
  model.Function("f", "F", function);
  model.Node("F", {}, {}, {}, std::string(100'000, 'n'), "f");
  const graph::Graph graph = GraphOf(model);
  EXPECT_LT(NodeOf(graph, graph.value(1).name).origin.size(), 1000u);
  ASSERT_EQ(graph.order().size(), 1000u);
}

}  // namespace
}  // namespace tandem::onnx_import
