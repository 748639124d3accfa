// What the machine offers, read from trees that stand for /proc and /sys.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/cpu.h"
#include "engine/base/memory.h"
#include "engine/base/precision.h"
#include "tests/support/temp_directory.h"

namespace tandem {
namespace {

constexpr uint64_t kGibibyte = uint64_t{1} << 30;

// A machine of 16 GiB; the files of a test say more.
class FakeMachine : public testing::Test {
 protected:
  FakeMachine() { Write("proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 5 kB\n"); }

  void Write(std::string_view file, std::string_view text) { root_.Write(file, text); }
  uint64_t Memory() const { return AvailableMemory(root_.path()); }
  int Cpus() const { return AvailableCpus(root_.path()); }

 private:
  const test::TempDirectory root_;
};

using AvailableMemoryTest = FakeMachine;
using AvailableCpusTest = FakeMachine;

TEST_F(AvailableMemoryTest, IsThePhysicalMemoryWithoutALimit) {
  EXPECT_EQ(Memory(), 16 * kGibibyte);
  Write("proc/self/cgroup", "0::/\n");
  Write("sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(Memory(), 16 * kGibibyte);
}

TEST_F(AvailableMemoryTest, IsTheLimitOfACgroupOfVersionTwo) {
  Write("proc/self/cgroup", "0::/\n");
  Write("sys/fs/cgroup/memory.max", "1073741824\n");
  EXPECT_EQ(Memory(), kGibibyte);
}

TEST_F(AvailableMemoryTest, IsTheLimitOfACgroupOfVersionOne) {
  Write("proc/self/cgroup", "5:cpu,cpuacct:/other\n4:memory:/pod\n");
  Write("sys/fs/cgroup/memory/pod/memory.limit_in_bytes", "2147483648\n");
  EXPECT_EQ(Memory(), 2 * kGibibyte);
}

TEST_F(AvailableMemoryTest, IsTheLeastLimitOfTheGroupAndThoseItLiesIn) {
  Write("proc/self/cgroup", "0::/slice/pod/container\n");
  Write("sys/fs/cgroup/slice/pod/container/memory.max", "max\n");
  Write("sys/fs/cgroup/slice/pod/memory.max", "3221225472\n");
  Write("sys/fs/cgroup/slice/memory.max", "8589934592\n");
  EXPECT_EQ(Memory(), 3 * kGibibyte);
}

TEST_F(AvailableMemoryTest, IsThatOfTheRootWhereTheOwnGroupIsNotMounted) {
  Write("proc/self/cgroup", "3:memory:/docker/0123abcd\n0::/docker/0123abcd\n");
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n");
  EXPECT_EQ(Memory(), kGibibyte / 2);
}

TEST_F(AvailableMemoryTest, IsNotMoreThanTheMachineHas) {
  Write("proc/self/cgroup", "4:memory:/\n");
  // What version 1 says when there is no limit.
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(Memory(), 16 * kGibibyte);
}

TEST(AvailableMemory, IsZeroWhereNothingIsTold) {
  const test::TempDirectory empty;
  EXPECT_EQ(AvailableMemory(empty.path()), 0u);
}

TEST(AvailableMemory, OfThisMachineIsKnown) { EXPECT_GT(AvailableMemory(), 0u); }

TEST_F(AvailableCpusTest, AreRoundedUpFromAQuotaOfVersionTwo) {
  Write("proc/self/cgroup", "0::/a/b\n");
  Write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  EXPECT_GE(Cpus(), 1);
  Write("sys/fs/cgroup/a/cpu.max", "50000 100000\n");
  EXPECT_EQ(Cpus(), 1);
}

TEST_F(AvailableCpusTest, FollowAQuotaOfVersionOne) {
  Write("proc/self/cgroup", "7:cpu,cpuacct:/pod\n");
  Write("sys/fs/cgroup/cpu/pod/cpu.cfs_quota_us", "100000\n");
  Write("sys/fs/cgroup/cpu/pod/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Cpus(), 1);
}

// The CPUs that this process may run on.
std::vector<int> OwnCpus() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  EXPECT_EQ(sched_getaffinity(0, sizeof(mask), &mask), 0);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &mask)) cpus.push_back(cpu);
  }
  return cpus;
}

std::string SiblingsFile(int cpu) {
  return fmt::format("sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu);
}

TEST_F(AvailableCpusTest, AreAllCpusOfTheMaskWhereNoSiblingsAreTold) {
  EXPECT_EQ(Cpus(), static_cast<int>(OwnCpus().size()));
}

TEST_F(AvailableCpusTest, AreCoresHoweverManyThreadsACoreHas) {
  const std::vector<int> cpus = OwnCpus();
  const auto count = static_cast<int>(cpus.size());
  for (const int threads_of_a_core : {1, 2, count}) {
    for (int i = 0; i < count; ++i) {
      const int core = i / threads_of_a_core;
      Write(SiblingsFile(cpus[static_cast<size_t>(i)]), fmt::format("{},{}\n", core, core + 512));
    }
    EXPECT_EQ(Cpus(), (count + threads_of_a_core - 1) / threads_of_a_core) << threads_of_a_core;
  }
}

TEST_F(AvailableCpusTest, OfOtherProcessesDoNotCount) {
  const std::vector<int> cpus = OwnCpus();
  for (int cpu = 0; cpu < 64; ++cpu) Write(SiblingsFile(cpu), fmt::format("{}\n", cpu));
  EXPECT_EQ(Cpus(), static_cast<int>(cpus.size()));
}

TEST_F(AvailableCpusTest, AreNoMoreThanAQuotaBelowTheCores) {
  for (const int cpu : OwnCpus()) Write(SiblingsFile(cpu), fmt::format("{}\n", cpu));
  Write("proc/self/cgroup", "0::/a\n");
  Write("sys/fs/cgroup/a/cpu.max", "100000 100000\n");
  EXPECT_EQ(Cpus(), 1);
  Write("sys/fs/cgroup/a/cpu.max", "100000000 100000\n");
  EXPECT_EQ(Cpus(), static_cast<int>(OwnCpus().size()));
}

TEST_F(AvailableCpusTest, IgnoreAQuotaOfMinusOne) {
  const int without = Cpus();
  Write("proc/self/cgroup", "7:cpuacct,cpu:/\n");
  Write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  Write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Cpus(), without);
}

TEST(PrecisionNames, AreReadBackAndOthersAreRefused) {
  for (const Precision precision :
       {Precision::kF32Plain, Precision::kF32, Precision::kF32Strict, Precision::kBf16}) {
    EXPECT_EQ(*ParsePrecision(PrecisionName(precision)), precision);
  }
  EXPECT_EQ(Message(ParsePrecision("fp32").status()),
            "'fp32' came; f32_plain, f32, f32_strict or bf16 was expected");
}

}  // namespace
}  // namespace tandem
