// The account of constant folding: what a fold costs and whether the model can still afford it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/ops/operator.h"
#include "engine/optimizer/optimizer.h"

namespace tandem::optimizer {

// Not thread-safe.
class FoldLedger {
 public:
  FoldLedger(const FoldBudget& budget, size_t initializer_bytes)
      : budget_(budget), initializer_bytes_(initializer_bytes) {}

  // Whether the next fold may cost this much; a refusal names the limit and both numbers.
  ops::Decision Check(const FoldCost& cost) const;
  void Charge(const FoldCost& cost) { total_ += cost; }

  const FoldCost& total() const { return total_; }
  // What is left of the budget.
  FoldBudget Rest() const;

 private:
  FoldBudget budget_;
  size_t initializer_bytes_;
  size_t ModelGrowth() const;  // allowed in all

  FoldCost total_;
};

}  // namespace tandem::optimizer
