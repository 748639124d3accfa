// What a plan costs in all.
#pragma once

#include <string>

#include "engine/report.h"

namespace tandem {

// Sums over the tasks of a plan.
struct Work {
  double multiply_adds = 0;
  double moved_bytes = 0;  // read and written
  int unknown_tasks = 0;   // whose cost is not known and not in the sums
};

// Of one run with the report's shapes; of a batch in parts: of one part. A report without shapes
// has no work. The bodies of control flow count as one task of unknown cost.
Work WorkOf(const PlanReport& report);

// "24192 multiply-adds, 5876 bytes moved, and 2 tasks of unknown cost".
std::string ToText(const Work& work);

}  // namespace tandem
