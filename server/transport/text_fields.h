// The outermost fields of a message in protobuf's text form, told apart without its type: a file
// that was written for a server with more fields is read as far as it matters here.
#pragma once

#include <google/protobuf/io/tokenizer.h>

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace tandem::server {

// Notes what tokenizers and parsers complain of: the first few times, each with its place and as
// plain text, since it repeats what was read.
class TextErrors final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override;

  bool empty() const { return messages_.empty(); }
  Status status() const;  // InvalidArgument with all of them

 private:
  std::vector<std::string> messages_;
};

struct TextFields {
  // The text of the fields of the name that was asked for; every token stands at the line and
  // column that it came at.
  std::string wanted;
  std::vector<std::string> others;  // names of the other fields, each once, as they first come
};

// Brackets must match and values have the form of one; what is within brackets is not looked at.
// InvalidArgument names line and column, what came and what was expected.
StatusOr<TextFields> TakeFields(std::string_view text, std::string_view wanted);

}  // namespace tandem::server
