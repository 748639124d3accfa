// What the kernel says of this process.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tandem::server {

// Nothing where the kernel gave no answer.
struct ProcessSample {
  double start_time_seconds = 0;  // since the Unix epoch
  std::optional<double> cpu_seconds;
  std::optional<int64_t> resident_bytes;
  std::optional<int64_t> peak_resident_bytes;
  std::optional<int64_t> threads;
  std::optional<int64_t> open_files;
};

// Seconds since the Unix epoch, for the start time.
double UnixTimeSeconds();

// All but the start time; `root` is prefixed to /proc, for tests.
ProcessSample SampleProcess(std::string_view root = "");

}  // namespace tandem::server
