// Inputs that requests hand over in another layout than the model's file declares.
#pragma once

#include <map>
#include <string>

#include "engine/graph/graph.h"
#include "engine/tensor/tensor.h"

namespace tandem::onnx_import {

// Declares every input that `layouts` names with Layout::kChannelsLast as its channels-last form (N
// H W C where the file says N C H W) and puts a Transpose behind it, which costs nothing where its
// readers compute in that layout. InvalidArgument names the input: unknown, with a default, or of a
// rank that is unknown or below 3.
Status ApplyInputLayouts(const std::map<std::string, Layout>& layouts, graph::Graph& graph);

}  // namespace tandem::onnx_import
