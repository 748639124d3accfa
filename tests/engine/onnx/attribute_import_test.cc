#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include "tests/engine/onnx/import_testing.h"

namespace tandem::onnx_import {
namespace {

using ::onnx::AttributeProto;
using test::ModelBuilder;
using testing::ElementsAre;
using testing::HasSubstr;

// One node of a domain of its own, whose attributes the test sets.
class AttributeImport : public testing::Test {
 protected:
  AttributeImport() {
    model_.ImportOpset("custom", 1)
        .Input("x", DType::kFloat, {2})
        .Node("Op", {"x"}, {"y"}, {}, "n", "custom")
        .Output("y");
  }
  AttributeProto& Add(const std::string& name) {
    AttributeProto& attribute = *model_.proto().mutable_graph()->mutable_node(0)->add_attribute();
    attribute.set_name(name);
    return attribute;
  }
  graph::Attributes Imported() { return NodeOf(GraphOf(model_), "y").attributes; }
  template <typename T>
  T ValueOf(const std::string& name) {
    return Imported().at(name).get<T>();
  }

  ModelBuilder model_;
};

TEST_F(AttributeImport, NumbersStringsAndListsKeepTheirValues) {
  const int64_t large = (int64_t{1} << 53) + 1;
  test::AddAttributes({{"f", -1.5f},
                       {"i", large},
                       {"s", std::string("a\0b", 3)},
                       {"fs", std::vector<float>{1, 2.5f}},
                       {"is", std::vector<int64_t>{INT64_MIN, INT64_MAX}},
                       {"ss", std::vector<std::string>{"", "b"}}},
                      *model_.proto().mutable_graph()->mutable_node(0));
  EXPECT_EQ(ValueOf<float>("f"), -1.5f);
  EXPECT_EQ(ValueOf<int64_t>("i"), large);
  EXPECT_EQ(ValueOf<std::string>("s"), std::string("a\0b", 3));
  EXPECT_THAT(ValueOf<std::vector<float>>("fs"), ElementsAre(1, 2.5f));
  EXPECT_THAT(ValueOf<std::vector<int64_t>>("is"), ElementsAre(INT64_MIN, INT64_MAX));
  EXPECT_THAT(ValueOf<std::vector<std::string>>("ss"), ElementsAre("", "b"));
  EXPECT_EQ(Imported().size(), 6u);
}

TEST_F(AttributeImport, TensorsAreConstants) {
  const Tensor numbers = Tensor::Of<int64_t>({2}, {3, 4});
  const Tensor words = Tensor::Of<std::string>({1}, {"w"});
  test::AddAttributes({{"t", test::TensorAttribute(numbers)},
                       {"ts", std::vector<graph::ConstantRef>{test::TensorAttribute(words),
                                                              test::TensorAttribute(numbers)}}},
                      *model_.proto().mutable_graph()->mutable_node(0));
  EXPECT_THAT(ValueOf<graph::ConstantRef>("t")->view().span<int64_t>(), ElementsAre(3, 4));
  const auto list = ValueOf<std::vector<graph::ConstantRef>>("ts");
  ASSERT_EQ(list.size(), 2u);
  EXPECT_THAT(list[0]->view().span<std::string>(), ElementsAre("w"));
  EXPECT_THAT(list[1]->view().span<int64_t>(), ElementsAre(3, 4));
}

TEST_F(AttributeImport, TypesAndListsOfThem) {
  AttributeProto& one = Add("type");
  one.set_type(AttributeProto::TYPE_PROTO);
  one.mutable_tp()->mutable_tensor_type()->set_elem_type(1);
  AttributeProto& list = Add("types");
  list.set_type(AttributeProto::TYPE_PROTOS);
  list.add_type_protos()->mutable_tensor_type()->set_elem_type(7);
  list.add_type_protos()
      ->mutable_sequence_type()
      ->mutable_elem_type()
      ->mutable_tensor_type()
      ->set_elem_type(8);
  EXPECT_EQ(graph::ToString(ValueOf<graph::ValueType>("type")), "float[...]");
  const auto types = ValueOf<std::vector<graph::ValueType>>("types");
  ASSERT_EQ(types.size(), 2u);
  EXPECT_EQ(graph::ToString(types[0]), "int64[...]");
  EXPECT_EQ(graph::ToString(types[1]), "sequence(string[...])");
}

TEST_F(AttributeImport, GraphsAndListsOfThem) {
  ModelBuilder first;
  first.Node("Relu", {"x"}, {"r"}).Output("r");
  first.proto().mutable_graph()->set_name("first");
  ModelBuilder second;
  second.Node("Add", {"x", "y2"}, {"s"}).Output("s");
  second.proto().mutable_graph()->set_name("second");
  model_.Node("Relu", {"x"}, {"y2"});
  AttributeProto& list = Add("bodies");
  list.set_type(AttributeProto::GRAPHS);
  *list.add_graphs() = first.proto().graph();
  *list.add_graphs() = second.proto().graph();
  AttributeProto& one = Add("a_body");
  one.set_type(AttributeProto::GRAPH);
  *one.mutable_g() = second.proto().graph();
  const graph::Graph graph = GraphOf(model_);
  const graph::Node& node = NodeOf(graph, "y");
  const auto bodies =
      node.attributes.at("bodies").get<std::vector<std::shared_ptr<const graph::Graph>>>();
  ASSERT_EQ(bodies.size(), 2u);
  EXPECT_EQ(bodies[0]->name(), "first");
  EXPECT_THAT(CapturesOf(*bodies[0]), ElementsAre("x"));
  EXPECT_THAT(CapturesOf(*bodies[1]), ElementsAre("x", "y2"));
  // In the order of attribute names, then of elements, behind the inputs of the file.
  EXPECT_THAT(Names(graph, node.inputs), ElementsAre("x", "x", "y2", "x", "x", "y2"));
  EXPECT_EQ(node.captures, 5);
}

TEST_F(AttributeImport, ListsMayBeEmpty) {
  for (const auto type :
       {AttributeProto::FLOATS, AttributeProto::INTS, AttributeProto::STRINGS,
        AttributeProto::TENSORS, AttributeProto::GRAPHS, AttributeProto::TYPE_PROTOS}) {
    Add(AttributeProto::AttributeType_Name(type)).set_type(type);
  }
  const graph::Attributes attributes = Imported();
  EXPECT_TRUE(attributes.at("FLOATS").holds<std::vector<float>>());
  EXPECT_TRUE(attributes.at("INTS").holds<std::vector<int64_t>>());
  EXPECT_TRUE(attributes.at("STRINGS").holds<std::vector<std::string>>());
  EXPECT_TRUE(attributes.at("TENSORS").holds<std::vector<graph::ConstantRef>>());
  EXPECT_TRUE(attributes.at("GRAPHS").holds<std::vector<std::shared_ptr<const graph::Graph>>>());
  EXPECT_TRUE(attributes.at("TYPE_PROTOS").holds<std::vector<graph::ValueType>>());
}

TEST_F(AttributeImport, WithoutATypeTheFieldThatIsSetTells) {
  Add("i").set_i(7);
  EXPECT_EQ(ValueOf<int64_t>("i"), 7);
  AttributeProto& two = Add("two");
  EXPECT_THAT(ErrorOf(model_), HasSubstr("attribute 'two': it has no type and 0 fields"));
  two.set_i(1);
  two.set_f(1);
  EXPECT_THAT(ErrorOf(model_), HasSubstr("attribute 'two': it has no type and 2 fields"));
}

TEST_F(AttributeImport, AZeroMayBeLeftOutButNoMessage) {
  Add("i").set_type(AttributeProto::INT);
  EXPECT_EQ(ValueOf<int64_t>("i"), 0);
  AttributeProto& message = Add("m");
  for (const auto type :
       {AttributeProto::TENSOR, AttributeProto::GRAPH, AttributeProto::TYPE_PROTO}) {
    message.set_type(type);
    EXPECT_THAT(ErrorOf(model_),
                HasSubstr("node 'n' (custom.Op): attribute 'm': its type is " +
                          AttributeProto::AttributeType_Name(type) + " but it holds no value"));
  }
}

TEST_F(AttributeImport, AValueOfAnotherTypeIsRefused) {
  AttributeProto& attribute = Add("a");
  attribute.set_type(AttributeProto::INT);
  attribute.set_f(1);
  EXPECT_THAT(ErrorOf(model_), HasSubstr("its type is INT but it holds a value of type FLOAT"));
}

TEST_F(AttributeImport, SparseTensorsAreNotSupported) {
  AttributeProto& attribute = Add("a");
  attribute.set_type(AttributeProto::SPARSE_TENSOR);
  attribute.mutable_sparse_tensor();
  EXPECT_THAT(ErrorOf(model_), HasSubstr("values of type SPARSE_TENSOR are not supported"));
  attribute.Clear();
  attribute.set_name("a");
  attribute.set_type(AttributeProto::SPARSE_TENSORS);
  EXPECT_THAT(ErrorOf(model_), HasSubstr("values of type SPARSE_TENSORS are not supported"));
}

TEST_F(AttributeImport, NamesAreThereAndDistinct) {
  Add("a").set_i(1);
  Add("a").set_i(1);
  EXPECT_THAT(ErrorOf(model_), HasSubstr("attribute 'a': it is given twice"));
  model_.proto().mutable_graph()->mutable_node(0)->mutable_attribute(1)->set_name("");
  EXPECT_THAT(ErrorOf(model_), HasSubstr("attribute '': it has no name"));
}

TEST_F(AttributeImport, AReferenceOutsideAFunctionIsRefused) {
  model_.Reference("a", int64_t{0}, "b");
  EXPECT_THAT(ErrorOf(model_),
              HasSubstr("refers to attribute 'b' of a function, but lies in none"));
}

TEST_F(AttributeImport, DamagedTensorsAndTypesAreNamed) {
  model_.proto().mutable_graph()->mutable_node(0)->clear_attribute();
  AttributeProto& attribute = Add("value");
  attribute.set_type(AttributeProto::TENSOR);
  attribute.mutable_t()->set_data_type(1);
  attribute.mutable_t()->add_dims(3);
  EXPECT_THAT(ErrorOf(model_), HasSubstr("attribute 'value': tensor '': float_data has 0 entries"));
  attribute.Clear();
  attribute.set_name("type");
  attribute.mutable_tp()->mutable_tensor_type()->set_elem_type(99);
  EXPECT_THAT(ErrorOf(model_), HasSubstr("attribute 'type': element type 99"));
}

}  // namespace
}  // namespace tandem::onnx_import
