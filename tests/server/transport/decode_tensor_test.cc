// Contents of tensors, raw and typed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/server/transport/decode_fixtures.h"

namespace tandem::server {
namespace {

using ::testing::HasSubstr;

TEST(DecodeRaw, SharesTheBytesOfTheRequestAndKeepsThemAlive) {
  auto request = std::make_shared<const ModelInferRequest>(RawRequest("FP32", {1, 16}, Floats(16)));
  const void* bytes = request->raw_input_contents(0).data();
  const auto model = OneInput(DType::kFloat, {1, 16});
  StatusOr<InferRequest> decoded = DecodeInferRequest(request, model);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  const Tensor tensor = decoded->inputs[0].tensor;
  EXPECT_EQ(tensor.view().raw(), bytes);
  const std::weak_ptr<const ModelInferRequest> alive = request;
  request.reset();
  decoded = Cancelled("gone");
  EXPECT_FALSE(alive.expired());
  EXPECT_EQ(tensor.data<float>()[15], 16.0f);
}

// Each type: raw bytes arrive unchanged, whatever they are.
class EveryType : public ::testing::TestWithParam<std::pair<std::string, DType>> {};

TEST_P(EveryType, RawBytesArriveUnchanged) {
  const auto& [name, dtype] = GetParam();
  const size_t bytes = 7 * DTypeBits(dtype) / 8;
  std::string raw(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) {
    raw[i] = static_cast<char>(dtype == DType::kBool ? i % 2 : 255 - 3 * i);
  }
  const auto decoded = Decode(RawRequest(name, {7}, raw), OneInput(dtype, {graph::Dim()}));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  const TensorView& view = decoded->inputs[0].tensor.view();
  EXPECT_EQ(view.dtype(), dtype);
  EXPECT_EQ(view.shape(), Shape({7}));
  EXPECT_EQ(std::memcmp(view.raw(), raw.data(), bytes), 0);
}

TEST_P(EveryType, ZeroElementsAreLegalRawAndTyped) {
  const auto& [name, dtype] = GetParam();
  const auto model = OneInput(dtype, {graph::Dim(), 3});
  ModelInferRequest request = RawRequest(name, {0, 3}, "");
  EXPECT_TRUE(Decode(request, model).ok());
  request.clear_raw_input_contents();
  const auto decoded = Decode(request, model);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->inputs[0].tensor.shape(), Shape({0, 3}));
}

INSTANTIATE_TEST_SUITE_P(
    Wire, EveryType,
    ::testing::Values(std::pair{"BOOL", DType::kBool}, std::pair{"UINT8", DType::kUint8},
                      std::pair{"UINT16", DType::kUint16}, std::pair{"UINT32", DType::kUint32},
                      std::pair{"UINT64", DType::kUint64}, std::pair{"INT8", DType::kInt8},
                      std::pair{"INT16", DType::kInt16}, std::pair{"INT32", DType::kInt32},
                      std::pair{"INT64", DType::kInt64}, std::pair{"FP16", DType::kFloat16},
                      std::pair{"FP32", DType::kFloat}, std::pair{"FP64", DType::kDouble},
                      std::pair{"BF16", DType::kBfloat16}),
    [](const auto& info) { return info.param.first; });

TEST(DecodeRaw, RefusesBoolsThatAreNeither0Nor1) {
  const auto decoded =
      Decode(RawRequest("BOOL", {3}, std::string("\1\0\2", 3)), OneInput(DType::kBool, {3}));
  EXPECT_EQ(decoded.status().code(), kInvalid);
  EXPECT_THAT(std::string(Message(decoded.status())), HasSubstr("element 2 of BOOL is 2"));
}

std::string Prefixed(const std::vector<std::string>& texts) {
  std::string raw;
  for (const std::string& text : texts) {
    const auto length = static_cast<uint32_t>(text.size());
    raw.append(reinterpret_cast<const char*>(&length), sizeof(length));
    raw += text;
  }
  return raw;
}

TEST(DecodeRaw, ReadsBytesWithNulsAndEmptyElements) {
  const std::vector<std::string> texts = {"", std::string("a\0b", 3), "\xff\xfe"};
  const auto decoded =
      Decode(RawRequest("BYTES", {3}, Prefixed(texts)), OneInput(DType::kString, {3}));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_THAT(decoded->inputs[0].tensor.span<std::string>(), ::testing::ElementsAreArray(texts));
}

TEST(DecodeRaw, RefusesBytesThatDoNotEndWhereTheyShould) {
  const auto model = OneInput(DType::kString, {graph::Dim()});
  const std::string two = Prefixed({"ab", "c"});
  const struct {
    std::vector<int64_t> shape;
    std::string raw;
    std::string said;
  } rows[] = {
      {{2}, two.substr(0, two.size() - 1), "element 1 of BYTES has length 1, but 0 bytes are left"},
      {{2}, two + "x", "1 bytes are left after the last"},
      {{1}, two, "5 bytes are left after the last"},
      {{3}, two, "takes 3 elements, each a length of 4 bytes and the bytes, but 11 bytes came"},
      {{2}, Prefixed({"abcd"}) + "xyz", "but the 11 bytes end after 1"},
      {{1}, "\xff\xff\xff\xff", "has length 4294967295, but 0 bytes are left"},
      {{int64_t{1} << 40}, two, "takes 1099511627776 elements"},
  };
  for (const auto& row : rows) {
    const auto decoded = Decode(RawRequest("BYTES", row.shape, row.raw), model);
    EXPECT_EQ(decoded.status().code(), kInvalid);
    EXPECT_THAT(std::string(Message(decoded.status())), HasSubstr(row.said));
  }
}

ModelInferRequest TypedRequest(const std::string& datatype, int64_t elements) {
  ModelInferRequest request;
  AddInput(request, "x", datatype, {elements});
  return request;
}

// Fills the typed field of a type through `fill` and returns the input.
template <typename T>
std::vector<T> DecodeTypedAs(const std::string& datatype, DType dtype, int64_t elements,
                             const std::function<void(inference::InferTensorContents&)>& fill) {
  ModelInferRequest request = TypedRequest(datatype, elements);
  fill(*request.mutable_inputs(0)->mutable_contents());
  const auto decoded = Decode(request, OneInput(dtype, {graph::Dim()}));
  EXPECT_TRUE(decoded.ok()) << decoded.status();
  if (!decoded.ok()) return {};
  const auto span = decoded->inputs[0].tensor.span<T>();
  return {span.begin(), span.end()};
}

TEST(DecodeTyped, ReadsEveryTypeAtItsLimits) {
  using Contents = inference::InferTensorContents;
  using ::testing::ElementsAre;
  EXPECT_THAT(DecodeTypedAs<bool>("BOOL", DType::kBool, 2,
                                  [](Contents& c) {
                                    c.add_bool_contents(true);
                                    c.add_bool_contents(false);
                                  }),
              ElementsAre(true, false));
  EXPECT_THAT(DecodeTypedAs<int8_t>("INT8", DType::kInt8, 2,
                                    [](Contents& c) {
                                      c.add_int_contents(-128);
                                      c.add_int_contents(127);
                                    }),
              ElementsAre(-128, 127));
  EXPECT_THAT(DecodeTypedAs<int16_t>("INT16", DType::kInt16, 1,
                                     [](Contents& c) { c.add_int_contents(-32768); }),
              ElementsAre(-32768));
  EXPECT_THAT(DecodeTypedAs<int32_t>("INT32", DType::kInt32, 1,
                                     [](Contents& c) { c.add_int_contents(INT32_MIN); }),
              ElementsAre(INT32_MIN));
  EXPECT_THAT(DecodeTypedAs<int64_t>("INT64", DType::kInt64, 1,
                                     [](Contents& c) { c.add_int64_contents(INT64_MIN); }),
              ElementsAre(INT64_MIN));
  EXPECT_THAT(DecodeTypedAs<uint8_t>("UINT8", DType::kUint8, 1,
                                     [](Contents& c) { c.add_uint_contents(255); }),
              ElementsAre(255));
  EXPECT_THAT(DecodeTypedAs<uint16_t>("UINT16", DType::kUint16, 1,
                                      [](Contents& c) { c.add_uint_contents(65535); }),
              ElementsAre(65535));
  EXPECT_THAT(DecodeTypedAs<uint32_t>("UINT32", DType::kUint32, 1,
                                      [](Contents& c) { c.add_uint_contents(UINT32_MAX); }),
              ElementsAre(UINT32_MAX));
  EXPECT_THAT(DecodeTypedAs<uint64_t>("UINT64", DType::kUint64, 1,
                                      [](Contents& c) { c.add_uint64_contents(UINT64_MAX); }),
              ElementsAre(UINT64_MAX));
  EXPECT_THAT(DecodeTypedAs<float>("FP32", DType::kFloat, 1,
                                   [](Contents& c) { c.add_fp32_contents(1.5f); }),
              ElementsAre(1.5f));
  EXPECT_THAT(DecodeTypedAs<double>("FP64", DType::kDouble, 1,
                                    [](Contents& c) { c.add_fp64_contents(1e300); }),
              ElementsAre(1e300));
  EXPECT_THAT(
      DecodeTypedAs<std::string>("BYTES", DType::kString, 1,
                                 [](Contents& c) { c.add_bytes_contents(std::string("a\0b", 3)); }),
      ElementsAre(std::string("a\0b", 3)));
}

TEST(DecodeTyped, RefusesNumbersThatTheTypeDoesNotHold) {
  const struct {
    std::string datatype;
    DType dtype;
    int64_t value;
    std::string range;
  } rows[] = {
      {"INT8", DType::kInt8, 128, "-128 to 127"},
      {"INT8", DType::kInt8, -129, "-128 to 127"},
      {"INT16", DType::kInt16, 32768, "-32768 to 32767"},
      {"UINT8", DType::kUint8, 256, "0 to 255"},
      {"UINT16", DType::kUint16, 65536, "0 to 65535"},
  };
  for (const auto& row : rows) {
    ModelInferRequest request = TypedRequest(row.datatype, 1);
    auto& contents = *request.mutable_inputs(0)->mutable_contents();
    if (row.datatype[0] == 'U') {
      contents.add_uint_contents(static_cast<uint32_t>(row.value));
    } else {
      contents.add_int_contents(static_cast<int32_t>(row.value));
    }
    const auto decoded = Decode(request, OneInput(row.dtype, {1}));
    EXPECT_EQ(decoded.status().code(), kInvalid);
    EXPECT_THAT(
        std::string(Message(decoded.status())),
        HasSubstr(fmt::format("element 0 is {}; {} holds {}", row.value, row.datatype, row.range)));
  }
}

TEST(DecodeTyped, RefusesHalfPrecision) {
  for (const auto& [name, dtype] :
       {std::pair{"FP16", DType::kFloat16}, std::pair{"BF16", DType::kBfloat16}}) {
    ModelInferRequest request = TypedRequest(name, 1);
    request.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1.0f);
    const auto decoded = Decode(request, OneInput(dtype, {1}));
    EXPECT_EQ(decoded.status().code(), kInvalid);
    EXPECT_THAT(std::string(Message(decoded.status())),
                HasSubstr(fmt::format("{} has no typed contents", name)));
  }
}

}  // namespace
}  // namespace tandem::server
