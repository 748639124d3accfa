// Holds answers back while the server stops. A client that is refused and tries again at once would
// send its next call on a connection that is about to be closed, and gRPC answers CANCELLED to a
// call that crosses the GOAWAY. So refusals wait: each client then waits for one, instead of
// sending, and when they are given the GOAWAY has gone before them and the connections are cut.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

namespace tandem::server {

// Thread-safe. Open at first.
class AnswerGate {
 public:
  // Calls `answer` once: now, or when the gate opens.
  void Pass(std::function<void()> answer);
  void Close();
  void Open();
  // Answers that are held.
  int64_t waiting() const;

 private:
  mutable std::mutex mutex_;
  bool closed_ = false;
  std::vector<std::function<void()>> waiting_;
};

}  // namespace tandem::server
