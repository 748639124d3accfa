// ONNX files and bytes become a graph::Graph (onnx/onnx.proto, IR.md). Only this folder includes
// ONNX's protobuf messages. Nothing is dropped silently: what the importer does not understand is a
// load error that names it.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace tandem::onnx_import {

struct ImportOptions {
  // Directory external data is confined to; empty: external data is refused.
  std::string external_data_directory;
  // Symbolic links and hard links inside the directory are followed, never out of it.
  bool allow_links = false;
};

struct ImportedModel {
  graph::Graph graph;
  int64_t ir_version = 0;
  std::string producer;               // "pytorch 2.0.0"
  std::map<std::string, int> opsets;  // by domain, "" for ai.onnx
  std::map<std::string, std::string> metadata;
};

// InvalidArgument names tensor, node or field and says what came and what was expected.
// Initializers are interned in `constants`. The graph is sorted and verified; its operators are not
// resolved yet.
StatusOr<ImportedModel> ImportFile(const std::string& path, const ImportOptions& options,
                                   graph::ConstantStore& constants);
StatusOr<ImportedModel> ImportBytes(std::string_view bytes, const ImportOptions& options,
                                    graph::ConstantStore& constants);

}  // namespace tandem::onnx_import
