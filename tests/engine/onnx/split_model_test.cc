#include "engine/onnx/split_model.h"

#include <gmock/gmock.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "engine/onnx/import.h"
#include "tests/support/temp_directory.h"

namespace tandem::onnx_import {
namespace {

constexpr int64_t kMuch = 100'000;  // floats

StatusOr<SplitModel> Split(const std::string& bytes) {
  google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()), 1000);
  return ParseModel(stream, static_cast<int64_t>(bytes.size()));
}

// A tag with a length, as protobuf writes it.
std::string Field(int number, const std::string& content) {
  std::string bytes(1, static_cast<char>(number << 3 | 2));
  for (size_t rest = content.size(); true; rest >>= 7) {
    bytes += static_cast<char>(rest > 127 ? rest % 128 + 128 : rest);
    if (rest <= 127) return bytes + content;
  }
}

void AddTensor(::onnx::GraphProto& graph, const std::string& name, int64_t floats, float first) {
  std::vector<float> values(static_cast<size_t>(floats));
  std::iota(values.begin(), values.end(), first);
  ::onnx::TensorProto& tensor = *graph.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(::onnx::TensorProto::FLOAT);
  tensor.add_dims(floats);
  tensor.set_raw_data(values.data(), values.size() * sizeof(float));
}

// y = x + much, with little beside it.
::onnx::ModelProto Model() {
  ::onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  ::onnx::GraphProto& graph = *model.mutable_graph();
  AddTensor(graph, "little", 3, 1);
  AddTensor(graph, "much", kMuch, 5);
  for (const char* name : {"x", "y"}) {
    ::onnx::ValueInfoProto& value = name[0] == 'x' ? *graph.add_input() : *graph.add_output();
    value.set_name(name);
    value.mutable_type()->mutable_tensor_type()->set_elem_type(::onnx::TensorProto::FLOAT);
  }
  ::onnx::NodeProto& node = *graph.add_node();
  node.set_op_type("Add");
  node.add_input("x");
  node.add_input("much");
  node.add_output("y");
  return model;
}

float FirstOf(const StatusOr<ImportedModel>& model, const std::string& name) {
  EXPECT_TRUE(model.ok()) << model.status();
  if (!model.ok()) return NAN;
  const graph::ValueId id = model->graph.FindValue(name);
  return model->graph.value(id).constant->view().data<float>()[0];
}

TEST(SplitModel, LeavesMuchRawDataOutAndParsesTheRest) {
  const ::onnx::ModelProto model = Model();
  const std::string bytes = model.SerializeAsString();
  const StatusOr<SplitModel> split = Split(bytes);
  ASSERT_TRUE(split.ok()) << split.status();
  ASSERT_EQ(split->raw_data.size(), 2u);
  EXPECT_FALSE(split->raw_data[0].has_value());
  ASSERT_TRUE(split->raw_data[1].has_value());
  EXPECT_EQ(bytes.substr(static_cast<size_t>(split->raw_data[1]->offset),
                         static_cast<size_t>(split->raw_data[1]->size)),
            model.graph().initializer(1).raw_data());
  ::onnx::ModelProto expected = model;
  expected.mutable_graph()->mutable_initializer(1)->clear_raw_data();
  EXPECT_EQ(split->rest.SerializeAsString(), expected.SerializeAsString());
}

TEST(SplitModel, MessagesInPartsAreMergedAndTheLastRawDataCounts) {
  const ::onnx::ModelProto model = Model();
  ::onnx::ModelProto more;
  AddTensor(*more.mutable_graph(), "third", kMuch, 7);
  const std::string tensor = model.graph().initializer(1).SerializeAsString();
  const std::string again = Field(9, std::string(kMuch * sizeof(float), 'x'));
  const std::string less = Field(9, "abcd");
  const std::string bytes = model.SerializeAsString() + more.SerializeAsString() +
                            Field(7, Field(5, tensor + less) + Field(5, tensor + less + again));
  const StatusOr<SplitModel> split = Split(bytes);
  ASSERT_TRUE(split.ok()) << split.status();
  ::onnx::ModelProto whole;
  ASSERT_TRUE(whole.ParseFromString(bytes));
  ASSERT_EQ(whole.graph().initializer_size(), 5);
  ASSERT_EQ(split->raw_data.size(), 5u);
  for (int i = 0; i < 5; ++i) {
    const std::optional<ByteRange>& range = split->raw_data[static_cast<size_t>(i)];
    EXPECT_EQ(
        range ? bytes.substr(static_cast<size_t>(range->offset), static_cast<size_t>(range->size))
              : split->rest.graph().initializer(i).raw_data(),
        whole.graph().initializer(i).raw_data())
        << i;
    EXPECT_EQ(range.has_value(), i != 0 && i != 3) << i;
  }
}

