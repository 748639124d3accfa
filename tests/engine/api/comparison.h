// Compares a model with another one that means the same: in several orders of its nodes, on several
// numbers of threads, with batches of several sizes.
#pragma once

#include <string>
#include <vector>

#include "engine/engine.h"
#include "tests/support/compare.h"
#include "tests/support/interpreter.h"
#include "tests/support/model_builder.h"

namespace tandem::test {

// What a model, serialized, must compute. Products are float32 multiply-adds, in the model and in
// the oracle: what is compared is how the model is rearranged.
struct Meaning {
  // A model that computes it in another way, run on one thread; its inputs are among the model's.
  std::string oracle;
  EngineOptions options{.threads = 1};  // of the oracle
  Tolerance tolerance = Exact();
  std::vector<int64_t> batches = {1, 2, 3};
  // Instruction sets that the model runs on.
  std::vector<Isa> levels = {DetectIsa()};
  // Inputs that are not random.
  std::vector<NamedTensor> given = {};
};

// The options for an oracle that runs every node as the file has it, with packed weights.
EngineOptions WithoutPasses();
// The options for an oracle that runs every node on the reference kernels.
EngineOptions WithoutPacks();

// The model, loaded; a failure fails the test and gives null.
std::shared_ptr<const Model> LoadModel(const Engine& engine, const std::string& bytes);

// A tensor for each input that has no default, in the order of the model: those of `given`, else
// random ones, floats in [-1, 1) and integers in [0, 5). Open extents are `open`.
std::vector<NamedTensor> InputsOf(const Model& model, int64_t open,
                                  const std::vector<NamedTensor>& given = {});

// The plan with its sizes for these inputs; a failure fails the test and gives an empty one.
PlanReport ReportOf(const Model& model, const std::vector<NamedTensor>& inputs);

// Kernels and epilogues of the tasks that compute, in their order: "conv.f32 avx2 Add Relu".
std::vector<std::string> KernelsOf(const PlanReport& report);

// Tasks that pack in each run what depends on no input of the model.
std::vector<std::string> PackingOfConstantsInRuns(const PlanReport& report);

// Outputs by name; a failure fails the test and gives none.
NamedTensors Answers(const Model& model, const std::vector<NamedTensor>& inputs);

// The same names and, within the tolerance, the same tensors.
void ExpectClose(const NamedTensors& actual, const NamedTensors& expected, Tolerance tolerance);

// The same model with its nodes in other orders: as they are, from last to first, and mixed.
std::vector<std::string> OrdersOf(const std::string& bytes);

// Runs the model in all orders of its nodes on 1, 2 and 4 threads.
void ExpectMeans(const std::string& bytes, const Meaning& meaning);

// A batch of `items` gives the rows that its items give alone, on 1 and 4 threads.
void ExpectItemsAlone(const std::string& bytes, int64_t items);

}  // namespace tandem::test
