#include "engine/onnx/unknown_fields.h"

#include <gmock/gmock.h>
#include <google/protobuf/unknown_field_set.h>
#include <gtest/gtest.h>

#include "tests/engine/onnx/import_testing.h"

namespace tandem::onnx_import {
namespace {

using google::protobuf::Message;
using test::ModelBuilder;
using testing::HasSubstr;

// A model with at least one of every message that files hold.
class UnknownFields : public testing::Test {
 protected:
  UnknownFields() {
    ModelBuilder body;
    body.Node("Relu", {"x"}, {"r"}).Output("r");
    ModelBuilder function;
    function.Input("a").Node("Relu", {"a"}, {"b"}).Output("b");
    model_.ImportOpset("f", 1)
        .Input("x", DType::kFloat, {2})
        .Initializer("c", Tensor::Scalar<bool>(true))
        .Node("If", {"c"}, {"t"})
        .Body("then_branch", body)
        .Body("else_branch", body)
        .Node("Neg", {"t"}, {"y"}, {}, "", "f")
        .Output("y", DType::kFloat, {2})
        .Function("f", "Neg", function);
    auto& entry = *model_.proto().add_metadata_props();
    entry.set_key("k");
    ::onnx::TensorAnnotation& note = *graph().add_quantization_annotation();
    note.set_tensor_name("y");
  }
  ::onnx::GraphProto& graph() { return *model_.proto().mutable_graph(); }
  // The field is in `message`, which lies in the model.
  std::string ErrorWith(Message& message, int field, const std::string& value = "x") {
    auto& unknown = *message.GetReflection()->MutableUnknownFields(&message);
    unknown.AddLengthDelimited(field, value);
    std::string error = ErrorOf(model_);
    unknown.Clear();
    return error;
  }

  ModelBuilder model_;
};

TEST_F(UnknownFields, TheModelItselfHasNone) { EXPECT_EQ(ErrorOf(model_), "no error"); }

TEST_F(UnknownFields, NewerFieldsWithoutMeaningArePassedOver) {
  EXPECT_EQ(ErrorWith(model_.proto(), 26), "no error");
  EXPECT_EQ(ErrorWith(graph(), 16), "no error");
  EXPECT_EQ(ErrorWith(*graph().mutable_node(0), 9), "no error");
  EXPECT_EQ(ErrorWith(*graph().mutable_node(0), 10), "no error");
  EXPECT_EQ(ErrorWith(*graph().mutable_input(0), 4), "no error");
  EXPECT_EQ(ErrorWith(*graph().mutable_initializer(0), 16), "no error");
  EXPECT_EQ(ErrorWith(*model_.proto().mutable_functions(0), 12), "no error");
  EXPECT_EQ(ErrorWith(*model_.proto().mutable_functions(0), 14), "no error");
}

TEST_F(UnknownFields, OthersAreNamedWithTheirNumberWhereverTheyAre) {
  auto& function = *model_.proto().mutable_functions(0);
  auto& input = *graph().mutable_input(0);
  auto& attribute = *graph().mutable_node(0)->mutable_attribute(0);
  auto& inner = *attribute.mutable_g()->mutable_node(0);
  auto& tensor_type = *input.mutable_type()->mutable_tensor_type();
  const std::vector<std::pair<Message*, std::string>> places = {
      {&model_.proto(), "ModelProto"},
      {&graph(), "GraphProto"},
      {graph().mutable_node(1), "NodeProto"},
      {&attribute, "AttributeProto"},
      {attribute.mutable_g(), "GraphProto"},
      {&inner, "NodeProto"},
      {graph().mutable_initializer(0), "TensorProto"},
      {&input, "ValueInfoProto"},
      {input.mutable_type(), "TypeProto"},
      {&tensor_type, "Tensor"},
      {tensor_type.mutable_shape(), "TensorShapeProto"},
      {tensor_type.mutable_shape()->mutable_dim(0), "Dimension"},
      {&function, "FunctionProto"},
      {function.mutable_node(0), "NodeProto"},
      {model_.proto().mutable_opset_import(0), "OperatorSetIdProto"},
      {model_.proto().mutable_metadata_props(0), "StringStringEntryProto"},
      {graph().mutable_quantization_annotation(0), "TensorAnnotation"},
  };
  for (const auto& [message, name] : places) {
    EXPECT_EQ(ErrorWith(*message, 777), "field 777 of " + name + " is not known to this version");
  }
}

TEST_F(UnknownFields, ANewerFieldOfOneMessageIsNotOneOfAnother) {
  EXPECT_THAT(ErrorWith(graph(), 26), HasSubstr("field 26 of GraphProto is not known"));
  EXPECT_THAT(ErrorWith(*graph().mutable_initializer(0), 9 + 100),
              HasSubstr("field 109 of TensorProto"));
}

TEST_F(UnknownFields, ANewerFieldOfAnotherWireTypeIsRefused) {
  graph().mutable_node(0)->mutable_unknown_fields()->AddVarint(8, 1);
  EXPECT_THAT(ErrorOf(model_),
              HasSubstr("field 8 of NodeProto has a wire type that is not ONNX's"));
}

TEST_F(UnknownFields, KnownFieldsWithUnknownValuesOrWireTypesAreRefused) {
  // The enumeration of attribute types ends at 14.
  graph().mutable_node(0)->mutable_attribute(0)->mutable_unknown_fields()->AddVarint(20, 99);
  EXPECT_EQ(ErrorOf(model_), "field 20 (type) of AttributeProto has a value 99 that is not known");
  graph().mutable_node(0)->mutable_attribute(0)->mutable_unknown_fields()->Clear();
  graph().mutable_initializer(0)->mutable_unknown_fields()->AddVarint(14, 2);
  EXPECT_THAT(ErrorOf(model_), HasSubstr("field 14 (data_location) of TensorProto has a value 2"));
  graph().mutable_initializer(0)->mutable_unknown_fields()->Clear();
  graph().mutable_unknown_fields()->AddFixed32(1, 5);
  EXPECT_THAT(ErrorOf(model_), HasSubstr("field 1 (node) of GraphProto has a value or wire type"));
}

TEST_F(UnknownFields, DefaultsOfFunctionsAreCheckedToo) {
  auto& function = *model_.proto().mutable_functions(0);
  EXPECT_THAT(ErrorWith(function, 11, "junk"), HasSubstr("attribute_proto of function 'Neg'"));
  ::onnx::AttributeProto attribute;
  attribute.set_name("a");
  attribute.set_i(1);
  EXPECT_EQ(ErrorWith(function, 11, attribute.SerializeAsString()), "no error");
  attribute.mutable_unknown_fields()->AddVarint(99, 1);
  EXPECT_THAT(ErrorWith(function, 11, attribute.SerializeAsString()),
              HasSubstr("field 99 of AttributeProto"));
}

}  // namespace
}  // namespace tandem::onnx_import
