// Loop (ai.onnx, opsets 1, 11, 13, 16, 19, 21, 23, 24): a body that is run again and again,
// with values it carries from one iteration to the next, and results of all iterations one below
// the other.
//
// It ends after M iterations, or when the condition is false; without an input cond the condition
// that the body returns is not looked at. Without both it would never end, which is refused. How
// many iterations there are is known when they are over, so nothing is allocated for them before.
#include <algorithm>
#include <limits>

#include "engine/ops/body.h"
#include "engine/ops/movement.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

constexpr int kTrips = 0;
constexpr int kCondition = 1;
constexpr int kFirstCarried =
    2;  // of the node's inputs and the body's; the body's outputs: one less

// How the ports of a node and its body belong together.
struct LoopPorts {
  int carried = 0;
  int scans = 0;
  // Extents of the body's first inputs: some models declare vectors of one element.
  Shape iteration;
  Shape condition;
};

// Results of all iterations of one output, in memory that grows.
class Rows {
 public:
  // Where the next result may be written; no tensor before the extents are known.
  StatusOr<Tensor> Next(StepContext& context, int64_t limit) {
    if (count_ == 0) return Tensor();
    if (count_ == memory_.shape()[0]) {
      RETURN_IF_ERROR(Grow(context, limit / 2 < count_ ? limit : 2 * count_));
    }
    return memory_.Rows(count_, count_ + 1).Reshaped(element_);
  }

  Status Append(StepContext& context, const Tensor& result, int64_t limit) {
    if (count_ == 0) {
      element_ = result.shape();
      memory_ = Tensor::Share(nullptr, result.dtype(), Stacked(0), nullptr);
      RETURN_IF_ERROR(Grow(context, std::min(kFirstRows, limit)));
    }
    if (result.shape() != element_) {
      return InvalidArgument("an iteration gives a result of shape {} where those before gave {}",
                             ToString(result.shape()), ToString(element_));
    }
    const Tensor row = memory_.Rows(count_, count_ + 1);
    if (result.view().raw() != row.view().raw()) {
      CopyRegion({.axes = {{result.elements(), 1, 1}}}, result.view(), row.mutable_view(),
                 context.parallel());
    }
    ++count_;
    return absl::OkStatus();
  }

  int64_t count() const { return count_; }
  Tensor All() const { return memory_.Rows(0, count_); }

 private:
  static constexpr int64_t kFirstRows = 4;

  Shape Stacked(int64_t rows) const {
    Shape shape{rows};
    for (const int64_t extent : element_.dims()) shape.Append(extent);
    return shape;
  }

  Status Grow(StepContext& context, int64_t rows) {
    const size_t row_bytes = DTypeBytes(memory_.dtype(), element_.elements());
    RETURN_IF_ERROR(context.TakeBytes(static_cast<size_t>(rows - count_) * row_bytes));
    ASSIGN_OR_RETURN(Tensor grown, Tensor::Allocate(memory_.dtype(), Stacked(rows)));
    if (count_ > 0) {
      const Tensor old = memory_.Rows(0, count_);
      CopyRegion({.axes = {{old.elements(), 1, 1}}}, old.view(),
                 grown.Rows(0, count_).mutable_view(), context.parallel());
    }
    memory_ = std::move(grown);
    return absl::OkStatus();
  }

  Shape element_;
  Tensor memory_;
  int64_t count_ = 0;
};

class LoopStep final : public Step {
 public:
  LoopStep(LoopPorts ports, std::vector<Tensor> empty_scans)
      : ports_(std::move(ports)), empty_scans_(std::move(empty_scans)) {}

  std::string kernel() const override { return "loop"; }

