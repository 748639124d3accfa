// ONNX files and bytes become a graph::Graph (onnx/onnx.proto, IR.md). Only this folder includes
// ONNX's protobuf messages. Nothing is dropped silently: what the importer does not understand is a
// load error that names it. Documentation strings, metadata of nodes and values, denotations,
// annotations of quantization and devices, and training information say nothing about inference and
// are passed over.
//
// What a graph looks like after import:
//  - Initializers are values with a constant. One that is also a graph input is, before IR version
//  4,
//    a constant only; from then on an input with a default (Value::is_input and Value::constant).
//  - Constant nodes stay nodes.
//  - Calls of the model's own functions are inlined. Values and nodes of a call are named after it:
//    "call/value". An attribute reference takes the caller's attribute, else the function's
//    default; without either the attribute is absent.
//  - Each body of control flow is a Graph of its own in a node's attributes. A value of a graph
//  around
//    it that the body reads becomes an additional last input of the body and of the node that has
//    it (Graph::captures, Node::captures); a constant that no request can override becomes a
//    constant of the body instead. A body may return such a value, too.
//  - A name defined in a body hides the same name of the graphs around it. Reading it before the
//  body
//    defines it could mean either and is refused.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace tandem::onnx_import {

// Bodies in bodies and functions in functions, together.
inline constexpr int kMaxNesting = 64;
// Nodes of a file, those in bodies included, and nodes made by inlining functions.
inline constexpr int kMaxNodes = 500'000;
inline constexpr int kMaxInlinedNodes = 100'000;
// Bytes of attributes, names and initializers beyond those of the file that inlining may make.
inline constexpr size_t kMaxInlinedBytes = size_t{16} << 20;
// Axes of a tensor.
inline constexpr int kMaxRank = 64;
// Bytes that all sparse initializers of a model may take when they are made dense.
inline constexpr size_t kMaxDensifiedBytes = size_t{64} << 20;

struct ImportOptions {
  // Directory that external data is confined to. Empty: ImportFile takes the directory of the file,
  // ImportBytes refuses external data.
  std::string external_data_directory;
  // Symbolic links and hard links are followed, never out of `link_root`.
  bool allow_links = false;
  // A directory that holds external_data_directory; empty: external_data_directory itself.
  std::string link_root;
};

struct ImportedModel {
  graph::Graph graph;
  int64_t ir_version = 0;
  std::string producer;                         // "pytorch 2.0.0"
  std::map<std::string, int> opsets;            // by domain, "" for ai.onnx
  std::map<std::string, std::string> metadata;  // of the model
};

// InvalidArgument names tensor, node or field and says what came and what was expected; NotFound:
// no file at `path`. Initializers are interned in `constants`; external data is read into memory.
// The graph is sorted and verified; its operators are not resolved yet. Thread-safe.
StatusOr<ImportedModel> ImportFile(const std::string& path, const ImportOptions& options,
                                   graph::ConstantStore& constants);
StatusOr<ImportedModel> ImportBytes(std::string_view bytes, const ImportOptions& options,
                                    graph::ConstantStore& constants);

}  // namespace tandem::onnx_import
