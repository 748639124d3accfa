#include "engine/base/cgroup.h"

#include <fstream>

namespace tandem {
namespace {

// `base` with the group's path and with each shorter one, down to `base` itself.
std::vector<std::string> WithParents(const std::string& base, std::string group) {
  std::vector<std::string> folders;
  while (!group.empty() && group != "/") {
    folders.push_back(base + group);
    group.erase(group.rfind('/'));
  }
  folders.push_back(base);
  return folders;
}

// Whether the comma-separated `list` has `name`.
bool Lists(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    if (list.substr(0, comma) == name) return true;
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
  }
  return false;
}

}  // namespace

CgroupFolders CgroupFoldersOf(std::string_view controller, const std::string& root) {
  // Lines are "hierarchy:controllers:/path"; version 2 is hierarchy 0, with no controllers.
  std::ifstream groups(root + "/proc/self/cgroup");
  std::string unified;
  std::string legacy;
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(":/", first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string_view list = std::string_view(line).substr(first + 1, second - first - 1);
    if (line.starts_with("0::")) unified = line.substr(second + 1);
    if (Lists(list, controller)) legacy = line.substr(second + 1);
  }
  const std::string base = root + "/sys/fs/cgroup";
  return {WithParents(base, unified), WithParents(base + "/" + std::string(controller), legacy)};
}

std::vector<std::string> FirstWords(const std::string& path, size_t count) {
  std::ifstream file(path);
  std::vector<std::string> words;
  for (std::string word; words.size() < count && file >> word;) words.push_back(word);
  return words;
}

}  // namespace tandem
