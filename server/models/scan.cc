#include "server/models/scan.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <utility>

namespace tandem::server {
namespace {

namespace fs = std::filesystem;

bool LeadsNowhere(const fs::path& path) {
  std::error_code error;  // of a link that leads to itself, say
  return fs::is_symlink(path, error) && !fs::exists(path, error);
}

// Names of the directories in `path`, and of the links there that lead nowhere, sorted.
std::vector<std::string> Directories(const fs::path& path, std::error_code& error) {
  std::vector<std::string> names;
  fs::directory_iterator it(path, error);
  while (!error && it != fs::directory_iterator()) {
    std::error_code unreadable;
    if (it->is_directory(unreadable) || LeadsNowhere(it->path())) {
      names.push_back(it->path().filename().string());
    }
    it.increment(error);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Of a name that is no version: what is wrong with the number that it is; "" where it is none, or
// is 0.
std::string WhatIsWrong(std::string_view name) {
  const size_t zeros = std::min(name.find_first_not_of('0'), name.size());
  const bool number =
      std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!number || zeros == name.size()) return "";
  if (zeros > 0) return "leading zeros are not allowed";
  return fmt::format("it passes {}, the largest version", std::numeric_limits<int64_t>::max());
}

FoundModel FindVersions(const fs::path& root, const std::string& name) {
  std::error_code error;
  FoundModel model{.name = name, .leads_nowhere = LeadsNowhere(root / name)};
  for (const std::string& directory : Directories(root / name, error)) {
    if (const std::optional<int64_t> version = ParseVersion(directory)) {
      model.versions.push_back(*version);
    } else if (std::string reason = WhatIsWrong(directory); !reason.empty()) {
      model.no_versions.push_back({directory, std::move(reason)});
    }
  }
  std::sort(model.versions.begin(), model.versions.end());
  return model;
}

// Why there is nothing behind `path`.
Status Missing(const fs::path& root, const fs::path& path) {
  fs::path link;
  for (const fs::path& part : path.lexically_relative(root)) {
    link /= part;
    if (LeadsNowhere(root / link)) {
      return NotFound("the symbolic link {} leads nowhere", link.string());
    }
  }
  return NotFound("it does not exist");
}

}  // namespace

bool IsModelName(std::string_view name) {
  constexpr size_t kLongest = 128;
  if (name.empty() || name.size() > kLongest || name.front() == '.') return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
  });
}

std::optional<int64_t> ParseVersion(std::string_view text) {
  if (text.empty() || text.front() < '1' || text.front() > '9') return std::nullopt;
  int64_t version = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, version);
  if (error != std::errc() || stop != end) return std::nullopt;
  return version;
}

StatusOr<std::string> ResolveBeneath(const std::string& root, const std::string& path) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  if (error) return Missing(root, path);
  const fs::path real_root = fs::canonical(root, error);
  const bool beneath =
      !error && std::mismatch(real_root.begin(), real_root.end(), real.begin(), real.end()).first ==
                    real_root.end();
  if (!beneath) return InvalidArgument("a symbolic link on its way leaves the repository");
  return real.string();
}

StatusOr<ScanResult> ScanRepository(const std::string& root) {
  std::error_code error;
  const std::vector<std::string> names = Directories(root, error);
  if (error) return NotFound("model repository '{}': {}", root, error.message());
  ScanResult result;
  for (const std::string& name : names) {
    if (name.front() == '.') continue;
    if (!IsModelName(name)) {
      result.ignored.push_back(name);
      continue;
    }
    result.models.push_back(FindVersions(root, name));
  }
  return result;
}

}  // namespace tandem::server
