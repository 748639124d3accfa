#include "engine/runtime/parallel_tbb.h"

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>

namespace tandem::runtime {
namespace {

constexpr int kMostThreads = 256;

class TbbParallel final : public Parallel {
 public:
  explicit TbbParallel(int threads)
      : threads_(threads),
        control_(tbb::global_control::max_allowed_parallelism,
                 static_cast<size_t>(std::max(threads, kMostThreads))),
        arena_(threads) {}

  int threads() const override { return threads_; }

  void For(int64_t n, int64_t grain,
           absl::FunctionRef<void(int64_t, int64_t)> body) const override {
    if (n <= 0) return;
    if (threads_ == 1 || n / 2 < grain) {
      body(0, n);
      return;
    }
    // Ranges are halved while they are longer than this.
    const int64_t chunk = std::max<int64_t>(1, 2 * grain - 1);
    arena_.execute([&] {
      // A thread that waits for this loop must not pick up another request's work meanwhile.
      tbb::this_task_arena::isolate([&] {
        tbb::parallel_for(
            tbb::blocked_range<int64_t>(0, n, chunk),
            [&](const tbb::blocked_range<int64_t>& range) { body(range.begin(), range.end()); });
      });
    });
  }

 private:
  const int threads_;
  // Lets the threads be more than the CPUs when the caller asks for it. Of all controls in a
  // process the lowest holds, so this one is not what limits: the arena does.
  const tbb::global_control control_;
  mutable tbb::task_arena arena_;
};

}  // namespace

std::unique_ptr<Parallel> MakeTbbParallel(int threads) {
  return std::make_unique<TbbParallel>(threads);
}

}  // namespace tandem::runtime
