#include "server/transport/text_fields.h"

#include <fmt/ranges.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>

#include "server/models/quoted.h"

namespace tandem::server {
namespace {

using google::protobuf::io::ArrayInputStream;
using google::protobuf::io::Tokenizer;

// As many as one line of a log should have.
constexpr size_t kMostMessages = 8;

// The bracket that closes `open`; 0 where it is none.
char Closing(std::string_view open) {
  if (open == "{") return '}';
  if (open == "<") return '>';
  if (open == "[") return ']';
  return 0;
}

class FieldReader {
 public:
  FieldReader(std::string_view text, std::string_view wanted)
      : wanted_(wanted),
        stream_(text.data(), static_cast<int>(text.size())),
        tokens_(&stream_, &errors_) {
    // As the text form has it.
    tokens_.set_allow_f_after_float(true);
    tokens_.set_comment_style(Tokenizer::SH_COMMENT_STYLE);
    tokens_.set_require_space_after_number(false);
    tokens_.set_allow_multiline_strings(true);
  }

  StatusOr<TextFields> Read() {
    tokens_.Next();
    while (errors_.empty() && !At(Tokenizer::TYPE_END)) {
      if (AtSymbol(",") || AtSymbol(";")) {
        tokens_.Next();
      } else {
        ReadField();
      }
    }
    if (!errors_.empty()) return errors_.status();
    return std::move(fields_);
  }

 private:
  bool At(Tokenizer::TokenType type) { return tokens_.current().type == type; }
  bool AtSymbol(std::string_view symbol) {
    return At(Tokenizer::TYPE_SYMBOL) && tokens_.current().text == symbol;
  }
  bool AtClosing(char bracket) { return AtSymbol(std::string_view(&bracket, 1)); }

  void Expect(std::string_view expected) {
    const Tokenizer::Token& token = tokens_.current();
    const std::string came = At(Tokenizer::TYPE_END) ? "the end" : token.text;
    errors_.AddError(token.line, token.column, fmt::format("Expected {}, got: {}", expected, came));
  }

  // Takes the current token, into the text that is wanted where it belongs there.
  void Take() {
    const Tokenizer::Token& token = tokens_.current();
    if (taking_) {
      std::string& out = fields_.wanted;
      if (token.line > line_) {
        out.append(static_cast<size_t>(token.line - line_), '\n');
        column_ = 0;
      }
      out.append(static_cast<size_t>(token.column - column_), ' ');
      out += token.text;
      line_ = token.line + static_cast<int>(std::count(token.text.begin(), token.text.end(), '\n'));
      column_ = token.end_column;
    }
    tokens_.Next();
  }

  void ReadField() {
    if (!At(Tokenizer::TYPE_IDENTIFIER)) return Expect("name of a field");
    const std::string& name = tokens_.current().text;
    taking_ = name == wanted_;
    std::vector<std::string>& others = fields_.others;
    if (!taking_ && std::find(others.begin(), others.end(), name) == others.end()) {
      others.push_back(name);
    }
    Take();
    const bool colon = AtSymbol(":");
    if (colon) Take();
    if (At(Tokenizer::TYPE_SYMBOL) && Closing(tokens_.current().text) != 0) {
      ReadBrackets();
    } else if (colon) {
      ReadScalar();
    } else {
      Expect("colon or bracket");
    }
  }

  void ReadBrackets() {
    std::string open;  // what closes each bracket that is open, the innermost last
    do {
      if (At(Tokenizer::TYPE_END)) return Expect(std::string_view(&open.back(), 1));
      if (At(Tokenizer::TYPE_SYMBOL)) {
        const std::string& symbol = tokens_.current().text;
        if (const char closing = Closing(symbol)) {
          open += closing;
        } else if (AtClosing(open.back())) {
          open.pop_back();
        } else if (symbol == "}" || symbol == ">" || symbol == "]") {
          return Expect(std::string_view(&open.back(), 1));
        }
      }
      Take();
    } while (errors_.empty() && !open.empty());
  }

  void ReadScalar() {
    if (At(Tokenizer::TYPE_STRING)) {
      while (At(Tokenizer::TYPE_STRING)) Take();
      return;
    }
    if (AtSymbol("-")) Take();
    if (At(Tokenizer::TYPE_SYMBOL) || At(Tokenizer::TYPE_END)) return Expect("value");
    Take();
  }

  const std::string_view wanted_;
  TextErrors errors_;
  ArrayInputStream stream_;
  Tokenizer tokens_;
  TextFields fields_;
  bool taking_ = false;
  int line_ = 0;    // at the end of what was taken, from 0
  int column_ = 0;  // with tabs as the tokenizer counts them
};

}  // namespace

void TextErrors::AddError(int line, int column, const std::string& message) {
  if (messages_.size() == kMostMessages) return;
  messages_.push_back(fmt::format("line {}, column {}: {}", line + 1, column + 1, Quoted(message)));
}

Status TextErrors::status() const { return InvalidArgument("{}", fmt::join(messages_, "; ")); }

StatusOr<TextFields> TakeFields(std::string_view text, std::string_view wanted) {
  return FieldReader(text, wanted).Read();
}

}  // namespace tandem::server
