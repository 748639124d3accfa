// The log of the daemon: one line an event on standard error, written by a thread of its own.
#pragma once

#include "server/config/config.h"

namespace tandem::server {

// spdlog's default logger, for as long as this lives. Lines wait in a bounded queue; while standard
// error does not take them the oldest are dropped, so that nobody who logs waits.
//
// Text: `2026-01-31T12:00:00.000Z info message`. JSON: an object with time, level and message.
// Control characters inside a message are escaped.
class Logging {
 public:
  Logging(LogFormat format, LogLevel level);
  ~Logging();  // writes what waits
  Logging(const Logging&) = delete;
  Logging& operator=(const Logging&) = delete;
};

}  // namespace tandem::server
