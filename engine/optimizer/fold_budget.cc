#include "engine/optimizer/fold_budget.h"

#include <algorithm>

namespace tandem::optimizer {
namespace {

ops::Decision Over(std::string rule, size_t value, size_t limit, std::string_view unit) {
  return ops::Decision::Decline(std::move(rule), fmt::format("{} > {} {}", value, limit, unit));
}

size_t Difference(size_t a, size_t b) { return a > b ? a - b : 0; }

}  // namespace

size_t FoldLedger::ModelGrowth() const {
  return static_cast<size_t>(budget_.model_growth_share * static_cast<double>(initializer_bytes_)) +
         budget_.model_growth_bytes;
}

FoldBudget FoldLedger::Rest() const {
  const size_t growth = Difference(total_.made_bytes, total_.freed_bytes);
  FoldBudget rest = budget_;
  rest.model_growth_share = 0;
  rest.model_growth_bytes = Difference(ModelGrowth(), growth);
  rest.live_bytes = Difference(budget_.live_bytes, growth);
  rest.view_bytes = Difference(budget_.view_bytes, total_.view_bytes);
  rest.elements = budget_.elements - total_.elements;
  return rest;
}

ops::Decision FoldLedger::Check(const FoldCost& cost) const {
  const size_t one_fold = std::max(cost.freed_bytes, budget_.growth_bytes);
  if (cost.made_bytes > one_fold) {
    ops::Decision decision = Over("makes more than it frees and more than one fold may",
                                  cost.made_bytes, one_fold, "bytes");
    if (cost.freed_bytes > 0) {
      decision.numbers += fmt::format(", grows {:.1f}x", static_cast<double>(cost.made_bytes) /
                                                             static_cast<double>(cost.freed_bytes));
    }
    return decision;
  }
  const size_t made = total_.made_bytes + cost.made_bytes;
  const size_t growth = Difference(made, total_.freed_bytes + cost.freed_bytes);
  if (growth > ModelGrowth()) {
    return Over("grows the model beyond its budget", growth, ModelGrowth(), "bytes");
  }
  // The sources still live while the fold is computed.
  const size_t live = Difference(made + cost.spelled_bytes, total_.freed_bytes);
  if (live > budget_.live_bytes) {
    return Over("keeps too much alive while folding", live, budget_.live_bytes, "bytes");
  }
  const size_t views = total_.view_bytes + cost.view_bytes;
  if (views > budget_.view_bytes) {
    return Over("repeats a constant beyond what all such may take", views, budget_.view_bytes,
                "bytes");
  }
  if (cost.elements > budget_.elements - total_.elements) {
    return Over("is too much work for the load",
                static_cast<size_t>(total_.elements + cost.elements),
                static_cast<size_t>(budget_.elements), "elements");
  }
  return ops::Decision::Accept();
}

}  // namespace tandem::optimizer
