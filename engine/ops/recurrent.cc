// RNN, GRU and LSTM (ai.onnx, opsets 7, 14, 22): recurrent layers in one or both directions.
//
// Activations take the values of activation_alpha and activation_beta that they need from the front
// of these lists, in their order; where a list ends, the default of the ONNX operator of that name
// counts. An item of length 0 ends in its initial state. Clipping bounds what goes into f and g.
#include <algorithm>
#include <cstring>

#include "absl/strings/ascii.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/extents.h"
#include "engine/ops/recurrent_step.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

using kernels::Cell;
using kernels::CellKind;
using kernels::GateActivation;
using kernels::UnaryOp;
using Ports = RecurrentPorts;

// What an activation does with alpha and beta.
enum class Form : uint8_t { kPlain, kAlpha, kAlphaBeta, kAffine, kScaled };

struct ActivationEntry {
  std::string_view name;  // in lower case
  std::optional<UnaryOp> op;
  Form form = Form::kPlain;
  std::optional<float> alpha;  // defaults, where ONNX has them
  std::optional<float> beta;

  bool takes_alpha() const { return form != Form::kPlain; }
  bool takes_beta() const { return takes_alpha() && form != Form::kAlpha; }
};

constexpr std::string_view kActivationNames =
    "Relu, Tanh, Sigmoid, Affine, LeakyRelu, ThresholdedRelu, ScaledTanh, HardSigmoid, Elu, "
    "Softsign, Softplus";

const ActivationEntry* FindActivation(std::string_view name) {
  static const std::vector<ActivationEntry> table = {
      {"relu", UnaryOp::kRelu, {}, {}, {}},
      {"tanh", UnaryOp::kTanh, {}, {}, {}},
      {"sigmoid", UnaryOp::kSigmoid, {}, {}, {}},
      {"softsign", UnaryOp::kSoftsign, {}, {}, {}},
      {"softplus", UnaryOp::kSoftplus, {}, {}, {}},
      {"affine", std::nullopt, Form::kAffine, 1.0f, 0.0f},
      {"leakyrelu", UnaryOp::kLeakyRelu, Form::kAlpha, 0.01f, {}},
      {"thresholdedrelu", UnaryOp::kThresholdedRelu, Form::kAlpha, 1.0f, {}},
      {"elu", UnaryOp::kElu, Form::kAlpha, 1.0f, {}},
      {"hardsigmoid", UnaryOp::kHardSigmoid, Form::kAlphaBeta, 0.2f, 0.5f},
      {"scaledtanh", UnaryOp::kTanh, Form::kScaled, {}, {}},
  };
  // Writers of models spell them in any case.
  std::string lower(name);
  for (char& c : lower) c = absl::ascii_tolower(static_cast<unsigned char>(c));
  const auto found = std::ranges::find(table, lower, &ActivationEntry::name);
  return found == table.end() ? nullptr : &*found;
}

// One of the lists that activations take values from.
class ValueList {
 public:
  ValueList(NodeReader& reader, std::string_view attribute)
      : reader_(reader), attribute_(attribute), values_(reader.Floats(attribute)) {}

  float Take(std::string_view activation, std::optional<float> fallback) {
    if (taken_ < values_.size()) return values_[taken_++];
    if (!fallback) {
      reader_.Fail(InvalidArgument("attribute '{}' has no value for {}, which has no default",
                                   attribute_, activation));
    }
    return fallback.value_or(1.0f);
  }

  void Finish() const {
    if (taken_ == values_.size()) return;
    reader_.Fail(InvalidArgument("attribute '{}' has {} values where the activations take {}",
                                 attribute_, values_.size(), taken_));
  }

 private:
  NodeReader& reader_;
  std::string_view attribute_;
  std::vector<float> values_;
  size_t taken_ = 0;
};

GateActivation MakeActivation(const ActivationEntry& entry, ValueList& alphas, ValueList& betas) {
  const float alpha = entry.takes_alpha() ? alphas.Take(entry.name, entry.alpha) : 0;
  const float beta = entry.takes_beta() ? betas.Take(entry.name, entry.beta) : 0;
  switch (entry.form) {
    case Form::kPlain:
    case Form::kAlpha:
    case Form::kAlphaBeta:
      return {.op = entry.op, .params = {alpha, beta}};
    case Form::kAffine:
      return {.scale = alpha, .offset = beta};
    case Form::kScaled:
      return {.op = entry.op, .inner_scale = beta, .scale = alpha};
  }
  return {};
}

