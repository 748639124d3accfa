#include "server/metrics/process.h"

#include <sys/resource.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

namespace tandem::server {
namespace {

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

std::optional<int64_t> CountFiles(const std::string& directory) {
  std::error_code error;
  std::filesystem::directory_iterator it(directory, error);
  if (error) return std::nullopt;
  int64_t count = 0;
  while (it != std::filesystem::directory_iterator()) {
    ++count;
    it.increment(error);
    if (error) return std::nullopt;
  }
  return count;
}

}  // namespace

double UnixTimeSeconds() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since_epoch).count();
}

ProcessSample SampleProcess(std::string_view root) {
  constexpr int64_t kKib = 1024;
  ProcessSample sample;
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0) {
    sample.cpu_seconds = Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
  }
  const std::string proc = std::string(root) + "/proc/self/";
  std::ifstream status(proc + "status");
  std::string key;
  while (status >> key) {
    int64_t value = 0;
    if (key == "VmRSS:" && status >> value) sample.resident_bytes = value * kKib;
    if (key == "VmHWM:" && status >> value) sample.peak_resident_bytes = value * kKib;
    if (key == "Threads:" && status >> value) sample.threads = value;
    status.clear();
    status.ignore(1 << 16, '\n');
  }
  sample.open_files = CountFiles(proc + "fd");
  return sample;
}

}  // namespace tandem::server
