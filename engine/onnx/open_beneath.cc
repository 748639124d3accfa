#include "engine/onnx/open_beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tandem::onnx_import {
namespace {

// O_NONBLOCK: opening a fifo returns at once.
constexpr int kReadFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

}  // namespace

int OpenBeneath(int directory, const std::string& path, LinkRule links) {
  struct open_how how = {};
  how.flags = kReadFlags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  if (links == LinkRule::kRefuse) how.resolve |= RESOLVE_NO_SYMLINKS;
  // EAGAIN: something was renamed while the kernel walked; it cannot go on for ever by itself.
  for (int attempt = 0; attempt < 100; ++attempt) {
    const long fd = syscall(SYS_openat2, directory, path.c_str(), &how, sizeof(how));
    if (fd >= 0) return static_cast<int>(fd);
    if (errno == ENOSYS || errno == EPERM) return OpenBeneathByParts(directory, path);
    if (errno != EAGAIN && errno != EINTR) return -errno;
  }
  return -EAGAIN;
}

int OpenBeneathByParts(int directory, const std::string& path) {
  int current = directory;
  size_t begin = 0;
  while (true) {
    const size_t slash = path.find('/', begin);
    const std::string part = path.substr(begin, slash - begin);
    const bool last = slash == std::string::npos;
    const int flags =
        last ? kReadFlags | O_NOFOLLOW : O_RDONLY | O_CLOEXEC | O_DIRECTORY | O_NOFOLLOW;
    const int next = openat(current, part.c_str(), flags);
    int error = errno;
    // With O_DIRECTORY a link is reported as "not a directory".
    if (next < 0 && error == ENOTDIR) {
      char target[1];
      if (readlinkat(current, part.c_str(), target, sizeof(target)) >= 0) error = ELOOP;
    }
    if (current != directory) close(current);
    if (next < 0) return -error;
    if (last) return next;
    current = next;
    begin = slash + 1;
  }
}

}  // namespace tandem::onnx_import
