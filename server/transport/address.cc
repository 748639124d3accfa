#include "server/transport/address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace tandem::server {
namespace {

// Binds and listens for a moment; 0, or the errno of what failed.
int TryListen(const addrinfo& address) {
  const int fd = socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  int error = 0;
  if (bind(fd, address.ai_addr, address.ai_addrlen) != 0 || listen(fd, 1) != 0) error = errno;
  close(fd);
  return error;
}

}  // namespace

std::string HostPort(std::string_view host, int port) {
  const bool ipv6 = host.find(':') != std::string_view::npos;
  return ipv6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

Status CheckCanListen(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (failed != 0) {
    return Unavailable("cannot listen on {}: {}", HostPort(host, port), gai_strerror(failed));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, &freeaddrinfo);
  if (const int error = TryListen(*addresses); error != 0) {
    return Unavailable("cannot listen on {}: {}", HostPort(host, port), std::strerror(error));
  }
  return absl::OkStatus();
}

}  // namespace tandem::server
