#include "server/transport/wire_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace tandem::server {
namespace {

struct WireType {
  DType dtype;
  std::string_view name;
  inference::DataType config;
};

constexpr std::array<WireType, 14> kWireTypes = {{
    {DType::kBool, "BOOL", inference::TYPE_BOOL},
    {DType::kUint8, "UINT8", inference::TYPE_UINT8},
    {DType::kUint16, "UINT16", inference::TYPE_UINT16},
    {DType::kUint32, "UINT32", inference::TYPE_UINT32},
    {DType::kUint64, "UINT64", inference::TYPE_UINT64},
    {DType::kInt8, "INT8", inference::TYPE_INT8},
    {DType::kInt16, "INT16", inference::TYPE_INT16},
    {DType::kInt32, "INT32", inference::TYPE_INT32},
    {DType::kInt64, "INT64", inference::TYPE_INT64},
    {DType::kFloat16, "FP16", inference::TYPE_FP16},
    {DType::kFloat, "FP32", inference::TYPE_FP32},
    {DType::kDouble, "FP64", inference::TYPE_FP64},
    {DType::kString, "BYTES", inference::TYPE_STRING},
    {DType::kBfloat16, "BF16", inference::TYPE_BF16},
}};

constexpr size_t kMaxTextDims = 16;

}  // namespace

std::string_view WireName(DType dtype) {
  const auto row = std::ranges::find(kWireTypes, dtype, &WireType::dtype);
  return row == kWireTypes.end() ? std::string_view() : row->name;
}

DType DTypeOfWireName(std::string_view name) {
  const auto row = std::ranges::find(kWireTypes, name, &WireType::name);
  return row == kWireTypes.end() ? DType::kUndefined : row->dtype;
}

inference::DataType ConfigDataType(DType dtype) {
  const auto row = std::ranges::find(kWireTypes, dtype, &WireType::dtype);
  return row == kWireTypes.end() ? inference::TYPE_INVALID : row->config;
}

std::string ShapeText(std::span<const int64_t> dims) {
  std::string out = "[";
  const size_t shown = std::min(dims.size(), kMaxTextDims);
  for (size_t i = 0; i < shown; ++i) out += fmt::format("{}{}", i == 0 ? "" : ",", dims[i]);
  if (shown < dims.size()) out += fmt::format(",... {} dims", dims.size());
  return out + "]";
}

std::string ShapeText(const graph::DimVector& dims) {
  Dims numbers;
  for (const graph::Dim& dim : dims) numbers.push_back(dim.is_number() ? dim.number() : -1);
  return ShapeText(std::span<const int64_t>(numbers));
}

}  // namespace tandem::server
