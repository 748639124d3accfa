#include "tests/engine/onnx/import_testing.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/base/check.h"
#include "engine/graph/dump.h"

namespace tandem::onnx_import {
namespace {

std::string NameOf(const graph::Graph& graph, graph::ValueId id) {
  return id == graph::kNoValue ? "-" : graph.value(id).name;
}

std::string Joined(const graph::Graph& graph, const std::vector<graph::ValueId>& ids) {
  std::string text;
  for (const graph::ValueId id : ids) text += (text.empty() ? "" : ", ") + NameOf(graph, id);
  return text;
}

}  // namespace

StatusOr<ImportedModel> Import(const test::ModelBuilder& model) {
  graph::ConstantStore constants;
  return ImportBytes(model.Serialize(), {}, constants);
}

graph::Graph GraphOf(const test::ModelBuilder& model) {
  StatusOr<ImportedModel> imported = Import(model);
  EXPECT_TRUE(imported.ok()) << imported.status();
  return imported.ok() ? std::move(imported->graph) : graph::Graph();
}

std::string ErrorOf(const test::ModelBuilder& model) {
  const StatusOr<ImportedModel> imported = Import(model);
  if (imported.ok()) return "no error";
  const Status& status = imported.status();
  std::string message(Message(status));
  if (status.code() == absl::StatusCode::kInvalidArgument) return message;
  return absl::StatusCodeToString(status.code()) + ": " + message;
}

std::vector<std::string> Nodes(const graph::Graph& graph) {
  std::vector<std::string> lines;
  for (const graph::NodeId id : graph.order()) {
    const graph::Node& node = graph.node(id);
    std::string attributes;
    for (const auto& [name, value] : node.attributes) {
      attributes += (attributes.empty() ? "" : ", ") + name + "=" + graph::ToString(value);
    }
    lines.push_back(fmt::format("{} = {}{}{}-{}({}){}", Joined(graph, node.outputs), node.domain,
                                node.domain.empty() ? "" : ".", node.op_type, node.opset,
                                Joined(graph, node.inputs),
                                attributes.empty() ? "" : " {" + attributes + "}"));
  }
  return lines;
}

std::vector<std::string> Names(const graph::Graph& graph, const std::vector<graph::ValueId>& ids) {
  std::vector<std::string> names;
  for (const graph::ValueId id : ids) names.push_back(NameOf(graph, id));
  return names;
}

std::vector<std::string> CapturesOf(const graph::Graph& body) {
  const std::vector<std::string> names = Names(body, body.inputs());
  return {names.end() - body.captures(), names.end()};
}

std::vector<std::string> FormalInputs(const graph::Graph& body) {
  const std::vector<std::string> names = Names(body, body.inputs());
  return {names.begin(), names.end() - body.captures()};
}

const graph::Node& NodeOf(const graph::Graph& graph, const std::string& output) {
  const graph::ValueId id = graph.FindValue(output);
  CHECK(id != graph::kNoValue, "no value is named '{}'", output);
  return graph.node(graph.value(id).def);
}

const graph::Graph& BodyOf(const graph::Graph& graph, const std::string& output,
                           const std::string& attribute) {
  const graph::Node& node = NodeOf(graph, output);
  const auto found = node.attributes.find(attribute);
  CHECK(found != node.attributes.end(), "it has no attribute '{}'", attribute);
  return *found->second.get<std::shared_ptr<const graph::Graph>>();
}

}  // namespace tandem::onnx_import
