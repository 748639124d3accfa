#include "server/models/model_settings.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "tests/support/temp_directory.h"

namespace tandem::server {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t kMaxBytes = 1 << 20;

// Repeats the text that it is handed.
StatusOr<ModelSettings> Repeat(std::string_view text) {
  if (text == "wrong") return InvalidArgument("this is wrong");
  ModelSettings settings;
  settings.without_effect.emplace_back(text);
  return settings;
}

// A repository with the model `m`.
class ReadSettingsTest : public testing::Test {
 protected:
  ReadSettingsTest() { fs::create_directories(directory_ / "m"); }

  // What the parser was handed; "none" where it was not asked.
  std::string Handed(const std::string& model = "m") {
    const StatusOr<ModelSettings> settings = ReadSettings(directory_.path(), model, Repeat);
    EXPECT_TRUE(settings.ok()) << settings.status();
    if (!settings.ok()) return "";
    EXPECT_EQ(settings->precision, std::nullopt);
    return settings->without_effect.empty() ? "none" : settings->without_effect.front();
  }
  std::string Refusal() {
    const Status status = ReadSettings(directory_.path(), "m", Repeat).status();
    EXPECT_FALSE(status.ok());
    return std::string(Message(status));
  }

  const test::TempDirectory directory_;
  const std::string file_ = directory_ / "m/config.pbtxt";
};

TEST_F(ReadSettingsTest, ReadsTheFileBesideTheVersions) {
  const std::string text("a\0\r\nb", 5);
  directory_.Write("m/config.pbtxt", text);
  EXPECT_EQ(Handed(), text);
  directory_.Write("m/config.pbtxt", "");
  EXPECT_EQ(Handed(), "");
}

TEST_F(ReadSettingsTest, AsksNobodyWhereThereIsNoFile) {
  directory_.Write("m/1/config.pbtxt", "of a version");
  directory_.Write("config.pbtxt", "of the repository");
  EXPECT_EQ(Handed(), "none");
}

TEST_F(ReadSettingsTest, WithoutAParserTheFileIsNotRead) {
  directory_.Write("m/config.pbtxt", "wrong");
  const StatusOr<ModelSettings> settings = ReadSettings(directory_.path(), "m", nullptr);
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_TRUE(settings->without_effect.empty());
}

TEST_F(ReadSettingsTest, ARefusalNamesTheFileBelowTheRoot) {
  directory_.Write("m/config.pbtxt", "wrong");
  EXPECT_EQ(Refusal(), "m/config.pbtxt: this is wrong");
}

TEST_F(ReadSettingsTest, LinksAreFollowedWithinTheRepository) {
  directory_.Write("common.pbtxt", "common");
  fs::create_symlink("../common.pbtxt", file_);
  fs::create_symlink("m", directory_ / "alias");
  EXPECT_EQ(Handed(), "common");
  EXPECT_EQ(Handed("alias"), "common");
}

TEST_F(ReadSettingsTest, ALinkThatLeavesTheRepositoryOrLeadsNowhereIsRefused) {
  const test::TempDirectory outside;
  fs::create_symlink(outside.Write("secret", "wrong"), file_);
  EXPECT_EQ(Refusal(), "m/config.pbtxt: a symbolic link on its way leaves the repository");
  fs::remove(file_);
  fs::create_symlink("nowhere", file_);
  EXPECT_EQ(Refusal(), "m/config.pbtxt: the symbolic link m/config.pbtxt leads nowhere");
}

TEST_F(ReadSettingsTest, WhatIsNoFileIsRefusedAtOnce) {
  fs::create_directory(file_);
  EXPECT_EQ(Refusal(), "m/config.pbtxt: it is no file");
  fs::remove(file_);
  ASSERT_EQ(mkfifo(file_.c_str(), 0600), 0);
  EXPECT_EQ(Refusal(), "m/config.pbtxt: it is no file");
}

TEST_F(ReadSettingsTest, AFileOfMoreThanAMebibyteIsRefused) {
  directory_.Write("m/config.pbtxt", "a");
  fs::resize_file(file_, kMaxBytes);
  EXPECT_EQ(Handed().size(), kMaxBytes);
  fs::resize_file(file_, kMaxBytes + 1);
  EXPECT_EQ(Refusal(),
            "m/config.pbtxt: a file of 1048577 bytes came; at most 1048576 were expected");
}

}  // namespace
}  // namespace tandem::server