  Status Run(StepContext& context) const override {
    ASSIGN_OR_RETURN(const int64_t limit, Trips(context));
    ASSIGN_OR_RETURN(bool go_on, Condition(context));
    // Values of the iteration before, and tensors whose memory the next one may use.
    std::vector<Tensor> carried;
    std::vector<Tensor> spare(static_cast<size_t>(ports_.carried));
    for (int i = 0; i < ports_.carried; ++i) {
      const TensorView& view = context.input(kFirstCarried + i);
      carried.push_back(Tensor::Share(nullptr, view.dtype(), view.shape(), view.raw()));
    }
    std::vector<Rows> scans(static_cast<size_t>(ports_.scans));
    for (int64_t trip = 0; trip < limit && go_on; ++trip) {
      const Tensor iteration = Tensor::Of<int64_t>(ports_.iteration, {trip});
      const Tensor condition = Tensor::Of<bool>(ports_.condition, {true});
      std::vector<TensorView> formal = {iteration.view(), condition.view()};
      for (const Tensor& value : carried) formal.push_back(value.view());
      std::vector<Tensor> memory(1);
      memory.insert(memory.end(), spare.begin(), spare.end());
      std::ranges::fill(spare, Tensor());
      for (Rows& rows : scans) {
        ASSIGN_OR_RETURN(memory.emplace_back(), rows.Next(context, limit));
      }
      ASSIGN_OR_RETURN(std::vector<Tensor> results, context.RunBody(0, formal, std::move(memory)));
      if (context.has_input(kCondition)) {
        ASSIGN_OR_RETURN(go_on, OneElement<bool>(results[0].view(), "the body's condition"));
      }
      const auto first_scan = results.begin() + 1 + ports_.carried;
      for (size_t i = 0; i < scans.size(); ++i) {
        RETURN_IF_ERROR(scans[i].Append(context, first_scan[static_cast<int64_t>(i)], limit));
      }
      // Memory that nobody else holds; the node's own inputs have no owner here.
      for (size_t i = 0; i < carried.size(); ++i) {
        spare[i] = carried[i].owner().use_count() == 1 ? std::move(carried[i]) : Tensor();
      }
      carried.assign(std::make_move_iterator(results.begin() + 1),
                     std::make_move_iterator(first_scan));
    }
    return EmitAll(context, carried, scans);
  }

 private:
  static StatusOr<int64_t> Trips(const StepContext& context) {
    if (!context.has_input(kTrips)) return std::numeric_limits<int64_t>::max();
    return OneElement<int64_t>(context.input(kTrips), "M");
  }
  static StatusOr<bool> Condition(const StepContext& context) {
    if (!context.has_input(kCondition)) return true;
    return OneElement<bool>(context.input(kCondition), "cond");
  }

  Status EmitAll(StepContext& context, const std::vector<Tensor>& carried,
                 const std::vector<Rows>& scans) const {
    for (int i = 0; i < ports_.carried; ++i) {
      const Tensor& value = carried[static_cast<size_t>(i)];
      if (value.owner() != nullptr) {
        RETURN_IF_ERROR(Emit(context, i, value));
        continue;
      }
      // No iteration at all: the result is an input of the node.
      ASSIGN_OR_RETURN(const Tensor copy, Tensor::Copy(value.view()));
      RETURN_IF_ERROR(Emit(context, i, copy));
    }
    for (int i = 0; i < ports_.scans; ++i) {
      const Rows& rows = scans[static_cast<size_t>(i)];
      RETURN_IF_ERROR(Emit(context, ports_.carried + i,
                           rows.count() > 0 ? rows.All() : empty_scans_[static_cast<size_t>(i)]));
    }
    return absl::OkStatus();
  }

  LoopPorts ports_;
  std::vector<Tensor> empty_scans_;  // results of no iteration
};

// Loops in loops are inferred again for each of them.
constexpr int kMaxLoopDepth = 6;

int LoopDepth(const graph::Graph& body) {
  int depth = 0;
  for (const graph::NodeId id : body.order()) {
    const graph::Node& node = body.node(id);
    for (const graph::Body& inner : graph::BodiesOf(node)) {
      depth = std::max(depth, LoopDepth(*inner.graph) + (node.op_type == "Loop" ? 1 : 0));
    }
  }
  return depth;
}

class Loop final : public Operator {
 public:
  static std::shared_ptr<const Operator> Parse(NodeReader& reader);

