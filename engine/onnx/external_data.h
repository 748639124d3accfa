// Tensors in files beside the model (TensorProto.external_data), confined to a directory: no path
// leads out of it, through whatever links, and nothing but regular files is read. Checks and reads
// happen on one open file, so a file that is swapped meanwhile gains nothing.
#pragma once

#include <onnx/onnx_pb.h>
#include <sys/stat.h>

#include <map>
#include <optional>
#include <string>

#include "engine/base/status.h"
#include "engine/onnx/file.h"
#include "engine/onnx/import.h"
#include "engine/tensor/tensor.h"

namespace tandem::onnx_import {

// The entries of TensorProto.external_data.
struct ExternalLocation {
  std::string location;
  int64_t offset = 0;             // bytes
  std::optional<int64_t> length;  // bytes; absent: the rest of the file
};

// InvalidArgument for unknown or repeated keys, numbers that are not plain decimals, and locations
// that are not relative paths below their directory. The key "checksum" is accepted and not used.
StatusOr<ExternalLocation> ParseExternalLocation(const ::onnx::TensorProto& proto);

// Opens the files of one model, and keeps the last one open. Not thread-safe.
class ExternalData {
 public:
  explicit ExternalData(const ImportOptions& options) : options_(options) {}

  // The tensor's elements, read into memory. InvalidArgument says what is wrong with file, range or
  // byte count.
  StatusOr<Tensor> Read(const ExternalLocation& where, DType dtype, const Shape& shape);

 private:
  Status Open(const std::string& location);

  const ImportOptions& options_;
  FileDescriptor root_;
  std::string prefix_;  // of locations, below root_
  FileDescriptor file_;
  std::string file_location_;
  std::map<std::string, struct stat> seen_;  // files are the same whenever they are opened
};

}  // namespace tandem::onnx_import
