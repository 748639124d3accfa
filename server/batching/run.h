// Runs requests of one model, together where the model allows it.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "engine/base/status.h"
#include "server/models/served_model.h"

namespace tandem::server {

// What a run knows of a request beside its tensors.
struct RunMember {
  int64_t items = 1;  // along the batch axis; 1 for a model that does not batch
  // True once nobody waits for the answer any more; asked from any thread of the engine.
  std::function<bool()> abandoned;
};

struct MemberResult {
  StatusOr<RunResult> result;
  int64_t run_items = 0;  // items of the run that gave the result
};

// One run of all members, which must fit into one; items[i] has the tensors of members[i]. Results
// by member. The run ends early when every member is abandoned. When it fails and has several
// members, each that is not abandoned runs again alone, so that an error stays with the request
// that caused it. Exceptions become Internal. Counts the runs that succeeded.
std::vector<MemberResult> RunMembers(const ServedModel& model, std::span<const BatchItem> items,
                                     std::span<const RunMember> members);

}  // namespace tandem::server