  StatusOr<std::vector<ValueFacts>> BodyInputs(const InferContext& context, int) const override {
    ASSIGN_OR_RETURN(BodyFacts facts, InferIterations(context));
    return std::move(facts.inputs);
  }

  Status Infer(InferContext& context) const override;

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    const graph::Graph& body = BodyOf(context.node());
    LoopPorts ports = ports_;
    ports.iteration = ShapeOfInput(body, 0);
    ports.condition = ShapeOfInput(body, 1);
    // Extents that nobody knows without an iteration count as 0.
    std::vector<Tensor> empty_scans;
    for (int i = 0; i < ports.scans; ++i) {
      const graph::ValueId id = body.outputs()[static_cast<size_t>(1 + ports.carried + i)];
      const graph::ValueType& type = body.value(id).type;
      RETURN_IF_ERROR(CheckMovable(type.dtype));
      Shape shape{0};
      if (type.dims) {
        for (const graph::Dim& dim : *type.dims) shape.Append(dim.is_number() ? dim.number() : 0);
      }
      ASSIGN_OR_RETURN(empty_scans.emplace_back(), Tensor::Allocate(type.dtype, shape));
    }
    return std::make_unique<LoopStep>(std::move(ports), std::move(empty_scans));
  }

 private:
  // Of all inputs and outputs of the body, in any iteration.
  struct BodyFacts {
    std::vector<ValueFacts> inputs;
    std::vector<ValueFacts> outputs;
  };

  static const graph::Graph& BodyOf(const graph::Node& node) {
    return *graph::BodiesOf(node).front().graph;
  }
  static Shape ShapeOfInput(const graph::Graph& body, size_t input) {
    const auto& dims = body.value(body.inputs()[input]).type.dims;
    return dims && dims->size() == 1 ? Shape{1} : Shape();
  }

  StatusOr<BodyFacts> InferIterations(const InferContext& context) const;
  StatusOr<BodyFacts> InferIteration(const InferContext& context,
                                     const std::vector<ValueFacts>& carried) const;

  LoopPorts ports_;
};

std::shared_ptr<const Operator> Loop::Parse(NodeReader& reader) {
  auto op = std::make_shared<Loop>();
  LoopPorts& ports = op->ports_;
  ports.carried = std::max(0, reader.inputs() - kFirstCarried);
  const std::shared_ptr<const graph::Graph> body = reader.Body("body");
  if (body == nullptr) {
    reader.Fail(InvalidArgument("attribute 'body' is missing"));
    return op;
  }
  if (FormalInputs(*body) != ports.carried + kFirstCarried) {
    reader.Fail(InvalidArgument(
        "body has {} inputs where {} are expected: iteration, condition and {} carried values",
        FormalInputs(*body), ports.carried + kFirstCarried, ports.carried));
  }
  const auto outputs = static_cast<int>(reader.node().outputs.size());
  ports.scans = outputs - ports.carried;
  if (ports.scans < 0) {
    reader.Fail(InvalidArgument("it has {} outputs for {} carried values", outputs, ports.carried));
  }
  if (static_cast<int>(body->outputs().size()) != outputs + 1) {
    reader.Fail(InvalidArgument(
        "body has {} outputs where {} are expected: the condition and the node's {}",
        body->outputs().size(), outputs + 1, outputs));
  }
  for (int port = kFirstCarried; port < reader.inputs(); ++port) {
    if (reader.has_input(port)) continue;
    reader.Fail(InvalidArgument("input {}, a carried value, is omitted", port));
  }
  if (!reader.has_input(kTrips) && !reader.has_input(kCondition)) {
    reader.Fail(InvalidArgument("it has neither M nor cond and would never end"));
  }
  if (LoopDepth(*body) >= kMaxLoopDepth) {
    reader.Fail(Unimplemented("loops are nested more than {} deep", kMaxLoopDepth));
  }
  return op;
}

