// Control groups of this process, versions 1 and 2, and the small files in which the kernel tells.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// Folders that may hold the limits of one controller: the own group, those it lies in and the root,
// which is the own group where a container sees no more. Some may not exist.
struct CgroupFolders {
  std::vector<std::string> unified;  // version 2
  std::vector<std::string> legacy;   // version 1, of the controller
};

// `controller` is "cpu", "memory", ...; `root` is prefixed to /proc and /sys, for tests.
CgroupFolders CgroupFoldersOf(std::string_view controller, const std::string& root);

// The first words of a file, `count` at most; none when it cannot be read.
std::vector<std::string> FirstWords(const std::string& path, size_t count);

}  // namespace tandem
