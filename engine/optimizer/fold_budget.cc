#include "engine/optimizer/fold_budget.h"

#include <algorithm>

namespace tandem::optimizer {
namespace {

ops::Decision Over(std::string rule, size_t value, size_t limit, std::string_view unit) {
  return ops::Decision::Decline(std::move(rule), fmt::format("{} > {} {}", value, limit, unit));
}

}  // namespace

ops::Decision FoldLedger::Check(const FoldCost& cost) const {
  const size_t one_fold = std::max(cost.freed_bytes, budget_.growth_bytes);
  if (cost.made_bytes > one_fold) {
    return Over("makes more than it frees and more than one fold may", cost.made_bytes, one_fold,
                "bytes");
  }
  const size_t made = made_bytes_ + cost.made_bytes;
  const size_t freed = freed_bytes_ + cost.freed_bytes;
  const size_t growth = made > freed ? made - freed : 0;
  const size_t model =
      static_cast<size_t>(budget_.model_growth_share * static_cast<double>(initializer_bytes_)) +
      budget_.model_growth_bytes;
  if (growth > model) return Over("grows the model beyond its budget", growth, model, "bytes");
  // The sources still live while the fold is computed.
  const size_t live = made > freed_bytes_ ? made - freed_bytes_ : 0;
  if (live > budget_.live_bytes) {
    return Over("keeps too much alive while folding", live, budget_.live_bytes, "bytes");
  }
  if (cost.elements > budget_.elements - elements_) {
    return Over("is too much work for the load", static_cast<size_t>(elements_ + cost.elements),
                static_cast<size_t>(budget_.elements), "elements");
  }
  return ops::Decision::Accept();
}

void FoldLedger::Charge(const FoldCost& cost) {
  made_bytes_ += cost.made_bytes;
  freed_bytes_ += cost.freed_bytes;
  elements_ += cost.elements;
  if (cost.made_bytes > 0) ++folds_;
}

}  // namespace tandem::optimizer