StatusOr<Loop::BodyFacts> Loop::InferIteration(const InferContext& context,
                                               const std::vector<ValueFacts>& carried) const {
  const graph::Graph& body = BodyOf(context.node());
  std::vector<ValueFacts> formal(kFirstCarried);
  formal[kTrips].dtype = DType::kInt64;
  formal[kTrips].dims = graph::ToDims(ShapeOfInput(body, kTrips));
  formal[kCondition].dtype = DType::kBool;
  formal[kCondition].dims = graph::ToDims(ShapeOfInput(body, kCondition));
  formal.insert(formal.end(), carried.begin(), carried.end());
  BodyFacts facts;
  facts.inputs = WithCaptures(context, 0, std::move(formal));
  StatusOr<std::vector<ValueFacts>> outputs = InferBody(body, facts.inputs);
  if (!outputs.ok()) return Annotate(outputs.status(), "body");
  facts.outputs = *std::move(outputs);
  return facts;
}

// Facts that hold in every iteration: extents that change are left open, first those that do, then
// all of them.
StatusOr<Loop::BodyFacts> Loop::InferIterations(const InferContext& context) const {
  const graph::Graph& body = BodyOf(context.node());
  std::vector<ValueFacts> carried;
  for (int i = 0; i < ports_.carried; ++i) {
    carried.push_back(TypeFacts(context.input(kFirstCarried + i)));
    RETURN_IF_ERROR(CheckFormal(body, kFirstCarried + i, carried.back().dtype));
  }
  for (int round = 0;; ++round) {
    ASSIGN_OR_RETURN(BodyFacts facts, InferIteration(context, carried));
    bool stable = true;
    for (size_t i = 0; i < carried.size(); ++i) {
      const ValueFacts& result = facts.outputs[i + 1];
      if (result.dtype != carried[i].dtype) {
        return InvalidArgument("body: output {} is {} where the value it carries on is {}", i + 1,
                               DTypeName(result.dtype), DTypeName(carried[i].dtype));
      }
      std::optional<graph::DimVector> common = CommonDims(carried[i].dims, result.dims);
      if (SameDims(common, carried[i].dims)) continue;
      stable = false;
      carried[i].dims = std::move(common);
    }
    if (stable) return facts;
    if (round == 0) continue;
    for (ValueFacts& value : carried) value.dims = std::nullopt;
  }
}

Status Loop::Infer(InferContext& context) const {
  if (context.has_input(kTrips)) {
    RETURN_IF_ERROR(CheckScalar(context, kTrips, DType::kInt64, "M"));
  }
  if (context.has_input(kCondition)) {
    RETURN_IF_ERROR(CheckScalar(context, kCondition, DType::kBool, "cond"));
  }
  ASSIGN_OR_RETURN(const BodyFacts facts, InferIterations(context));
  if (facts.outputs[0].dtype != DType::kBool) {
    return InvalidArgument("body: output 0, the condition, is {} where bool is expected",
                           DTypeName(facts.outputs[0].dtype));
  }
  for (int i = 0; i < ports_.carried; ++i) {
    const ValueFacts& value = facts.inputs[static_cast<size_t>(kFirstCarried + i)];
    context.SetOutput(i, value.dtype, value.dims);
  }
  for (int i = ports_.carried; i < context.outputs(); ++i) {
    const ValueFacts& result = facts.outputs[static_cast<size_t>(1 + i)];
    std::optional<graph::DimVector> dims;
    if (result.dims) {
      dims = graph::DimVector{graph::Dim()};
      dims->insert(dims->end(), result.dims->begin(), result.dims->end());
    }
    context.SetOutput(i, result.dtype, std::move(dims));
  }
  return absl::OkStatus();
}

}  // namespace

void RegisterLoop(OpRegistry& registry) {
  registry.Add({.op_type = "Loop",
                .versions = {1, 11, 13, 16, 19, 21, 23, 24},
                .min_inputs = 0,
                .max_inputs = kAnyNumber,
                .max_outputs = kAnyNumber,
                .parse = Loop::Parse,
                .doc = "A body that is run again and again."});
}

}  // namespace tandem::ops
