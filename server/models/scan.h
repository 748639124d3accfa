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

// A directory with a number as its name that is no version, and why.
struct NoVersion {
  std::string directory;
  std::string reason;
};

struct FoundModel {
  std::string name;
  std::vector<int64_t> versions;  // rising; may be empty
  // Directories that are meant as versions and are none.
  std::vector<NoVersion> no_versions;
  bool leads_nowhere = false;  // a symbolic link to what is not there
};

struct ScanResult {
  std::vector<FoundModel> models;  // by name
  std::vector<std::string>
      ignored;  // directories whose names are no model names, hidden ones aside
};

// The file behind `path`, which is below `root`, with all links followed. InvalidArgument when it
// lies outside of `root`; NotFound when there is none, naming the link that leads nowhere.
StatusOr<std::string> ResolveBeneath(const std::string& root, const std::string& path);

// Directories below `root` and their version directories, links that lead nowhere among both: what
// is meant to be served and cannot be is found, so that it is reported. Other names among the
// versions, such as "01" or "abc", are no versions. NotFound when `root` is no directory that can
// be read. A model directory that cannot be read has no versions.
StatusOr<ScanResult> ScanRepository(const std::string& root);

}  // namespace tandem::server
