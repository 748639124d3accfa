#include "engine/runtime/task_context.h"

namespace tandem::runtime {

// The body sees what it captures where it lies.
StatusOr<std::vector<Tensor>> TaskContext::RunBody(int index, std::span<const TensorView> formal,
                                                   std::vector<Tensor> memory) {
  if (scope_.is_stopped()) return Cancelled("the run was stopped in {}", task_.name);
  BodyRunner::Call call;
  call.task = static_cast<plan::TaskIndex>(&task_ - values_.plan().tasks.data());
  call.body = index;
  call.inputs.assign(formal.begin(), formal.end());
  auto port = task_.inputs.size() - static_cast<size_t>(task_.node.captures);
  for (int i = 0; i < index; ++i) port += CapturesOf(i);
  for (const size_t end = port + CapturesOf(index); port < end; ++port) {
    call.inputs.push_back(values_.view(task_.inputs[port]));
  }
  call.memory = std::move(memory);
  return scope_.bodies.RunBody(std::move(call), values_.budget().Left(), scope_.stopped);
}

size_t TaskContext::CapturesOf(int body) const {
  return static_cast<size_t>(
      graph::BodiesOf(task_.node)[static_cast<size_t>(body)].graph->captures());
}

}  // namespace tandem::runtime
