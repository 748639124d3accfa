#include "engine/onnx/external_data.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "engine/onnx/open_beneath.h"
#include "tests/support/temp_directory.h"

namespace tandem::onnx_import {
namespace {

using testing::HasSubstr;
using Entries = std::vector<std::pair<std::string, std::string>>;

// A directory "model" with eight bytes in "data", beside a directory "outside" with a secret.
class ExternalDataTest : public testing::Test {
 protected:
  ExternalDataTest() {
    root_.Write("model/data", "abcdefgh");
    root_.Write("model/sub/data", "12345678");
    root_.Write("outside/secret", "SECRET!!");
    options_.external_data_directory = root_ / "model";
  }

  // Reads two floats as the entries say; the bytes or the error.
  std::string Read(const Entries& entries, const Shape& shape = {2}) {
    ::onnx::TensorProto proto;
    for (const auto& [key, value] : entries) {
      ::onnx::StringStringEntryProto& entry = *proto.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    }
    const StatusOr<ExternalLocation> where = ParseExternalLocation(proto);
    if (!where.ok()) return std::string(Message(where.status()));
    ExternalData external(options_);
    const StatusOr<Tensor> tensor = external.Read(*where, DType::kFloat, shape);
    if (!tensor.ok()) return std::string(Message(tensor.status()));
    const std::span<const std::byte> bytes = tensor->view().bytes();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  test::TempDirectory root_;
  ImportOptions options_;
};

TEST_F(ExternalDataTest, ReadsRangesOfFilesBelowTheDirectory) {
  EXPECT_EQ(Read({{"location", "data"}}), "abcdefgh");
  EXPECT_EQ(Read({{"location", "./sub/data"}, {"offset", "0"}, {"length", "8"}}), "12345678");
  EXPECT_EQ(Read({{"location", "data"}, {"offset", "3"}, {"length", "4"}}, {1}), "defg");
  EXPECT_EQ(Read({{"location", "data"}, {"length", "0"}, {"checksum", "x"}}, {0}), "");
}

TEST_F(ExternalDataTest, LocationsThatAreNotBelowTheDirectoryAreRefused) {
  for (const std::string location : {"../outside/secret", "sub/../../outside/secret", "/etc/passwd",
                                     "a\\..\\x", "", ".", "//x", "sub//data", "..", "sub/"}) {
    EXPECT_THAT(Read({{"location", location}}), HasSubstr("external data has location"))
        << location;
  }
  EXPECT_THAT(Read({{"location", std::string("data\0x", 6)}}), HasSubstr("zero byte"));
  EXPECT_THAT(Read({{"location", std::string(5000, 'a')}}), HasSubstr("too long"));
}

TEST_F(ExternalDataTest, LinksAreFollowedOnlyWhereAllowedAndNeverOut) {
  std::filesystem::create_symlink("data", root_ / "model/inside");
  std::filesystem::create_symlink("../outside/secret", root_ / "model/out");
  std::filesystem::create_symlink("../outside", root_ / "model/outdir");
  std::filesystem::create_symlink("nowhere", root_ / "model/dangling");
  std::filesystem::create_symlink("loop", root_ / "model/loop");
  for (const std::string location : {"inside", "out", "outdir/secret", "dangling", "loop"}) {
    EXPECT_THAT(Read({{"location", location}}), HasSubstr("symbolic link")) << location;
  }
  options_.allow_links = true;
  EXPECT_EQ(Read({{"location", "inside"}}), "abcdefgh");
  for (const std::string location : {"out", "outdir/secret", "dangling", "loop"}) {
    EXPECT_THAT(Read({{"location", location}}), HasSubstr("external data file")) << location;
  }
  options_.link_root = root_.path();
  EXPECT_EQ(Read({{"location", "out"}}), "SECRET!!");
  options_.link_root = root_ / "outside";
  EXPECT_THAT(Read({{"location", "data"}}), HasSubstr("root of links"));
}

TEST_F(ExternalDataTest, OnlyRegularFilesWithOneNameAreRead) {
  ASSERT_EQ(mkfifo((root_ / "model/fifo").c_str(), 0600), 0);
  EXPECT_THAT(Read({{"location", "fifo"}}), HasSubstr("not a regular file"));
  EXPECT_THAT(Read({{"location", "sub"}}), HasSubstr("not a regular file"));
  EXPECT_THAT(Read({{"location", "absent"}}), HasSubstr("does not exist"));
  std::filesystem::create_hard_link(root_ / "outside/secret", root_ / "model/hard");
  EXPECT_THAT(Read({{"location", "hard"}}), HasSubstr("2 hard links"));
  options_.allow_links = true;
  EXPECT_EQ(Read({{"location", "hard"}}), "SECRET!!");
}

TEST_F(ExternalDataTest, RangesAreExactDecimalsInsideTheFile) {
  for (const std::string number :
       {"-1", "0x8", "1e9", "9223372036854775808", " 8", "8 ", "+8", ""}) {
    EXPECT_THAT(Read({{"location", "data"}, {"length", number}}), HasSubstr("decimal number"))
        << number;
    EXPECT_THAT(Read({{"location", "data"}, {"offset", number}}), HasSubstr("decimal number"))
        << number;
  }
  EXPECT_THAT(Read({{"location", "data"}, {"offset", "1"}, {"length", "8"}}),
              HasSubstr("passes the end"));
  EXPECT_THAT(Read({{"location", "data"}, {"offset", "9223372036854775807"}, {"length", "8"}}),
              HasSubstr("passes the end"));
  EXPECT_THAT(Read({{"location", "data"}, {"length", "4294967304"}}), HasSubstr("takes 8"));
  EXPECT_THAT(Read({{"location", "data"}, {"length", "4"}}), HasSubstr("takes 8"));
  EXPECT_THAT(Read({{"location", "data"}, {"offset", "4"}}),
              HasSubstr("external data at offset 4 of 'data', which has 8 bytes, has 4 bytes"));
}

TEST_F(ExternalDataTest, UnknownAndRepeatedKeysAreRefused) {
  EXPECT_THAT(Read({{"location", "data"}, {"size", "8"}}), HasSubstr("key 'size'"));
  EXPECT_THAT(Read({{"location", "data"}, {"location", "data"}}), HasSubstr("twice"));
  EXPECT_THAT(Read({{"offset", "0"}}), HasSubstr("no location"));
}

TEST_F(ExternalDataTest, WithoutADirectoryNothingIsRead) {
  options_.external_data_directory.clear();
  EXPECT_THAT(Read({{"location", "data"}}), HasSubstr("no directory"));
}

TEST_F(ExternalDataTest, TheWayWithoutOpenat2RefusesLinksToo) {
  std::filesystem::create_symlink("../outside", root_ / "model/outdir");
  std::filesystem::create_symlink("data", root_ / "model/inside");
  const FileDescriptor directory(open((root_ / "model").c_str(), O_PATH | O_DIRECTORY));
  EXPECT_TRUE(FileDescriptor(OpenBeneathByParts(directory.get(), "sub/data")).valid());
  EXPECT_EQ(OpenBeneathByParts(directory.get(), "outdir/secret"), -ELOOP);
  EXPECT_EQ(OpenBeneathByParts(directory.get(), "inside"), -ELOOP);
  EXPECT_EQ(OpenBeneathByParts(directory.get(), "data/x"), -ENOTDIR);
}

}  // namespace
}  // namespace tandem::onnx_import
