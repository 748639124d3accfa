#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include "tests/engine/onnx/import_testing.h"

namespace tandem::onnx_import {
namespace {

using test::ModelBuilder;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Input x, output y, and the domain "f" of functions.
ModelBuilder Caller() {
  ModelBuilder model;
  model.ImportOpset("f", 1).Input("x", DType::kFloat, {2}).Output("y", DType::kFloat, {2});
  return model;
}

// A function with input a and output b = op(a).
ModelBuilder Unary(const std::string& op) {
  ModelBuilder body;
  body.Input("a").Node(op, {"a"}, {"b"}).Output("b");
  return body;
}

TEST(FunctionImport, ACallBecomesTheNodesOfItsFunctionNamedAfterTheCall) {
  ModelBuilder function;
  function.Input("a")
      .Input("b")
      .Node("Add", {"a", "b"}, {"sum"}, {}, "adds")
      .Node("Relu", {"sum"}, {"c"})
      .Output("c");
  ModelBuilder model = Caller();
  model.Node("AddRelu", {"x", "x"}, {"h"}, {}, "first", "f")
      .Node("AddRelu", {"h", "x"}, {"y"}, {}, "", "f")
      .Function("f", "AddRelu", function);
  const graph::Graph graph = GraphOf(model);
  EXPECT_THAT(Nodes(graph), ElementsAre("first/sum = Add-17(x, x)", "h = Relu-17(first/sum)",
                                        "y/sum = Add-17(h, x)", "y = Relu-17(y/sum)"));
  EXPECT_EQ(NodeOf(graph, "first/sum").name, "first/adds");
  EXPECT_EQ(NodeOf(graph, "first/sum").origin, "first");
  EXPECT_EQ(NodeOf(graph, "h").name, "");
  EXPECT_EQ(NodeOf(graph, "y").origin, "y");
  EXPECT_EQ(graph::ToString(graph.value(graph.FindValue("y")).type), "float[2]");
}

TEST(FunctionImport, NamesOfACallMakeWayForNamesOfTheModel) {
  ModelBuilder model = Caller();
  ModelBuilder function;
  function.Input("a").Node("Neg", {"a"}, {"t"}).Node("Relu", {"t"}, {"b"}).Output("b");
  model.Node("F", {"x"}, {"h"}, {}, "n", "f")
      .Node("Abs", {"h"}, {"n/t"})
      .Node("Neg", {"n/t"}, {"y"})
      .Function("f", "F", function);
  const graph::Graph graph = GraphOf(model);
  EXPECT_EQ(NodeOf(graph, "n/t").op_type, "Abs");
  ASSERT_EQ(graph.order().size(), 4u);
  EXPECT_EQ(graph.node(graph.order()[0]).op_type, "Neg");
}

TEST(FunctionImport, FunctionsCallFunctions) {
  ModelBuilder outer;
  outer.Input("a")
      .Node("Inner", {"a"}, {"t"}, {}, "one", "f")
      .Node("Inner", {"t"}, {"b"}, {}, "two", "f")
      .Output("b");
  ModelBuilder inner;
  inner.Input("a").Node("Neg", {"a"}, {"t"}).Node("Abs", {"t"}, {"b"}).Output("b");
  ModelBuilder model = Caller();
  model.Node("Outer", {"x"}, {"y"}, {}, "call", "f")
      .Function("f", "Outer", outer)
      .Function("f", "Inner", inner);
  EXPECT_THAT(Nodes(GraphOf(model)),
              ElementsAre("call/one/t = Neg-17(x)", "call/t = Abs-17(call/one/t)",
                          "call/two/t = Neg-17(call/t)", "y = Abs-17(call/two/t)"));
}

TEST(FunctionImport, ItsNodesHaveTheVersionsThatTheFunctionImports) {
  ModelBuilder old(11);
  old.ImportOpset("custom", 2)
      .Input("a")
      .Node("Softmax", {"a"}, {"t"})
      .Node("Twist", {"t"}, {"b"}, {}, "", "custom")
      .Output("b");
  ModelBuilder model = Caller();
  model.Node("F", {"x"}, {"h"}, {}, "n", "f").Node("Softmax", {"h"}, {"y"}).Function("f", "F", old);
  EXPECT_THAT(Nodes(GraphOf(model)),
              ElementsAre("n/t = Softmax-11(x)", "h = custom.Twist-2(n/t)", "y = Softmax-17(h)"));
  model.proto().mutable_functions(0)->mutable_opset_import(0)->set_version(9999);
  EXPECT_THAT(ErrorOf(model), HasSubstr("function 'F': opset 9999"));
  model.proto().mutable_functions(0)->clear_opset_import();
  EXPECT_THAT(ErrorOf(model), HasSubstr("no opset of its domain 'custom'"));
}

TEST(FunctionImport, PortsMayBeOmitted) {
  ModelBuilder function;
  function.Input("a").Input("low").Input("high");
  function.Node("Clip", {"a", "low", "high"}, {"b"}).Node("Neg", {"b"}, {"c"});
  function.Output("b").Output("c");
  ModelBuilder model = Caller();
  model.Node("F", {"x", "", "x"}, {"h"}, {}, "one", "f")
      .Node("F", {"h"}, {"", "y"}, {}, "two", "f")
      .Function("f", "F", function);
  EXPECT_THAT(Nodes(GraphOf(model)), ElementsAre("h = Clip-17(x, -, x)", "one/c = Neg-17(h)",
                                                 "two/b = Clip-17(h, -, -)", "y = Neg-17(two/b)"));
  model.Node("F", {"x", "x", "x", "x"}, {"z"}, {}, "", "f");
  EXPECT_THAT(ErrorOf(model), HasSubstr("4 inputs and 1 outputs where function 'f.F' has 3 and 2"));
}

TEST(FunctionImport, AnOutputThatIsAnInputIsCopied) {
  ModelBuilder function = Unary("Relu");
  function.Output("a");
  ModelBuilder model = Caller();
  model.Node("F", {"x"}, {"h", "y"}, {}, "n", "f").Function("f", "F", function);
  EXPECT_THAT(Nodes(GraphOf(model)),
              testing::UnorderedElementsAre("y = Identity-17(x)", "h = Relu-17(x)"));
  ModelBuilder omitted = Caller();
  omitted.Node("F", {""}, {"h", "y"}, {}, "n", "f").Function("f", "F", function);
  EXPECT_THAT(ErrorOf(omitted), HasSubstr("output 'a' of the function is an input that the call "
                                          "omits"));
}

TEST(FunctionImport, BodiesOfAFunctionSeeItsNamesAndNotTheCallers) {
  ModelBuilder branch;
  branch.Node("Add", {"t", "a"}, {"r"}).Output("r");
  ModelBuilder function;
  function.Input("a")
      .Input("c")
      .Node("Neg", {"a"}, {"t"})
      .Node("If", {"c"}, {"b"})
      .Body("then_branch", branch)
      .Body("else_branch", branch)
      .Output("b");
  ModelBuilder model = Caller();
  model.Input("c", DType::kBool, {})
      .Node("F", {"x", "c"}, {"y"}, {}, "n", "f")
      .Function("f", "F", function);
  const graph::Graph graph = GraphOf(model);
  EXPECT_THAT(Names(graph, NodeOf(graph, "y").inputs), ElementsAre("c", "n/t", "x", "n/t", "x"));
  const graph::Graph& then = BodyOf(graph, "y", "then_branch");
  EXPECT_THAT(CapturesOf(then), ElementsAre("n/t", "x"));
  EXPECT_THAT(Nodes(then), ElementsAre("r = Add-17(n/t, x)"));

  ModelBuilder peeking = Unary("Relu");
  peeking.Node("Add", {"a", "x"}, {"p"});
  ModelBuilder second = Caller();
  second.Node("F", {"x"}, {"y"}, {}, "n", "f").Function("f", "F", peeking);
  EXPECT_THAT(ErrorOf(second), AllOf(HasSubstr("node 'n' (f.F)"), HasSubstr("function 'f.F'"),
                                     HasSubstr("'x' is read")));
}

TEST(FunctionImport, ACallInABodyCapturesWhatItReads) {
  ModelBuilder branch;
  branch.Node("F", {"x"}, {"r"}, {}, "inside", "f").Output("r");
  ModelBuilder model = Caller();
  model.Input("c", DType::kBool, {})
      .Node("If", {"c"}, {"y"})
      .Body("then_branch", branch)
      .Body("else_branch", branch)
      .Function("f", "F", Unary("Relu"));
  const graph::Graph graph = GraphOf(model);
  const graph::Graph& then = BodyOf(graph, "y", "then_branch");
  EXPECT_THAT(CapturesOf(then), ElementsAre("x"));
  EXPECT_THAT(Nodes(then), ElementsAre("r = Relu-17(x)"));
}

TEST(FunctionImport, ACallOfItselfIsRefusedHoweverLongTheWay) {
  ModelBuilder direct = Caller();
  ModelBuilder self;
  self.Input("a").Node("F", {"a"}, {"b"}, {}, "again", "f").Output("b");
  direct.Node("F", {"x"}, {"y"}, {}, "n", "f").Function("f", "F", self);
  EXPECT_THAT(ErrorOf(direct), HasSubstr("function 'f.F' calls itself"));

  ModelBuilder branch;
  branch.Node("F", {"a"}, {"r"}, {}, "", "f").Output("r");
  ModelBuilder through;
  through.Input("a").Node("If", {"a"}, {"b"}).Body("then_branch", branch).Output("b");
  ModelBuilder other;
  other.Input("a").Node("G", {"a"}, {"b"}, {}, "", "f").Output("b");
  ModelBuilder model = Caller();
  model.Node("F", {"x"}, {"y"}, {}, "n", "f").Function("f", "F", other).Function("f", "G", through);
  EXPECT_THAT(ErrorOf(model), HasSubstr("function 'f.F' calls itself"));
}

// F0 calls F1 calls F2 ... the last is Relu.
ModelBuilder Chain(int functions) {
  ModelBuilder model = Caller();
  model.Node("F0", {"x"}, {"y"}, {}, "n", "f");
  for (int i = 0; i < functions; ++i) {
    ModelBuilder body;
    body.Input("a").Output("b");
    if (i + 1 < functions) {
      body.Node("F" + std::to_string(i + 1), {"a"}, {"b"}, {}, "n", "f");
    } else {
      body.Node("Relu", {"a"}, {"b"});
    }
    model.Function("f", "F" + std::to_string(i), body);
  }
  return model;
}

TEST(FunctionImport, CallsNestAtMostAsDeepAsTheLimit) {
  EXPECT_THAT(Nodes(GraphOf(Chain(kMaxNesting))), ElementsAre("y = Relu-17(x)"));
  EXPECT_THAT(ErrorOf(Chain(kMaxNesting + 1)), HasSubstr("nested more than 64 deep"));
  EXPECT_THAT(ErrorOf(Chain(10'000)), HasSubstr("nested more than 64 deep"));
}

TEST(FunctionImport, WhatCallsMultiplyIsBounded) {
  ModelBuilder model = Caller();
  model.Node("F0", {"x"}, {"y"}, {}, "n", "f");
  for (int i = 0; i < 30; ++i) {
    const std::string next = "F" + std::to_string(i + 1);
    ModelBuilder body;
    body.Input("a").Node(next, {"a"}, {"t"}, {}, "", "f").Node(next, {"t"}, {"b"}, {}, "", "f");
    model.Function("f", "F" + std::to_string(i), body.Output("b"));
  }
  model.Function("f", "F30", Unary("Relu"));
  EXPECT_THAT(ErrorOf(model), HasSubstr("more than 100000 nodes in the functions it calls"));
}

TEST(FunctionImport, OutputsOfAFunctionAreProducedAndItsNamesDistinct) {
  ModelBuilder missing = Unary("Relu");
  missing.Output("ghost");
  ModelBuilder model = Caller();
  model.Node("F", {"x"}, {"y"}, {}, "n", "f").Function("f", "F", missing);
  EXPECT_THAT(ErrorOf(model), HasSubstr("output 'ghost' of function 'f.F' is not produced"));

  for (const std::string name : {"a", "b", "t"}) {
    ModelBuilder twice = Unary("Relu");
    twice.Node("Neg", {"a"}, {"t"}).Node("Abs", {"a"}, {name});
    ModelBuilder bad = Caller();
    bad.Node("F", {"x"}, {"y"}, {}, "n", "f").Function("f", "F", twice);
    EXPECT_THAT(ErrorOf(bad), HasSubstr("'" + name + "' is defined twice"));
  }
  ModelBuilder input = Unary("Relu");
  ModelBuilder inputs = Caller();
  inputs.Node("F", {"x"}, {"y"}, {}, "n", "f").Function("f", "F", input.Input("a"));
  EXPECT_THAT(ErrorOf(inputs), HasSubstr("function 'F': input 'a' is listed twice"));
  ModelBuilder outputs = Caller();
  outputs.Function("f", "F", Unary("Relu").Output("b")).Node("Relu", {"x"}, {"y"});
  EXPECT_THAT(ErrorOf(outputs), HasSubstr("function 'F': output 'b' is listed twice"));
}

TEST(FunctionImport, ACycleThroughACallIsRefused) {
  ModelBuilder model = Caller();
  model.Node("F", {"y"}, {"y"}, {}, "n", "f").Function("f", "F", Unary("Relu"));
  EXPECT_THAT(ErrorOf(model), HasSubstr("cycle"));
}

TEST(FunctionImport, FunctionsAreFoundByDomainNameAndOverload) {
  ModelBuilder model = Caller();
  model.ImportOpset("g", 1);
  model.Node("F", {"x"}, {"p"}, {}, "", "f")
      .Node("F", {"p"}, {"q"}, {}, "", "g")
      .Node("F", {"q"}, {"r"}, {}, "", "f")
      .CallOverload("two")
      .Node("Relu", {"r"}, {"y"}, {}, "", "ai.onnx")
      .Function("f", "F", Unary("Neg"))
      .Function("g", "F", Unary("Abs"))
      .Function("f", "F", Unary("Exp"))
      .FunctionOverload("two")
      .Function("", "Relu", Unary("Tanh"));
  EXPECT_THAT(Nodes(GraphOf(model)),
              ElementsAre("p = Neg-17(x)", "q = Abs-17(p)", "r = Exp-17(q)", "y = Tanh-17(r)"));
  model.Node("F", {"x"}, {"z"}, {}, "lost", "f").CallOverload("three");
  EXPECT_THAT(ErrorOf(model), AllOf(HasSubstr("node 'lost' (f.F)"),
                                    HasSubstr("no function 'F' with overload 'three'")));
  ModelBuilder twice = Caller();
  twice.Node("Relu", {"x"}, {"y"})
      .Function("f", "F", Unary("Neg"))
      .Function("f", "F", Unary("Abs"));
  EXPECT_THAT(ErrorOf(twice), HasSubstr("function 'F' is defined twice"));
  twice.FunctionOverload("two");
  EXPECT_EQ(ErrorOf(twice), "no error");
  ModelBuilder unnamed = Caller();
  unnamed.Node("Relu", {"x"}, {"y"}).Function("f", "", Unary("Neg"));
  EXPECT_THAT(ErrorOf(unnamed), HasSubstr("a function has no name"));
}

}  // namespace
}  // namespace tandem::onnx_import
