#include "engine/onnx/external_data.h"

#include <errno.h>
#include <fcntl.h>

#include <charconv>
#include <cstring>
#include <filesystem>

#include "engine/onnx/open_beneath.h"
#include "engine/onnx/tensor_decode.h"

namespace tandem::onnx_import {
namespace {

constexpr size_t kMaxLocation = 4095;

// A location for messages: it comes from a file of unknown origin.
std::string Quoted(std::string_view location) {
  constexpr size_t kShown = 100;
  std::string text = "'";
  for (const char c : location.substr(0, kShown)) {
    const auto byte = static_cast<unsigned char>(c);
    text += byte < 0x20 || byte == 0x7f ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  return text + (location.size() > kShown ? "...'" : "'");
}

StatusOr<int64_t> ParseDecimal(std::string_view key, const std::string& text) {
  int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end || number < 0) {
    return InvalidArgument("external data has {} {} where a decimal number of bytes is expected",
                           key, Quoted(text));
  }
  return number;
}

// The location without "." parts.
StatusOr<std::string> CleanLocation(const std::string& location) {
  const auto refused = [&](std::string_view why) {
    return InvalidArgument(
        "external data has location {}, which {}; a relative path below the "
        "model's directory is expected",
        Quoted(location), why);
  };
  if (location.empty()) return refused("is empty");
  if (location.size() > kMaxLocation) return refused("is too long");
  if (location.front() == '/') return refused("is absolute");
  if (location.find('\0') != std::string::npos) return refused("holds a zero byte");
  if (location.find('\\') != std::string::npos) return refused("holds a backslash");
  std::string clean;
  size_t begin = 0;
  while (begin <= location.size()) {
    const size_t end = std::min(location.find('/', begin), location.size());
    const std::string part = location.substr(begin, end - begin);
    begin = end + 1;
    if (part.empty()) return refused("has an empty part");
    if (part == "..") return refused("has the part '..'");
    if (part == ".") continue;
    clean += (clean.empty() ? "" : "/") + part;
  }
  if (clean.empty()) return refused("names no file");
  return clean;
}

std::string OpenError(int error) {
  switch (error) {
    case ENOENT:
      return "does not exist";
    case ELOOP:
      return "is a symbolic link or lies behind one, which is not allowed";
    case EXDEV:
      return "leads out of the directory it must stay in";
    case ENXIO:
      return "is not a regular file";
    default:
      return fmt::format("cannot be opened: {}", std::strerror(error));
  }
}

// The path of `directory` below `root`; both exist in the file system's eyes only when they are
// used.
StatusOr<std::string> PathBelow(const std::string& directory, const std::string& root) {
  const auto normal = [](const std::string& path) {
    return (std::filesystem::absolute(path) / "").lexically_normal();
  };
  const std::filesystem::path below = normal(directory).lexically_relative(normal(root));
  if (below.empty() || *below.begin() == "..") {
    return FailedPrecondition("the directory of external data does not lie in the root of links");
  }
  return below == "." ? std::string() : (below / "").string();
}

}  // namespace

StatusOr<ExternalLocation> ParseExternalLocation(const ::onnx::TensorProto& proto) {
  ExternalLocation where;
  std::map<std::string, std::string> entries;
  for (const ::onnx::StringStringEntryProto& entry : proto.external_data()) {
    if (!entries.emplace(entry.key(), entry.value()).second) {
      return InvalidArgument("external data has key {} twice", Quoted(entry.key()));
    }
  }
  if (!entries.contains("location")) return InvalidArgument("external data has no location");
  for (const auto& [key, value] : entries) {
    if (key == "location") {
      ASSIGN_OR_RETURN(where.location, CleanLocation(value));
    } else if (key == "offset") {
      ASSIGN_OR_RETURN(where.offset, ParseDecimal(key, value));
    } else if (key == "length") {
      ASSIGN_OR_RETURN(where.length, ParseDecimal(key, value));
    } else if (key != "checksum") {
      return InvalidArgument(
          "external data has key {}; location, offset, length and checksum are known", Quoted(key));
    }
  }
  return where;
}

Status ExternalData::Open(const std::string& location) {
  if (options_.external_data_directory.empty()) {
    return InvalidArgument("external data {} is refused: the model has no directory",
                           Quoted(location));
  }
  if (file_.valid() && file_location_ == location) return absl::OkStatus();
  if (!root_.valid()) {
    std::string root = options_.external_data_directory;
    if (options_.allow_links && !options_.link_root.empty()) {
      root = options_.link_root;
      ASSIGN_OR_RETURN(prefix_, PathBelow(options_.external_data_directory, root));
    }
    root_ = FileDescriptor(open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!root_.valid()) {
      return InvalidArgument("the directory of external data cannot be opened: {}",
                             std::strerror(errno));
    }
  }
  const LinkRule links = options_.allow_links ? LinkRule::kInside : LinkRule::kRefuse;
  const int fd = OpenBeneath(root_.get(), prefix_ + location, links);
  if (fd < 0) {
    return InvalidArgument("external data file {} {}", Quoted(location), OpenError(-fd));
  }
  file_ = FileDescriptor(fd);
  file_location_.clear();
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    return InvalidArgument("external data file {} is not a regular file", Quoted(location));
  }
  if (info.st_nlink > 1 && !options_.allow_links) {
    return InvalidArgument("external data file {} has {} hard links, which is not allowed",
                           Quoted(location), info.st_nlink);
  }
  const auto [first, added] = seen_.emplace(location, info);
  if (!added && !SameFile(first->second, info)) {
    return InvalidArgument("external data file {} changed while the model was loaded",
                           Quoted(location));
  }
  file_location_ = location;
  return absl::OkStatus();
}

StatusOr<Tensor> ExternalData::Read(const ExternalLocation& where, DType dtype,
                                    const Shape& shape) {
  RETURN_IF_ERROR(Open(where.location));
  const struct stat& info = seen_.at(where.location);
  const auto need = static_cast<int64_t>(DTypeBytes(dtype, shape.elements()));
  const int64_t size = info.st_size;
  const int64_t length = where.length.value_or(std::max<int64_t>(size - where.offset, 0));
  if (length != need) {
    return InvalidArgument(
        "external data at offset {} of {}, which has {} bytes, has {} bytes; {}{} takes {}",
        where.offset, Quoted(where.location), size, length, DTypeName(dtype), ToString(shape),
        need);
  }
  const std::optional<int64_t> end = CheckedAdd(where.offset, length);
  if (!end || *end > size) {
    return InvalidArgument(
        "external data at offset {} with {} bytes passes the end of {}, which "
        "has {} bytes",
        where.offset, length, Quoted(where.location), size);
  }
  ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(dtype, shape));
  RETURN_IF_ERROR(ReadFully(file_.get(), where.offset, tensor.mutable_view().mutable_bytes(),
                            "external data file " + Quoted(where.location)));
  struct stat after;
  if (fstat(file_.get(), &after) != 0 || !SameFile(info, after)) {
    return InvalidArgument("external data file {} changed while the model was loaded",
                           Quoted(where.location));
  }
  Canonicalize(tensor);
  return tensor;
}

}  // namespace tandem::onnx_import
