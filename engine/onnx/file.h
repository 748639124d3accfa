// Regular files that are read while somebody may change them.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "engine/base/status.h"

namespace tandem::onnx_import {

// A file descriptor that closes itself.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_;
};

// Whether both are of the same file with the same size and time of change.
bool SameFile(const struct stat& a, const struct stat& b);

// Fills `into` with the bytes of a file from `offset` on. InvalidArgument, which calls the file
// `name`, when it cannot be read or is too short.
Status ReadFully(int fd, int64_t offset, std::span<std::byte> into, std::string_view name);

}  // namespace tandem::onnx_import
