// What a model is made of is its own: after it has been loaded, packed and run, what is exported
// has every initializer byte for byte.
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <map>

#include "engine/onnx/tensor_decode.h"
#include "tests/engine/api/comparison.h"
#include "tests/support/random_tensor.h"
#include "tests/support/temp_directory.h"

namespace tandem {
namespace {

using test::ModelBuilder;
using test::NamedTensors;
using test::RandomFloats;
using Ints = std::vector<int64_t>;

const graph::Dim kN = graph::Dim::Symbol("N");

Tensor Halves() {
  Tensor halves = *Tensor::Allocate(DType::kFloat16, {4});
  for (int64_t i = 0; i < 4; ++i) {
    halves.mutable_data<Float16>()[i] = ToFloat16(static_cast<float>(i) / 3);
  }
  return halves;
}

// A NaN with a payload, a negative zero and a denormal are bytes, too.
Tensor OddFloats() {
  const std::vector<uint32_t> bits = {0x7FC12345, 0x80000000, 0x00000001, 0xFF800000};
  Tensor floats = *Tensor::Allocate(DType::kFloat, {4});
  std::copy_n(reinterpret_cast<const std::byte*>(bits.data()), 16,
              static_cast<std::byte*>(floats.mutable_view().mutable_raw()));
  return floats;
}

Tensor Strings() {
  Tensor strings = *Tensor::Allocate(DType::kString, {3});
  strings.mutable_data<std::string>()[0] = "one";
  strings.mutable_data<std::string>()[1] = "";
  strings.mutable_data<std::string>()[2] = std::string("\0\xff", 2);
  return strings;
}

NamedTensors Initializers() {
  return {{"filters", RandomFloats({6, 4, 3, 3}, 1)},
          {"matrix", RandomFloats({4, 5}, 2)},
          {"outside", RandomFloats({4, 7}, 3)},
          {"odd", OddFloats()},
          {"halves", Halves()},
          {"bytes", Tensor::Of<int8_t>({4}, {-128, -1, 0, 127})},
          {"longs", Tensor::Of<int64_t>({2}, {(int64_t{1} << 53) + 1, -1})},
          {"flags", Tensor::Of<bool>({4}, {true, false, false, true})},
          {"words", Strings()},
          {"scalar", Tensor::Scalar(0.1F)},
          {"nothing", RandomFloats({0, 4}, 1)}};
}

// A file in which every initializer is read; "outside" lies in a file of its own. The filters are
// packed for a convolution and multiplied by a number that comes with a request.
class ExportBytes : public testing::Test {
 protected:
  ExportBytes() {
    ModelBuilder builder(17);
    builder.Input("image", DType::kFloat, {kN, 4, 6, 5})
        .Input("x", DType::kFloat, {kN, 4})
        .Input("factor", DType::kFloat, {});
    for (const auto& [name, tensor] : Initializers()) builder.Initializer(name, tensor);
    builder.Node("Conv", {"image", "filters"}, {"features"})
        .Node("Mul", {"filters", "factor"}, {"scaled"})
        .Node("MatMul", {"x", "matrix"}, {"product"})
        .Node("MatMul", {"x", "outside"}, {"other"})
        .Node("Add", {"x", "odd"}, {"sum"})
        .Node("Cast", {"halves"}, {"wide"}, {{"to", int64_t{1}}})
        .Node("Cast", {"bytes"}, {"numbers"}, {{"to", int64_t{1}}})
        .Node("Neg", {"longs"}, {"negative"})
        .Node("Where", {"flags", "x", "scalar"}, {"chosen"})
        .Node("Identity", {"words"}, {"same"})
        .Node("Concat", {"x", "nothing"}, {"joined"}, {{"axis", int64_t{0}}});
    for (const std::string output : {"features", "scaled", "product", "other", "sum", "wide",
                                     "numbers", "negative", "chosen", "same", "joined"}) {
      builder.Output(output);
    }
    MoveOut("outside", builder.proto());
    builder.WriteFile(path_);
    file_ = builder.proto().graph();
  }

