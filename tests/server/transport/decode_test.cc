#include "server/transport/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>
#include <numeric>

#include "tests/server/transport/fake_backend.h"

namespace tandem::server {
namespace {

using inference::ModelInferRequest;
using ::testing::HasSubstr;

const graph::DimVector kRows16 = {graph::Dim::Symbol("N"), 16};

// Two inputs of 16 floats a row; batches of up to 8.
ServedModelRef TwoFloats() {
  return MakeServed("m", EchoInfo({{"a", DType::kFloat}, {"b", DType::kFloat}}, kRows16), 8);
}

ServedModelRef OneInput(DType dtype, const graph::DimVector& dims) {
  return MakeServed("m", EchoInfo({{"", dtype}}, dims), 0);
}

void AddInput(ModelInferRequest& request, const std::string& name, const std::string& datatype,
              const std::vector<int64_t>& shape) {
  auto& input = *request.add_inputs();
  input.set_name(name);
  input.set_datatype(datatype);
  for (const int64_t extent : shape) input.add_shape(extent);
}

std::string Floats(size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0f);
  return {reinterpret_cast<const char*>(values.data()), count * sizeof(float)};
}

// A request that TwoFloats accepts.
ModelInferRequest GoodRequest() {
  ModelInferRequest request;
  AddInput(request, "xa", "FP32", {1, 16});
  AddInput(request, "xb", "FP32", {1, 16});
  request.add_raw_input_contents(Floats(16));
  request.add_raw_input_contents(Floats(16));
  return request;
}

ModelInferRequest RawRequest(const std::string& datatype, const std::vector<int64_t>& shape,
                             const std::string& raw) {
  ModelInferRequest request;
  AddInput(request, "x", datatype, shape);
  request.add_raw_input_contents(raw);
  return request;
}

StatusOr<InferRequest> Decode(const ModelInferRequest& request, ServedModelRef model) {
  return DecodeInferRequest(std::make_shared<const ModelInferRequest>(request), std::move(model));
}

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

// A change to a good request, and what the error must say.
struct BadRow {
  std::string what;
  std::function<void(ModelInferRequest&)> change;
  absl::StatusCode code;
  std::vector<std::string> said;
};

void PrintTo(const BadRow& row, std::ostream* out) { *out << row.what; }

class BadRequest : public ::testing::TestWithParam<BadRow> {};

TEST_P(BadRequest, IsRefusedWithWhatCameAndWhatWasExpected) {
  ModelInferRequest request = GoodRequest();
  ASSERT_TRUE(Decode(request, TwoFloats()).ok());
  GetParam().change(request);
  const StatusOr<InferRequest> decoded = Decode(request, TwoFloats());
  ASSERT_FALSE(decoded.ok());
  EXPECT_EQ(decoded.status().code(), GetParam().code) << decoded.status();
  EXPECT_THAT(std::string(Message(decoded.status())), HasSubstr("model 'm' version 3"));
  for (const std::string& part : GetParam().said) {
    EXPECT_THAT(std::string(Message(decoded.status())), HasSubstr(part));
  }
}

using Request = ModelInferRequest;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;
constexpr int64_t kHuge = (int64_t{1} << 60) + 2;

void SetShape(Request& request, int input, const std::vector<int64_t>& shape) {
  request.mutable_inputs(input)->clear_shape();
  for (const int64_t extent : shape) request.mutable_inputs(input)->add_shape(extent);
}

void SetTyped(Request& request) {
  request.clear_raw_input_contents();
  for (auto& input : *request.mutable_inputs()) {
    for (int i = 0; i < 16; ++i) input.mutable_contents()->add_fp32_contents(1.0f);
  }
}

void SetParameter(Request& request, const std::string& name, int64_t value) {
  (*request.mutable_parameters())[name].set_int64_param(value);
}

INSTANTIATE_TEST_SUITE_P(
    Inputs, BadRequest,
    ::testing::Values(
        BadRow{"UnknownInput",
               [](Request& r) { r.mutable_inputs(1)->set_name("z"); },
               kInvalid,
               {"input 'z' is unknown", "'xa', 'xb'"}},
        BadRow{"EmptyInputName",
               [](Request& r) { r.mutable_inputs(1)->set_name(""); },
               kInvalid,
               {"input '' is unknown"}},
        BadRow{"MissingInput",
               [](Request& r) {
                 r.mutable_inputs()->RemoveLast();
                 r.mutable_raw_input_contents()->RemoveLast();
               },
               kInvalid,
               {"input 'xb' is missing", "FP32 [-1,16] was expected"}},
        BadRow{"NoInput",
               [](Request& r) {
                 r.clear_inputs();
                 r.clear_raw_input_contents();
               },
               kInvalid,
               {"input 'xa' is missing"}},
        BadRow{"ExtraInput",
               [](Request& r) {
                 AddInput(r, "extra", "FP32", {1, 16});
                 r.add_raw_input_contents(Floats(16));
               },
               kInvalid,
               {"input 'extra' is unknown"}},
        BadRow{"DuplicateInput",
               [](Request& r) { r.mutable_inputs(1)->set_name("xa"); },
               kInvalid,
               {"input 'xa' came twice"}},
        BadRow{"WrongDatatype",
               [](Request& r) { r.mutable_inputs(0)->set_datatype("INT32"); },
               kInvalid,
               {"input 'xa'", "'INT32' came", "FP32 was expected"}},
        BadRow{"BogusDatatype",
               [](Request& r) { r.mutable_inputs(0)->set_datatype("FP31\n"); },
               kInvalid,
               {"'FP31\\x0a' came", "FP32 was expected"}},
        BadRow{"EmptyDatatype",
               [](Request& r) { r.mutable_inputs(0)->set_datatype(""); },
               kInvalid,
               {"'' came"}},
        BadRow{"WrongRank",
               [](Request& r) { SetShape(r, 0, {16}); },
               kInvalid,
               {"input 'xa'", "shape [16] of rank 1 came", "FP32 [-1,16] of rank 2 was expected"}},
        BadRow{"Rank65",
               [](Request& r) { SetShape(r, 0, std::vector<int64_t>(65, 1)); },
               kInvalid,
               {"of rank 65 came"}},
        BadRow{"AMillionDims",
               [](Request& r) { SetShape(r, 0, std::vector<int64_t>(1'000'000, 1)); },
               kInvalid,
               {"... 1000000 dims]"}},
        BadRow{"WrongExtent",
               [](Request& r) {
                 SetShape(r, 1, {2, 8});
               },
               kInvalid,
               {"input 'xb'", "shape [2,8] came", "FP32 [-1,16] was expected"}},
        BadRow{"NegativeExtent",
               [](Request& r) {
                 SetShape(r, 0, {-1, 16});
               },
               kInvalid,
               {"input 'xa'", "shape [-1,16] came, with extent -1 on axis 0"}},
        BadRow{"TwoNegativeExtentsWithAPositiveProduct",
               [](Request& r) {
                 SetShape(r, 0, {-1, -16});
               },
               kInvalid,
               {"shape [-1,-16] came"}},
        BadRow{"ProductThatWrapsToTheRightByteCount",
               [](Request& r) {
                 SetShape(r, 0, {kHuge, 16});
               },
               kInvalid,
               {"input 'xa'", "more elements than 2^63"}},
        BadRow{"ByteProductThatPassesInt64",
               [](Request& r) {
                 SetShape(r, 0, {int64_t{1} << 58, 16});
               },
               kInvalid,
               {"takes more than 2^63 bytes, but 64 came"}},
        BadRow{"ByteCountShort",
               [](Request& r) { r.mutable_raw_input_contents(0)->resize(60); },
               kInvalid,
               {"input 'xa'", "FP32 [1,16] takes 64 bytes, but 60 came"}},
        BadRow{"ByteCountLong",
               [](Request& r) { r.mutable_raw_input_contents(1)->append("x"); },
               kInvalid,
               {"input 'xb'", "takes 64 bytes, but 65 came"}},
        BadRow{"TooFewRawEntries",
               [](Request& r) { r.mutable_raw_input_contents()->RemoveLast(); },
               kInvalid,
               {"raw_input_contents has 1 entries", "2 inputs"}},
        BadRow{"TooManyRawEntries",
               [](Request& r) { r.add_raw_input_contents(Floats(16)); },
               kInvalid,
               {"raw_input_contents has 3 entries", "2 inputs"}},
        BadRow{"RawAndTyped",
               [](Request& r) { r.mutable_inputs(1)->mutable_contents()->add_fp32_contents(1.0f); },
               kInvalid,
               {"input 'xb'", "typed contents came beside raw_input_contents"}},
        BadRow{"TypedFieldOfAnotherType",
               [](Request& r) {
                 SetTyped(r);
                 r.mutable_inputs(0)->mutable_contents()->clear_fp32_contents();
                 r.mutable_inputs(0)->mutable_contents()->add_int_contents(1);
               },
               kInvalid,
               {"input 'xa'", "1 elements came in int_contents", "FP32 takes fp32_contents"}},
        BadRow{"TypedFieldOfTwoTypes",
               [](Request& r) {
                 SetTyped(r);
                 r.mutable_inputs(0)->mutable_contents()->add_fp64_contents(1);
               },
               kInvalid,
               {"1 elements came in fp64_contents"}},
        BadRow{"TypedCountShort",
               [](Request& r) {
                 SetTyped(r);
                 r.mutable_inputs(1)->mutable_contents()->mutable_fp32_contents()->RemoveLast();
               },
               kInvalid,
               {"input 'xb'", "takes 16 elements, but 15 came in fp32_contents"}},
        BadRow{"NoContents",
               [](Request& r) { r.clear_raw_input_contents(); },
               kInvalid,
               {"input 'xa'", "takes 16 elements, but 0 came"}},
        BadRow{
            "SharedMemory",
            [](Request& r) {
              (*r.mutable_inputs(0)->mutable_parameters())["shared_memory_region"].set_string_param(
                  "r");
            },
            kUnimplemented,
            {"input 'xa'", "shared_memory_region"}}),
    [](const auto& info) { return info.param.what; });

INSTANTIATE_TEST_SUITE_P(
    OutputsAndParameters, BadRequest,
    ::testing::Values(
        BadRow{"UnknownOutput",
               [](Request& r) { r.add_outputs()->set_name("z"); },
               kInvalid,
               {"output 'z' is unknown", "'ya', 'yb'"}},
        BadRow{"DuplicateOutput",
               [](Request& r) {
                 r.add_outputs()->set_name("ya");
                 r.add_outputs()->set_name("ya");
               },
               kInvalid,
               {"output 'ya' is requested twice"}},
        BadRow{"Classification",
               [](Request& r) {
                 auto& output = *r.add_outputs();
                 output.set_name("ya");
                 (*output.mutable_parameters())["classification"].set_int64_param(3);
               },
               kUnimplemented,
               {"output 'ya'", "classification"}},
        BadRow{"AHundredThousandOutputs",
               [](Request& r) {
                 for (int i = 0; i < 100'000; ++i) r.add_outputs();
               },
               kInvalid,
               {"100000 outputs are requested; at most 1024"}},
        BadRow{"TooManyInputs",
               [](Request& r) {
                 for (int i = 0; i < 1023; ++i) AddInput(r, "xa", "FP32", {1, 16});
               },
               kInvalid,
               {"1025 inputs came; at most 1024"}},
        BadRow{"TooManyParameters",
               [](Request& r) {
                 for (int i = 0; i < 100'000; ++i) SetParameter(r, std::to_string(i), 1);
               },
               kInvalid,
               {"100000 parameters came; at most 64"}},
        BadRow{"TooManyTensorParameters",
               [](Request& r) {
                 for (int i = 0; i < 65; ++i) {
                   (*r.mutable_inputs(0)->mutable_parameters())[std::to_string(i)];
                 }
               },
               kInvalid,
               {"input 'xa'", "65 parameters came"}},
        BadRow{"LongId",
               [](Request& r) { r.set_id(std::string(257, 'i')); },
               kInvalid,
               {"257 bytes; at most 256"}},
        BadRow{"ReservedParameter",
               [](Request& r) { SetParameter(r, "triton_new", 1); },
               kInvalid,
               {"parameter 'triton_new'", "reserved"}},
        BadRow{"FinalResponseOfAnotherType",
               [](Request& r) { SetParameter(r, "triton_enable_empty_final_response", 1); },
               kInvalid,
               {"an int64 came; a bool was expected"}},
        BadRow{"NegativeTimeout",
               [](Request& r) { SetParameter(r, "timeout", -1); },
               kInvalid,
               {"parameter 'timeout'", "-1 came"}},
        BadRow{"TimeoutOfAnotherType",
               [](Request& r) { (*r.mutable_parameters())["timeout"].set_bool_param(true); },
               kInvalid,
               {"parameter 'timeout'", "a bool came"}},
        BadRow{"TimeoutWithoutValue",
               [](Request& r) { (*r.mutable_parameters())["timeout"]; },
               kInvalid,
               {"nothing came"}},
        BadRow{"TimeoutThatIsNoNumber",
               [](Request& r) { (*r.mutable_parameters())["timeout"].set_string_param("1s"); },
               kInvalid,
               {"'1s' came"}},
        BadRow{
            "TimeoutBeyondInt64",
            [](Request& r) { (*r.mutable_parameters())["timeout"].set_uint64_param(UINT64_MAX); },
            kInvalid,
            {"at most 2^63-1"}},
        BadRow{"Sequence",
               [](Request& r) { SetParameter(r, "sequence_id", 7); },
               kInvalid,
               {"parameter 'sequence_id'", "no state"}}),
    [](const auto& info) { return info.param.what; });

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
      {{3}, two, "takes 3 elements of at least 4 bytes, but 11 bytes came"},
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
  } rows[] = {
      {"INT8", DType::kInt8, 128},       {"INT8", DType::kInt8, -129},
      {"INT16", DType::kInt16, 32768},   {"UINT8", DType::kUint8, 256},
      {"UINT16", DType::kUint16, 65536},
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
        HasSubstr(fmt::format("element 0 is {}, which {} does not hold", row.value, row.datatype)));
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

TEST(DecodeRequest, ReadsAScalar) {
  const auto decoded = Decode(RawRequest("FP32", {}, Floats(1)), OneInput(DType::kFloat, {}));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->inputs[0].tensor.shape(), Shape());
}

}  // namespace
}  // namespace tandem::server
