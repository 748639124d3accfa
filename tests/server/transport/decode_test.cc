// What decoding makes of good requests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/server/transport/decode_fixtures.h"

namespace tandem::server {
namespace {

using ::testing::HasSubstr;

// An input whose file gives it no shape.
ServedModelRef AnyShape() {
  ModelInfo info = EchoInfo({{"", DType::kFloat}}, {});
  for (Port& port : info.inputs) port.rank_known = false;
  return MakeServed("m", std::move(info), 0);
}

TEST(Decode, AnInputOfAnyShapeTakesEveryShape) {
  for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{{}, {6}, {2, 3}}) {
    const size_t count = shape.empty() ? 1 : 6;
    const auto request = Decode(RawRequest("FP32", shape, Floats(count)), AnyShape());
    EXPECT_TRUE(request.ok()) << request.status();
  }
  const auto negative = Decode(RawRequest("FP32", {-1}, Floats(1)), AnyShape());
  EXPECT_THAT(negative.status().message(), HasSubstr("FP32 of any shape was expected"));
}

TEST(DecodeRequest, AcceptsBoundsExactly) {
  ModelInferRequest request = GoodRequest();
  request.set_id(std::string(256, 'i'));
  for (int i = 0; i < 64; ++i) SetParameter(request, "custom_" + std::to_string(i), i);
  EXPECT_TRUE(Decode(request, TwoFloats()).ok());
}

TEST(DecodeRequest, ReadsTimeoutInEveryFormAndIgnoresPriority) {
  ModelInferRequest request = GoodRequest();
  EXPECT_FALSE(Decode(request, TwoFloats())->queue_timeout.has_value());
  auto& timeout = (*request.mutable_parameters())["timeout"];
  (*request.mutable_parameters())["priority"].set_uint64_param(1);
  (*request.mutable_parameters())["triton_enable_empty_final_response"].set_bool_param(true);
  (*request.mutable_parameters())["sequence_id"].set_int64_param(0);
  timeout.set_int64_param(1500);
  EXPECT_EQ(Decode(request, TwoFloats())->queue_timeout, std::chrono::microseconds(1500));
  timeout.set_uint64_param(1501);
  EXPECT_EQ(Decode(request, TwoFloats())->queue_timeout, std::chrono::microseconds(1501));
  timeout.set_string_param("1502");
  EXPECT_EQ(Decode(request, TwoFloats())->queue_timeout, std::chrono::microseconds(1502));
  timeout.set_int64_param(0);
  EXPECT_FALSE(Decode(request, TwoFloats())->queue_timeout.has_value());
}

TEST(DecodeRequest, KeepsTheOrderOfRequestedOutputs) {
  ModelInferRequest request = GoodRequest();
  request.add_outputs()->set_name("yb");
  request.add_outputs()->set_name("ya");
  EXPECT_THAT(Decode(request, TwoFloats())->outputs, ::testing::ElementsAre("yb", "ya"));
}

TEST(DecodeRequest, TakesInputsInAnyOrder) {
  ModelInferRequest request = GoodRequest();
  request.mutable_inputs()->SwapElements(0, 1);
  const auto decoded = Decode(request, TwoFloats());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->inputs[0].name, "xb");
}

TEST(DecodeRequest, LeavesOutInputsWithADefault) {
  ModelInfo info = EchoInfo({{"a", DType::kFloat}, {"b", DType::kFloat}}, kRows16);
  info.inputs[1].optional = true;
  ModelInferRequest request = GoodRequest();
  request.mutable_inputs()->RemoveLast();
  request.mutable_raw_input_contents()->RemoveLast();
  EXPECT_TRUE(Decode(request, MakeServed("m", info, 8)).ok());
}

TEST(DecodeRequest, ChecksAxis0OfAModelThatDoesNotBatch) {
  const auto model = OneInput(DType::kFloat, {2, 2});
  EXPECT_TRUE(Decode(RawRequest("FP32", {2, 2}, Floats(4)), model).ok());
  EXPECT_EQ(Decode(RawRequest("FP32", {3, 2}, Floats(6)), model).status().code(), kInvalid);
}

TEST(DecodeRequest, ReadsAScalar) {
  const auto decoded = Decode(RawRequest("FP32", {}, Floats(1)), OneInput(DType::kFloat, {}));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->inputs[0].tensor.shape(), Shape());
}

}  // namespace
}  // namespace tandem::server
