// What the benchmarks of row kernels (engine/kernels/elementwise/row.h) share.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "engine/kernels/elementwise/row.h"
#include "loadtest/kernel_bench.h"

namespace tandem::loadtest {

struct RowOperand {
  const void* data = nullptr;
  int64_t step = 1;   // in elements: 1 or 0
  int64_t bytes = 0;  // that are read
};

template <typename T>
RowOperand Along(Data<T>& x) {
  return {x.get(), 1, x.bytes()};
}
template <typename T>
RowOperand ForAll(const T& x) {
  return {&x, 0, sizeof(T)};
}

// Measures the kernel that makes all of y.
template <typename T>
void MeasureRow(benchmark::State& state, const kernels::RowKernel& kernel,
                std::initializer_list<RowOperand> operands, Data<T>& y) {
  std::vector<const void*> data;
  std::vector<int64_t> steps;
  Traffic traffic{0, y.bytes()};
  for (const RowOperand& operand : operands) {
    data.push_back(operand.data);
    steps.push_back(operand.step);
    traffic.read += operand.bytes;
  }
  const kernels::RowArgs row{data.data(), steps.data(), static_cast<int>(data.size()), y.get(),
                             y.elements()};
  Measure(state, MemoryWork(traffic), [&] { kernel.function(row, kernel.params); });
}

}  // namespace tandem::loadtest
