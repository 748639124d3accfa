// What the tests of imported graphs share: importing a built model, and graphs as short text.
#pragma once

#include <string>
#include <vector>

#include "engine/onnx/import.h"
#include "tests/support/model_builder.h"

namespace tandem::onnx_import {

// The model through its serialized form, without external data.
StatusOr<ImportedModel> Import(const test::ModelBuilder& model);
// The graph of a model that must import: otherwise the test has failed and the graph is empty.
graph::Graph GraphOf(const test::ModelBuilder& model);
// The message of the error, "no error" when the model imports. Errors other than InvalidArgument
// have the name of their code in front.
std::string ErrorOf(const test::ModelBuilder& model);

// The nodes in order: "y, - = domain.Op-17(x, -) {axis=1}".
std::vector<std::string> Nodes(const graph::Graph& graph);
// The names of the values.
std::vector<std::string> Names(const graph::Graph& graph, const std::vector<graph::ValueId>& ids);
// Inputs that are handed over by the node around a body; those that are not.
std::vector<std::string> CapturesOf(const graph::Graph& body);
std::vector<std::string> FormalInputs(const graph::Graph& body);

// The node that defines value `output`; it must be there.
const graph::Node& NodeOf(const graph::Graph& graph, const std::string& output);
// The body that is an attribute of the node that defines `output`; it must be there.
const graph::Graph& BodyOf(const graph::Graph& graph, const std::string& output,
                           const std::string& attribute);

}  // namespace tandem::onnx_import
