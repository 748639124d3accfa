// A Parallel that cuts loops whatever the least work of a range is, so that tests of small sizes
// run on several threads, too.
#pragma once

#include <memory>

#include "engine/base/parallel.h"

namespace tandem::test {

class FineParallel final : public Parallel {
 public:
  explicit FineParallel(int threads) : parallel_(MakeThreadParallel(threads)) {}

  int threads() const override { return parallel_->threads(); }
  void For(int64_t n, int64_t, absl::FunctionRef<void(int64_t, int64_t)> body) const override {
    parallel_->For(n, 1, body);
  }
  int64_t Shares(int64_t units, int64_t) const override { return parallel_->Shares(units, 1); }

 private:
  const std::unique_ptr<Parallel> parallel_;
};

}  // namespace tandem::test
