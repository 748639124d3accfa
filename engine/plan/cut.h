// How far a batch may be cut that cannot be cut from end to end.
#pragma once

#include <optional>

#include "engine/plan/plan.h"

namespace tandem::plan {

// `plan` is complete but for its cut. Nothing where no work comes before the end of the batch.
std::optional<Cut> FindCut(const Plan& plan);

}  // namespace tandem::plan
