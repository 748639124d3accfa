// Which models and versions a repository directory holds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace tandem::server {

// True for [A-Za-z0-9_.-]{1,128} without a leading dot.
bool IsModelName(std::string_view name);

// A positive decimal number without sign or leading zeros, as int64; else nothing.
std::optional<int64_t> ParseVersion(std::string_view text);

struct FoundModel {
  std::string name;
  std::vector<int64_t> versions;  // rising; may be empty
  // Directories that would be versions but for their leading zeros: no versions.
  std::vector<std::string> with_leading_zeros;
};

struct ScanResult {
  std::vector<FoundModel> models;  // by name
  std::vector<std::string>
      ignored;  // directories whose names are no model names, hidden ones aside
};

// The file behind `path`, with all links followed. InvalidArgument when it lies outside the folder
// `root`; NotFound when there is none.
StatusOr<std::string> ResolveBeneath(const std::string& root, const std::string& path);

// Directories below `root` and their version directories; other names among the versions, such as
// "01" or "abc", are no versions. NotFound when `root` is no directory that can be read. A model
// directory that cannot be read has no versions.
StatusOr<ScanResult> ScanRepository(const std::string& root);

}  // namespace tandem::server
