#include "server/batching/admission.h"

#include <algorithm>
#include <exception>
#include <vector>

namespace tandem::server {
namespace {

void AppendNumber(int64_t number, std::string& text) {
  text.append(reinterpret_cast<const char*>(&number), sizeof number);
}

// Names, dtypes and extents beyond the batch axis of the inputs, whatever their order.
std::string GroupOf(const InferRequest& request) {
  std::vector<const NamedTensor*> inputs;
  for (const NamedTensor& input : request.inputs) inputs.push_back(&input);
  std::sort(inputs.begin(), inputs.end(),
            [](const NamedTensor* a, const NamedTensor* b) { return a->name < b->name; });
  std::string group;
  for (const NamedTensor* input : inputs) {
    const Shape& shape = input->tensor.shape();
    AppendNumber(static_cast<int64_t>(input->name.size()), group);
    group += input->name;
    AppendNumber(static_cast<int64_t>(input->tensor.dtype()), group);
    AppendNumber(shape.rank(), group);
    for (int64_t extent : shape.dims().subspan(1)) AppendNumber(extent, group);
  }
  return group;
}

StatusOr<int64_t> CountItems(const InferRequest& request) {
  const NamedTensor* first = nullptr;
  for (const NamedTensor& input : request.inputs) {
    const Shape& shape = input.tensor.shape();
    if (shape.rank() == 0) {
      return InvalidArgument("input '{}' is a scalar; its first axis must be the batch",
                             input.name);
    }
    if (first == nullptr) {
      first = &input;
    } else if (shape[0] != first->tensor.shape()[0]) {
      return InvalidArgument(
          "inputs disagree on the batch: '{}' has shape {}, so {} items, but '{}' has shape {}",
          first->name, ToString(first->tensor.shape()), first->tensor.shape()[0], input.name,
          ToString(shape));
    }
  }
  return first == nullptr ? 1 : first->tensor.shape()[0];
}

StatusOr<Admission> AdmitUnannotated(const InferRequest& request) {
  const ServedModel& model = *request.model;
  RETURN_IF_ERROR(model.model->Validate(request.inputs));
  if (model.max_batch_size == 0) return Admission{};
  Admission admission;
  ASSIGN_OR_RETURN(admission.items, CountItems(request));
  if (admission.items > model.max_batch_size) {
    const NamedTensor& first = request.inputs.front();
    return InvalidArgument(
        "input '{}': shape {} came, with {} items, more than max_batch_size, which is {}",
        first.name, ToString(first.tensor.shape()), admission.items, model.max_batch_size);
  }
  admission.group = GroupOf(request);
  return admission;
}

}  // namespace

StatusOr<Admission> Admit(const InferRequest& request) {
  const std::string where = Where(*request.model);
  try {
    StatusOr<Admission> admission = AdmitUnannotated(request);
    if (!admission.ok()) return Annotate(admission.status(), where);
    return admission;
  } catch (const std::exception& error) {
    return Internal("{}: checking the request threw: {}", where, error.what());
  } catch (...) {
    return Internal("{}: checking the request threw an unknown exception", where);
  }
}

}  // namespace tandem::server
