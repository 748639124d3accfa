#include "tests/engine/api/control_flow_testing.h"

#include <gtest/gtest.h>

namespace tandem::test::control_flow {

using graph::Dim;

Tensor Floats(std::initializer_list<float> values) {
  return Tensor::Of<float>({static_cast<int64_t>(values.size())}, values);
}

Tensor Integers(std::initializer_list<int64_t> values) {
  return Tensor::Of<int64_t>({static_cast<int64_t>(values.size())}, values);
}

std::shared_ptr<const Model> Load(const ModelBuilder& builder, const Engine& engine) {
  const auto model = engine.LoadBytes(builder.Serialize());
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *model : nullptr;
}

const Engine& OneThread() {
  static const Engine engine(EngineOptions{.threads = 1});
  return engine;
}

std::string LoadError(const ModelBuilder& builder) {
  const auto model = OneThread().LoadBytes(builder.Serialize());
  return model.ok() ? "no error" : std::string(Message(model.status()));
}

std::vector<Tensor> RunModel(const ModelBuilder& builder, const std::vector<NamedTensor>& inputs) {
  const auto model = Load(builder, OneThread());
  if (model == nullptr) return std::vector<Tensor>(8, Floats({}));
  const auto result = model->Run(inputs);
  EXPECT_TRUE(result.ok()) << result.status();
  std::vector<Tensor> outputs;
  if (result.ok()) {
    for (const NamedTensor& output : result->outputs) outputs.push_back(output.tensor);
  }
  outputs.resize(8, Floats({}));
  return outputs;
}

std::string RunError(const ModelBuilder& builder, const std::vector<NamedTensor>& inputs) {
  const auto model = Load(builder, OneThread());
  if (model == nullptr) return "";
  const auto result = model->Run(inputs);
  return result.ok() ? "no error" : std::string(Message(result.status()));
}

ModelBuilder Branch(const std::string& op, const std::vector<std::string>& inputs,
                    const graph::Attributes& attributes) {
  ModelBuilder body;
  body.Node(op, inputs, {"r"}, attributes).Output("r");
  return body;
}

ModelBuilder Choice(const ModelBuilder& then, const ModelBuilder& other) {
  ModelBuilder model(17);
  model.Input("c", DType::kBool, {}).Input("x", DType::kFloat, {Dim::Symbol("N")});
  model.Node("If", {"c"}, {"y"}, {}, "choice").Body("then_branch", then).Body("else_branch", other);
  return model;
}

std::vector<NamedTensor> ChoiceInputs(bool condition, const Tensor& x) {
  return {{"c", Tensor::Scalar(condition)}, {"x", x}};
}

ModelBuilder LoopModel(const ModelBuilder& body, const std::vector<std::string>& inputs,
                       const std::vector<std::string>& outputs) {
  ModelBuilder model(17);
  model.Input("M", DType::kInt64, {}).Input("c", DType::kBool, {});
  model.Input("x", DType::kFloat, {Dim::Symbol("N")});
  model.Node("Loop", inputs, outputs, {}, "loop").Body("body", body);
  for (const std::string& output : outputs) model.Output(output);
  return model;
}

std::vector<NamedTensor> LoopInputs(int64_t trips, const Tensor& x, bool condition) {
  return {{"M", Tensor::Scalar(trips)}, {"c", Tensor::Scalar(condition)}, {"x", x}};
}

ModelBuilder LoopBody(const std::vector<std::string>& carried) {
  ModelBuilder body;
  body.Input("i", DType::kInt64, {}).Input("go", DType::kBool, {});
  for (const std::string& name : carried) body.Input(name, DType::kFloat, {Dim()});
  return body;
}

ModelBuilder Summing() {
  ModelBuilder body = LoopBody({"a"});
  body.Node("Add", {"a", "x"}, {"s"}).Node("Identity", {"s"}, {"show"});
  body.Node("Identity", {"go"}, {"on"}).Output("on").Output("s").Output("show");
  return body;
}

}  // namespace tandem::test::control_flow
