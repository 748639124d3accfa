// `tandem run`: one run on tensors from files.
#include <fmt/ranges.h>

#include <filesystem>
#include <set>

#include "cli/commands.h"
#include "cli/model_inputs.h"
#include "cli/tensor_file.h"

namespace tandem::cli {
namespace {

// Elements of a tensor that are printed.
constexpr int64_t kPrinted = 1000;

// Inputs that have no file, all of them.
Status CheckNoneMissing(const ModelInfo& info, const std::vector<InputFile>& files) {
  std::vector<std::string> missing;
  for (const Port& port : info.inputs) {
    const auto given = std::ranges::find(files, port.name, &InputFile::name);
    if (port.optional || given != files.end()) continue;
    missing.push_back(fmt::format("'{}' ({}{})", port.name, DTypeName(port.dtype),
                                  port.rank_known ? graph::ToString(port.dims) : "[...]"));
  }
  if (missing.empty()) return absl::OkStatus();
  return InvalidArgument("no --input NAME=FILE for {}", fmt::join(missing, ", "));
}

template <typename T>
std::string ElementText(T value) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>) {
    return fmt::format("{}", ToFloat(value));
  } else if constexpr (std::is_same_v<T, int8_t> || std::is_same_v<T, uint8_t>) {
    return fmt::format("{}", int{value});
  } else {
    return fmt::format("{}", value);
  }
}

template <typename T>
std::string Elements(const Tensor& tensor) {
  const int64_t count = std::min(tensor.elements(), kPrinted);
  std::string text;
  for (const T& element : tensor.span<T>().first(static_cast<size_t>(count))) {
    if constexpr (std::is_same_v<T, std::string>) {
      text += fmt::format(" '{}'", element);
    } else {
      text += " " + ElementText(element);
    }
  }
  if (count < tensor.elements()) text += fmt::format(" ... {} more", tensor.elements() - count);
  return text;
}

StatusOr<std::string> ElementsText(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::kFloat:
      return Elements<float>(tensor);
    case DType::kDouble:
      return Elements<double>(tensor);
    case DType::kFloat16:
      return Elements<Float16>(tensor);
    case DType::kBfloat16:
      return Elements<Bfloat16>(tensor);
    case DType::kInt8:
      return Elements<int8_t>(tensor);
    case DType::kInt16:
      return Elements<int16_t>(tensor);
    case DType::kInt32:
      return Elements<int32_t>(tensor);
    case DType::kInt64:
      return Elements<int64_t>(tensor);
    case DType::kUint8:
      return Elements<uint8_t>(tensor);
    case DType::kUint16:
      return Elements<uint16_t>(tensor);
    case DType::kUint32:
      return Elements<uint32_t>(tensor);
    case DType::kUint64:
      return Elements<uint64_t>(tensor);
    case DType::kBool:
      return Elements<bool>(tensor);
    case DType::kString:
      return Elements<std::string>(tensor);
    default:
      return Unimplemented("elements of type {} are not printed; write them with --output-dir",
                           DTypeName(tensor.dtype()));
  }
}

StatusOr<std::string> Printed(const std::vector<NamedTensor>& outputs) {
  std::string text;
  for (const auto& [name, tensor] : outputs) {
    StatusOr<std::string> elements = ElementsText(tensor);
    if (!elements.ok()) return Annotate(elements.status(), fmt::format("output '{}'", name));
    text += fmt::format("{} {}{}:{}\n", name, DTypeName(tensor.dtype()), ToString(tensor.shape()),
                        *elements);
  }
  return text;
}

// The output's name as one of a file; what could leave the directory or hide becomes '_'.
std::string FileName(const std::string& name, TensorFormat format) {
  std::string file = name;
  for (char& c : file) {
    if (c == '/' || c == '\\' || static_cast<unsigned char>(c) < 0x20) c = '_';
  }
  if (file.starts_with('.')) file[0] = '_';
  return file + (format == TensorFormat::kPb ? ".pb" : ".npy");
}

StatusOr<std::string> Written(const std::vector<NamedTensor>& outputs, const RunConfig& config) {
  std::error_code error;
  std::filesystem::create_directories(config.output_directory, error);
  if (error) {
    return InvalidArgument("--output-dir '{}' cannot be made: {}", config.output_directory,
                           error.message());
  }
  std::string text;
  std::set<std::string> written;
  for (const auto& [name, tensor] : outputs) {
    const std::string file = FileName(name, config.format);
    const std::string path = std::filesystem::path(config.output_directory) / file;
    if (!written.insert(file).second) {
      return InvalidArgument("output '{}' and another one would both be file '{}'; give --output",
                             name, path);
    }
    const Status status = WriteTensorFile(path, tensor, name);
    if (!status.ok()) return Annotate(status, fmt::format("output '{}'", name));
    text += fmt::format("{} {}{}: {}\n", name, DTypeName(tensor.dtype()), ToString(tensor.shape()),
                        path);
  }
  return text;
}

}  // namespace

StatusOr<std::string> Execute(const RunConfig& config) {
  const Engine engine(config.model.engine);
  ASSIGN_OR_RETURN(const auto model, Load(engine, config.model.path));
  for (const InputFile& file : config.inputs) {
    RETURN_IF_ERROR(CheckIsInput(model->info(), "--input", file.name));
  }
  RETURN_IF_ERROR(CheckNoneMissing(model->info(), config.inputs));
  ASSIGN_OR_RETURN(const std::vector<NamedTensor> inputs, ReadInputs(config.inputs));
  RunOptions options;
  options.outputs = config.outputs;
  ASSIGN_OR_RETURN(const RunResult result, model->Run(inputs, options));
  return config.output_directory.empty() ? Printed(result.outputs)
                                         : Written(result.outputs, config);
}

}  // namespace tandem::cli
