#include "engine/onnx/import.h"

#include <errno.h>
#include <fcntl.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <onnx/onnx_pb.h>

#include <cstring>
#include <filesystem>

#include "engine/base/reasons.h"
#include "engine/onnx/external_data.h"
#include "engine/onnx/file.h"
#include "engine/onnx/functions.h"
#include "engine/onnx/graph_import.h"
#include "engine/onnx/parse_message.h"
#include "engine/onnx/split_model.h"
#include "engine/onnx/unknown_fields.h"
#include "engine/ops/registry.h"

namespace tandem::onnx_import {
namespace {

std::string ProducerOf(const ::onnx::ModelProto& model) {
  const std::string& name = model.producer_name();
  const std::string& version = model.producer_version();
  return name + (name.empty() || version.empty() ? "" : " ") + version;
}

// What a model is refused for, with all that is wrong with its operators.
Status WithOperators(const Status& refused, graph::Graph& graph) {
  const Status resolved = ops::ResolveAll(graph);
  return AllReasons({refused, resolved, ops::InferAll(graph)});
}

StatusOr<ImportedModel> ImportModel(::onnx::ModelProto& model, const WeightSource& weights,
                                    const ImportOptions& options, graph::ConstantStore& constants) {
  if (model.ir_version() < 1) {
    return InvalidArgument("IR version {} is not known", model.ir_version());
  }
  if (!model.has_graph()) return InvalidArgument("the model has no graph");
  if (model.opset_import_size() == 0) return InvalidArgument("the model imports no opset");
  RETURN_IF_ERROR(CheckUnknownFields(model));
  ImportedModel imported;
  imported.ir_version = model.ir_version();
  imported.producer = ProducerOf(model);
  for (const ::onnx::StringStringEntryProto& entry : model.metadata_props()) {
    if (!imported.metadata.emplace(entry.key(), entry.value()).second) {
      return InvalidArgument("metadata key '{}' is given twice", entry.key());
    }
  }
  const auto [opsets, opsets_status] = DecodeOpsets(model.opset_import());
  imported.opsets.insert(opsets.begin(), opsets.end());
  ASSIGN_OR_RETURN(const FunctionTable functions, FunctionTable::Make(model, opsets));
  ExternalData external(options);
  GraphImporter importer(model, weights, opsets, functions, external, constants);
  StatusOr<graph::Graph> graph = importer.Run();
  const Status refused = AllReasons({opsets_status, functions.opsets_status(), graph.status()});
  if (!graph.ok()) return refused;
  if (!refused.ok() || importer.misses_opset()) return WithOperators(refused, *graph);
  imported.graph = *std::move(graph);
  return imported;
}

}  // namespace

StatusOr<ImportedModel> ImportFile(const std::string& path, const ImportOptions& options,
                                   graph::ConstantStore& constants) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.valid()) {
    const int error = errno;
    return MakeStatus(
        error == ENOENT ? absl::StatusCode::kNotFound : absl::StatusCode::kInvalidArgument,
        fmt::format("the model file cannot be opened: {}", std::strerror(error)));
  }
  struct stat info;
  if (fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return InvalidArgument("the model is not a regular file");
  }
  if (info.st_size == 0) return InvalidArgument("the model file is empty");
  google::protobuf::io::FileInputStream stream(file.get());
  ASSIGN_OR_RETURN(SplitModel model, ParseModel(stream, info.st_size));
  const WeightSource weights{model.raw_data, [&](int64_t offset, std::span<std::byte> into) {
                               return ReadFully(file.get(), offset, into, "the model file");
                             }};
  ImportOptions with_directory = options;
  if (with_directory.external_data_directory.empty()) {
    with_directory.external_data_directory = std::filesystem::absolute(path).parent_path().string();
  }
  StatusOr<ImportedModel> imported = ImportModel(model.rest, weights, with_directory, constants);
  struct stat after;
  if (fstat(file.get(), &after) != 0 || !SameFile(info, after)) {
    return InvalidArgument("the model file changed while it was loaded");
  }
  return imported;
}

StatusOr<ImportedModel> ImportBytes(std::string_view bytes, const ImportOptions& options,
                                    graph::ConstantStore& constants) {
  if (bytes.empty()) return InvalidArgument("the model is empty");
  RETURN_IF_ERROR(CheckMessageSize(static_cast<int64_t>(bytes.size())));
  google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  ASSIGN_OR_RETURN(SplitModel model, ParseModel(stream, static_cast<int64_t>(bytes.size())));
  const WeightSource weights{model.raw_data, [&](int64_t offset, std::span<std::byte> into) {
                               std::memcpy(into.data(), bytes.data() + offset, into.size());
                               return absl::OkStatus();
                             }};
  return ImportModel(model.rest, weights, options, constants);
}

}  // namespace tandem::onnx_import