std::vector<std::string> DefaultActivations(CellKind kind) {
  switch (kind) {
    case CellKind::kRnn:
      return {"Tanh"};
    case CellKind::kGru:
      return {"Sigmoid", "Tanh"};
    case CellKind::kLstm:
      return {"Sigmoid", "Tanh", "Tanh"};
  }
  return {};
}

void ReadActivations(NodeReader& reader, RecurrentOptions& options) {
  const std::vector<std::string> defaults = DefaultActivations(options.kind());
  const size_t wanted = defaults.size() * options.directions.size();
  std::vector<std::string> names = reader.Strings("activations");
  if (names.empty()) {
    for (size_t i = 0; i < wanted; ++i) names.push_back(defaults[i % defaults.size()]);
  }
  if (names.size() != wanted) {
    return reader.Fail(InvalidArgument(
        "attribute 'activations' has {} names where {} are expected: {} for each of {} directions",
        names.size(), wanted, defaults.size(), options.directions.size()));
  }
  ValueList alphas(reader, "activation_alpha");
  ValueList betas(reader, "activation_beta");
  for (size_t i = 0; i < names.size(); ++i) {
    const ActivationEntry* entry = FindActivation(names[i]);
    if (entry == nullptr) {
      return reader.Fail(
          InvalidArgument("activation '{}' is not one of {}", names[i], kActivationNames));
    }
    options.directions[i / defaults.size()].cell.activations[i % defaults.size()] =
        MakeActivation(*entry, alphas, betas);
  }
  alphas.Finish();
  betas.Finish();
}

void ReadDirection(NodeReader& reader, RecurrentOptions& options) {
  using kernels::TimeOrder;
  const std::string direction = reader.String("direction", "forward");
  if (direction == "bidirectional") {
    options.directions = {{.order = TimeOrder::kForward}, {.order = TimeOrder::kReverse}};
  } else {
    const bool reverse = direction == "reverse";
    options.directions = {{.order = reverse ? TimeOrder::kReverse : TimeOrder::kForward}};
    if (!reverse && direction != "forward") {
      reader.Fail(InvalidArgument(
          "attribute 'direction' is '{}' where forward, reverse or bidirectional is expected",
          direction));
    }
  }
}

template <CellKind kKind>
class RecurrentOp final : public Operator {
 public:
  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    auto op = std::make_shared<RecurrentOp>();
    RecurrentOptions& options = op->options_;
    ReadDirection(reader, options);
    Cell common{.kind = kKind};
    if (reader.has("clip")) common.clip = reader.Float("clip", 0);
    if (common.clip && !(*common.clip >= 0)) {
      reader.Fail(
          InvalidArgument("attribute 'clip' is {} where 0 or more is expected", *common.clip));
    }
    if (kKind == CellKind::kGru && reader.Flag("linear_before_reset", false)) {
      common.reset = kernels::ResetPlace::kAfterProduct;
    }
    if (kKind == CellKind::kLstm && reader.Flag("input_forget", false)) {
      common.forget = kernels::ForgetGate::kCoupled;
    }
    for (RecurrentDirection& direction : options.directions) direction.cell = common;
    ReadActivations(reader, options);
    if (reader.has("hidden_size")) op->hidden_ = reader.RequiredInt("hidden_size");
    if (reader.opset() >= 14 && reader.Flag("layout", false)) {
      options.layout = SequenceLayout::kItemsFirst;
    }
    return op;
  }

  Status Infer(InferContext& context) const override;

  // Without the initial states that are known to be 0, which is what omitted ones are: many models
  // make them for the batch at hand, and a value that all items share would keep requests apart.
  std::optional<graph::Patch> Lower(const graph::Graph& graph, graph::NodeId id) const override;

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    return BindRecurrent(options_, context);
  }

  ConstantUse UseOfConstant(int port, DType dtype) const override {
    const bool packs = (port == Ports::kW || port == Ports::kR) && dtype == DType::kFloat;
    return packs ? ConstantUse::kPacked : ConstantUse::kNative;
  }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    // Every step reads all of R, but for a large batch the arithmetic counts.
    const Shape& x = shapes.inputs[Ports::kX];
    const Shape& r = shapes.inputs[Ports::kR];
    if (x.rank() != 3 || r.rank() != 3) return {};  // not known yet
    const auto rows = static_cast<double>(x[0] * x[1] * r[0] * r[1]);
    Cost cost = ElementwiseCost(shapes, dtype, 0);
    cost.multiply_adds = rows * static_cast<double>(x[2] + r[2]);
    return cost;
  }

  BatchAnswer Batch(const BatchQuery& query) const override;

 private:
  static constexpr int kGates = kKind == CellKind::kRnn ? 1 : (kKind == CellKind::kGru ? 3 : 4);

  bool steps_first() const { return options_.layout == SequenceLayout::kStepsFirst; }
  int64_t directions() const { return static_cast<int64_t>(options_.directions.size()); }
  StatusOr<graph::Dim> Hidden(const InferContext& context) const;
  Status CheckInput(const InferContext& context, int port, const graph::DimVector& expected) const;
  graph::DimVector States(const graph::Dim& items, const graph::Dim& hidden) const {
    return steps_first() ? graph::DimVector{directions(), items, hidden}
                         : graph::DimVector{items, directions(), hidden};
  }

  RecurrentOptions options_;
  std::optional<int64_t> hidden_;
};

