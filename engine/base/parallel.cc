#include "engine/base/parallel.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace tandem {

int64_t Parallel::Shares(int64_t units, int64_t grain) const {
  return std::clamp<int64_t>(units / grain, 1, threads());
}

void SequentialParallel::For(int64_t n, int64_t,
                             absl::FunctionRef<void(int64_t, int64_t)> body) const {
  if (n > 0) body(0, n);
}

namespace {

// A loop under way: threads take the next chunk until none is left. The caller waits for `done`.
struct Loop {
  Loop(int64_t n, int64_t chunk, absl::FunctionRef<void(int64_t, int64_t)> body)
      : n(n), chunk(chunk), body(body) {}

  // Runs chunks until none is left to take.
  void Work() {
    for (int64_t begin = next.fetch_add(chunk); begin < n; begin = next.fetch_add(chunk)) {
      body(begin, std::min(n, begin + chunk));
    }
  }

  const int64_t n;
  const int64_t chunk;
  const absl::FunctionRef<void(int64_t, int64_t)> body;
  std::atomic<int64_t> next{0};
  int helpers = 0;  // threads inside Work but the caller; guarded by the pool's mutex
};

// Threads wait for loops and help the newest first, so that an inner loop ends before the outer one
// that waits for it.
class ThreadParallel final : public Parallel {
 public:
  explicit ThreadParallel(int threads) : threads_(threads) {
    for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { Help(); });
  }

  ~ThreadParallel() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  int threads() const override { return threads_; }

  void For(int64_t n, int64_t grain,
           absl::FunctionRef<void(int64_t, int64_t)> body) const override {
    if (n <= 0) return;
    // A few chunks a thread even out chunks of unequal cost.
    const int64_t pieces = int64_t{threads_} * 4;
    const int64_t chunk = std::max({int64_t{1}, grain, (n + pieces - 1) / pieces});
    if (threads_ == 1 || chunk >= n) {
      body(0, n);
      return;
    }
    Loop loop(n, chunk, body);
    {
      const std::lock_guard lock(mutex_);
      loops_.push_back(&loop);
    }
    wake_.notify_all();
    loop.Work();
    std::unique_lock lock(mutex_);
    std::erase(loops_, &loop);
    left_.wait(lock, [&loop] { return loop.helpers == 0; });
  }

 private:
  void Help() {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return stopping_ || !loops_.empty(); });
      if (stopping_) return;
      Loop* loop = loops_.back();
      ++loop->helpers;
      lock.unlock();
      loop->Work();
      lock.lock();
      // Exhausted: nobody else needs to look at it.
      std::erase(loops_, loop);
      if (--loop->helpers == 0) left_.notify_all();
    }
  }

  const int threads_;
  mutable std::mutex mutex_;
  mutable std::condition_variable wake_;
  mutable std::condition_variable left_;
  mutable std::vector<Loop*> loops_;
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace

std::unique_ptr<Parallel> MakeThreadParallel(int threads) {
  return std::make_unique<ThreadParallel>(threads);
}

}  // namespace tandem
