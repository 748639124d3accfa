// Scan (ai.onnx, opsets 8, 9, 11, 16, 19, 21, 23, 24): a body that walks along an axis of its
// scan inputs, with states it carries from one step to the next, and results of all steps side by
// side. Opset 8 has a batch in front of everything: each item is a sequence of its own, which may
// be shorter than the axis; results beyond its length are 0. States keep their extents.
#include <algorithm>

#include "engine/ops/body.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/extents.h"
#include "engine/ops/movement.h"
#include "engine/ops/registry.h"
#include "engine/ops/scan_step.h"

namespace tandem::ops {
namespace {

constexpr int kFirstOpsetWithoutBatch = 9;

// Facts of a value without one of its axes.
ValueFacts Without(const ValueFacts& facts, int axis) {
  ValueFacts result = TypeFacts(facts);
  if (result.dims) result.dims->erase(result.dims->begin() + axis);
  return result;
}

graph::DimVector With(graph::DimVector dims, int axis, const graph::Dim& extent) {
  dims.insert(dims.begin() + axis, extent);
  return dims;
}

class Scan final : public Operator {
 public:
  static std::shared_ptr<const Operator> Parse(NodeReader& reader);

  StatusOr<std::vector<ValueFacts>> BodyInputs(const InferContext& context, int) const override;
  Status Infer(InferContext& context) const override;

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    const graph::Graph& body = BodyOf(context.node());
    for (size_t i = 0; i < options_.inputs.size(); ++i) {
      RETURN_IF_ERROR(CheckMovable(context.input(options_.input_port(i)).dtype));
    }
    // Extents that nobody knows without a step count as 0.
    std::vector<ScanResult> no_step;
    for (size_t i = 0; i < options_.outputs.size(); ++i) {
      const graph::ValueId id = body.outputs()[static_cast<size_t>(options_.result_port(i))];
      const graph::ValueType& type = body.value(id).type;
      RETURN_IF_ERROR(CheckMovable(type.dtype));
      ScanResult& result = no_step.emplace_back();
      result.dtype = type.dtype;
      for (const graph::Dim& dim : type.dims.value_or(graph::DimVector())) {
        result.shape.Append(dim.is_number() ? dim.number() : 0);
      }
    }
    return MakeScanStep(options_, std::move(no_step));
  }

 private:
  static const graph::Graph& BodyOf(const graph::Node& node) {
    return *graph::BodiesOf(node).front().graph;
  }

  // What one item has of a value.
  ValueFacts OfItem(const ValueFacts& facts) const {
    return options_.has_batch() ? Without(facts, 0) : TypeFacts(facts);
  }
  Status CheckBatch(const InferContext& context) const;
  StatusOr<graph::Dim> Steps(const InferContext& context) const;
  Status SetResult(InferContext& context, size_t i, const ValueFacts& one) const;

