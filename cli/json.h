// Writing JSON (RFC 8259).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::cli {

// Members and elements are written in order; the caller opens and closes.
//
//   JsonWriter json;
//   json.Open('{').Key("tasks").Open('[').Number(1).Close(']').Close('}');
class JsonWriter {
 public:
  JsonWriter& Open(char bracket);
  JsonWriter& Close(char bracket);
  JsonWriter& Key(std::string_view key);
  // Bytes that are no UTF-8 are written as U+FFFD.
  JsonWriter& Text(std::string_view text);
  JsonWriter& Number(int64_t number);
  JsonWriter& Real(double number);  // finite
  JsonWriter& Bool(bool value);
  JsonWriter& Null();

  const std::string& text() const { return text_; }

 private:
  void Separate();
  void AppendQuoted(std::string_view text);

  std::string text_;
  bool first_ = true;  // nothing stands before the next element
};

}  // namespace tandem::cli
