// The report of a plan in the forms that `tandem explain` writes; as text it writes itself.
#pragma once

#include <string>

#include "engine/report.h"

namespace tandem::cli {

// One JSON object (RFC 8259). Ports and the schedule name values and tasks by their index; a fork
// in the schedule is a list of lists.
std::string ToJson(const PlanReport& report);

// A digraph in Graphviz's language: tasks in boxes, towers and bodies of control flow in
// frames, values on the edges.
std::string ToDot(const PlanReport& report);

// A page of its own, with nothing to load: totals, tasks with those of bodies, packs, passes,
// declines. `title` is text.
std::string ToHtml(const PlanReport& report, const std::string& title);

// What `after` has that `before` has not, and the reverse: totals, inputs and outputs, tasks (found
// by the name of what they compute) with their attributes, inputs, content of constants and bodies,
// declines.
std::string DiffText(const PlanReport& before, const PlanReport& after);

}  // namespace tandem::cli
