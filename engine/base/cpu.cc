#include "engine/base/cpu.h"

#include <cpuid.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/cgroup.h"

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

double Number(const std::string& word) {
  char* end = nullptr;
  const double value = std::strtod(word.c_str(), &end);
  return end == word.c_str() ? 0 : value;
}

// CPUs of the least quota among the cgroups, or 0 when there is none.
double QuotaCpus(const std::string& root) {
  double quota = 0;
  const auto take = [&quota](const std::string& allowed, const std::string& period) {
    const double cpus = Number(allowed) / Number(period);
    if (std::isfinite(cpus) && cpus > 0) quota = quota == 0 ? cpus : std::min(quota, cpus);
  };
  const CgroupFolders groups = CgroupFoldersOf("cpu", root);
  for (const std::string& folder : groups.unified) {
    const std::vector<std::string> words = FirstWords(folder + "/cpu.max", 2);
    if (words.size() == 2) take(words[0], words[1]);
  }
  for (const std::string& folder : groups.legacy) {
    const std::vector<std::string> allowed = FirstWords(folder + "/cpu.cfs_quota_us", 1);
    const std::vector<std::string> period = FirstWords(folder + "/cpu.cfs_period_us", 1);
    if (!allowed.empty() && !period.empty()) take(allowed[0], period[0]);
  }
  return quota;
}

// Physical cores among the CPUs of the mask; CPUs whose siblings are not told count as cores.
int PhysicalCores(const std::string& root, const cpu_set_t& mask) {
  std::set<std::string> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &mask)) continue;
    const std::vector<std::string> siblings = FirstWords(
        fmt::format("{}/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", root, cpu), 1);
    cores.insert(siblings.empty() ? fmt::format("cpu{}", cpu) : siblings[0]);
  }
  return static_cast<int>(cores.size());
}

// AMX with tiles of int8 and bfloat16, and the vectors of bfloat16 that prepare them.
bool HasAmx() {
  constexpr unsigned kAmxBf16 = 1u << 22;
  constexpr unsigned kAmxTile = 1u << 24;
  constexpr unsigned kAmxInt8 = 1u << 25;
  constexpr unsigned kAvx512Bf16 = 1u << 5;
  constexpr unsigned kAll = kAmxBf16 | kAmxTile | kAmxInt8;
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kAll) != kAll) return false;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & kAvx512Bf16) != 0;
}

// Tiles are state that the kernel saves for a process only once it has asked.
bool KernelGrantsTiles() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
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
  static const bool amx = HasAmx() && KernelGrantsTiles();
  return amx ? Isa::kAmx : Isa::kVnni;
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
