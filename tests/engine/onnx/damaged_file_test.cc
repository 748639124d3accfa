// Files that are not whole, not ONNX, or made to do harm: always an error that names the reason,
// never a crash.
#include <gmock/gmock.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "tests/engine/onnx/import_testing.h"
#include "tests/support/temp_directory.h"

namespace tandem::onnx_import {
namespace {

using test::ModelBuilder;
using testing::AnyOf;
using testing::HasSubstr;

// A model with bodies, functions, defaults and tensors of several kinds. Its last field is the one
// opset import, so that no shorter file is a model.
ModelBuilder Rich() {
  ModelBuilder branch;
  branch.Initializer("k", Tensor::Of<int64_t>({3}, {1, -2, 3}))
      .Node("Reshape", {"h", "k"}, {"s"})
      .Node("F", {"s"}, {"r"}, {}, "call", "")
      .Output("r");
  ModelBuilder loop;
  loop.Input("i", DType::kInt64, {}).Input("keep", DType::kBool, {}).Input("v");
  loop.Node("Add", {"v", "w"}, {"next"}).Output("keep").Output("next");
  ModelBuilder function;
  function.Input("a")
      .Node("LeakyRelu", {"a"}, {"t"})
      .Reference("alpha", 0.0f, "slope")
      .Node("Concat", {"t", "a"}, {"b"}, {{"axis", int64_t{0}}})
      .Output("b");
  ModelBuilder model;
  model.Input("x", DType::kFloat, {graph::Dim::Symbol("N"), 2})
      .Input("c", DType::kBool, {})
      .Initializer("w", Tensor::Of<float>({2}, {0.5f, -1}))
      .Initializer("words", Tensor::Of<std::string>({2}, {"one", "two"}))
      .Node("F", {"x"}, {"h"}, {{"slope", 0.5f}}, "first", "")
      .Node("If", {"c"}, {"u"}, {}, "choice", "")
      .Body("then_branch", branch)
      .Body("else_branch", branch)
      .Node("Loop", {"", "c", "u"}, {"y"}, {}, "loop", "")
      .Body("body", loop)
      .Node("Op", {"y"}, {"z"},
            {{"floats", std::vector<float>{1, 2}},
             {"text", std::string("value")},
             {"t", test::TensorAttribute(Tensor::Of<int32_t>({2}, {7, 8}))}})
      .Output("y", DType::kFloat, {graph::Dim(), 2})
      .Output("z")
      .Function("", "F", function)
      .FunctionDefaults({{"slope", 0.25f}});
  return model;
}

Status ImportStatus(const std::string& bytes) {
  graph::ConstantStore constants;
  return ImportBytes(bytes, {}, constants).status();
}

std::string ErrorOfBytes(const std::string& bytes) {
  const Status status = ImportStatus(bytes);
  return status.ok() ? "no error" : std::string(Message(status));
}

// A tag and length as they are written, followed by `bytes`.
std::string Field(int number, const std::string& bytes) {
  std::string text;
  {
    google::protobuf::io::StringOutputStream stream(&text);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.WriteTag(static_cast<uint32_t>(number << 3 | 2));
    coded.WriteVarint32(static_cast<uint32_t>(bytes.size()));
  }
  return text + bytes;
}

TEST(DamagedFile, AModelThatIsWholeImports) { EXPECT_EQ(ErrorOf(Rich()), "no error"); }

TEST(DamagedFile, AModelCutAtAnyLengthIsRefused) {
  ModelBuilder model = Rich();
  // The opset import goes last, and functions stand in front of it.
  const std::string import = Field(8, model.proto().opset_import(0).SerializeAsString());
  model.proto().clear_opset_import();
  const std::string bytes = model.Serialize() + import;
  ASSERT_EQ(ErrorOfBytes(bytes), "no error");
  for (size_t length = 0; length < bytes.size(); ++length) {
    const Status status = ImportStatus(bytes.substr(0, length));
    ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << length;
    EXPECT_FALSE(Message(status).empty()) << length;
  }
}

TEST(DamagedFile, JunkBehindAModelIsRefused) {
  const std::string bytes = Rich().Serialize();
  EXPECT_THAT(ErrorOfBytes(bytes + std::string(1, '\0')), HasSubstr("not a serialized ModelProto"));
  EXPECT_THAT(ErrorOfBytes(bytes + std::string(16, '\0')), HasSubstr("not a serialized"));
  EXPECT_THAT(ErrorOfBytes(bytes + "\x04"), HasSubstr("not a serialized"));  // end of a group
  EXPECT_THAT(ErrorOfBytes(bytes + "\xff\xff\xff"), HasSubstr("not a serialized"));
  EXPECT_THAT(ErrorOfBytes(bytes + Field(777, "x")), HasSubstr("field 777 of ModelProto"));
  // A model twice is one message with the fields of both.
  EXPECT_THAT(ErrorOfBytes(bytes + bytes), HasSubstr("defined twice"));
}

TEST(DamagedFile, OtherKindsOfFilesAreRefused) {
  EXPECT_EQ(ErrorOfBytes(""), "the model is empty");
  for (const std::string& text :
       {std::string("hello\n"), std::string("version https://git-lfs.github.com/spec/v1\noid sha"),
        std::string("<html></html>"), std::string("\x89PNG\r\n\x1a\n"), std::string("PK\x03\x04"),
        std::string(4096, '\0'), std::string(4096, '\xff'), std::string(1, '\x08')}) {
    EXPECT_EQ(ImportStatus(text).code(), absl::StatusCode::kInvalidArgument) << text.substr(0, 20);
  }
  std::mt19937 random(5);
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes(random() % 200, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    ASSERT_FALSE(ImportStatus(bytes).ok()) << round;
  }
}

TEST(DamagedFile, MessagesNestedWithoutEndAreRefused) {
  // Groups of an unknown field.
  EXPECT_THAT(ErrorOfBytes(std::string(100'000, '\x0b')), HasSubstr("nested more than 100 deep"));
  std::string type;
  for (int i = 0; i < 10'000; ++i) type = Field(4, Field(1, type));  // a sequence of a sequence
  const std::string input = Field(11, Field(2, type));
  EXPECT_THAT(ErrorOfBytes(Field(7, input)), HasSubstr("nested more than 100 deep"));
  std::string body;
  for (int i = 0; i < 10'000; ++i) body = Field(1, Field(5, Field(6, body)));  // node, attribute, g
  EXPECT_THAT(ErrorOfBytes(Field(7, body)), HasSubstr("nested more than 100 deep"));
}

TEST(DamagedFile, LengthsBeyondTheFileAreRefusedWithoutTakingMemory) {
  // float_data of an initializer, 2^31 - 1 bytes long.
  const std::string tensor = std::string("\x22\xff\xff\xff\xff\x07", 6) + std::string(16, 'x');
  EXPECT_THAT(ErrorOfBytes(Field(7, Field(5, tensor))), HasSubstr("not a serialized"));
  const std::string endless = std::string("\x22\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 10);
  EXPECT_THAT(ErrorOfBytes(Field(7, Field(5, endless))), HasSubstr("not a serialized"));
  ModelBuilder model = Rich();
  ::onnx::TensorProto& huge = *model.proto().mutable_graph()->add_initializer();
  huge.set_name("huge");
  huge.set_data_type(1);
  for (int i = 0; i < 4; ++i) huge.add_dims(1 << 14);
  EXPECT_THAT(ErrorOf(model), HasSubstr("tensor 'huge': float_data has 0 entries"));
}

TEST(DamagedFile, FieldsOfAnotherWireTypeAreRefused) {
  const std::string bytes = Rich().Serialize();
  EXPECT_THAT(ErrorOfBytes(bytes + "\x38\x01"), HasSubstr("field 7 (graph) of ModelProto"));
  EXPECT_THAT(ErrorOfBytes(bytes + Field(1, "8")), HasSubstr("field 1 (ir_version)"));
}

TEST(DamagedFile, SparseTensorsHaveNoMoreAxesThanOthers) {
  ModelBuilder model = Rich();
  auto& sparse = *model.proto().mutable_graph()->add_sparse_initializer();
  ModelBuilder parts;
  parts.Initializer("sparse", Tensor::Of<float>({1}, {5}));
  parts.Initializer("", Tensor::Of<int64_t>({1}, {0}));
  *sparse.mutable_values() = parts.proto().graph().initializer(0);
  *sparse.mutable_indices() = parts.proto().graph().initializer(1);
  for (int i = 0; i < kMaxRank; ++i) sparse.add_dims(1);
  EXPECT_EQ(ErrorOf(model), "no error");
  sparse.add_dims(1);
  EXPECT_THAT(ErrorOf(model), HasSubstr("65 axes"));
}

// A small change of `bytes` somewhere.
std::string Mutated(std::string bytes, std::mt19937& random) {
  const size_t at = random() % bytes.size();
  const size_t length = std::min<size_t>(1 + random() % 16, bytes.size() - at);
  const std::string part = bytes.substr(at, length);
  switch (random() % 6) {
    case 0:
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
      break;
    case 1:
      bytes[at] = static_cast<char>(random());
      break;
    case 2:
      bytes.erase(at, length);
      break;
    case 3:
      bytes.insert(random() % bytes.size(), part);
      break;
    case 4:
      bytes.replace(random() % (bytes.size() - length + 1), length, part);
      break;
    case 5:
      bytes.resize(at);
      break;
  }
  return bytes;
}

// Either a graph that holds together or a refusal of the input.
void ExpectAnswer(const Status& status, int round) {
  if (status.ok()) return;
  EXPECT_TRUE(absl::IsInvalidArgument(status) || absl::IsUnimplemented(status))
      << round << ": " << status;
  EXPECT_FALSE(Message(status).empty()) << round;
}

TEST(DamagedFile, ChangedBytesAreAnsweredWithAGraphOrARefusal) {
  const std::string whole = Rich().Serialize();
  std::mt19937 random(20);
  int imported = 0;
  for (int round = 0; round < 40'000; ++round) {
    std::string bytes = whole;
    const int changes = 1 + static_cast<int>(random() % 3);
    for (int i = 0; i < changes && !bytes.empty(); ++i) bytes = Mutated(bytes, random);
    const Status status = ImportStatus(bytes);
    imported += status.ok() ? 1 : 0;
    ExpectAnswer(status, round);
  }
  // Changes of names and numbers are no damage; so the changes reach behind the parser.
  EXPECT_GT(imported, 100);
}

// All places in nodes, inputs, outputs and initializers that hold a name of a value.
void CollectNames(::onnx::GraphProto& graph, std::vector<std::string*>& names) {
  for (::onnx::ValueInfoProto& input : *graph.mutable_input())
    names.push_back(input.mutable_name());
  for (::onnx::ValueInfoProto& output : *graph.mutable_output()) {
    names.push_back(output.mutable_name());
  }
  for (::onnx::TensorProto& tensor : *graph.mutable_initializer()) {
    names.push_back(tensor.mutable_name());
  }
  for (::onnx::NodeProto& node : *graph.mutable_node()) {
    for (std::string& input : *node.mutable_input()) names.push_back(&input);
    for (std::string& output : *node.mutable_output()) names.push_back(&output);
    names.push_back(node.mutable_op_type());
    for (::onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) CollectNames(*attribute.mutable_g(), names);
      names.push_back(attribute.mutable_name());
    }
  }
}

TEST(DamagedFile, ExchangedNamesAreAnsweredWithAGraphOrARefusal) {
  const ModelBuilder whole = Rich();
  std::mt19937 random(21);
  int imported = 0;
  for (int round = 0; round < 20'000; ++round) {
    ModelBuilder model;
    model.proto() = whole.proto();
    std::vector<std::string*> names;
    CollectNames(*model.proto().mutable_graph(), names);
    for (::onnx::FunctionProto& function : *model.proto().mutable_functions()) {
      for (std::string& name : *function.mutable_input()) names.push_back(&name);
      for (std::string& name : *function.mutable_output()) names.push_back(&name);
      for (::onnx::NodeProto& node : *function.mutable_node()) {
        for (std::string& name : *node.mutable_input()) names.push_back(&name);
        for (std::string& name : *node.mutable_output()) names.push_back(&name);
        names.push_back(node.mutable_op_type());
      }
    }
    const int changes = 1 + static_cast<int>(random() % 3);
    for (int i = 0; i < changes; ++i) {
      *names[random() % names.size()] = *names[random() % names.size()];
    }
    graph::ConstantStore constants;
    const Status status = Import(model).status();
    imported += status.ok() ? 1 : 0;
    ExpectAnswer(status, round);
  }
  EXPECT_GT(imported, 100);
}

class ModelFile : public testing::Test {
 protected:
  // x + w, with w = 1, 2, 3 ... in the file "weights".
  ModelBuilder WithExternalWeights(int count) {
    ModelBuilder model;
    model.Input("x", DType::kFloat, {count})
        .Node("Add", {"x", "w"}, {"y"})
        .Output("y", DType::kFloat, {count});
    ::onnx::TensorProto& weights = *model.proto().mutable_graph()->add_initializer();
    weights.set_name("w");
    weights.set_data_type(1);
    weights.add_dims(count);
    weights.set_data_location(::onnx::TensorProto::EXTERNAL);
    auto& location = *weights.add_external_data();
    location.set_key("location");
    location.set_value("weights");
    std::vector<float> values(static_cast<size_t>(count));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i + 1);
    content_.assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    directory_.Write("weights", content_);
    model.WriteFile(path_);
    return model;
  }
  StatusOr<ImportedModel> ImportIt() { return ImportFile(path_, {}, constants_); }
  std::string Error() {
    const StatusOr<ImportedModel> model = ImportIt();
    return model.ok() ? "no error" : std::string(Message(model.status()));
  }

  test::TempDirectory directory_;
  const std::string path_ = directory_ / "model.onnx";
  std::string content_;
  graph::ConstantStore constants_;
};

TEST_F(ModelFile, IsRegularThereAndNotTooLarge) {
  EXPECT_EQ(ImportIt().status().code(), absl::StatusCode::kNotFound);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(Error(), "the model is not a regular file");
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  EXPECT_EQ(Error(), "the model is not a regular file");
  std::filesystem::remove(path_);
  directory_.Write("model.onnx", "");
  EXPECT_EQ(Error(), "the model file is empty");
  std::filesystem::resize_file(path_, int64_t{3} << 30);
  EXPECT_THAT(Error(), HasSubstr("2 GiB"));
}

TEST_F(ModelFile, ExternalDataThatEndsTooSoonIsRefusedAndNamesTheTensor) {
  WithExternalWeights(1000);
  ASSERT_EQ(Error(), "no error");
  for (const size_t size : {3999u, 4u, 0u, 4001u}) {
    std::filesystem::resize_file(directory_ / "weights", size);
    EXPECT_THAT(Error(), testing::AllOf(HasSubstr("tensor 'w'"),
                                        HasSubstr(std::to_string(size) + " bytes")));
  }
  std::filesystem::remove(directory_ / "weights");
  EXPECT_THAT(Error(), HasSubstr("'weights' does not exist"));
}

TEST_F(ModelFile, ExternalDataThatShrinksAfterTheLoadChangesNothing) {
  WithExternalWeights(1000);
  const StatusOr<ImportedModel> model = ImportIt();
  ASSERT_TRUE(model.ok()) << model.status();
  std::filesystem::resize_file(directory_ / "weights", 0);
  const graph::Graph& graph = model->graph;
  const auto weights = graph.value(graph.FindValue("w")).constant->view().span<float>();
  EXPECT_EQ(weights.front(), 1);
  EXPECT_EQ(weights.back(), 1000);
}

TEST_F(ModelFile, ExternalDataThatShrinksDuringTheLoadIsWholeOrRefused) {
  constexpr int kCount = 1 << 18;
  WithExternalWeights(kCount);
  const std::string weights = directory_ / "weights";
  std::atomic<bool> done = false;
  std::thread writer([&] {
    while (!done) {
      std::filesystem::resize_file(weights, content_.size() / 2);
      std::ofstream(weights, std::ios::binary | std::ios::trunc) << content_;
    }
  });
  for (int round = 0; round < 200; ++round) {
    const StatusOr<ImportedModel> model = ImportIt();
    if (!model.ok()) {
      EXPECT_THAT(std::string(Message(model.status())),
                  AnyOf(HasSubstr("external data at offset"), HasSubstr("became shorter"),
                        HasSubstr("changed while")));
      continue;
    }
    EXPECT_EQ(model->graph.value(model->graph.FindValue("w")).constant->view().elements(), kCount);
  }
  done = true;
  writer.join();
}

}  // namespace
}  // namespace tandem::onnx_import
