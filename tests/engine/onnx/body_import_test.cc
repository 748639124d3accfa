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
using testing::IsEmpty;

Tensor Pair() { return Tensor::Of<float>({2}, {1, 2}); }

// out = op(inputs), for a body without inputs.
ModelBuilder Body(const std::string& op, const std::vector<std::string>& inputs,
                  const std::string& out = "r") {
  ModelBuilder body;
  body.Node(op, inputs, {out}).Output(out);
  return body;
}

// Inputs x and c and an output y that the test defines.
ModelBuilder Outer() {
  ModelBuilder model;
  model.Input("x", DType::kFloat, {2}).Input("c", DType::kBool, {}).Output("y");
  return model;
}

// y = If(c) with these branches.
ModelBuilder& Branches(ModelBuilder& model, const ModelBuilder& then, const ModelBuilder& other) {
  return model.Node("If", {"c"}, {"y"}, {}, "choice")
      .Body("then_branch", then)
      .Body("else_branch", other);
}

TEST(BodyImport, ValuesOfTheGraphAroundBecomeLastInputsOfBodyAndNode) {
  ModelBuilder model = Outer();
  model.Node("Relu", {"x"}, {"h"});
  Branches(model, Body("Add", {"h", "x"}), Body("Mul", {"x", "x"}));
  const graph::Graph graph = GraphOf(model);
  const graph::Node& node = NodeOf(graph, "y");
  // Branches in the order of their names: else before then.
  EXPECT_THAT(Names(graph, node.inputs), ElementsAre("c", "x", "h", "x"));
  EXPECT_EQ(node.captures, 3);
  const graph::Graph& then = BodyOf(graph, "y", "then_branch");
  EXPECT_THAT(CapturesOf(then), ElementsAre("h", "x"));
  EXPECT_THAT(FormalInputs(then), IsEmpty());
  EXPECT_THAT(Nodes(then), ElementsAre("r = Add-17(h, x)"));
  const graph::Graph& other = BodyOf(graph, "y", "else_branch");
  EXPECT_THAT(CapturesOf(other), ElementsAre("x"));
  EXPECT_THAT(Nodes(other), ElementsAre("r = Mul-17(x, x)"));
  EXPECT_EQ(graph.captures(), 0);
}

TEST(BodyImport, ACaptureKeepsTheTypeThatIsDeclared) {
  ModelBuilder model = Outer();
  Branches(model, Body("Relu", {"x"}), Body("Relu", {"x"}));
  const graph::Graph graph = GraphOf(model);
  const graph::Graph& then = BodyOf(graph, "y", "then_branch");
  EXPECT_EQ(graph::ToString(then.value(then.inputs()[0]).type), "float[2]");
}

TEST(BodyImport, FormalInputsStandBeforeCaptures) {
  ModelBuilder body;
  body.Input("i", DType::kInt64, {}).Input("keep", DType::kBool, {}).Input("state");
  body.Node("Add", {"state", "x"}, {"next"}).Node("Identity", {"keep"}, {"go"});
  body.Output("go").Output("next");
  ModelBuilder model = Outer();
  model.Node("Loop", {"", "c", "x"}, {"y"}).Body("body", body);
  const graph::Graph graph = GraphOf(model);
  EXPECT_THAT(Names(graph, NodeOf(graph, "y").inputs), ElementsAre("-", "c", "x", "x"));
  const graph::Graph& imported = BodyOf(graph, "y", "body");
  EXPECT_THAT(FormalInputs(imported), ElementsAre("i", "keep", "state"));
  EXPECT_THAT(CapturesOf(imported), ElementsAre("x"));
  EXPECT_THAT(imported.output_names(), ElementsAre("go", "next"));
}

