// What all models with bodies have in common.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/api/control_flow_testing.h"

namespace tandem {
namespace {

using graph::Dim;
using test::ModelBuilder;
using test::control_flow::Choice;
using test::control_flow::Load;
using test::control_flow::LoadError;
using test::control_flow::LoopBody;
using test::control_flow::LoopModel;
using test::control_flow::OneThread;
using test::control_flow::Summing;
using testing::AllOf;
using testing::HasSubstr;

TEST(ControlFlow, OtherTypesThanTensorsAreRefusedByName) {
  ModelBuilder then;
  then.Node("SequenceConstruct", {"x"}, {"s"}, {}, "make").Output("s");
  ModelBuilder model = Choice(then, then);
  model.Output("y");
  EXPECT_THAT(LoadError(model), AllOf(HasSubstr("then_branch: node 'make' (SequenceConstruct): "
                                                "operator SequenceConstruct of opset 17 is not "
                                                "supported"),
                                      HasSubstr("else_branch: node 'make'")));
}

TEST(ControlFlow, RequestsOfAModelWithBodiesDoNotJoin) {
  ModelBuilder body = LoopBody({"a"});
  body.Node("Relu", {"a"}, {"r"}).Output("go").Output("r");
  ModelBuilder model(17);
  model.Input("x", DType::kFloat, {Dim::Symbol("N"), 2});
  model.Initializer("M", Tensor::Scalar<int64_t>(2));
  model.Node("Loop", {"M", "", "x"}, {"y"}, {}, "loop").Body("body", body);
  model.Output("y", DType::kFloat, {Dim::Symbol("N"), 2});
  const auto loaded = Load(model, OneThread());
  ASSERT_NE(loaded, nullptr);
  EXPECT_FALSE(loaded->info().joinable);
  EXPECT_THAT(loaded->info().not_joinable_reason, HasSubstr("node 'loop' (Loop)"));
}

TEST(ControlFlow, ExplainShowsBodies) {
  const auto model = Load(LoopModel(Summing(), {"M", "c", "x"}, {"last", "all"}), OneThread());
  ASSERT_NE(model, nullptr);
  EXPECT_THAT(model->Explain(), AllOf(HasSubstr("node 'loop' (Loop): loop"), HasSubstr("body body"),
                                      HasSubstr("(Add): elementwise.add")));
}

}  // namespace
}  // namespace tandem
