#include "engine/base/cpu.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <set>
#include <string>
#include <thread>

namespace tandem {
namespace {

struct IsaRow {
  Isa isa;
  std::string_view name;
};
constexpr std::array<IsaRow, 6> kIsas = {{{Isa::kReference, "reference"},
                                          {Isa::kBaseline, "baseline"},
                                          {Isa::kAvx2, "avx2"},
                                          {Isa::kAvx512, "avx512"},
                                          {Isa::kVnni, "vnni"},
                                          {Isa::kAmx, "amx"}}};

// The first words of a file, or nothing.
std::vector<std::string> Words(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> words;
  for (std::string word; words.size() < 2 && file >> word;) words.push_back(word);
  return words;
}

double Number(const std::string& word) {
  char* end = nullptr;
  const double value = std::strtod(word.c_str(), &end);
  return end == word.c_str() ? 0 : value;
}

// CPUs of the cgroup's quota, or 0 when there is none.
double QuotaCpus(const std::string& root) {
  // Version 2: the path of the own group stands behind "0::" in /proc/self/cgroup.
  std::ifstream groups(root + "/proc/self/cgroup");
  std::string unified = "/";
  std::string cpu_group = "/";
  for (std::string line; std::getline(groups, line);) {
    const size_t path = line.find(':', line.find(':') + 1);
    if (path == std::string::npos) continue;
    if (line.starts_with("0::")) unified = line.substr(path + 1);
    if (line.find(":cpu,") != std::string::npos || line.find(",cpu:") != std::string::npos ||
        line.find(":cpu:") != std::string::npos) {
      cpu_group = line.substr(path + 1);
    }
  }
  double quota = 0;
  const auto take = [&quota](double allowed, double period) {
    if (allowed <= 0 || period <= 0) return;
    quota = quota == 0 ? allowed / period : std::min(quota, allowed / period);
  };
  // Inside a container the group's own path may not be mounted: its root is looked at as well.
  for (const std::string& group : {unified, std::string("/")}) {
    const std::vector<std::string> words =
        Words(fmt::format("{}/sys/fs/cgroup{}/cpu.max", root, group));
    if (words.size() == 2 && words[0] != "max") take(Number(words[0]), Number(words[1]));
  }
  for (const std::string& group : {cpu_group, std::string("/")}) {
    const std::string base = fmt::format("{}/sys/fs/cgroup/cpu{}", root, group);
    const std::vector<std::string> allowed = Words(base + "/cpu.cfs_quota_us");
    const std::vector<std::string> period = Words(base + "/cpu.cfs_period_us");
    if (!allowed.empty() && !period.empty()) take(Number(allowed[0]), Number(period[0]));
  }
  return quota;
}

// Physical cores among the CPUs of the mask; CPUs whose siblings are not told count as cores.
int PhysicalCores(const std::string& root, const cpu_set_t& mask) {
  std::set<std::string> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &mask)) continue;
    const std::vector<std::string> siblings = Words(
        fmt::format("{}/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", root, cpu));
    cores.insert(siblings.empty() ? fmt::format("cpu{}", cpu) : siblings[0]);
  }
  return static_cast<int>(cores.size());
}

}  // namespace

std::string_view IsaName(Isa isa) { return kIsas[static_cast<size_t>(isa)].name; }

StatusOr<Isa> ParseIsa(std::string_view name) {
  for (const IsaRow& row : kIsas) {
    if (row.name == name) return row.isa;
  }
  return InvalidArgument(
      "'{}' is no instruction-set level; reference, baseline, avx2, avx512, vnni and amx are",
      name);
}

Isa DetectIsa() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return Isa::kBaseline;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl")) {
    return Isa::kAvx2;
  }
  if (!__builtin_cpu_supports("avx512vnni")) return Isa::kAvx512;
  return Isa::kVnni;
}

int AvailableCpus(std::string_view root_view) {
  const std::string root(root_view);
  cpu_set_t mask;
  CPU_ZERO(&mask);
  int cpus = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  if (sched_getaffinity(0, sizeof(mask), &mask) == 0) cpus = PhysicalCores(root, mask);
  const double quota = QuotaCpus(root);
  if (quota > 0) cpus = std::min(cpus, static_cast<int>(std::ceil(quota)));
  return std::max(1, cpus);
}

}  // namespace tandem