TEST(BodyImport, ACaptureFromTwoGraphsOutPassesThroughTheGraphBetween) {
  ModelBuilder middle;
  middle.Node("Neg", {"x"}, {"m"})
      .Node("If", {"c"}, {"r"})
      .Body("then_branch", Body("Add", {"deep", "m"}))
      .Body("else_branch", Body("Relu", {"deep"}))
      .Output("r");
  ModelBuilder model = Outer();
  model.Node("Relu", {"x"}, {"deep"});
  Branches(model, middle, Body("Relu", {"x"}));
  const graph::Graph graph = GraphOf(model);
  const graph::Node& node = NodeOf(graph, "y");
  EXPECT_THAT(Names(graph, node.inputs), ElementsAre("c", "x", "x", "c", "deep"));
  EXPECT_EQ(node.captures, 4);
  const graph::Graph& then = BodyOf(graph, "y", "then_branch");
  EXPECT_THAT(CapturesOf(then), ElementsAre("x", "c", "deep"));
  EXPECT_THAT(Nodes(then)[0], "m = Neg-17(x)");
  const graph::Node& inner = NodeOf(then, "r");
  EXPECT_THAT(Names(then, inner.inputs), ElementsAre("c", "deep", "deep", "m"));
  EXPECT_EQ(inner.captures, 3);
  EXPECT_THAT(CapturesOf(BodyOf(then, "r", "then_branch")), ElementsAre("deep", "m"));
  EXPECT_THAT(CapturesOf(BodyOf(then, "r", "else_branch")), ElementsAre("deep"));
}

TEST(BodyImport, ConstantsAroundBecomeConstantsOfTheBody) {
  ModelBuilder inner;
  inner.Node("If", {"c"}, {"r"})
      .Body("then_branch", Body("Add", {"x", "w"}))
      .Body("else_branch", Body("Relu", {"w"}))
      .Output("r");
  ModelBuilder model = Outer();
  model.Initializer("w", Pair());
  Branches(model, inner, Body("Add", {"w", "w"}));
  const graph::Graph graph = GraphOf(model);
  EXPECT_THAT(Names(graph, NodeOf(graph, "y").inputs), ElementsAre("c", "c", "x"));
  const graph::Graph& other = BodyOf(graph, "y", "else_branch");
  EXPECT_EQ(other.captures(), 0);
  const graph::Value& in_body = other.value(other.FindValue("w"));
  EXPECT_FALSE(in_body.is_input);
  EXPECT_EQ(in_body.constant, graph.value(graph.FindValue("w")).constant);
  const graph::Graph& then = BodyOf(graph, "y", "then_branch");
  const graph::Graph& deepest = BodyOf(then, "r", "then_branch");
  EXPECT_THAT(CapturesOf(deepest), ElementsAre("x"));
  EXPECT_EQ(deepest.value(deepest.FindValue("w")).constant, in_body.constant);
}

TEST(BodyImport, AnInputWithADefaultIsCapturedBecauseARequestMayOverrideIt) {
  ModelBuilder model = Outer();
  model.Input("w", DType::kFloat, {2}).Initializer("w", Pair());
  Branches(model, Body("Relu", {"w"}), Body("Relu", {"x"}));
  const graph::Graph graph = GraphOf(model);
  EXPECT_THAT(CapturesOf(BodyOf(graph, "y", "then_branch")), ElementsAre("w"));
  model.IrVersion(3);
  const graph::Graph old = GraphOf(model);
  EXPECT_THAT(CapturesOf(BodyOf(old, "y", "then_branch")), IsEmpty());
}

TEST(BodyImport, ABodyMayReturnAValueOfTheGraphAround) {
  ModelBuilder captured;
  captured.Output("x");
  ModelBuilder constant;
  constant.Output("w");
  ModelBuilder model = Outer();
  model.Initializer("w", Pair());
  Branches(model, captured, constant);
  const graph::Graph graph = GraphOf(model);
  const graph::Graph& then = BodyOf(graph, "y", "then_branch");
  EXPECT_THAT(CapturesOf(then), ElementsAre("x"));
  EXPECT_THAT(Names(then, then.outputs()), ElementsAre("x"));
  const graph::Graph& other = BodyOf(graph, "y", "else_branch");
  EXPECT_THAT(CapturesOf(other), IsEmpty());
  EXPECT_NE(other.value(other.outputs()[0]).constant, nullptr);
}