constexpr std::string_view kInputNames[] = {"X",         "W",         "R", "B", "sequence_lens",
                                            "initial_h", "initial_c", "P"};

template <CellKind kKind>
Status RecurrentOp<kKind>::CheckInput(const InferContext& context, int port,
                                      const graph::DimVector& expected) const {
  if (!context.has_input(port)) return absl::OkStatus();
  const DType dtype = port == Ports::kLengths ? DType::kInt32 : context.input(Ports::kX).dtype;
  const std::string_view name = kInputNames[port];
  if (context.input(port).dtype != dtype) {
    return InvalidArgument("{} is of type {} where {} is expected", name,
                           DTypeName(context.input(port).dtype), DTypeName(dtype));
  }
  const graph::DimVector* dims = context.dims(port);
  if (dims == nullptr) return absl::OkStatus();
  bool fits = dims->size() == expected.size();
  for (size_t axis = 0; fits && axis < expected.size(); ++axis) {
    fits = MayEqual((*dims)[axis], expected[axis]);
  }
  if (fits) return absl::OkStatus();
  return InvalidArgument("{} has shape {} where {} is expected", name, graph::ToString(*dims),
                         graph::ToString(expected));
}

// Columns of R, where they are known; rows of W and R otherwise.
template <CellKind kKind>
StatusOr<graph::Dim> RecurrentOp<kKind>::Hidden(const InferContext& context) const {
  if (hidden_) {
    if (*hidden_ > 0) return graph::Dim(*hidden_);
    return InvalidArgument("attribute 'hidden_size' is {} where 1 or more is expected", *hidden_);
  }
  const graph::DimVector* r = context.dims(Ports::kR);
  if (r != nullptr && r->size() == 3 && !(*r)[2].is_unknown()) return (*r)[2];
  const graph::DimVector* w = context.dims(Ports::kW);
  if (w != nullptr && w->size() == 3) return ExactDiv((*w)[1], graph::Dim(kGates));
  return graph::Dim();
}

template <CellKind kKind>
Status RecurrentOp<kKind>::Infer(InferContext& context) const {
  RETURN_IF_ERROR(CheckDType(context, Ports::kX, IsFloating));
  const DType dtype = context.input(Ports::kX).dtype;
  ASSIGN_OR_RETURN(const graph::Dim hidden, Hidden(context));
  RETURN_IF_ERROR(CheckInput(context, Ports::kX, UnknownDims(3)));
  const graph::DimVector x =
      context.dims(Ports::kX) != nullptr ? *context.dims(Ports::kX) : UnknownDims(3);
  const graph::Dim& steps = x[steps_first() ? 0 : 1];
  const graph::Dim& items = x[steps_first() ? 1 : 0];
  const graph::Dim rows = graph::Dim(kGates) * hidden;
  const graph::Dim d = directions();
  RETURN_IF_ERROR(CheckInput(context, Ports::kW, {d, rows, x[2]}));
  RETURN_IF_ERROR(CheckInput(context, Ports::kR, {d, rows, hidden}));
  RETURN_IF_ERROR(CheckInput(context, Ports::kB, {d, graph::Dim(2) * rows}));
  RETURN_IF_ERROR(CheckInput(context, Ports::kLengths, {items}));
  RETURN_IF_ERROR(CheckInput(context, Ports::kH, States(items, hidden)));
  RETURN_IF_ERROR(CheckInput(context, Ports::kC, States(items, hidden)));
  RETURN_IF_ERROR(CheckInput(context, Ports::kP, {d, graph::Dim(3) * hidden}));
  context.SetOutput(Ports::kY, dtype,
                    steps_first() ? graph::DimVector{steps, d, items, hidden}
                                  : graph::DimVector{items, steps, d, hidden});
  context.SetOutput(Ports::kLastH, dtype, States(items, hidden));
  context.SetOutput(Ports::kLastC, dtype, States(items, hidden));
  return absl::OkStatus();
}

