// Binding: the answers an operator gets while it chooses the kernel of one task.
#pragma once

#include <vector>

#include "engine/ops/operator.h"
#include "engine/plan/pack_store.h"

namespace tandem::plan {

// Everything about one task, as the planner knows it.
struct BindRequest {
  const graph::Node* node = nullptr;
  Arithmetic arithmetic;
  std::vector<ops::ValueFacts> inputs;  // by port; dtype kUndefined where omitted
  std::vector<ops::ValueFacts> outputs;
  std::vector<Layout> input_layouts;
  std::vector<Layout> output_layouts;
  std::vector<graph::ConstantRef> constants;  // by input port; null where not constant
};

class PlanBindContext final : public ops::BindContext {
 public:
  PlanBindContext(const BindRequest& request, PackStore& store)
      : request_(request), store_(store), packed_(request.inputs.size(), false) {}

  const graph::Node& node() const override { return *request_.node; }
  Isa isa() const override { return request_.arithmetic.isa; }
  Precision precision() const override { return request_.arithmetic.precision; }
  const ops::ValueFacts& input(int port) const override;
  const ops::ValueFacts& output(int port) const override;
  Layout input_layout(int port) const override;
  Layout output_layout(int port) const override;
  graph::ConstantRef constant(int port) const override;
  StatusOr<ops::PackRef> MakePack(int port, const ops::PackSpec& spec) override;

  // What the operator asked for.
  const std::vector<ops::PackRef>& packs() const { return packs_; }
  const std::vector<bool>& packed() const { return packed_; }

 private:
  const BindRequest& request_;
  PackStore& store_;
  std::vector<ops::PackRef> packs_;
  std::vector<bool> packed_;
};

}  // namespace tandem::plan
