#include "tests/engine/api/folding.h"

#include "tests/support/random_tensor.h"

namespace tandem::test {

Tensor IntTensor(const std::vector<int64_t>& values) {
  return Tensor::Of<int64_t>({std::ssize(values)}, std::span<const int64_t>(values));
}

EngineOptions WithoutFolding() {
  return {.threads = 1, .precision = Precision::kF32Plain, .disabled_passes = {"fold_constants"}};
}

EngineOptions Strict() {
  EngineOptions options;
  options.threads = 1;
  options.precision = Precision::kF32Plain;
  options.fold_growth_bytes = 256;
  options.model_growth_share = 0;
  options.model_growth_bytes = 256;
  return options;
}

Loaded LoadAndRun(const Engine& engine, const ModelBuilder& builder,
                  const std::vector<NamedTensor>& inputs) {
  Loaded loaded{.inputs = inputs};
  const auto model = engine.LoadBytes(builder.Serialize());
  EXPECT_TRUE(model.ok()) << model.status();
  if (!model.ok()) return loaded;
  loaded.model = *model;
  std::vector<NamedShape> shapes;
  for (const NamedTensor& input : inputs) shapes.push_back({input.name, input.tensor.shape()});
  const auto report = loaded.model->Report(shapes);
  EXPECT_TRUE(report.ok()) << report.status();
  if (!report.ok()) return loaded;
  loaded.report = *report;
  for (const TaskReport& task : report->tasks) {
    const bool moves = task.kernel == "view" || task.kernel.starts_with("convert_layout");
    if (!moves) loaded.kernels.push_back(task.kernel);
  }
  for (const Decline& decline : report->declines) {
    if (decline.pass != "schedule") loaded.declines.push_back(decline);
  }
  auto result = loaded.model->Run(inputs);
  EXPECT_TRUE(result.ok()) << result.status();
  if (result.ok()) loaded.outputs = std::move(result->outputs);
  return loaded;
}

void ExpectFolded(const ModelBuilder& builder, const std::vector<NamedTensor>& inputs, size_t steps,
                  Tolerance tolerance) {
  const Engine engine(Strict());
  const Loaded folded = LoadAndRun(engine, builder, inputs);
  ASSERT_NE(folded.model, nullptr);
  EXPECT_EQ(folded.kernels.size(), steps) << folded.model->Explain();
  EXPECT_TRUE(folded.declines.empty()) << folded.model->Explain();
  const Engine unfolding(WithoutFolding());
  const Loaded plain = LoadAndRun(unfolding, builder, inputs);
  EXPECT_GT(plain.kernels.size(), steps);
  ASSERT_EQ(folded.outputs.size(), plain.outputs.size());
  for (size_t i = 0; i < plain.outputs.size(); ++i) {
    EXPECT_TRUE(Close(folded.outputs[i].tensor, plain.outputs[i].tensor, tolerance));
  }
}

ModelBuilder SpectralNorm() {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {1, 4, 9, 9})
      .Initializer("weight", RandomFloats({20, 4, 3, 3}, 1))
      .Initializer("matrix_shape", IntTensor({20, 36}))
      .Initializer("u", RandomFloats({20}, 2))
      .Initializer("v", RandomFloats({36}, 3))
      .Node("Reshape", {"weight", "matrix_shape"}, {"matrix"})
      .Node("MatMul", {"matrix", "v"}, {"wv"})
      .Node("MatMul", {"u", "wv"}, {"sigma"})
      .Node("Div", {"weight", "sigma"}, {"w"})
      .Node("Conv", {"x", "w"}, {"y"})
      .Output("y");
  return builder;
}

}  // namespace tandem::test
