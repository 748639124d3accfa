// What the benchmarks of whole models share: their command line, made-up inputs and medians.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace tandem::loadtest {

struct Arguments {
  int threads = 1;
  int batch = 1;
  int iterations = 30;
  std::vector<std::string> models;
};

// Declares `[--threads N] [--batch N] [--iterations N] MODEL...`, which parsing puts into
// `arguments`.
void AddOptions(CLI::App& app, Arguments& arguments);

// Float inputs of the model with `batch` items.
StatusOr<std::vector<NamedTensor>> MakeInputs(const Model& model, int batch);

// Calls `measure` with every model in turn and prints those that fail, with the reason; returns
// their number.
int MeasureAll(const std::vector<std::string>& models,
               const std::function<Status(const std::string&)>& measure);

// Wall times of one of the things that are measured in turns.
class Stopwatch {
 public:
  // One sample: the mean of `runs` one after the other.
  template <typename Body>
  void Time(const Body& body, int runs = 1) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < runs; ++i) body();
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    times_.push_back(time.count() / runs);
  }

  // In milliseconds; there must be one.
  double median() {
    std::ranges::sort(times_);
    return times_[times_.size() / 2];
  }

 private:
  std::vector<double> times_;
};

// Runs that make a sample of a millisecond or one run, whichever is longer.
template <typename Body>
int RunsOfSample(const Body& body) {
  constexpr double kMilliseconds = 1;
  constexpr int kMost = 1000;
  body();
  Stopwatch one;
  one.Time(body);
  return static_cast<int>(std::clamp(kMilliseconds / one.median(), 1.0, double{kMost}));
}

}  // namespace tandem::loadtest