TEST(BodyImport, ABodyMayReturnAValueTwice) {
  ModelBuilder body;
  body.Node("Relu", {"x"}, {"r"}).Output("r").Output("r");
  ModelBuilder model = Outer();
  Branches(model, body, body);
  const graph::Graph graph = GraphOf(model);
  EXPECT_THAT(BodyOf(graph, "y", "then_branch").output_names(), ElementsAre("r", "r"));
}

TEST(BodyImport, ANameOfABodyHidesThatOfTheGraphAround) {
  ModelBuilder body;
  body.Node("Neg", {"c"}, {"x"}).Node("Relu", {"x"}, {"r"}).Output("r");
  ModelBuilder initializer = Body("Relu", {"x"});
  initializer.Initializer("x", Pair());
  ModelBuilder model = Outer();
  Branches(model, body, initializer);
  const graph::Graph graph = GraphOf(model);
  const graph::Graph& then = BodyOf(graph, "y", "then_branch");
  EXPECT_THAT(Nodes(then), ElementsAre("x = Neg-17(c)", "r = Relu-17(x)"));
  EXPECT_THAT(CapturesOf(then), ElementsAre("c"));
  EXPECT_THAT(CapturesOf(BodyOf(graph, "y", "else_branch")), IsEmpty());
}

TEST(BodyImport, ReadingANameBeforeTheBodyHidesItIsRefused) {
  ModelBuilder body;
  body.Node("Relu", {"x"}, {"r"}).Node("Neg", {"c"}, {"x"}).Output("r");
  ModelBuilder model = Outer();
  Branches(model, body, Body("Relu", {"x"}));
  EXPECT_THAT(ErrorOf(model), AllOf(HasSubstr("node 'choice' (If)"), HasSubstr("'then_branch'"),
                                    HasSubstr("'x' is read before this body defines it")));
}

TEST(BodyImport, ABodyInABodyCannotReadAheadOfWhatHidesTheNameEither) {
  ModelBuilder body;
  body.Node("If", {"c"}, {"r"})
      .Body("then_branch", Body("Relu", {"x"}))
      .Body("else_branch", Body("Relu", {"c"}))
      .Node("Neg", {"c"}, {"x"})
      .Output("r");
  ModelBuilder model = Outer();
  Branches(model, body, Body("Relu", {"x"}));
  EXPECT_THAT(ErrorOf(model), HasSubstr("'x' is read before"));
}

TEST(BodyImport, NodesOfABodyMayBeUnsortedToo) {
  ModelBuilder body;
  body.Node("Relu", {"late"}, {"r"}).Node("Neg", {"x"}, {"late"}).Output("r");
  ModelBuilder model = Outer();
  Branches(model, body, Body("Relu", {"later"}));
  model.Node("Abs", {"x"}, {"later"});
  const graph::Graph graph = GraphOf(model);
  EXPECT_THAT(Nodes(BodyOf(graph, "y", "then_branch")),
              ElementsAre("late = Neg-17(x)", "r = Relu-17(late)"));
  EXPECT_THAT(CapturesOf(BodyOf(graph, "y", "else_branch")), ElementsAre("later"));
  EXPECT_EQ(graph.node(graph.order()[0]).op_type, "Abs");
}

TEST(BodyImport, CyclesThroughABodyAreRefused) {
  ModelBuilder model = Outer();
  Branches(model, Body("Relu", {"y"}), Body("Relu", {"x"}));
  EXPECT_THAT(ErrorOf(model), AllOf(HasSubstr("cycle"), HasSubstr("'choice'")));
  ModelBuilder inside;
  inside.Node("Relu", {"b"}, {"a"}).Node("Relu", {"a"}, {"b"}).Output("b");
  ModelBuilder around = Outer();
  Branches(around, inside, Body("Relu", {"x"}));
  EXPECT_THAT(ErrorOf(around), AllOf(HasSubstr("'then_branch'"), HasSubstr("cycle")));
}

