// Text that a client sent, for messages and logs.
#pragma once

#include <string>
#include <string_view>

namespace tandem::server {

// `text` in single quotes: control characters, quotes and bytes that are not ASCII as escapes, cut
// after 96 bytes.
std::string Quoted(std::string_view text);

}  // namespace tandem::server
