#include "tests/support/model_builder.h"

#include <google/protobuf/unknown_field_set.h>
#include <onnx/onnx_pb.h>

#include <filesystem>
#include <fstream>

#include "engine/base/check.h"
#include "engine/onnx/encode.h"

namespace tandem::test {
namespace {

using ::onnx::AttributeProto;

// Fields that libonnx 1.12 does not know.
constexpr int kNodeOverload = 8;
constexpr int kFunctionAttributeProto = 11;
constexpr int kFunctionOverload = 13;

void SetValueInfo(const std::string& name, DType dtype, const graph::DimVector& dims,
                  ::onnx::ValueInfoProto& info) {
  info.set_name(name);
  onnx_import::EncodeTensorType(dtype, dims, *info.mutable_type());
}

}  // namespace

void AddAttributes(const graph::Attributes& attributes, ::onnx::NodeProto& node) {
  for (const auto& [name, value] : attributes) {
    onnx_import::EncodeAttribute(name, value, *node.add_attribute());
  }
}

graph::ConstantRef TensorAttribute(Tensor tensor) {
  const Hash128 hash = graph::HashTensor(tensor.view());
  return std::make_shared<const graph::Constant>(std::move(tensor), hash);
}

ModelBuilder::ModelBuilder(int opset) : model_(std::make_unique<::onnx::ModelProto>()) {
  model_->set_ir_version(8);
  model_->set_producer_name("tandem tests");
  model_->mutable_graph()->set_name("graph");
  ImportOpset("", opset);
}

ModelBuilder::~ModelBuilder() = default;
ModelBuilder::ModelBuilder(ModelBuilder&&) noexcept = default;
ModelBuilder& ModelBuilder::operator=(ModelBuilder&&) noexcept = default;

ModelBuilder& ModelBuilder::IrVersion(int64_t version) {
  model_->set_ir_version(version);
  return *this;
}

ModelBuilder& ModelBuilder::ImportOpset(const std::string& domain, int version) {
  ::onnx::OperatorSetIdProto& import = *model_->add_opset_import();
  import.set_domain(domain);
  import.set_version(version);
  return *this;
}

ModelBuilder& ModelBuilder::Input(const std::string& name, DType dtype,
                                  const graph::DimVector& dims) {
  SetValueInfo(name, dtype, dims, *model_->mutable_graph()->add_input());
  return *this;
}

ModelBuilder& ModelBuilder::Input(const std::string& name) {
  model_->mutable_graph()->add_input()->set_name(name);
  return *this;
}

ModelBuilder& ModelBuilder::Output(const std::string& name, DType dtype,
                                   const graph::DimVector& dims) {
  SetValueInfo(name, dtype, dims, *model_->mutable_graph()->add_output());
  return *this;
}

ModelBuilder& ModelBuilder::Output(const std::string& name) {
  model_->mutable_graph()->add_output()->set_name(name);
  return *this;
}

ModelBuilder& ModelBuilder::Initializer(const std::string& name, const Tensor& tensor) {
  onnx_import::EncodeTensor(tensor, name, *model_->mutable_graph()->add_initializer());
  return *this;
}

ModelBuilder& ModelBuilder::Node(const std::string& op_type, const std::vector<std::string>& inputs,
                                 const std::vector<std::string>& outputs,
                                 const graph::Attributes& attributes, const std::string& name,
                                 const std::string& domain) {
  ::onnx::NodeProto& node = *model_->mutable_graph()->add_node();
  node.set_op_type(op_type);
  if (!name.empty()) node.set_name(name);
  if (!domain.empty()) node.set_domain(domain);
  for (const std::string& input : inputs) node.add_input(input);
  for (const std::string& output : outputs) node.add_output(output);
  AddAttributes(attributes, node);
  return *this;
}

::onnx::NodeProto& ModelBuilder::LastNode() {
  ::onnx::GraphProto& graph = *model_->mutable_graph();
  CHECK(graph.node_size() > 0, "no node has been added yet");
  return *graph.mutable_node(graph.node_size() - 1);
}

::onnx::FunctionProto& ModelBuilder::LastFunction() {
  CHECK(model_->functions_size() > 0, "no function has been added yet");
  return *model_->mutable_functions(model_->functions_size() - 1);
}

ModelBuilder& ModelBuilder::Body(const std::string& attribute, const ModelBuilder& body) {
  AttributeProto& proto = *LastNode().add_attribute();
  proto.set_name(attribute);
  proto.set_type(AttributeProto::GRAPH);
  *proto.mutable_g() = body.proto().graph();
  return *this;
}

ModelBuilder& ModelBuilder::Reference(const std::string& attribute, const graph::Attribute& like,
                                      const std::string& referred) {
  AttributeProto sample;
  onnx_import::EncodeAttribute(attribute, like, sample);
  AttributeProto& proto = *LastNode().add_attribute();
  proto.set_name(attribute);
  proto.set_type(sample.type());
  proto.set_ref_attr_name(referred);
  return *this;
}

ModelBuilder& ModelBuilder::CallOverload(const std::string& overload) {
  LastNode().mutable_unknown_fields()->AddLengthDelimited(kNodeOverload, overload);
  return *this;
}

ModelBuilder& ModelBuilder::Function(const std::string& domain, const std::string& name,
                                     const ModelBuilder& body,
                                     const std::vector<std::string>& attributes) {
  ::onnx::FunctionProto& function = *model_->add_functions();
  const ::onnx::GraphProto& graph = body.proto().graph();
  function.set_domain(domain);
  function.set_name(name);
  for (const ::onnx::ValueInfoProto& input : graph.input()) function.add_input(input.name());
  for (const ::onnx::ValueInfoProto& output : graph.output()) function.add_output(output.name());
  for (const std::string& attribute : attributes) function.add_attribute(attribute);
  *function.mutable_node() = graph.node();
  *function.mutable_opset_import() = body.proto().opset_import();
  return *this;
}

ModelBuilder& ModelBuilder::FunctionDefaults(const graph::Attributes& defaults) {
  ::onnx::NodeProto node;
  AddAttributes(defaults, node);
  for (const AttributeProto& attribute : node.attribute()) {
    LastFunction().mutable_unknown_fields()->AddLengthDelimited(kFunctionAttributeProto,
                                                                attribute.SerializeAsString());
  }
  return *this;
}

ModelBuilder& ModelBuilder::FunctionOverload(const std::string& overload) {
  LastFunction().mutable_unknown_fields()->AddLengthDelimited(kFunctionOverload, overload);
  return *this;
}

std::string ModelBuilder::Serialize() const { return model_->SerializeAsString(); }

void ModelBuilder::WriteFile(const std::string& path) const {
  std::filesystem::create_directories(std::filesystem::absolute(path).parent_path());
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  CHECK(model_->SerializeToOstream(&file), "the model cannot be written to {}", path);
  file.close();
  CHECK(file.good(), "{} cannot be written", path);
}

}  // namespace tandem::test
