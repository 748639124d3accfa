#include "server/batching/run.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace tandem::server {
namespace {

StatusOr<RunResult> RunAlone(const Model& model, const BatchItem& item, const RunMember& member) {
  if (model.info().batch_fixed_at_one && member.items != 1) {
    ASSIGN_OR_RETURN(std::vector<RunResult> results,
                     model.RunBatch(std::span(&item, 1), member.abandoned));
    if (results.size() != 1) return Internal("1 result expected, {} came", results.size());
    return std::move(results.front());
  }
  return model.Run(item.inputs, {.outputs = item.outputs, .stopped = member.abandoned});
}

StatusOr<std::vector<RunResult>> RunTogether(const Model& model, std::span<const BatchItem> items,
                                             std::span<const RunMember> members) {
  const auto all_abandoned = [members] {
    return std::all_of(members.begin(), members.end(),
                       [](const RunMember& member) { return member.abandoned(); });
  };
  ASSIGN_OR_RETURN(std::vector<RunResult> results, model.RunBatch(items, all_abandoned));
  if (results.size() != members.size()) {
    return Internal("{} results expected, {} came", members.size(), results.size());
  }
  return results;
}

// `run`, with its exceptions as errors, which all name the model.
template <typename Run>
auto Guarded(const ServedModel& model, Run run) -> decltype(run()) {
  decltype(run()) result = Internal("not run");
  try {
    result = run();
  } catch (const std::exception& error) {
    result = Internal("the run threw: {}", error.what());
  } catch (...) {
    result = Internal("the run threw: an unknown exception");
  }
  if (result.ok()) return result;
  return Annotate(result.status(), Where(model));
}

MemberResult RunOne(const ServedModel& model, const BatchItem& item, const RunMember& member) {
  MemberResult out{Guarded(model, [&] { return RunAlone(*model.model, item, member); }),
                   member.items};
  if (out.result.ok()) model.metrics->run_items.Observe(member.items);
  return out;
}

}  // namespace

std::vector<MemberResult> RunMembers(const ServedModel& model, std::span<const BatchItem> items,
                                     std::span<const RunMember> members) {
  std::vector<MemberResult> out;
  out.reserve(members.size());
  if (members.size() == 1) {
    out.push_back(RunOne(model, items.front(), members.front()));
    return out;
  }
  StatusOr<std::vector<RunResult>> results =
      Guarded(model, [&] { return RunTogether(*model.model, items, members); });
  if (results.ok()) {
    int64_t run_items = 0;
    for (const RunMember& member : members) run_items += member.items;
    model.metrics->run_items.Observe(run_items);
    for (RunResult& result : *results) out.push_back({std::move(result), run_items});
    return out;
  }
  for (size_t i = 0; i < members.size(); ++i) {
    if (members[i].abandoned()) {
      out.push_back({results.status(), 0});
    } else {
      out.push_back(RunOne(model, items[i], members[i]));
    }
  }
  return out;
}

}  // namespace tandem::server
