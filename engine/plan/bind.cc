#include "engine/plan/bind.h"

#include "engine/base/check.h"

namespace tandem::plan {
namespace {

template <typename T>
const T& At(const std::vector<T>& list, int port, const T& omitted) {
  return port >= 0 && static_cast<size_t>(port) < list.size() ? list[static_cast<size_t>(port)]
                                                              : omitted;
}

const ops::ValueFacts kOmittedFacts;

}  // namespace

const ops::ValueFacts& PlanBindContext::input(int port) const {
  return At(request_.inputs, port, kOmittedFacts);
}

const ops::ValueFacts& PlanBindContext::output(int port) const {
  return At(request_.outputs, port, kOmittedFacts);
}

Layout PlanBindContext::input_layout(int port) const {
  return At(request_.input_layouts, port, Layout::kNative);
}

Layout PlanBindContext::output_layout(int port) const {
  return At(request_.output_layouts, port, Layout::kNative);
}

graph::ConstantRef PlanBindContext::constant(int port) const {
  return At(request_.constants, port, graph::ConstantRef());
}

StatusOr<ops::PackRef> PlanBindContext::MakePack(int port, const ops::PackSpec& spec) {
  const graph::ConstantRef weight = constant(port);
  CHECK(weight != nullptr, "input {} of {} is packed but not constant", port, node().op_type);
  ASSIGN_OR_RETURN(ops::PackRef pack, store_.Get(*weight, spec));
  packed_[static_cast<size_t>(port)] = true;
  packs_.push_back(pack);
  return pack;
}

}  // namespace tandem::plan
