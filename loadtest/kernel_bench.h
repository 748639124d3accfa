// What the benchmarks of kernels share: made-up data, and the report of a run beside what the core
// can do at most (peak.h). They run in one thread.
#pragma once

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <type_traits>

#include "engine/base/arena.h"
#include "engine/base/cpu.h"
#include "engine/kernels/elementwise/row.h"

namespace tandem::loadtest {

// Element i of made-up ones that are not all alike: floats from -2 to 2, or integers.
template <typename T>
T MadeUp(int64_t i) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(i % 17) / 4 - 2;
  } else if constexpr (std::is_integral_v<T> || std::is_same_v<T, std::byte>) {
    return static_cast<T>(i * 37 % 251);
  } else {
    return kernels::FromFloat<T>(MadeUp<float>(i));
  }
}

// Memory with made-up elements.
template <typename T = float>
class Data {
 public:
  explicit Data(int64_t elements)
      : elements_(elements), buffer_(*Buffer::Allocate(static_cast<size_t>(bytes()))) {
    for (int64_t i = 0; i < elements; ++i) get()[i] = MadeUp<T>(i);
  }
  int64_t elements() const { return elements_; }
  int64_t bytes() const { return elements_ * static_cast<int64_t>(sizeof(T)); }
  T* get() { return reinterpret_cast<T*>(buffer_.data()); }

 private:
  int64_t elements_;
  Buffer buffer_;
};

// Bytes that a kernel must move in one run, however it computes.
struct Traffic {
  int64_t read = 0;
  int64_t written = 0;
};

// What a kernel does in one run, and the least time that the core takes for it.
struct Work {
  double amount = 0;           // in 10^9
  const char* rate = nullptr;  // the unit of amounts a second
  double seconds = 0;
};

// GFLOP/s, of which a multiply-add counts as two. At the peak it takes the time of float32
// arithmetic of `isa` or that of the traffic, whichever is longer: minimal filtering and products
// of bfloat16 can pass it.
Work FloatWork(Isa isa, int64_t multiply_adds, Traffic traffic = {});
// GOP/s of 8-bit integers.
Work ByteWork(Isa isa, int64_t multiply_adds);
// GB/s, read and written. At the peak bytes that are written are copied, and what else is read is
// read, as fast as from and to memory of as many bytes: that of the cache which holds them.
Work MemoryWork(Traffic traffic);

// Reports so many runs that took so much time: the rate, and the share of the peak in percent.
void Report(benchmark::State& state, const Work& work, double seconds);

// Runs `body` as often as the benchmark asks, and reports it.
template <typename Body>
void Measure(benchmark::State& state, const Work& work, const Body& body) {
  const std::clock_t start = std::clock();
  while (state.KeepRunning()) body();
  Report(state, work, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
}

}  // namespace tandem::loadtest
