#include "server/transport/model_config_text.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>

#include "server/transport/encode.h"
#include "tests/server/transport/fake_backend.h"

namespace tandem::server {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::SizeIs;

ModelSettings Parsed(const std::string& text) {
  StatusOr<ModelSettings> settings = ParseSettings(text);
  EXPECT_TRUE(settings.ok()) << settings.status() << " of " << text;
  return settings.ok() ? *std::move(settings) : ModelSettings{};
}

// The refusal of `text`, which must be InvalidArgument.
std::string Refusal(const std::string& text) {
  const Status status = ParseSettings(text).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status << " of " << text;
  return std::string(Message(status));
}

std::string Parameter(const std::string& value) {
  return fmt::format("parameters {{ key: \"precision\" value: {{ {} }} }}", value);
}

TEST(ModelConfigText, ThePrecisionIsAParameter) {
  for (const Precision precision :
       {Precision::kF32Plain, Precision::kF32, Precision::kF32Strict, Precision::kBf16}) {
    const ModelSettings settings =
        Parsed(Parameter(fmt::format("string_value: \"{}\"", PrecisionName(precision))));
    EXPECT_EQ(settings.precision, precision);
    EXPECT_THAT(settings.without_effect, IsEmpty());
  }
  EXPECT_EQ(Parsed("parameters: [{ key: 'precision', value { string_value: 'bf16' } }]").precision,
            Precision::kBf16);
}

TEST(ModelConfigText, WithoutTheParameterNothingIsAskedFor) {
  for (const char* text : {"", "\n", "# nothing but a remark"}) {
    const ModelSettings settings = Parsed(text);
    EXPECT_EQ(settings.precision, std::nullopt);
    EXPECT_THAT(settings.without_effect, IsEmpty());
  }
}

TEST(ModelConfigText, WhatTheServerSaysOfAModelIsReadBack) {
  ModelInfo info = EchoInfo({{"a", DType::kFloat}}, {graph::Dim::Symbol("N"), 3});
  info.precision = Precision::kF32Strict;
  std::string text;
  ASSERT_TRUE(google::protobuf::TextFormat::PrintToString(
      DescribeConfig(*MakeServed("m", std::move(info), 8), 4), &text));
  EXPECT_EQ(Parsed(text).precision, Precision::kF32Strict);
}

TEST(ModelConfigText, APrecisionThatIsNoneSaysWhatCameAndWhatWasExpected) {
  const auto refusal = [](const std::string& quoted) {
    return fmt::format(
        "parameter 'precision': string_value {} came; f32_plain, f32, f32_strict or bf16 was "
        "expected",
        quoted);
  };
  for (const char* name : {"fp16", "", "BF16", " bf16", "bf16 ", "f32,bf16", "bfloat16"}) {
    EXPECT_EQ(Refusal(Parameter(fmt::format("string_value: \"{}\"", name))),
              refusal(fmt::format("'{}'", name)));
  }
  EXPECT_EQ(Refusal(Parameter("")), refusal("''"));
  EXPECT_EQ(Refusal("parameters { key: 'precision' }"), refusal("''"));
  EXPECT_EQ(Refusal(Parameter(R"(string_value: "bf16\0")")), refusal(R"('bf16\x00')"));
  EXPECT_EQ(Refusal(Parameter("string_value: '" + std::string(1 << 16, 'f') + "'")),
            refusal("'" + std::string(96, 'f') + "...'"));
}

TEST(ModelConfigText, AValueOfAnotherTypeIsNamedWithItsPlace) {
  EXPECT_EQ(Refusal(Parameter("int64_value: 16")),
            "line 1, column 51: 'Message type \"inference.ModelParameter\" has no field named "
            "\"int64_value\".'");
  EXPECT_EQ(Refusal("\n" + Parameter("string_value: 16")),
            "line 2, column 54: 'Expected string, got: 16'");
  EXPECT_THAT(Refusal("parameters { key: 'precision' value: 'bf16' }"), HasSubstr("'Expected"));
  EXPECT_THAT(Refusal("parameters { key: 7 value { string_value: 'bf16' } }"),
              HasSubstr("Expected string, got: 7"));
  EXPECT_THAT(Refusal("parameters: 'precision'"), HasSubstr("line 1, column 13: 'Expected"));
}

TEST(ModelConfigText, PlacesAreThoseInTheFile) {
  EXPECT_EQ(
      Refusal("name: \"m\"  # a remark\n\n\tparameters {\n key: 'precision' # and its value\n"
              "\tvalue { string_value: 'bf' '16'\tstring_value: \"twice\" } }"),
      "line 5, column 53: 'Non-repeated field \"string_value\" is specified multiple times.'");
}

TEST(ModelConfigText, AKeyThatComesTwiceIsRefused) {
  const std::string once = Parameter("string_value: 'bf16'");
  EXPECT_EQ(Refusal(once + Parameter("string_value: 'f32'") + "parameters { key: 'other' }"),
            "3 parameters with 2 different keys came; each key was expected once");
  EXPECT_EQ(Parsed(once + "parameters { key: 'other' }").precision, Precision::kBf16);
}

TEST(ModelConfigText, WhatNobodyActsUponIsListed) {
  const ModelSettings settings = Parsed(R"(
    name: "m"
    max_batch_size: 8, output_copy_stream: -1;
    optimization { execution_accelerators { cpu_execution_accelerator: [{ name: "openvino" }] } }
    instance_group [{ count: 2 kind: KIND_CPU }, < kind: KIND_GPU >]
    model_warmup: [] instance_group { count: 1 }
    parameters { key: "threads" value { string_value: "3" } }
    parameters { key: "it's\nodd" value { string_value: "3" } }
    parameters { key: "precision" value { string_value: "bf16" } }
    input [{ name: "}" } # ]
    ])");
  EXPECT_EQ(settings.precision, Precision::kBf16);
  EXPECT_THAT(settings.without_effect,
              ElementsAre("'name'", "'max_batch_size'", "'output_copy_stream'", "'optimization'",
                          "'instance_group'", "'model_warmup'", "'input'",
                          R"(parameter 'it\x27s\x0aodd')", "parameter 'threads'"));
}

TEST(ModelConfigText, TheListIsShortHoweverLongTheFile) {
  std::string text = "first_" + std::string(1 << 16, 'f') + ": 1 ";
  for (int i = 0; i < 1000; ++i) {
    text += fmt::format("unknown_{0}: 1 parameters {{ key: '{0}' }}\n", i);
  }
  EXPECT_THAT(Parsed(text).without_effect, AllOf(SizeIs(17), Each(SizeIs(Le(101u)))));
}

TEST(ModelConfigText, WhatIsNoMessageIsRefusedWithItsPlace) {
  EXPECT_EQ(Refusal("name: \"m\"\nmax_batch_size 8"),
            "line 2, column 16: 'Expected colon or bracket, got: 8'");
  EXPECT_EQ(Refusal("max_batch_size: }"), "line 1, column 17: 'Expected value, got: }'");
  EXPECT_EQ(Refusal("max_batch_size:"), "line 1, column 16: 'Expected value, got: the end'");
  EXPECT_EQ(Refusal("{\"name\": \"m\"}"), "line 1, column 1: 'Expected name of a field, got: {'");
  EXPECT_EQ(Refusal("parameters { key: 'precision'"),
            "line 1, column 30: 'Expected }, got: the end'");
  EXPECT_EQ(Refusal("input [{ name: 'x' ]"), "line 1, column 20: 'Expected }, got: ]'");
  EXPECT_THAT(Refusal("name: 'm"), HasSubstr("line 1, column 9: "));
  EXPECT_THAT(Refusal(std::string("name: \"m\"\0", 10)), HasSubstr("line 1, column 10: "));
  // What the message repeats is text that any client can read.
  EXPECT_THAT(Refusal("\xff\xfe: \xff"), Each(AllOf(Ge(' '), Le('~'))));
}

TEST(ModelConfigText, DamagedFilesAreReadOrRefusedInPlainText) {
  const std::string whole =
      "name: \"m\" # a remark\ninput [{ dims: [-1, 3] }]\n" + Parameter("string_value: 'bf16'");
  const std::string odd(
      "{}[]<>:;,'\"\\#-\0\n\t\xff"
      "09az",
      22);
  std::mt19937 random(1);
  int refused = 0;
  for (int turn = 0; turn < 5000; ++turn) {
    std::string text = whole;
    for (int change = 0; change <= turn % 4; ++change) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = odd[random() % odd.size()];
          break;
        case 1:
          text.insert(at, 1, odd[random() % odd.size()]);
          break;
        default:
          text.erase(at, 1 + random() % 4);
      }
    }
    const StatusOr<ModelSettings> settings = ParseSettings(text);
    if (settings.ok()) continue;
    ++refused;
    ASSERT_EQ(settings.status().code(), absl::StatusCode::kInvalidArgument) << text;
    ASSERT_THAT(std::string(Message(settings.status())),
                AllOf(SizeIs(Ge(10u)), Each(AllOf(Ge(' '), Le('~')))));
  }
  EXPECT_GT(refused, 500);
  EXPECT_LT(refused, 4500);
}

TEST(ModelConfigText, FieldsThatNobodyReadsMayBeNestedAsDeepAsTheyLike) {
  const int depth = 1 << 16;
  std::string text = Parameter("string_value: 'bf16'");
  for (int i = 0; i < depth; ++i) text += "a: [{ b <";
  EXPECT_THAT(Refusal(text), HasSubstr("'Expected >, got: the end'"));
  for (int i = 0; i < depth; ++i) text += ">}]";
  EXPECT_EQ(Parsed(text).precision, Precision::kBf16);
}

}  // namespace
}  // namespace tandem::server