  void MoveOut(const std::string& name, ::onnx::ModelProto& model) const {
    for (::onnx::TensorProto& tensor : *model.mutable_graph()->mutable_initializer()) {
      if (tensor.name() != name) continue;
      directory_.Write("weights.bin", "pad:" + tensor.raw_data());
      tensor.clear_raw_data();
      tensor.set_data_location(::onnx::TensorProto::EXTERNAL);
      for (const auto& [key, value] : std::map<std::string, std::string>{
               {"location", "weights.bin"}, {"offset", "4"}, {"length", "112"}}) {
        ::onnx::StringStringEntryProto& entry = *tensor.add_external_data();
        entry.set_key(key);
        entry.set_value(value);
      }
    }
  }

  // What the engine exports after it has loaded the model and run it.
  ::onnx::GraphProto Exported(const EngineOptions& options) const {
    const Engine engine(options);
    const auto model = engine.Load(path_);
    EXPECT_TRUE(model.ok()) << model.status();
    if (!model.ok()) return {};
    EXPECT_EQ(engine.stats().packs_built, 3u);
    const auto inputs = test::InputsOf(**model, 2);
    const NamedTensors before = test::Answers(**model, inputs);
    const auto written = engine.Export(path_);
    EXPECT_TRUE(written.ok()) << written.status();
    ::onnx::ModelProto exported;
    EXPECT_TRUE(written.ok() && exported.ParseFromString(written->bytes));
    test::ExpectClose(test::Answers(**model, inputs), before, test::Exact());
    return exported.graph();
  }

  const test::TempDirectory directory_;
  const std::string path_ = directory_ / "model.onnx";
  ::onnx::GraphProto file_;
};

// Every initializer that has a name of the file's has its bytes; how many have.
size_t ExpectBytes(const ::onnx::GraphProto& graph) {
  const NamedTensors expected = Initializers();
  size_t found = 0;
  for (const ::onnx::TensorProto& tensor : graph.initializer()) {
    const auto known = expected.find(tensor.name());
    if (known == expected.end()) continue;
    ++found;
    const auto decoded = onnx_import::DecodeTensor(tensor, nullptr);
    EXPECT_TRUE(decoded.ok()) << decoded.status();
    if (!decoded.ok()) continue;
    EXPECT_TRUE(test::Close(*decoded, known->second, test::Exact())) << tensor.name();
    if (known->second.dtype() == DType::kString) continue;
    const auto bytes = known->second.view().bytes();
    EXPECT_EQ(tensor.raw_data(),
              std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()))
        << tensor.name();
  }
  return found;
}

std::vector<std::string> NodesOf(const ::onnx::GraphProto& graph) {
  std::vector<std::string> nodes;
  for (const ::onnx::NodeProto& node : graph.node()) {
    std::string text = node.op_type();
    for (const std::string& input : node.input()) text += " " + input;
    text += " ->";
    for (const std::string& output : node.output()) text += " " + output;
    nodes.push_back(text);
  }
  std::ranges::sort(nodes);
  return nodes;
}

TEST_F(ExportBytes, WithoutPassesEveryNodeAndEveryInitializerComesBack) {
  const ::onnx::GraphProto graph = Exported(test::WithoutPasses());
  EXPECT_EQ(ExpectBytes(graph), Initializers().size());
  EXPECT_EQ(static_cast<size_t>(graph.initializer_size()), Initializers().size());
  EXPECT_EQ(NodesOf(graph), NodesOf(file_));
}

TEST_F(ExportBytes, WithPassesEveryInitializerThatIsLeftIsWhatItWas) {
  const ::onnx::GraphProto graph = Exported({.threads = 1});
  // What others are read by is computed at load; these are read by what needs a request.
  EXPECT_GE(ExpectBytes(graph), 6u);
  for (const std::string name : {"filters", "matrix", "outside", "odd", "flags", "nothing"}) {
    EXPECT_TRUE(std::ranges::any_of(graph.initializer(), [&](const ::onnx::TensorProto& tensor) {
      return tensor.name() == name;
    })) << name;
  }
}

}  // namespace
}  // namespace tandem
