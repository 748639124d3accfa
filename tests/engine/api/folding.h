// Loads models whose weights and tables are computed from constants, and compares them with the
// same models without folding.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "tests/support/compare.h"
#include "tests/support/model_builder.h"

namespace tandem::test {

Tensor IntTensor(const std::vector<int64_t>& values);

// Loads with every constant of more than a few bytes held to what a fold frees: what is folded here
// is folded at any size.
EngineOptions Strict();
// Loads without folding, for the model that a folded one is compared with.
EngineOptions WithoutFolding();

// A model with its answer to a request; without a model, all is empty and the test has failed.
struct Loaded {
  std::shared_ptr<const Model> model;
  std::vector<NamedTensor> inputs;
  std::vector<NamedTensor> outputs;
  std::vector<std::string> kernels;  // of the steps that compute
  std::vector<Decline> declines;     // of passes
  PlanReport report;
};

Loaded LoadAndRun(const Engine& engine, const ModelBuilder& builder,
                  const std::vector<NamedTensor>& inputs);

// Folded within a strict budget, as many steps are left and the numbers are those of the model
// without folding.
void ExpectFolded(const ModelBuilder& builder, const std::vector<NamedTensor>& inputs, size_t steps,
                  Tolerance tolerance);

// A convolution of x [1,4,9,9] whose weight is divided by its largest singular value, as exporters
// write it.
ModelBuilder SpectralNorm();

}  // namespace tandem::test
