// Models with bodies, for the tests of If, Loop and Scan.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "tests/support/model_builder.h"

namespace tandem::test::control_flow {

Tensor Floats(std::initializer_list<float> values);
Tensor Integers(std::initializer_list<int64_t> values);
std::shared_ptr<const Model> Load(const ModelBuilder& builder, const Engine& engine);
const Engine& OneThread();
std::string LoadError(const ModelBuilder& builder);

// The outputs of one run, in the model's order; the test fails when there are none.
std::vector<Tensor> RunModel(const ModelBuilder& builder, const std::vector<NamedTensor>& inputs);
std::string RunError(const ModelBuilder& builder, const std::vector<NamedTensor>& inputs);

// r = op(inputs), for a body without inputs.
ModelBuilder Branch(const std::string& op, const std::vector<std::string>& inputs,
                    const graph::Attributes& attributes = {});

// Inputs c and x, y = If(c) of these branches.
ModelBuilder Choice(const ModelBuilder& then, const ModelBuilder& other);
std::vector<NamedTensor> ChoiceInputs(bool condition, const Tensor& x);

// Inputs M, c and carried values; the body's inputs are i, go and names of its own.
ModelBuilder LoopModel(const ModelBuilder& body, const std::vector<std::string>& inputs,
                       const std::vector<std::string>& outputs);
std::vector<NamedTensor> LoopInputs(int64_t trips, const Tensor& x, bool condition = true);
ModelBuilder LoopBody(const std::vector<std::string>& carried);

// a -> a + x, which the scan output shows, too.
ModelBuilder Summing();

}  // namespace tandem::test::control_flow
