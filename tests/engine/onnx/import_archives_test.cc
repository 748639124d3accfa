// Every model of Debian's libonnx-testdata, and of the reference data when it is named.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/onnx/import.h"

namespace tandem::onnx_import {
namespace {

// Imports all *.onnx files below `folder`; returns how many there were.
int ImportAll(const std::string& folder) {
  int count = 0;
  graph::ConstantStore constants;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".onnx") continue;
    ++count;
    const StatusOr<ImportedModel> model = ImportFile(entry.path().string(), {}, constants);
    EXPECT_TRUE(model.ok()) << entry.path() << ": " << model.status();
  }
  return count;
}

TEST(ImportArchives, EveryModelOfTheDistributionIsImported) {
  const std::string folder = "/usr/share/libonnx-testdata/data";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "package libonnx-testdata is not installed";
  EXPECT_GT(ImportAll(folder), 900);
}

TEST(ImportArchives, EveryModelOfTheReferenceDataIsImported) {
#ifdef TANDEM_REFERENCE_DATA
  EXPECT_GT(ImportAll(TANDEM_REFERENCE_DATA), 2000);
#else
  GTEST_SKIP() << "TANDEM_REFERENCE_DIR is not set";
#endif
}

}  // namespace
}  // namespace tandem::onnx_import
