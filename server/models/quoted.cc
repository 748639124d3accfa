#include "server/models/quoted.h"

#include <fmt/format.h>

namespace tandem::server {

std::string Quoted(std::string_view text) {
  constexpr size_t kMaxQuotedBytes = 96;
  std::string out = "'";
  for (const char c : text.substr(0, kMaxQuotedBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7F || c == '\'' || c == '\\') {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  out += text.size() > kMaxQuotedBytes ? "...'" : "'";
  return out;
}

}  // namespace tandem::server
