// Prints what the shares that the other benchmarks report are of: the peaks of one core.
#include <fmt/format.h>

#include <utility>

#include "loadtest/peak.h"

namespace tandem::loadtest {
namespace {

void PrintPeaks() {
  for (const Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512, Isa::kVnni}) {
    if (isa > DetectIsa()) break;
    fmt::print("{:10} {:8.1f} GFLOP/s of float32 {:8.1f} GOP/s of 8-bit integers\n", IsaName(isa),
               PeakGflops(isa), PeakGops(isa));
  }
  using Level = std::pair<const char*, size_t>;
  for (const auto& [name, bytes] : {Level{"L2 cache", kBytesInL2}, {"memory", kBytesInMemory}}) {
    fmt::print("{:10} {:8.1f} GB/s read {:14.1f} GB/s copied\n", name, PeakRead(bytes),
               PeakCopy(bytes));
  }
}

}  // namespace
}  // namespace tandem::loadtest

int main() { tandem::loadtest::PrintPeaks(); }
