// A directory for one test.
#pragma once

#include <string>
#include <string_view>

namespace tandem::test {

// An empty directory under the system's temporary directory; it goes with this object, with all
// that lies in it.
class TempDirectory {
 public:
  TempDirectory();
  ~TempDirectory();
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const;
  // Writes a file, making the directories on its way; returns its path.
  std::string Write(std::string_view name, std::string_view bytes) const;

 private:
  std::string path_;
};

}  // namespace tandem::test
