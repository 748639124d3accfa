#include "engine/onnx/file.h"

#include <errno.h>
#include <unistd.h>

#include <cstring>
#include <utility>

namespace tandem::onnx_import {

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) close(fd_);
}

bool SameFile(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
         a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

Status ReadFully(int fd, int64_t offset, std::span<std::byte> into, std::string_view name) {
  size_t done = 0;
  while (done < into.size()) {
    const ssize_t got = pread(fd, into.data() + done, into.size() - done,
                              static_cast<off_t>(offset + static_cast<int64_t>(done)));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return InvalidArgument("{} cannot be read: {}", name, std::strerror(errno));
    if (got == 0) return InvalidArgument("{} became shorter while it was read", name);
    done += static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

}  // namespace tandem::onnx_import
