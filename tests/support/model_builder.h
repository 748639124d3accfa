// Builds ONNX models in code, for tests that import, load or serve them. The messages themselves
// stay behind proto(), so that only tests of odd models include ONNX's headers.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/tensor/tensor.h"

namespace onnx {
class FunctionProto;
class ModelProto;
class NodeProto;
}  // namespace onnx

namespace tandem::test {

//   ModelBuilder(17)
//       .Input("x", DType::kFloat, {graph::Dim::Symbol("N"), 4})
//       .Initializer("w", weights)
//       .Node("MatMul", {"x", "w"}, {"y"})
//       .Output("y", DType::kFloat, {graph::Dim::Symbol("N"), 8})
//       .WriteFile(directory.path() + "/digits/1/model.onnx");
class ModelBuilder {
 public:
  // A model of IR version 8 that imports `opset` of ai.onnx.
  explicit ModelBuilder(int opset = 17);
  ~ModelBuilder();
  ModelBuilder(ModelBuilder&&) noexcept;
  ModelBuilder& operator=(ModelBuilder&&) noexcept;

  ModelBuilder& IrVersion(int64_t version);
  ModelBuilder& ImportOpset(const std::string& domain, int version);
  // An unknown extent is written as a dimension without value.
  ModelBuilder& Input(const std::string& name, DType dtype, const graph::DimVector& dims);
  // An input without a type, as bodies of control flow and functions may have.
  ModelBuilder& Input(const std::string& name);
  ModelBuilder& Output(const std::string& name, DType dtype, const graph::DimVector& dims);
  // An output without a type, as bodies of control flow may have.
  ModelBuilder& Output(const std::string& name);
  ModelBuilder& Initializer(const std::string& name, const Tensor& tensor);
  // "" omits an input or output. Attributes hold numbers, strings, tensors and lists of them;
  // bodies are given through Body.
  ModelBuilder& Node(const std::string& op_type, const std::vector<std::string>& inputs,
                     const std::vector<std::string>& outputs,
                     const graph::Attributes& attributes = {}, const std::string& name = "",
                     const std::string& domain = "");
  // The graph of `body` becomes attribute `attribute` of the last node.
  ModelBuilder& Body(const std::string& attribute, const ModelBuilder& body);
  // Attribute `attribute` of the last node, of the kind of `like`, takes its value from attribute
  // `referred` of the function that the node lies in.
  ModelBuilder& Reference(const std::string& attribute, const graph::Attribute& like,
                          const std::string& referred);
  // The last node calls the function with this overload (IR version 10).
  ModelBuilder& CallOverload(const std::string& overload);

  // A function with the nodes, names of inputs and outputs, and opset imports of `body`.
  ModelBuilder& Function(const std::string& domain, const std::string& name,
                         const ModelBuilder& body, const std::vector<std::string>& attributes = {});
  // Attributes of the last function that calls may leave out (IR version 9).
  ModelBuilder& FunctionDefaults(const graph::Attributes& defaults);
  ModelBuilder& FunctionOverload(const std::string& overload);

  ::onnx::ModelProto& proto() { return *model_; }
  const ::onnx::ModelProto& proto() const { return *model_; }

  std::string Serialize() const;
  // Makes the directories of `path`, too.
  void WriteFile(const std::string& path) const;

 private:
  ::onnx::NodeProto& LastNode();
  ::onnx::FunctionProto& LastFunction();

  std::unique_ptr<::onnx::ModelProto> model_;
};

// Appends the attributes to `node`; CHECKs that none is a graph or a type.
void AddAttributes(const graph::Attributes& attributes, ::onnx::NodeProto& node);

// A tensor attribute for graph::Attributes.
graph::ConstantRef TensorAttribute(Tensor tensor);

}  // namespace tandem::test
