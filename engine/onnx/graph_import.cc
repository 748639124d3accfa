#include "engine/onnx/graph_import.h"

#include "absl/container/flat_hash_set.h"
#include "engine/graph/verify.h"
#include "engine/onnx/import.h"
#include "engine/onnx/tensor_decode.h"
#include "engine/onnx/types.h"

namespace tandem::onnx_import {
namespace {

using graph::kNoValue;
using graph::ValueId;
using graph::ValueType;

// From this IR version on an initializer may be the default of an input.
constexpr int64_t kFirstIrWithDefaults = 4;

StatusOr<ValueType> TypeOf(const ::onnx::ValueInfoProto& info) {
  StatusOr<ValueType> type = DecodeType(info.type());
  if (!type.ok()) return Annotate(type.status(), fmt::format("value '{}'", info.name()));
  return type;
}

bool IsUntyped(const ValueType& type) {
  return type.kind == graph::ValueKind::kTensor && type.dtype == DType::kUndefined && !type.dims;
}

// Bytes of what a graph holds beside its nodes.
size_t OwnBytes(const ::onnx::GraphProto& proto) {
  size_t bytes = proto.name().size();
  for (const auto& value : proto.input()) bytes += value.ByteSizeLong();
  for (const auto& value : proto.output()) bytes += value.ByteSizeLong();
  for (const auto& value : proto.value_info()) bytes += value.ByteSizeLong();
  for (const auto& tensor : proto.initializer()) bytes += tensor.ByteSizeLong();
  for (const auto& tensor : proto.sparse_initializer()) bytes += tensor.ByteSizeLong();
  return bytes;
}

}  // namespace

StatusOr<graph::Graph> GraphImporter::Run() {
  bytes_left_ = model_.ByteSizeLong() + kMaxInlinedBytes;
  Frame frame(nullptr);
  Scope scope;
  scope.frame = &frame;
  RETURN_IF_ERROR(ImportGraph(model_.graph(), scope));
  return std::move(frame.graph);
}

Status GraphImporter::ImportGraph(const ::onnx::GraphProto& proto, Scope& scope) {
  graph::Graph& graph = scope.frame->graph;
  graph.set_name(proto.name());
  RETURN_IF_ERROR(CountBytes(OwnBytes(proto)));
  RETURN_IF_ERROR(AddInputs(proto, scope));
  RETURN_IF_ERROR(AddInitializers(proto, scope));
  for (const ::onnx::NodeProto& node : proto.node()) {
    const Status status = DeclareOutputs(node, scope);
    if (!status.ok()) return Annotate(status, Describe(node));
  }
  RETURN_IF_ERROR(SetTypes(proto, scope));
  for (const ::onnx::NodeProto& node : proto.node()) {
    const Status status = AddNode(node, scope);
    if (!status.ok()) return Annotate(status, Describe(node));
  }
  RETURN_IF_ERROR(AddOutputs(proto, scope));
  graph.set_captures(static_cast<int>(scope.frame->captured.size()));
  RETURN_IF_ERROR(graph.Sort());
  return graph::Verify(graph);
}

StatusOr<ValueId> GraphImporter::Declare(const std::string& name, ValueType type, Scope& scope) {
  if (name.empty()) return InvalidArgument("a value that is defined has no name");
  if (scope.names.contains(name)) return InvalidArgument("'{}' is defined twice", name);
  const std::string full =
      scope.call != nullptr && scope.parent == nullptr ? scope.call->name + "/" + name : name;
  const ValueId id = scope.frame->graph.AddValue(full, std::move(type));
  scope.names.emplace(name, id);
  return id;
}

Status GraphImporter::AddInputs(const ::onnx::GraphProto& proto, Scope& scope) {
  absl::flat_hash_set<std::string_view> constants;
  if (IsMain(scope) && model_.ir_version() < kFirstIrWithDefaults) {
    for (const ::onnx::TensorProto& tensor : proto.initializer()) constants.insert(tensor.name());
    for (const ::onnx::SparseTensorProto& tensor : proto.sparse_initializer()) {
      constants.insert(tensor.values().name());
    }
  }
  for (const ::onnx::ValueInfoProto& input : proto.input()) {
    ASSIGN_OR_RETURN(ValueType type, TypeOf(input));
    if (IsMain(scope) && type.kind == graph::ValueKind::kTensor &&
        type.dtype == DType::kUndefined) {
      return InvalidArgument("graph input '{}' has no type", input.name());
    }
    ASSIGN_OR_RETURN(const ValueId id, Declare(input.name(), std::move(type), scope));
    if (!constants.contains(input.name())) scope.frame->graph.MarkInput(id);
  }
  return absl::OkStatus();
}

Status GraphImporter::AddInitializer(const std::string& name, Tensor tensor, Scope& scope) {
  if (name.empty()) return InvalidArgument("an initializer has no name");
  graph::Graph& graph = scope.frame->graph;
  ValueId id = kNoValue;
  if (const auto found = scope.names.find(name); found != scope.names.end()) {
    id = found->second;
    if (graph.value(id).constant != nullptr) {
      return InvalidArgument("two initializers are named '{}'", name);
    }
    if (!IsMain(scope)) {
      return InvalidArgument("'{}' is an input of body '{}' and an initializer of it", name,
                             graph.name());
    }
    RETURN_IF_ERROR(Annotate(CheckConstantType(tensor.view(), graph.value(id).type),
                             fmt::format("value '{}'", name)));
  } else {
    ASSIGN_OR_RETURN(id, Declare(name, {}, scope));
  }
  graph::ConstantRef constant = constants_.Intern(std::move(tensor));
  // An input with a default keeps the type it is declared with: a request may bring other extents.
  if (graph.value(id).is_input) {
    graph.mutable_value(id).constant = std::move(constant);
  } else {
    graph.SetConstant(id, std::move(constant));
  }
  return absl::OkStatus();
}

// One of the main graph.
StatusOr<Tensor> GraphImporter::TakeInitializer(int index) {
  ::onnx::TensorProto& own = *model_.mutable_graph()->mutable_initializer(index);
  std::optional<RawData> elsewhere;
  if (const std::optional<ByteRange>& range = weights_.ranges[static_cast<size_t>(index)]) {
    elsewhere = {range->size,
                 [&](std::span<std::byte> into) { return weights_.read(range->offset, into); }};
  }
  ASSIGN_OR_RETURN(Tensor tensor, DecodeTensor(own, &external_, elsewhere ? &*elsewhere : nullptr));
  std::string name = std::move(*own.mutable_name());
  own = ::onnx::TensorProto();
  own.set_name(std::move(name));
  return tensor;
}

Status GraphImporter::AddInitializers(const ::onnx::GraphProto& proto, Scope& scope) {
  for (int i = 0; i < proto.initializer_size(); ++i) {
    ASSIGN_OR_RETURN(Tensor tensor, IsMain(scope) ? TakeInitializer(i)
                                                  : DecodeTensor(proto.initializer(i), &external_));
    RETURN_IF_ERROR(AddInitializer(proto.initializer(i).name(), std::move(tensor), scope));
  }
  for (const ::onnx::SparseTensorProto& initializer : proto.sparse_initializer()) {
    ASSIGN_OR_RETURN(Tensor tensor,
                     DecodeSparseTensor(initializer, kMaxDensifiedBytes - densified_bytes_));
    densified_bytes_ += tensor.view().byte_size();
    RETURN_IF_ERROR(AddInitializer(initializer.values().name(), std::move(tensor), scope));
  }
  return absl::OkStatus();
}

Status GraphImporter::SetTypes(const ::onnx::GraphProto& proto, Scope& scope) {
  const auto set = [&](const ::onnx::ValueInfoProto& info) -> Status {
    ASSIGN_OR_RETURN(ValueType type, TypeOf(info));
    const auto found = scope.names.find(info.name());
    if (found == scope.names.end()) return absl::OkStatus();
    graph::Value& value = scope.frame->graph.mutable_value(found->second);
    if (value.constant != nullptr && !value.is_input) {
      return Annotate(CheckConstantType(value.constant->view(), type),
                      fmt::format("value '{}'", info.name()));
    }
    if (IsUntyped(value.type)) value.type = std::move(type);
    return absl::OkStatus();
  };
  // What an output is declared as goes before what is said of values by the way.
  for (const ::onnx::ValueInfoProto& info : proto.output()) RETURN_IF_ERROR(set(info));
  for (const ::onnx::ValueInfoProto& info : proto.value_info()) RETURN_IF_ERROR(set(info));
  return absl::OkStatus();
}

Status GraphImporter::AddOutputs(const ::onnx::GraphProto& proto, Scope& scope) {
  if (IsMain(scope) && proto.output_size() == 0) return InvalidArgument("the graph has no outputs");
  absl::flat_hash_set<std::string_view> seen;
  for (const ::onnx::ValueInfoProto& output : proto.output()) {
    if (output.name().empty()) return InvalidArgument("a graph output has no name");
    if (IsMain(scope) && !seen.insert(output.name()).second) {
      return InvalidArgument("two graph outputs are named '{}'", output.name());
    }
    StatusOr<ValueId> id = Resolve(output.name(), scope);
    if (!id.ok() || *id == kNoValue) {
      return InvalidArgument("graph output '{}' is not produced by any node", output.name());
    }
    scope.frame->graph.AddOutput(output.name(), *id);
  }
  return absl::OkStatus();
}

}  // namespace tandem::onnx_import