TEST(SplitModel, FilesAndBytesGiveTheSameElements) {
  const ::onnx::ModelProto model = Model();
  const std::string bytes = model.SerializeAsString();
  graph::ConstantStore constants;
  EXPECT_EQ(FirstOf(ImportBytes(bytes, {}, constants), "much"), 5);
  const test::TempDirectory directory;
  directory.Write("model.onnx", bytes);
  graph::ConstantStore others;
  EXPECT_EQ(FirstOf(ImportFile(directory / "model.onnx", {}, others), "much"), 5);
  EXPECT_EQ(FirstOf(ImportFile(directory / "model.onnx", {}, others), "little"), 1);
}

TEST(SplitModel, WhatIsNoModelIsRefusedAsThat) {
  const std::string bytes = Model().SerializeAsString();
  const std::string refused = "are not a serialized ModelProto";
  const std::string graph = Model().graph().SerializeAsString();
  for (size_t size = 1; size < bytes.size(); size += size < 600 ? 1 : 997) {
    const StatusOr<SplitModel> split = Split(bytes.substr(0, size));
    // What ends between two fields is a message, which lacks a graph or an opset.
    ::onnx::ModelProto whole;
    EXPECT_EQ(split.ok(), whole.ParseFromString(bytes.substr(0, size))) << size;
    if (!split.ok()) EXPECT_THAT(Message(split.status()), testing::HasSubstr(refused)) << size;
  }
  // Lengths that pass the end of the message around them, of 32 bits and more.
  for (const std::string& length :
       {std::string("\x7f"), std::string("\xff\xff\xff\xff\x07"),
        std::string("\xff\xff\xff\xff\x0f"),
        std::string("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), std::string("\xff\xff")}) {
    for (const std::string& damaged :
         {"\x3a" + length, Field(7, "\x2a" + length), Field(7, Field(5, "\x4a" + length)),
          Field(7, Field(5, "\x4a" + length) + graph)}) {
      EXPECT_THAT(Message(Split(damaged).status()), testing::HasSubstr(refused));
    }
  }
}

TEST(SplitModel, DamagedBytesAreReadAsProtobufReadsThem) {
  const std::string bytes = Model().SerializeAsString();
  std::mt19937 random(1);
  int whole = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = bytes;
    // Beside the weights, where the structure is.
    const size_t at = random() % 400;
    damaged[at < 60 ? at : bytes.size() - at] = static_cast<char>(random());
    const StatusOr<SplitModel> split = Split(damaged);
    ::onnx::ModelProto expected;
    ASSERT_EQ(split.ok(), expected.ParseFromString(damaged)) << i;
    if (!split.ok()) continue;
    ++whole;
    ASSERT_EQ(split->raw_data.size(), static_cast<size_t>(expected.graph().initializer_size()));
    for (int t = 0; t < expected.graph().initializer_size(); ++t) {
      const std::optional<ByteRange>& range = split->raw_data[static_cast<size_t>(t)];
      if (!range) continue;
      ASSERT_EQ(
          damaged.substr(static_cast<size_t>(range->offset), static_cast<size_t>(range->size)),
          expected.graph().initializer(t).raw_data());
      expected.mutable_graph()->mutable_initializer(t)->clear_raw_data();
    }
    ASSERT_EQ(split->rest.SerializeAsString(), expected.SerializeAsString()) << i;
  }
  EXPECT_GT(whole, 100);
}

}  // namespace
}  // namespace tandem::onnx_import
