// What gRPC and protobuf have to say of themselves.
#pragma once

namespace tandem::server {

// From now on their messages are events of spdlog's default logger instead of lines on standard
// error; without a default logger they are dropped. Their errors are warnings here: whatever a
// client sends can cause them.
void RedirectLibraryLogs();

}  // namespace tandem::server