bool IsZero(const graph::ConstantRef& constant) {
  if (constant == nullptr || constant->dtype() == DType::kString) return false;
  return std::ranges::all_of(constant->held().view().bytes(),
                             [](std::byte byte) { return byte == std::byte{0}; });
}

// True for zeros, and for what ConstantOfShape or Expand make of zeros.
bool MakesZeros(const graph::Graph& graph, graph::ValueId id) {
  const graph::Value& value = graph.value(id);
  if (value.constant != nullptr) return IsZero(value.constant);
  if (value.is_input) return false;
  const graph::Node& node = graph.node(value.def);
  if (!node.domain.empty()) return false;
  if (node.op_type == "Expand") {
    return IsZero(graph.constant_input(node, 0));
  }
  if (node.op_type != "ConstantOfShape") return false;
  const auto filling = node.attributes.find("value");
  return filling == node.attributes.end() || IsZero(filling->second.get<graph::ConstantRef>());
}

template <CellKind kKind>
std::optional<graph::Patch> RecurrentOp<kKind>::Lower(const graph::Graph& graph,
                                                      graph::NodeId id) const {
  graph::Node node = graph.node(id);
  bool changed = false;
  for (const int port : {Ports::kH, Ports::kC}) {
    if (static_cast<size_t>(port) >= node.inputs.size()) continue;
    graph::ValueId& state = node.inputs[static_cast<size_t>(port)];
    if (state == graph::kNoValue || !MakesZeros(graph, state)) continue;
    state = graph::kNoValue;
    changed = true;
  }
  if (!changed) return std::nullopt;
  graph::Patch patch(graph);
  patch.AddNode(std::move(node));
  patch.RemoveNode(id);
  return patch;
}

template <CellKind kKind>
BatchAnswer RecurrentOp<kKind>::Batch(const BatchQuery& query) const {
  const int axis = steps_first() ? 1 : 0;
  for (size_t port = 0; port < query.axes.size(); ++port) {
    if (query.inputs[port] == nullptr) continue;
    const std::string_view name = kInputNames[port];
    const bool weight =
        port == Ports::kW || port == Ports::kR || port == Ports::kB || port == Ports::kP;
    const int expected = port == Ports::kLengths ? 0 : axis;
    const std::optional<int>& carried = query.axes[port];
    if (weight) {
      if (carried) return BatchAnswer::Decline(fmt::format("{} carries the batch", name));
    } else if (!carried) {
      return BatchAnswer::Decline(fmt::format("{} is shared by all items", name));
    } else if (*carried != expected) {
      return BatchAnswer::Decline(
          fmt::format("{} carries the batch on axis {} where its items are "
                      "on axis {}",
                      name, *carried, expected));
    }
  }
  BatchAnswer answer = BatchAnswer::All(query, axis);
  if (!answer.outputs.empty()) answer.outputs[Ports::kY] = steps_first() ? 2 : 0;
  return answer;
}

template <CellKind kKind>
OpEntry Entry(std::string op_type, int inputs, int outputs, std::string doc) {
  return {.op_type = std::move(op_type),
          .versions = {7, 14, 22},
          .min_inputs = 3,
          .max_inputs = inputs,
          .min_outputs = 0,
          .max_outputs = outputs,
          .parse = RecurrentOp<kKind>::Parse,
          .doc = std::move(doc)};
}

}  // namespace

void RegisterRecurrent(OpRegistry& registry) {
  registry.Add(Entry<CellKind::kRnn>("RNN", 6, 2, "A recurrent layer."));
  registry.Add(Entry<CellKind::kGru>("GRU", 6, 2, "A layer of gated recurrent units."));
  registry.Add(Entry<CellKind::kLstm>("LSTM", 8, 3, "A layer of long short-term memory."));
}

}  // namespace tandem::ops
