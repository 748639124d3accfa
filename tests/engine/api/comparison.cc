#include "tests/engine/api/comparison.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <random>
#include <set>

#include "engine/base/check.h"
#include "engine/optimizer/optimizer.h"
#include "tests/support/random_tensor.h"

namespace tandem::test {
namespace {

Tensor RandomIntegers(const Shape& shape, uint32_t seed) {
  std::mt19937 generator(seed);
  Tensor tensor = *Tensor::Allocate(DType::kInt64, shape);
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    tensor.mutable_data<int64_t>()[i] = static_cast<int64_t>(generator() % 5);
  }
  return tensor;
}

// The inputs that `model` has.
std::vector<NamedTensor> Those(const std::vector<NamedTensor>& inputs, const Model& model) {
  std::vector<NamedTensor> those;
  for (const NamedTensor& input : inputs) {
    const bool has = std::ranges::any_of(model.info().inputs,
                                         [&](const Port& p) { return p.name == input.name; });
    if (has) those.push_back(input);
  }
  return those;
}

}  // namespace

EngineOptions WithoutPasses() {
  return {.threads = 1,
          .precision = Precision::kF32Plain,
          .towers = false,
          .disabled_passes = optimizer::PassNames()};
}

EngineOptions WithoutPacks() {
  EngineOptions options = WithoutPasses();
  options.prepack = false;
  return options;
}

std::shared_ptr<const Model> LoadModel(const Engine& engine, const std::string& bytes) {
  auto model = engine.LoadBytes(bytes);
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *model : nullptr;
}

std::vector<NamedTensor> InputsOf(const Model& model, int64_t open,
                                  const std::vector<NamedTensor>& given) {
  std::vector<NamedTensor> inputs;
  uint32_t seed = 100;
  for (const Port& port : model.info().inputs) {
    if (port.optional) continue;
    ++seed;
    const auto found = std::ranges::find(given, port.name, &NamedTensor::name);
    if (found != given.end()) {
      inputs.push_back(*found);
      continue;
    }
    Shape shape;
    for (const graph::Dim& dim : port.dims) shape.Append(dim.is_number() ? dim.number() : open);
    const bool integers = port.dtype == DType::kInt64;
    CHECK(integers || port.dtype == DType::kFloat, "no random {}", DTypeName(port.dtype));
    inputs.push_back(
        {port.name, integers ? RandomIntegers(shape, seed) : RandomFloats(shape, seed)});
  }
  return inputs;
}

PlanReport ReportOf(const Model& model, const std::vector<NamedTensor>& inputs) {
  std::vector<NamedShape> shapes;
  for (const NamedTensor& input : inputs) shapes.push_back({input.name, input.tensor.shape()});
  const auto report = model.Report(shapes);
  EXPECT_TRUE(report.ok()) << report.status();
  return report.ok() ? *report : PlanReport();
}

std::vector<std::string> KernelsOf(const PlanReport& report) {
  std::vector<std::string> kernels;
  for (const TaskReport& task : report.tasks) {
    if (task.kernel == "view" || task.kernel.starts_with("convert_layout")) continue;
    std::string& text = kernels.emplace_back(task.kernel);
    for (const std::string& stage : task.epilogue) text += " " + stage;
  }
  return kernels;
}

std::vector<std::string> PackingOfConstantsInRuns(const PlanReport& report) {
  std::set<int> varying(report.inputs.begin(), report.inputs.end());
  std::vector<std::string> tasks;
  for (const TaskReport& task : report.tasks) {
    const auto varies = [&](int value) { return varying.contains(value); };
    if (std::ranges::any_of(task.inputs, varies)) {
      varying.insert(task.outputs.begin(), task.outputs.end());
    }
    // All that pack have their weights second.
    if (task.kernel.find("packing at run time") == std::string::npos) continue;
    if (!varies(task.inputs.at(1))) tasks.push_back(task.name);
  }
  return tasks;
}

NamedTensors Answers(const Model& model, const std::vector<NamedTensor>& inputs) {
  const auto result = model.Run(inputs);
  EXPECT_TRUE(result.ok()) << result.status();
  NamedTensors outputs;
  if (!result.ok()) return outputs;
  for (const NamedTensor& output : result->outputs) outputs[output.name] = output.tensor;
  return outputs;
}

