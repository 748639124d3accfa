#include "engine/onnx/input_layouts.h"

#include <algorithm>
#include <vector>

namespace tandem::onnx_import {
namespace {

StatusOr<graph::ValueId> FindImage(const graph::Graph& graph, const std::string& name) {
  const graph::ValueId id = graph.FindValue(name);
  if (id == graph::kNoValue || !graph.value(id).is_input) {
    return InvalidArgument("a layout is given for '{}', which is no input of the model", name);
  }
  const graph::Value& value = graph.value(id);
  if (value.constant != nullptr) {
    return InvalidArgument("a layout is given for input '{}', which has a default", name);
  }
  if (!value.type.dims || value.type.dims->size() < 3) {
    return InvalidArgument(
        "input '{}' is declared as {}; channels-last is for three axes and more, batch and "
        "channels "
        "first",
        name, ToString(value.type));
  }
  return id;
}

void ReadChannelsLast(graph::ValueId input, graph::Graph& graph) {
  const graph::ValueType declared = graph.value(input).type;
  const graph::ValueId channels_first =
      graph.AddValue(graph.value(input).name + " channels first", declared);
  graph.ReplaceUses(input, channels_first);
  graph::DimVector& dims = *graph.mutable_value(input).type.dims;
  std::rotate(dims.begin() + 1, dims.begin() + 2, dims.end());
  std::vector<int64_t> perm = {0, static_cast<int64_t>(dims.size()) - 1};
  for (int64_t axis = 1; axis + 1 < static_cast<int64_t>(dims.size()); ++axis) perm.push_back(axis);
  graph::Node transpose;
  transpose.op_type = "Transpose";
  transpose.opset = 13;
  transpose.attributes["perm"] = std::move(perm);
  transpose.inputs = {input};
  transpose.outputs = {channels_first};
  graph.AddNode(std::move(transpose));
}

}  // namespace

Status ApplyInputLayouts(const std::map<std::string, Layout>& layouts, graph::Graph& graph) {
  for (const auto& [name, layout] : layouts) {
    ASSIGN_OR_RETURN(const graph::ValueId input, FindImage(graph, name));
    if (layout == Layout::kChannelsLast) ReadChannelsLast(input, graph);
  }
  return graph.Sort();
}

}  // namespace tandem::onnx_import