  ScanOptions options_;
};

void ReadOrders(NodeReader& reader, std::string_view name, std::vector<ScanTrack>& tracks) {
  const std::vector<int64_t> orders = reader.Ints(name);
  if (!orders.empty() && orders.size() != tracks.size()) {
    return reader.Fail(InvalidArgument("attribute '{}' has {} elements where {} are expected", name,
                                       orders.size(), tracks.size()));
  }
  for (size_t i = 0; i < orders.size(); ++i) {
    if (orders[i] != 0 && orders[i] != 1) {
      return reader.Fail(
          InvalidArgument("attribute '{}' holds {} where 0 or 1 is expected", name, orders[i]));
    }
    tracks[i].order = orders[i] == 0 ? ScanOrder::kForward : ScanOrder::kReverse;
  }
}

void ReadAxes(NodeReader& reader, std::string_view name, std::vector<ScanTrack>& tracks) {
  const std::vector<int64_t> axes = reader.Ints(name);
  if (!axes.empty() && axes.size() != tracks.size()) {
    return reader.Fail(InvalidArgument("attribute '{}' has {} elements where {} are expected", name,
                                       axes.size(), tracks.size()));
  }
  for (size_t i = 0; i < axes.size(); ++i) tracks[i].axis = axes[i];
}

std::shared_ptr<const Operator> Scan::Parse(NodeReader& reader) {
  auto op = std::make_shared<Scan>();
  ScanOptions& options = op->options_;
  if (reader.opset() < kFirstOpsetWithoutBatch) options.batch = ScanBatch::kFirstAxis;
  const int64_t inputs = reader.RequiredInt("num_scan_inputs");
  const int64_t states = reader.inputs() - options.state_port(0) - inputs;
  const std::shared_ptr<const graph::Graph> body = reader.Body("body");
  if (body == nullptr) {
    reader.Fail(InvalidArgument("attribute 'body' is missing"));
    return op;
  }
  if (inputs < 1 || states < 0) {
    reader.Fail(InvalidArgument(
        "attribute 'num_scan_inputs' is {} where 1 or more and at most the {} inputs are expected",
        inputs, reader.inputs() - options.state_port(0)));
    return op;
  }
  options.states = static_cast<int>(states);
  options.inputs.resize(static_cast<size_t>(inputs));
  const auto outputs = static_cast<int64_t>(reader.node().outputs.size());
  if (outputs < states) {
    reader.Fail(InvalidArgument("it has {} outputs for {} states", outputs, states));
    return op;
  }
  options.outputs.resize(static_cast<size_t>(outputs - states));
  if (FormalInputs(*body) != states + inputs) {
    reader.Fail(
        InvalidArgument("body has {} inputs where {} states and {} scan inputs are expected",
                        FormalInputs(*body), states, inputs));
  }
  if (static_cast<int64_t>(body->outputs().size()) != outputs) {
    reader.Fail(InvalidArgument("body has {} outputs where the node has {}", body->outputs().size(),
                                outputs));
  }
  for (int port = options.state_port(0); port < reader.inputs(); ++port) {
    if (!reader.has_input(port)) reader.Fail(InvalidArgument("input {} is omitted", port));
  }
  if (options.has_batch()) {
    ReadOrders(reader, "directions", options.inputs);
  } else {
    ReadOrders(reader, "scan_input_directions", options.inputs);
    ReadOrders(reader, "scan_output_directions", options.outputs);
    ReadAxes(reader, "scan_input_axes", options.inputs);
    ReadAxes(reader, "scan_output_axes", options.outputs);
  }
  return op;
}

// With a batch, every input has one; all are as long as each other.
Status Scan::CheckBatch(const InferContext& context) const {
  if (!options_.has_batch()) return absl::OkStatus();
  graph::Dim items;
  for (int port = 1; port < OwnInputs(context.node()); ++port) {
    const graph::DimVector* dims = context.dims(port);
    if (dims == nullptr) continue;
    if (dims->empty()) return InvalidArgument("input {} has no batch axis", port);
    if (items.is_unknown()) items = dims->front();
    if (!MayEqual(items, dims->front())) {
      return InvalidArgument("input {} has a batch of {} where {} is expected", port,
                             graph::ToString(dims->front()), graph::ToString(items));
    }
  }
  if (!context.has_input(0)) return absl::OkStatus();
  RETURN_IF_ERROR(CheckDType(context, 0, [](DType dtype) { return dtype == DType::kInt64; }));
  const graph::DimVector* lengths = context.dims(0);
  if (lengths == nullptr || (lengths->size() == 1 && MayEqual(lengths->front(), items))) {
    return absl::OkStatus();
  }
  return InvalidArgument("sequence_lens has shape {} where [{}] is expected",
                         graph::ToString(*lengths), graph::ToString(items));
}

StatusOr<graph::Dim> Scan::Steps(const InferContext& context) const {
  graph::Dim steps;
  for (size_t i = 0; i < options_.inputs.size(); ++i) {
    const ValueFacts facts = OfItem(context.input(options_.input_port(i)));
    if (!facts.dims) continue;
    ASSIGN_OR_RETURN(const int axis, ResolveAxis(options_.inputs[i].axis, facts.rank(),
                                                 fmt::format("the axis of scan input {}", i)));
    const graph::Dim& own = (*facts.dims)[static_cast<size_t>(axis)];
    if (!MayEqual(steps, own)) {
      return InvalidArgument("scan input {} has {} steps where {} are expected", i,
                             graph::ToString(own), graph::ToString(steps));
    }
    if (!steps.is_number() && !own.is_unknown()) steps = own;
  }
  return steps;
}

StatusOr<std::vector<ValueFacts>> Scan::BodyInputs(const InferContext& context, int) const {
  RETURN_IF_ERROR(CheckBatch(context));
  RETURN_IF_ERROR(Steps(context).status());
  const graph::Graph& body = BodyOf(context.node());
  std::vector<ValueFacts> formal;
  for (int i = 0; i < options_.states; ++i) {
    formal.push_back(OfItem(context.input(options_.state_port(i))));
  }
  for (size_t i = 0; i < options_.inputs.size(); ++i) {
    const ValueFacts facts = OfItem(context.input(options_.input_port(i)));
    formal.push_back(Without(facts, options_.inputs[i].AxisOf(std::max(1, facts.rank()))));
  }
  for (size_t i = 0; i < formal.size(); ++i) {
    RETURN_IF_ERROR(CheckFormal(body, static_cast<int>(i), formal[i].dtype));
  }
  return WithCaptures(context, 0, std::move(formal));
}

Status Scan::SetResult(InferContext& context, size_t i, const ValueFacts& one) const {
  if (!one.dims) {
    context.SetOutput(options_.result_port(i), one.dtype, std::nullopt);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const graph::Dim steps, Steps(context));
  ASSIGN_OR_RETURN(const int axis, ResolveAxis(options_.outputs[i].axis, one.rank() + 1,
                                               fmt::format("the axis of scan output {}", i)));
  graph::DimVector dims = With(*one.dims, axis, steps);
  if (options_.has_batch()) {
    const graph::DimVector* input = context.dims(options_.input_port(0));
    dims = With(std::move(dims), 0, input == nullptr ? graph::Dim() : input->front());
  }
  context.SetOutput(options_.result_port(i), one.dtype, std::move(dims));
  return absl::OkStatus();
}

Status Scan::Infer(InferContext& context) const {
  ASSIGN_OR_RETURN(std::vector<ValueFacts> inputs, BodyInputs(context, 0));
  StatusOr<std::vector<ValueFacts>> outputs = InferBody(BodyOf(context.node()), inputs);
  if (!outputs.ok()) return Annotate(outputs.status(), "body");
  for (int i = 0; i < options_.states; ++i) {
    const ValueFacts& before = context.input(options_.state_port(i));
    const ValueFacts& after = (*outputs)[static_cast<size_t>(i)];
    const ValueFacts& carried = inputs[static_cast<size_t>(i)];
    if (after.dtype != carried.dtype) {
      return InvalidArgument("body: state {} is {} after a step where it is {} before", i,
                             DTypeName(after.dtype), DTypeName(carried.dtype));
    }
    bool same = !after.dims || !carried.dims || after.rank() == carried.rank();
    for (size_t axis = 0; same && after.dims && carried.dims && axis < after.dims->size(); ++axis) {
      same = MayEqual((*after.dims)[axis], (*carried.dims)[axis]);
    }
    if (!same) {
      return InvalidArgument("body: state {} has shape {} after a step where it has {} before", i,
                             graph::ToString(*after.dims), graph::ToString(*carried.dims));
    }
    context.SetOutput(i, before.dtype, before.dims);
  }
  for (size_t i = 0; i < options_.outputs.size(); ++i) {
    RETURN_IF_ERROR(
        SetResult(context, i, (*outputs)[static_cast<size_t>(options_.result_port(i))]));
  }
  return absl::OkStatus();
}

}  // namespace

void RegisterScan(OpRegistry& registry) {
  registry.Add({.op_type = "Scan",
                .versions = {8, 9, 11, 16, 19, 21, 23, 24},
                .min_inputs = 0,
                .max_inputs = kAnyNumber,
                .max_outputs = kAnyNumber,
                .parse = Scan::Parse,
                .doc = "A body that walks along an axis."});
}

}  // namespace tandem::ops