void ExpectClose(const NamedTensors& actual, const NamedTensors& expected, Tolerance tolerance) {
  EXPECT_EQ(actual.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    const auto found = actual.find(name);
    if (found == actual.end()) {
      ADD_FAILURE() << "output '" << name << "' is missing";
    } else {
      EXPECT_TRUE(Close(found->second, tensor, tolerance)) << "output '" << name << "'";
    }
  }
}

std::vector<std::string> OrdersOf(const std::string& bytes) {
  std::vector<std::string> orders = {bytes};
  ::onnx::ModelProto model;
  CHECK(model.ParseFromString(bytes), "no model");
  const auto add = [&] {
    std::string order = model.SerializeAsString();
    if (std::ranges::find(orders, order) == orders.end()) orders.push_back(std::move(order));
  };
  auto& nodes = *model.mutable_graph()->mutable_node();
  std::reverse(nodes.pointer_begin(), nodes.pointer_end());
  add();
  std::mt19937 generator(1);
  for (int i = nodes.size() - 1; i > 0; --i) {
    nodes.SwapElements(i, static_cast<int>(generator() % static_cast<uint32_t>(i + 1)));
  }
  add();
  return orders;
}

namespace {

// A request for a batch and its answer.
struct Exchange {
  int64_t batch;
  std::vector<NamedTensor> inputs;
  NamedTensors outputs;
};

// What the oracle says, for every batch; none where a model does not load.
std::vector<Exchange> Expectations(const std::string& bytes, const Meaning& meaning) {
  EngineOptions options = meaning.options;
  options.precision = Precision::kF32Plain;
  const Engine engine(options);
  const auto model = LoadModel(engine, bytes);
  const auto oracle = LoadModel(engine, meaning.oracle);
  std::vector<Exchange> exchanges;
  if (model == nullptr || oracle == nullptr) return exchanges;
  for (const int64_t batch : meaning.batches) {
    std::vector<NamedTensor> inputs = InputsOf(*model, batch, meaning.given);
    NamedTensors outputs = Answers(*oracle, Those(inputs, *oracle));
    exchanges.push_back({batch, std::move(inputs), std::move(outputs)});
  }
  return exchanges;
}

// Runs the model in all orders of its nodes with these options.
void ExpectAnswers(const std::vector<std::string>& orders, const EngineOptions& options,
                   const std::vector<Exchange>& exchanges, Tolerance tolerance) {
  for (size_t order = 0; order < orders.size(); ++order) {
    const Engine engine(options);
    const auto model = LoadModel(engine, orders[order]);
    ASSERT_NE(model, nullptr);
    for (const Exchange& exchange : exchanges) {
      SCOPED_TRACE(fmt::format("order {}, {} threads, batch {}, {}", order, options.threads,
                               exchange.batch, IsaName(engine.isa())));
      ExpectClose(Answers(*model, exchange.inputs), exchange.outputs, tolerance);
    }
  }
}

}  // namespace

void ExpectMeans(const std::string& bytes, const Meaning& meaning) {
  const std::vector<Exchange> exchanges = Expectations(bytes, meaning);
  ASSERT_EQ(exchanges.size(), meaning.batches.size());
  const std::vector<std::string> orders = OrdersOf(bytes);
  for (const Isa isa : meaning.levels) {
    for (const int threads : {1, 2, 4}) {
      ExpectAnswers(orders, {.threads = threads, .isa = isa, .precision = Precision::kF32Plain},
                    exchanges, meaning.tolerance);
    }
  }
}

void ExpectItemsAlone(const std::string& bytes, int64_t items) {
  for (const int threads : {1, 4}) {
    const Engine engine(EngineOptions{.threads = threads});
    const auto model = LoadModel(engine, bytes);
    ASSERT_NE(model, nullptr);
    EXPECT_TRUE(model->info().joinable) << model->info().not_joinable_reason;
    const std::vector<NamedTensor> inputs = InputsOf(*model, items);
    const NamedTensors together = Answers(*model, inputs);
    for (int64_t item = 0; item < items; ++item) {
      SCOPED_TRACE(fmt::format("{} threads, item {} of {}", threads, item, items));
      std::vector<NamedTensor> row = inputs;
      for (NamedTensor& input : row) input.tensor = input.tensor.Rows(item, item + 1);
      NamedTensors expected;
      for (const auto& [name, tensor] : together) expected[name] = tensor.Rows(item, item + 1);
      ExpectClose(Answers(*model, row), expected, Exact());
    }
  }
}

}  // namespace tandem::test
