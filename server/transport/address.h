// Addresses to listen on.
#pragma once

#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace tandem::server {

// "127.0.0.1:8001", "[::1]:8001".
std::string HostPort(std::string_view host, int port);

// Unavailable, naming the address and the system's reason, when nothing can listen on `host`:`port`
// now. Port 0 asks for the host alone.
Status CheckCanListen(const std::string& host, int port);

}  // namespace tandem::server
