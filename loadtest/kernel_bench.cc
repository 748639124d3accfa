#include "loadtest/kernel_bench.h"

#include <algorithm>
#include <map>
#include <utility>

#include "loadtest/peak.h"

namespace tandem::loadtest {
namespace {

// `peak` of `key`, measured once.
template <typename Key>
double Once(double (*peak)(Key), Key key) {
  static std::map<std::pair<double (*)(Key), Key>, double> known;
  const auto [place, is_new] = known.try_emplace({peak, key});
  if (is_new) place->second = peak(key);
  return place->second;
}

double SecondsOf(Traffic traffic) {
  const auto all = static_cast<size_t>(traffic.read + traffic.written);
  if (all == 0) return 0;
  const auto read_only = static_cast<double>(std::max<int64_t>(0, traffic.read - traffic.written));
  const double copied = static_cast<double>(all) - read_only;
  double nanoseconds = 0;
  if (read_only > 0) nanoseconds += read_only / Once(PeakRead, all);
  if (copied > 0) nanoseconds += copied / Once(PeakCopy, all);
  return nanoseconds * 1e-9;
}

}  // namespace

Work FloatWork(Isa isa, int64_t multiply_adds, Traffic traffic) {
  const double gflops = 2e-9 * static_cast<double>(multiply_adds);
  return {gflops, "GFLOP/s", std::max(gflops / Once(PeakGflops, isa), SecondsOf(traffic))};
}

Work ByteWork(Isa isa, int64_t multiply_adds) {
  const double gops = 2e-9 * static_cast<double>(multiply_adds);
  return {gops, "GOP/s", gops / Once(PeakGops, isa)};
}

Work MemoryWork(Traffic traffic) {
  return {1e-9 * static_cast<double>(traffic.read + traffic.written), "GB/s", SecondsOf(traffic)};
}

void Report(benchmark::State& state, const Work& work, double seconds) {
  const double runs_a_second = static_cast<double>(state.iterations()) / seconds;
  state.counters[work.rate] = work.amount * runs_a_second;
  state.counters["% of peak"] = 100 * work.seconds * runs_a_second;
}

}  // namespace tandem::loadtest
