#include "server/transport/encode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/models/quoted.h"
#include "server/transport/wire_types.h"
#include "tests/server/transport/fake_backend.h"

namespace tandem::server {
namespace {

using ::testing::ElementsAre;

const graph::DimVector kImages = {graph::Dim::Symbol("N"), 3, graph::Dim::Symbol("H")};

TEST(Encode, WritesRawContentsInTheOrderOfTheOutputs) {
  const auto model = MakeServed("m", {}, 0);
  InferReply reply;
  reply.outputs.push_back({"f", Tensor::Of<float>(Shape({2}), {1.0f, -2.0f})});
  reply.outputs.push_back({"s", Tensor::Of<std::string>(Shape({1, 2}), {"", "ab"})});
  reply.outputs.push_back({"empty", *Tensor::Allocate(DType::kInt64, Shape({0, 4}))});
  inference::ModelInferResponse response;
  ASSERT_TRUE(EncodeInferResponse(reply, *model, response).ok());
  EXPECT_EQ(response.model_name(), "m");
  EXPECT_EQ(response.model_version(), "3");
  ASSERT_EQ(response.outputs_size(), 3);
  ASSERT_EQ(response.raw_output_contents_size(), 3);
  EXPECT_EQ(response.outputs(0).datatype(), "FP32");
  EXPECT_THAT(response.outputs(1).shape(), ElementsAre(1, 2));
  EXPECT_EQ(response.outputs(1).datatype(), "BYTES");
  EXPECT_FALSE(response.outputs(0).has_contents());
  EXPECT_EQ(response.raw_output_contents(0), std::string("\0\0\x80\x3f\0\0\0\xc0", 8));
  EXPECT_EQ(response.raw_output_contents(1), std::string("\0\0\0\0\2\0\0\0ab", 10));
  EXPECT_EQ(response.raw_output_contents(2), "");
  EXPECT_THAT(response.outputs(2).shape(), ElementsAre(0, 4));
}

TEST(Encode, RefusesAResponseThatNoMessageHolds) {
  // A view of no memory: nothing may read the elements.
  const Tensor huge = Tensor::Share(nullptr, DType::kFloat, Shape({1 << 20, 1 << 10}), nullptr);
  const InferReply reply{.outputs = {{"big", huge}}};
  inference::ModelInferResponse response;
  const Status status = EncodeInferResponse(reply, *MakeServed("m", {}, 0), response);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(Message(status)), ::testing::HasSubstr("output 'big'"));
  EXPECT_EQ(response.outputs_size(), 0);
}

TEST(Describe, MetadataShowsTheBatchAxisAndConfigLeavesItOut) {
  const auto model = MakeServed("m", EchoInfo({{"a", DType::kFloat}}, kImages), 8);
  const auto metadata = DescribeModel(*model, {1, 3});
  EXPECT_THAT(metadata.versions(), ElementsAre("1", "3"));
  EXPECT_EQ(metadata.platform(), "onnxruntime_onnx");
  EXPECT_THAT(metadata.inputs(0).shape(), ElementsAre(-1, 3, -1));
  EXPECT_EQ(metadata.outputs(0).name(), "ya");
  const auto config = DescribeConfig(*model, 4);
  EXPECT_EQ(config.max_batch_size(), 8);
  EXPECT_THAT(config.input(0).dims(), ElementsAre(3, -1));
  EXPECT_EQ(config.output(0).data_type(), inference::TYPE_FP32);
  EXPECT_TRUE(config.has_dynamic_batching());
  EXPECT_EQ(config.instance_group(0).count(), 4);
}

TEST(Describe, ConfigShowsThePrecisionThatTheModelWasLoadedWith) {
  for (const Precision precision :
       {Precision::kF32Plain, Precision::kF32, Precision::kF32Strict, Precision::kBf16}) {
    ModelInfo info = EchoInfo({{"a", DType::kFloat}}, kImages);
    info.precision = precision;
    const auto config = DescribeConfig(*MakeServed("m", std::move(info), 8), 4);
    ASSERT_EQ(config.parameters().size(), 1u);
    EXPECT_EQ(config.parameters().at("precision").string_value(), PrecisionName(precision));
  }
}

TEST(Describe, AModelThatDoesNotBatchShowsTheSameShapeInBoth) {
  const auto model = MakeServed("m", EchoInfo({{"a", DType::kString}}, kImages), 0);
  EXPECT_THAT(DescribeModel(*model, {3}).inputs(0).shape(), ElementsAre(-1, 3, -1));
  const auto config = DescribeConfig(*model, 1);
  EXPECT_THAT(config.input(0).dims(), ElementsAre(-1, 3, -1));
  EXPECT_EQ(config.input(0).data_type(), inference::TYPE_STRING);
  EXPECT_FALSE(config.has_dynamic_batching());
}

TEST(Describe, ABatchFixedAtOneIsShownOpen) {
  const auto model = MakeServed("m", EchoInfo({{"a", DType::kFloat}}, {1, 5}), 32);
  EXPECT_THAT(DescribeModel(*model, {3}).inputs(0).shape(), ElementsAre(-1, 5));
  EXPECT_THAT(DescribeConfig(*model, 1).input(0).dims(), ElementsAre(5));
}

TEST(Describe, APortOfUnknownRankHasNoDims) {
  ModelInfo info = EchoInfo({{"a", DType::kFloat}}, {});
  for (std::vector<Port>* ports : {&info.inputs, &info.outputs}) ports->front().rank_known = false;
  const auto model = MakeServed("m", info, 0);
  const auto metadata = DescribeModel(*model, {3});
  EXPECT_EQ(metadata.inputs(0).shape_size(), 0);
  EXPECT_EQ(metadata.outputs(0).shape_size(), 0);
  EXPECT_EQ(DescribeConfig(*model, 1).input(0).dims_size(), 0);
}

TEST(Describe, InputsWithADefaultAreLeftOut) {
  ModelInfo info = EchoInfo({{"a", DType::kFloat}, {"b", DType::kFloat}}, {2});
  info.inputs[0].optional = true;
  const auto model = MakeServed("m", info, 0);
  ASSERT_EQ(DescribeModel(*model, {3}).inputs_size(), 1);
  EXPECT_EQ(DescribeModel(*model, {3}).inputs(0).name(), "xb");
  EXPECT_EQ(DescribeConfig(*model, 1).input_size(), 1);
}

TEST(WireTypes, NamesGoThereAndBack) {
  int named = 0;
  for (int i = 0; i <= 26; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (WireName(dtype).empty()) continue;
    ++named;
    EXPECT_EQ(DTypeOfWireName(WireName(dtype)), dtype);
    EXPECT_NE(ConfigDataType(dtype), inference::TYPE_INVALID);
  }
  EXPECT_EQ(named, 14);
  EXPECT_EQ(DTypeOfWireName(""), DType::kUndefined);
  EXPECT_EQ(DTypeOfWireName("fp32"), DType::kUndefined);
}

TEST(WireTypes, QuotedTextIsOneLineOfAsciiAndBounded) {
  EXPECT_EQ(Quoted("a\n'\\\xc3"), R"('a\x0a\x27\x5c\xc3')");
  EXPECT_EQ(Quoted(std::string(1 << 20, 'a')).size(), 96 + 5u);
}

}  // namespace
}  // namespace tandem::server
