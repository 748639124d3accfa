#include "tests/support/temp_directory.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "engine/base/check.h"

namespace tandem::test {

TempDirectory::TempDirectory() {
  std::string pattern = (std::filesystem::temp_directory_path() / "tandem_test_XXXXXX").string();
  CHECK(mkdtemp(pattern.data()) != nullptr, "no temporary directory could be made at {}", pattern);
  path_ = pattern;
}

TempDirectory::~TempDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TempDirectory::operator/(std::string_view name) const {
  return path_ + "/" + std::string(name);
}

std::string TempDirectory::Write(std::string_view name, std::string_view bytes) const {
  std::string path = *this / name;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  CHECK(file.good(), "{} cannot be written", path);
  return path;
}

}  // namespace tandem::test
