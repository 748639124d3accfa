#include "engine/onnx/import.h"

#include <errno.h>
#include <fcntl.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <onnx/onnx_pb.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>

#include "engine/onnx/external_data.h"
#include "engine/onnx/functions.h"
#include "engine/onnx/graph_import.h"
#include "engine/onnx/parse_message.h"
#include "engine/onnx/unknown_fields.h"

namespace tandem::onnx_import {
namespace {

std::string ProducerOf(const ::onnx::ModelProto& model) {
  const std::string& name = model.producer_name();
  const std::string& version = model.producer_version();
  return name + (name.empty() || version.empty() ? "" : " ") + version;
}

StatusOr<ImportedModel> ImportModel(::onnx::ModelProto& model, const ImportOptions& options,
                                    graph::ConstantStore& constants) {
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
  ASSIGN_OR_RETURN(const Opsets opsets, DecodeOpsets(model.opset_import()));
  imported.opsets.insert(opsets.begin(), opsets.end());
  ASSIGN_OR_RETURN(const FunctionTable functions, FunctionTable::Make(model, opsets));
  ExternalData external(options);
  GraphImporter importer(model, opsets, functions, external, constants);
  ASSIGN_OR_RETURN(imported.graph, importer.Run());
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
  google::protobuf::io::FileInputStream stream(file.get());
  ::onnx::ModelProto model;
  RETURN_IF_ERROR(ParseMessage(stream, info.st_size, model));
  ImportOptions with_directory = options;
  if (with_directory.external_data_directory.empty()) {
    with_directory.external_data_directory = std::filesystem::absolute(path).parent_path().string();
  }
  return ImportModel(model, with_directory, constants);
}

StatusOr<ImportedModel> ImportBytes(std::string_view bytes, const ImportOptions& options,
                                    graph::ConstantStore& constants) {
  ::onnx::ModelProto model;
  RETURN_IF_ERROR(ParseMessage(bytes, model));
  return ImportModel(model, options, constants);
}

}  // namespace tandem::onnx_import
