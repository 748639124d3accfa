#include "engine/base/memory.h"

#include <malloc.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <vector>

#include "engine/base/cgroup.h"

namespace tandem {
namespace {

constexpr uint64_t kUntold = std::numeric_limits<uint64_t>::max();

// The number that stands first in the file; kUntold where there is none ("max").
uint64_t LimitIn(const std::string& path) {
  uint64_t bytes = kUntold;
  const std::vector<std::string> words = FirstWords(path, 1);
  if (!words.empty()) {
    std::from_chars(words[0].data(), words[0].data() + words[0].size(), bytes);
  }
  return bytes;
}

uint64_t PhysicalBytes(const std::string& root) {
  // The first line is "MemTotal: N kB".
  const std::vector<std::string> words = FirstWords(root + "/proc/meminfo", 2);
  uint64_t kibibytes = 0;
  if (words.size() != 2 || words[0] != "MemTotal:") return kUntold;
  std::from_chars(words[1].data(), words[1].data() + words[1].size(), kibibytes);
  return kibibytes == 0 ? kUntold : kibibytes * 1024;
}

}  // namespace

uint64_t AvailableMemory(const std::string& root) {
  uint64_t bytes = PhysicalBytes(root);
  const CgroupFolders groups = CgroupFoldersOf("memory", root);
  for (const std::string& folder : groups.unified) {
    bytes = std::min(bytes, LimitIn(folder + "/memory.max"));
  }
  for (const std::string& folder : groups.legacy) {
    bytes = std::min(bytes, LimitIn(folder + "/memory.limit_in_bytes"));
  }
  return bytes == kUntold ? 0 : bytes;
}

void ReleaseFreedMemory() { malloc_trim(0); }

}  // namespace tandem
