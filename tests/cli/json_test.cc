#include "cli/json.h"

#include <gtest/gtest.h>

namespace tandem::cli {
namespace {

TEST(JsonWriter, SeparatesMembersAndElements) {
  JsonWriter json;
  json.Open('{').Key("a").Open('[').Number(1).Real(0.5).Bool(true).Null().Close(']');
  json.Key("b").Open('{').Close('}').Key("c").Text("x").Close('}');
  EXPECT_EQ(json.text(), R"({"a":[1,0.5,true,null],"b":{},"c":"x"})");
}

TEST(JsonWriter, EscapesWhatMayNotStandInAString) {
  JsonWriter json;
  json.Text("\"\\\n\x01\x7f");
  EXPECT_EQ(json.text(), "\"\\\"\\\\\\u000a\\u0001\x7f\"");
}

TEST(JsonWriter, KeepsUtf8AndReplacesWhatIsNone) {
  const auto text = [](std::string_view bytes) { return JsonWriter().Text(bytes).text(); };
  for (const char* right : {"\u00e9", "\u20ac", "\U0001F600"}) {
    EXPECT_EQ(text(right), '"' + std::string(right) + '"');
  }
  for (const char* wrong : {"\x80", "\xC0", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80",
                            "\xF4\x90\x80\x80", "\xF0\x80\x80\x80", "\xFF", "\xE2\x82"}) {
    const std::string written = text(wrong);
    EXPECT_EQ(written.find(wrong), std::string::npos);
    EXPECT_NE(written.find("\xEF\xBF\xBD"), std::string::npos);
  }
}

}  // namespace
}  // namespace tandem::cli
