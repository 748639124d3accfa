#include "cli/npy.h"

#include <charconv>
#include <cstring>
#include <utility>

namespace tandem::cli {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kAlignment = 64;

constexpr std::pair<std::string_view, DType> kTypes[] = {
    {"<f4", DType::kFloat},     {"<f8", DType::kDouble},     {"<f2", DType::kFloat16},
    {"|i1", DType::kInt8},      {"<i2", DType::kInt16},      {"<i4", DType::kInt32},
    {"<i8", DType::kInt64},     {"|u1", DType::kUint8},      {"<u2", DType::kUint16},
    {"<u4", DType::kUint32},    {"<u8", DType::kUint64},     {"|b1", DType::kBool},
    {"<c8", DType::kComplex64}, {"<c16", DType::kComplex128}};

struct Header {
  std::string_view type;
  bool fortran_order = false;
  Shape shape;
};

// The text behind `'key': ` in the dictionary, or nothing.
std::string_view After(std::string_view header, std::string_view key) {
  const std::string quoted = fmt::format("'{}':", key);
  const size_t found = header.find(quoted);
  if (found == std::string_view::npos) return {};
  header.remove_prefix(found + quoted.size());
  header.remove_prefix(std::min(header.find_first_not_of(' '), header.size()));
  return header;
}

// "(2, 3)", "(2,)", "()".
std::optional<Shape> ParseShape(std::string_view text) {
  Shape shape;
  if (text.empty() || text.front() != '(') return std::nullopt;
  text.remove_prefix(1);
  while (!text.empty() && text.front() != ')') {
    int64_t extent = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), extent);
    if (error != std::errc() || extent < 0) return std::nullopt;
    text.remove_prefix(static_cast<size_t>(rest - text.data()));
    shape.Append(extent);
    while (!text.empty() && (text.front() == ',' || text.front() == ' ')) text.remove_prefix(1);
  }
  if (text.empty() || !CheckedElements(shape.dims())) return std::nullopt;
  return shape;
}

// A dictionary as Python prints it: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
StatusOr<Header> ParseHeader(std::string_view text) {
  Header header;
  const std::string_view type = After(text, "descr");
  const std::string_view order = After(text, "fortran_order");
  const std::optional<Shape> shape = ParseShape(After(text, "shape"));
  const size_t end = type.find('\'', 1);
  const bool orders = order.starts_with("True") || order.starts_with("False");
  if (type.empty() || type.front() != '\'' || end == std::string_view::npos || !orders || !shape) {
    return InvalidArgument("its header is damaged or describes a structured array: {}", text);
  }
  header.type = type.substr(1, end - 1);
  header.fortran_order = order.starts_with("True");
  header.shape = *shape;
  return header;
}

StatusOr<DType> TypeNamed(std::string_view name) {
  for (const auto& [npy, dtype] : kTypes) {
    if (npy == name) return dtype;
  }
  return Unimplemented(
      "it has elements of NumPy's type '{}'; little-endian numbers and bool are read, strings as "
      ".pb",
      name);
}

// The dictionary and where the elements begin.
StatusOr<std::pair<std::string_view, size_t>> HeaderText(std::string_view bytes) {
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<uint8_t>(bytes[i])); };
  if (!bytes.starts_with(kMagic)) {
    return InvalidArgument("it is no .npy file, which begins with \\x93NUMPY");
  }
  constexpr size_t kShortestPrefix = 10;  // magic, version and a header length of two bytes
  if (bytes.size() < kShortestPrefix) return InvalidArgument("its header is cut off");
  const size_t version = byte(6);
  if (version < 1 || version > 3) {
    return InvalidArgument("it is of version {} of the format; 1 to 3 are known", version);
  }
  const size_t start = version == 1 ? kShortestPrefix : kShortestPrefix + 2;
  if (bytes.size() < start) return InvalidArgument("its header is cut off");
  size_t length = byte(8) + (byte(9) << 8);
  if (version > 1) length += (byte(10) << 16) + (byte(11) << 24);
  if (length > bytes.size() - start) {
    return InvalidArgument("its header of {} bytes is cut off", length);
  }
  return std::pair(bytes.substr(start, length), start + length);
}

}  // namespace

StatusOr<Tensor> ParseNpy(std::string_view bytes) {
  ASSIGN_OR_RETURN(const auto text, HeaderText(bytes));
  ASSIGN_OR_RETURN(const Header header, ParseHeader(text.first));
  ASSIGN_OR_RETURN(const DType dtype, TypeNamed(header.type));
  if (header.fortran_order && header.shape.rank() > 1) {
    return InvalidArgument("it is in Fortran order; save numpy.ascontiguousarray(x)");
  }
  const std::string_view data = bytes.substr(text.second);
  const std::optional<int64_t> size =
      CheckedMul(header.shape.elements(), static_cast<int64_t>(DTypeBits(dtype) / 8));
  if (!size || static_cast<size_t>(*size) != data.size()) {
    return InvalidArgument("it has {} bytes of elements, which is not what {}{} takes", data.size(),
                           DTypeName(dtype), ToString(header.shape));
  }
  ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(dtype, header.shape));
  if (!data.empty()) std::memcpy(tensor.mutable_view().mutable_raw(), data.data(), data.size());
  return tensor;
}

StatusOr<std::string> SerializeNpy(const Tensor& tensor) {
  std::string_view type;
  for (const auto& [npy, dtype] : kTypes) {
    if (dtype == tensor.dtype()) type = npy;
  }
  if (type.empty()) {
    return Unimplemented(".npy has no elements of type {}; .pb has", DTypeName(tensor.dtype()));
  }
  std::string shape;
  for (const int64_t extent : tensor.shape().dims()) shape += fmt::format("{}, ", extent);
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", type, shape);
  // Magic, version, length, header and a line feed fill whole units of the alignment.
  constexpr size_t kBefore = 10;
  const size_t total = (kBefore + header.size() + kAlignment) / kAlignment * kAlignment;
  header.resize(total - kBefore - 1, ' ');
  header += '\n';
  std::string bytes(kMagic);
  bytes += {'\x01', '\x00', static_cast<char>(header.size() & 0xFF),
            static_cast<char>(header.size() >> 8)};
  bytes += header;
  const std::span<const std::byte> data = tensor.view().bytes();
  bytes.append(reinterpret_cast<const char*>(data.data()), data.size());
  return bytes;
}

}  // namespace tandem::cli
