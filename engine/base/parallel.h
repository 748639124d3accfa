// Parallel loops. One implementation is shared by everything in a process, so that nothing is
// oversubscribed; loops may nest (a forked tower runs kernels that loop in parallel themselves).
//
// What a loop computes must not depend on how it was cut: callers cut work into units whose
// results do not depend on each other's order, and by the number of threads only where no bit
// depends on the cut.
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

  // Into how many shares of at least `grain` >= 1 units a loop over `units` is worth cutting where
  // each share has memory of its own: 1 to threads(). For over the shares then has a grain of 1.
  virtual int64_t Shares(int64_t units, int64_t grain) const;
};

// The least work of one range of a loop, some 10 us: waking another thread for it takes about half
// of that. Kernels of float32 on vectors are meant; others take longer, but are no reason to cut.
inline constexpr int64_t kGrainMultiplyAdds = int64_t{1} << 19;  // of float32, in vectors
inline constexpr int64_t kGrainElements = int64_t{1} << 15;      // moved, or computed cheaply
// About 1 ns each: an exp, a share of a mean, what scalar code computes.
inline constexpr int64_t kGrainSlowElements = int64_t{1} << 13;
inline constexpr int64_t kMultiplyAddsOfSlowElement = kGrainMultiplyAdds / kGrainSlowElements;

// The grain of a loop whose indices do `work` of one of these each: at least 1.
constexpr int64_t GrainOf(int64_t least, int64_t work) {
  return work <= 1 ? least : (least - 1) / work + 1;
}

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
