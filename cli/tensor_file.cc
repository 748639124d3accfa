#include "cli/tensor_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli/npy.h"
#include "engine/onnx/tensor_proto.h"

namespace tandem::cli {
namespace {

enum class Kind { kNpy, kPb };

StatusOr<Kind> KindOf(const std::string& path) {
  const std::string ending = std::filesystem::path(path).extension();
  if (ending == ".npy") return Kind::kNpy;
  if (ending == ".pb") return Kind::kPb;
  return InvalidArgument("file '{}' ends with '{}'; .npy or .pb is expected", path, ending);
}

}  // namespace

StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  if (file && (file.peek() == std::ifstream::traits_type::eof() || bytes << file.rdbuf())) {
    return std::move(bytes).str();
  }
  const int error = errno;
  if (error == ENOENT) return NotFound("there is no file '{}'", path);
  return InvalidArgument("file '{}' cannot be read: {}", path, std::strerror(error));
}

Status WriteFile(const std::string& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (file) return absl::OkStatus();
  return InvalidArgument("file '{}' cannot be written: {}", path, std::strerror(errno));
}

StatusOr<Tensor> ReadTensorFile(const std::string& path) {
  ASSIGN_OR_RETURN(const Kind kind, KindOf(path));
  ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  StatusOr<Tensor> tensor = kind == Kind::kNpy ? ParseNpy(bytes) : onnx_import::ParseTensor(bytes);
  if (!tensor.ok()) return Annotate(tensor.status(), fmt::format("file '{}'", path));
  return tensor;
}

Status WriteTensorFile(const std::string& path, const Tensor& tensor, const std::string& name) {
  ASSIGN_OR_RETURN(const Kind kind, KindOf(path));
  if (kind == Kind::kPb) return WriteFile(path, onnx_import::SerializeTensor(tensor, name));
  ASSIGN_OR_RETURN(const std::string bytes, SerializeNpy(tensor));
  return WriteFile(path, bytes);
}

}  // namespace tandem::cli