TEST(BodyImport, AnInputOfABodyThatIsAnInitializerOfItIsRefused) {
  ModelBuilder body;
  body.Input("i").Input("keep").Input("state").Initializer("state", Pair());
  body.Node("Identity", {"keep"}, {"go"}).Output("go").Output("state");
  ModelBuilder model = Outer();
  model.Node("Loop", {"", "c", "x"}, {"y"}, {}, "loop").Body("body", body);
  for (const int version : {3, 8}) {
    EXPECT_THAT(ErrorOf(model.IrVersion(version)),
                AllOf(HasSubstr("node 'loop' (Loop)"), HasSubstr("'state' is an input of body")));
  }
}

TEST(BodyImport, WhatABodyDoesNotDefineIsRefused) {
  ModelBuilder reads = Outer();
  Branches(reads, Body("Relu", {"ghost"}), Body("Relu", {"x"}));
  EXPECT_THAT(ErrorOf(reads), HasSubstr("'ghost' is read"));
  ModelBuilder returns = Body("Relu", {"x"});
  returns.Output("ghost");
  ModelBuilder model = Outer();
  Branches(model, returns, Body("Relu", {"x"}));
  EXPECT_THAT(ErrorOf(model), HasSubstr("graph output 'ghost' is not produced"));
  // A name of one branch is none of the other, nor of the graph around.
  ModelBuilder sibling = Outer();
  Branches(sibling, Body("Relu", {"x"}, "mine"), Body("Relu", {"mine"}));
  EXPECT_THAT(ErrorOf(sibling), HasSubstr("'mine' is read"));
  ModelBuilder after = Outer();
  Branches(after, Body("Relu", {"x"}, "mine"), Body("Relu", {"x"})).Node("Neg", {"mine"}, {"z"});
  EXPECT_THAT(ErrorOf(after), HasSubstr("'mine' is read"));
  ModelBuilder twice = Body("Relu", {"x"});
  twice.Node("Relu", {"x"}, {"r"});
  ModelBuilder model_twice = Outer();
  Branches(model_twice, twice, Body("Relu", {"x"}));
  EXPECT_THAT(ErrorOf(model_twice), HasSubstr("'r' is defined twice"));
}

TEST(BodyImport, BodiesNestAsDeepAsMessagesMay) {
  const auto nested = [](int depth) {
    ModelBuilder body = Body("Relu", {"x"});
    for (int i = 1; i < depth; ++i) {
      ModelBuilder around;
      around.Node("If", {"c"}, {"r"}).Body("then_branch", body).Output("r");
      body = std::move(around);
    }
    ModelBuilder model = Outer();
    model.Node("If", {"c"}, {"y"}).Body("then_branch", body);
    return model;
  };
  const graph::Graph graph = GraphOf(nested(30));
  const graph::Graph* body = &BodyOf(graph, "y", "then_branch");
  for (int i = 1; i < 30; ++i) {
    EXPECT_THAT(CapturesOf(*body), ElementsAre("c", "x")) << i;
    body = &BodyOf(*body, "r", "then_branch");
  }
  EXPECT_THAT(CapturesOf(*body), ElementsAre("x"));
  EXPECT_THAT(ErrorOf(nested(40)), HasSubstr("nested more than 100 deep"));
}

TEST(BodyImport, NodesOfBodiesCountAsNodesOfTheModel) {
  ModelBuilder body = Body("Relu", {"x"});
  for (int i = 0; i < kMaxNodes / 2; ++i) body.Node("Relu", {"x"}, {});
  ModelBuilder model = Outer();
  Branches(model, body, body);
  EXPECT_THAT(ErrorOf(model), HasSubstr("more than 500000 nodes"));
}

}  // namespace
}  // namespace tandem::onnx_import
