// The account of constant folding: what a fold costs and whether the model can still afford it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/ops/operator.h"
#include "engine/optimizer/optimizer.h"

namespace tandem::optimizer {

struct FoldCost {
  size_t made_bytes = 0;   // of the constants that the fold makes
  size_t freed_bytes = 0;  // of the constants that nobody reads afterwards
  int64_t elements = 0;    // of work: multiply-adds, or elements read and written if more
};

// Not thread-safe.
class FoldLedger {
 public:
  FoldLedger(const FoldBudget& budget, size_t initializer_bytes)
      : budget_(budget), initializer_bytes_(initializer_bytes) {}

  // Whether the next fold may cost this much; a refusal names the limit and both numbers.
  ops::Decision Check(const FoldCost& cost) const;
  void Charge(const FoldCost& cost);

  size_t made_bytes() const { return made_bytes_; }
  int folds() const { return folds_; }

 private:
  FoldBudget budget_;
  size_t initializer_bytes_;
  size_t made_bytes_ = 0;
  size_t freed_bytes_ = 0;
  int64_t elements_ = 0;
  int folds_ = 0;
};

}  // namespace tandem::optimizer
