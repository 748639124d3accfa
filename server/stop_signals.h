// SIGTERM and SIGINT.
#pragma once

#include <atomic>
#include <thread>

namespace tandem::server {

// While this lives, the first signal ends Wait. Others within kRepeatedSignalTime of it change
// nothing; the next one after that ends the process at once, with the exit code 128 + its number.
// Made before any other thread, since those inherit that the signals are blocked. Thread-safe.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Returns after the first signal, or after Stop.
  void Wait();
  // Ends Wait as a signal does, from inside the program. The first signal still comes.
  void Stop();

 private:
  void Listen();

  const int signals_;  // signalfd
  const int ended_;    // eventfd: Listen returns
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

}  // namespace tandem::server
