#include "server/stop_signals.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <optional>

#include "engine/base/check.h"
#include "server/config/config.h"

namespace tandem::server {
namespace {

int BlockAndOpen() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  const int failed = pthread_sigmask(SIG_BLOCK, &set, nullptr);
  CHECK(failed == 0, "pthread_sigmask: error {}", failed);
  const int fd = signalfd(-1, &set, SFD_CLOEXEC);
  CHECK(fd >= 0, "signalfd: error {}", errno);
  return fd;
}

}  // namespace

StopSignals::StopSignals() : signals_(BlockAndOpen()), ended_(eventfd(0, EFD_CLOEXEC)) {
  CHECK(ended_ >= 0, "eventfd: error {}", errno);
  thread_ = std::thread([this] { Listen(); });
}

StopSignals::~StopSignals() {
  const uint64_t one = 1;
  CHECK(write(ended_, &one, sizeof(one)) == sizeof(one), "eventfd: error {}", errno);
  thread_.join();
  close(ended_);
  close(signals_);
}

void StopSignals::Wait() { stopped_.wait(false); }

void StopSignals::Stop() {
  stopped_ = true;
  stopped_.notify_all();
}

void StopSignals::Listen() {
  std::optional<std::chrono::steady_clock::time_point> first;
  for (;;) {
    std::array<pollfd, 2> fds = {
        {{.fd = signals_, .events = POLLIN}, {.fd = ended_, .events = POLLIN}}};
    if (poll(fds.data(), fds.size(), -1) < 0) continue;  // EINTR
    if (fds[1].revents != 0) return;
    signalfd_siginfo info;
    if (read(signals_, &info, sizeof(info)) != sizeof(info)) continue;
    const auto now = std::chrono::steady_clock::now();
    if (!first) {
      first = now;
      Stop();
    } else if (now - *first > kRepeatedSignalTime) {
      _exit(128 + static_cast<int>(info.ssi_signo));
    }
  }
}

}  // namespace tandem::server
