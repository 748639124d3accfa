#include "cli/model_inputs.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>

#include "cli/tensor_file.h"

namespace tandem::cli {
namespace {

// Extents of symbols that given shapes settle.
std::map<std::string, int64_t> SymbolsOf(const ModelInfo& info, const ShapeConfig& config) {
  std::map<std::string, int64_t> symbols;
  for (const auto& [name, shape] : config.shapes) {
    const auto port = std::ranges::find(info.inputs, name, &Port::name);
    for (int axis = 0; axis < shape.rank() && axis < static_cast<int>(port->dims.size()); ++axis) {
      const graph::Dim& dim = port->dims[static_cast<size_t>(axis)];
      if (dim.is_symbol() && dim.coefficient() == 1) symbols[dim.symbol()] = shape[axis];
    }
  }
  return symbols;
}

// True when the first extent is the caller's to choose.
bool HasBatch(const ModelInfo& info, const Port& port) {
  return !port.dims.empty() && (info.batch_fixed_at_one || !port.dims[0].is_number());
}

Shape ShapeOf(const Port& port, const std::map<std::string, int64_t>& symbols,
              std::optional<int64_t> batch) {
  Shape shape;
  for (const graph::Dim& dim : port.dims) {
    const auto known = dim.is_symbol() ? symbols.find(dim.symbol()) : symbols.end();
    if (known != symbols.end()) {
      shape.Append(known->second);
    } else if (batch && shape.rank() == 0) {
      shape.Append(*batch);
    } else {
      shape.Append(dim.is_number() ? dim.number() : 1);
    }
  }
  return shape;
}

template <typename T>
void Fill(Tensor& tensor, T (*element)(std::minstd_rand& random)) {
  std::minstd_rand random(1);
  T* data = tensor.mutable_data<T>();
  for (int64_t i = 0; i < tensor.elements(); ++i) data[i] = element(random);
}

float RandomFloat(std::minstd_rand& random) {
  return std::uniform_real_distribution<float>(-1, 1)(random);
}

// 0 or 1 in the lowest byte of each element, which all integers and bool take as such.
void FillBits(Tensor& tensor, size_t bytes) {
  std::minstd_rand random(1);
  auto* data = static_cast<std::byte*>(tensor.mutable_view().mutable_raw());
  std::memset(data, 0, tensor.view().byte_size());
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    data[static_cast<size_t>(i) * bytes] = std::byte(random() >> 8 & 1);
  }
}

}  // namespace

StatusOr<std::shared_ptr<const Model>> Load(const Engine& engine, const std::string& path) {
  auto model = engine.Load(path);
  if (!model.ok()) return Annotate(model.status(), fmt::format("model '{}'", path));
  return model;
}

Status CheckIsInput(const ModelInfo& info, std::string_view option, const std::string& name) {
  if (std::ranges::find(info.inputs, name, &Port::name) != info.inputs.end()) {
    return absl::OkStatus();
  }
  std::vector<std::string> names;
  for (const Port& port : info.inputs) names.push_back(fmt::format("'{}'", port.name));
  return InvalidArgument("{} names input '{}'; the model's inputs are {}", option, name,
                         fmt::join(names, ", "));
}

StatusOr<std::vector<NamedShape>> InputShapes(const ModelInfo& info, const ShapeConfig& config) {
  for (const NamedShape& given : config.shapes) {
    RETURN_IF_ERROR(CheckIsInput(info, "--shape", given.name));
  }
  const std::map<std::string, int64_t> symbols = SymbolsOf(info, config);
  std::vector<NamedShape> shapes;
  bool batched = false;
  for (const Port& port : info.inputs) {
    if (port.optional) continue;
    const auto given = std::ranges::find(config.shapes, port.name, &NamedShape::name);
    if (given != config.shapes.end()) {
      shapes.push_back(*given);
      continue;
    }
    if (!port.rank_known) {
      return InvalidArgument("input '{}' may have any rank; give it a --shape", port.name);
    }
    std::optional<int64_t> batch;
    if (HasBatch(info, port)) batch = config.batch;
    batched = batched || batch;
    shapes.push_back({port.name, ShapeOf(port, symbols, batch)});
  }
  if (config.batch != 1 && !batched) {
    return InvalidArgument("--batch is {}, but no input leaves its first extent open",
                           config.batch);
  }
  return shapes;
}

StatusOr<std::vector<NamedTensor>> ReadInputs(const std::vector<InputFile>& files) {
  std::vector<NamedTensor> inputs;
  for (const InputFile& file : files) {
    StatusOr<Tensor> tensor = ReadTensorFile(file.path);
    if (!tensor.ok()) return Annotate(tensor.status(), fmt::format("input '{}'", file.name));
    inputs.push_back({file.name, *std::move(tensor)});
  }
  return inputs;
}

StatusOr<Tensor> MadeUp(DType dtype, const Shape& shape) {
  ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(dtype, shape));
  switch (dtype) {
    case DType::kFloat:
      Fill<float>(tensor, RandomFloat);
      break;
    case DType::kDouble:
      Fill<double>(tensor, [](std::minstd_rand& random) { return double{RandomFloat(random)}; });
      break;
    case DType::kFloat16:
      Fill<Float16>(tensor,
                    [](std::minstd_rand& random) { return ToFloat16(RandomFloat(random)); });
      break;
    case DType::kBfloat16:
      Fill<Bfloat16>(tensor,
                     [](std::minstd_rand& random) { return ToBfloat16(RandomFloat(random)); });
      break;
    case DType::kString:
      std::ranges::fill_n(tensor.mutable_data<std::string>(), tensor.elements(), "a");
      break;
    default:
      if (!IsInteger(dtype) && dtype != DType::kBool) {
        return Unimplemented("elements of type {} cannot be made up; give --input",
                             DTypeName(dtype));
      }
      FillBits(tensor, DTypeBits(dtype) / 8);
  }
  return tensor;
}

StatusOr<std::vector<NamedTensor>> MakeInputs(const ModelInfo& info,
                                              const std::vector<InputFile>& files,
                                              const ShapeConfig& config) {
  for (const InputFile& file : files) {
    RETURN_IF_ERROR(CheckIsInput(info, "--input", file.name));
  }
  ASSIGN_OR_RETURN(std::vector<NamedTensor> inputs, ReadInputs(files));
  ShapeConfig with_files = config;
  for (const NamedTensor& input : inputs) {
    with_files.shapes.push_back({input.name, input.tensor.shape()});
  }
  ASSIGN_OR_RETURN(const std::vector<NamedShape> shapes, InputShapes(info, with_files));
  for (const auto& [name, shape] : shapes) {
    if (std::ranges::find(inputs, name, &NamedTensor::name) != inputs.end()) continue;
    const DType dtype = std::ranges::find(info.inputs, name, &Port::name)->dtype;
    StatusOr<Tensor> tensor = MadeUp(dtype, shape);
    if (!tensor.ok()) return Annotate(tensor.status(), fmt::format("input '{}'", name));
    inputs.push_back({name, *std::move(tensor)});
  }
  return inputs;
}

StatusOr<PlanReport> ReportFor(const Model& model, const std::vector<NamedTensor>& inputs) {
  std::vector<NamedShape> shapes;
  for (const NamedTensor& input : inputs) shapes.push_back({input.name, input.tensor.shape()});
  return model.Report(shapes);
}

}  // namespace tandem::cli
