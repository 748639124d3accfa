// Requests that decoding refuses, one by one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "tests/server/transport/decode_fixtures.h"

namespace tandem::server {
namespace {

using ::testing::HasSubstr;

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

INSTANTIATE_TEST_SUITE_P(
    Inputs, BadRequest,
    ::testing::Values(
        BadRow{"UnknownInput",
               [](Request& r) { r.mutable_inputs(1)->set_name("z"); },
               kInvalid,
               {"input 'z' is unknown: 'FP32' of shape [1,16] came", "'xa', 'xb'"}},
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
               {"input 'extra' is unknown: 'FP32' of shape [1,16] came"}},
        BadRow{"DuplicateInput",
               [](Request& r) { r.mutable_inputs(1)->set_name("xa"); },
               kInvalid,
               {"input 'xa' came twice; each input was expected once"}},
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
               {"input 'xa'", "shape [1152921504606846978,16] came, with more elements than 2^63",
                "FP32 [-1,16] was expected"}},
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
               {"input 'xa'",
                "FP32 [1,16] takes 16 elements in fp32_contents, but 1 in int_contents came"}},
        BadRow{"TypedFieldOfTwoTypes",
               [](Request& r) {
                 SetTyped(r);
                 r.mutable_inputs(0)->mutable_contents()->add_fp64_contents(1);
               },
               kInvalid,
               {"but 16 in fp32_contents, 1 in fp64_contents came"}},
        BadRow{"TypedCountShort",
               [](Request& r) {
                 SetTyped(r);
                 r.mutable_inputs(1)->mutable_contents()->mutable_fp32_contents()->RemoveLast();
               },
               kInvalid,
               {"input 'xb'", "takes 16 elements in fp32_contents, but 15 in fp32_contents came"}},
        BadRow{
            "NoContents",
            [](Request& r) { r.clear_raw_input_contents(); },
            kInvalid,
            {"input 'xa'", "takes 16 elements, but neither raw_input_contents nor contents came"}},
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
               {"output 'ya' is requested twice; each output was expected once"}},
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

}  // namespace
}  // namespace tandem::server
