#include "server/transport/encode.h"

#include <cstdint>
#include <limits>
#include <span>

#include "server/models/quoted.h"
#include "server/transport/model_config_text.h"
#include "server/transport/wire_types.h"

namespace tandem::server {
namespace {

// By these names clients of the protocol know a server of ONNX models.
constexpr char kPlatform[] = "onnxruntime_onnx";
constexpr char kBackend[] = "onnxruntime";

constexpr size_t kMaxMessageBytes = std::numeric_limits<int32_t>::max();
// More than the fields of one output take beside its elements and name.
constexpr size_t kOutputOverheadBytes = 1024;

size_t RawBytes(const TensorView& view) {
  if (view.dtype() != DType::kString) return view.byte_size();
  size_t bytes = 0;
  for (const std::string& text : view.span<std::string>()) bytes += sizeof(uint32_t) + text.size();
  return bytes;
}

std::string RawContents(const TensorView& view) {
  if (view.dtype() != DType::kString) {
    return view.byte_size() == 0
               ? std::string()
               : std::string(static_cast<const char*>(view.raw()), view.byte_size());
  }
  std::string raw;
  raw.reserve(RawBytes(view));
  for (const std::string& text : view.span<std::string>()) {
    const auto length = static_cast<uint32_t>(text.size());
    raw.append(reinterpret_cast<const char*>(&length), sizeof(length));
    raw.append(text);
  }
  return raw;
}

Status CheckSize(const InferReply& reply) {
  size_t bytes = kOutputOverheadBytes;
  for (const NamedTensor& output : reply.outputs) {
    bytes += RawBytes(output.tensor.view()) + output.name.size() + kOutputOverheadBytes;
    if (bytes > kMaxMessageBytes) {
      return ResourceExhausted("output {} of shape {} makes the response larger than {} bytes",
                               Quoted(output.name), ShapeText(output.tensor.shape().dims()),
                               kMaxMessageBytes);
    }
  }
  return absl::OkStatus();
}

bool HasBatchAxis(const ServedModel& model, const Port& port) {
  return model.max_batch_size > 0 && !port.dims.empty();
}

template <typename Metadata>
void DescribePort(const ServedModel& model, const Port& port, Metadata& metadata) {
  metadata.set_name(port.name);
  metadata.set_datatype(std::string(WireName(port.dtype)));
  for (size_t axis = 0; axis < port.dims.size(); ++axis) {
    const bool open = !port.dims[axis].is_number() || (axis == 0 && HasBatchAxis(model, port));
    metadata.add_shape(open ? -1 : port.dims[axis].number());
  }
}

template <typename Entry>
void ConfigurePort(const ServedModel& model, const Port& port, Entry& entry) {
  entry.set_name(port.name);
  entry.set_data_type(ConfigDataType(port.dtype));
  for (size_t axis = HasBatchAxis(model, port) ? 1 : 0; axis < port.dims.size(); ++axis) {
    entry.add_dims(port.dims[axis].is_number() ? port.dims[axis].number() : -1);
  }
}

}  // namespace

Status EncodeInferResponse(const InferReply& reply, const ServedModel& model,
                           inference::ModelInferResponse& response) {
  RETURN_IF_ERROR(CheckSize(reply));
  response.set_model_name(model.name);
  response.set_model_version(std::to_string(model.version));
  for (const NamedTensor& output : reply.outputs) {
    inference::ModelInferResponse::InferOutputTensor& tensor = *response.add_outputs();
    tensor.set_name(output.name);
    tensor.set_datatype(std::string(WireName(output.tensor.dtype())));
    for (const int64_t extent : output.tensor.shape().dims()) tensor.add_shape(extent);
    *response.add_raw_output_contents() = RawContents(output.tensor.view());
  }
  return absl::OkStatus();
}

inference::ModelMetadataResponse DescribeModel(const ServedModel& model,
                                               const std::vector<int64_t>& versions) {
  inference::ModelMetadataResponse metadata;
  metadata.set_name(model.name);
  for (const int64_t version : versions) metadata.add_versions(std::to_string(version));
  metadata.set_platform(kPlatform);
  const ModelInfo& info = model.model->info();
  for (const Port& port : info.inputs) {
    if (!port.optional) DescribePort(model, port, *metadata.add_inputs());
  }
  for (const Port& port : info.outputs) DescribePort(model, port, *metadata.add_outputs());
  return metadata;
}

inference::ModelConfig DescribeConfig(const ServedModel& model, int runners) {
  inference::ModelConfig config;
  config.set_name(model.name);
  config.set_platform(kPlatform);
  config.set_backend(kBackend);
  config.set_default_model_filename("model.onnx");
  config.mutable_version_policy()->mutable_latest()->set_num_versions(1);
  config.set_max_batch_size(static_cast<int32_t>(model.max_batch_size));
  const ModelInfo& info = model.model->info();
  for (const Port& port : info.inputs) {
    if (!port.optional) ConfigurePort(model, port, *config.add_input());
  }
  for (const Port& port : info.outputs) ConfigurePort(model, port, *config.add_output());
  inference::ModelInstanceGroup& group = *config.add_instance_group();
  group.set_name(model.name);
  group.set_kind(inference::ModelInstanceGroup::KIND_CPU);
  group.set_count(model.max_runs > 0 ? model.max_runs : runners);
  if (model.max_batch_size > 0) {
    config.mutable_dynamic_batching()->set_max_queue_delay_microseconds(
        static_cast<uint64_t>(model.max_queue_delay.count()));
  }
  (*config.mutable_parameters())[std::string(kPrecisionParameter)].set_string_value(
      std::string(PrecisionName(info.precision)));
  return config;
}

}  // namespace tandem::server
