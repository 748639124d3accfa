// Flags of Triton's command line that have no meaning here.
#pragma once

#include <optional>
#include <string_view>

namespace tandem::server {

// Why the flag `--name` cannot be given, as the end of a sentence; nothing for other names.
std::optional<std::string_view> WhyRefused(std::string_view name);

}  // namespace tandem::server
