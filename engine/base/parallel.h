// Parallel loops. One implementation is shared by everything in a process, so that nothing is
// oversubscribed; loops may nest (a forked tower runs kernels that loop in parallel themselves).
//
// What a loop computes must not depend on how it was cut: callers cut work into units whose
// results do not depend on each other's order, never by the number of threads.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"

namespace tandem {

// Thread-safe: any thread may start a loop.
class Parallel {
 public:
  virtual ~Parallel() = default;

  // Upper bound of the threads that run one loop at the same time, the caller included; >= 1.
  virtual int threads() const = 0;

  // Calls body(begin, end) over disjoint ranges that cover [0, n), each of at least `grain` indices
  // but the last; returns when all calls have returned. The caller takes part. body must not throw.
  virtual void For(int64_t n, int64_t grain,
                   absl::FunctionRef<void(int64_t begin, int64_t end)> body) const = 0;
};

// Runs every loop in the calling thread.
class SequentialParallel final : public Parallel {
 public:
  int threads() const override { return 1; }
  void For(int64_t n, int64_t grain,
           absl::FunctionRef<void(int64_t begin, int64_t end)> body) const override;
};

// A pool of plain std::threads, for the thread sanitizer. `threads` >= 1 counts the caller.
std::unique_ptr<Parallel> MakeThreadParallel(int threads);

}  // namespace tandem
