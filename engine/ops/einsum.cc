// Einsum (ai.onnx, opset 12): sums of products over labelled axes, as numpy.einsum without its
// lists of axes.
#include "engine/ops/einsum.h"

#include <algorithm>

#include "engine/kernels/einsum/einsum.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/extents.h"
#include "engine/ops/movement.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

bool Contains(const Labels& labels, int label) {
  return std::ranges::find(labels, label) != labels.end();
}

kernels::EinsumAxis AxisOf(int label, const Subscripts& subscripts, std::span<const Shape> shapes) {
  kernels::EinsumAxis axis;
  for (size_t k = 0; k < shapes.size(); ++k) {
    const Labels& labels = subscripts.operands[k];
    const Dims strides = shapes[k].Strides();
    int64_t stride = 0;  // of a diagonal: the sum
    for (size_t a = 0; a < labels.size(); ++a) {
      const int64_t extent = shapes[k].dims()[a];
      if (labels[a] != label || extent == 1) continue;
      axis.extent = extent;
      stride += strides[a];
    }
    axis.strides.push_back(stride);
  }
  return axis;
}

kernels::EinsumPlan PlanOf(const Subscripts& subscripts, std::span<const Shape> shapes) {
  kernels::EinsumPlan plan;
  for (const int label : subscripts.output) {
    plan.outputs.push_back(AxisOf(label, subscripts, shapes));
  }
  Labels seen = subscripts.output;
  for (const Labels& labels : subscripts.operands) {
    for (const int label : labels) {
      if (Contains(seen, label)) continue;
      seen.push_back(label);
      plan.sums.push_back(AxisOf(label, subscripts, shapes));
    }
  }
  return plan;
}

class Einsum final : public Operator {
 public:
  explicit Einsum(Equation equation) : equation_(std::move(equation)) {}

  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    if (!reader.has("equation")) reader.Fail(InvalidArgument("attribute 'equation' is missing"));
    StatusOr<Equation> equation = Equation::Parse(reader.String("equation", ""));
    if (!equation.ok()) {
      reader.Fail(equation.status());
      return std::make_shared<const Einsum>(Equation());
    }
    for (int port = 0; port < reader.inputs(); ++port) {
      if (!reader.has_input(port)) reader.Fail(InvalidArgument("input {} is omitted", port));
    }
    if (equation->operands() != static_cast<size_t>(reader.inputs())) {
      reader.Fail(InvalidArgument("equation '{}' has {} terms where {} inputs are given",
                                  equation->text(), equation->operands(), reader.inputs()));
    }
    return std::make_shared<const Einsum>(*std::move(equation));
  }

  Status Infer(InferContext& context) const override {
    RETURN_IF_ERROR(
        CheckDType(context, 0, [](DType dtype) { return kernels::FindEinsum(dtype) != nullptr; }));
    std::vector<const graph::DimVector*> dims;
    std::vector<int> ranks;
    for (int port = 0; port < context.inputs(); ++port) {
      RETURN_IF_ERROR(CheckSameDType(context, port, 0));
      if (context.dims(port) == nullptr) continue;
      dims.push_back(context.dims(port));
      ranks.push_back(static_cast<int>(dims.back()->size()));
    }
    const DType dtype = context.input(0).dtype;
    if (dims.size() != equation_.operands()) {
      context.SetOutput(0, dtype, std::nullopt);
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const Subscripts subscripts, equation_.Resolve(ranks));
    for (const Labels& labels : subscripts.operands) {
      for (const int label : labels) {
        RETURN_IF_ERROR(ExtentOf(label, subscripts, dims).status());
      }
    }
    graph::DimVector out;
    for (const int label : subscripts.output) {
      ASSIGN_OR_RETURN(out.emplace_back(), ExtentOf(label, subscripts, dims));
    }
    context.SetOutput(0, dtype, std::move(out));
    return absl::OkStatus();
  }

  std::optional<graph::Patch> Lower(const graph::Graph& graph, graph::NodeId id) const override {
    std::vector<int> ranks;
    for (const graph::ValueId input : graph.node(id).inputs) {
      const graph::ValueType& type = graph.value(input).type;
      if (!type.dims) return std::nullopt;
      ranks.push_back(static_cast<int>(type.dims->size()));
    }
    const StatusOr<Subscripts> subscripts = equation_.Resolve(ranks);
    if (!subscripts.ok()) return std::nullopt;
    return LowerEinsum(graph, id, *subscripts);
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    const kernels::EinsumFunction kernel = kernels::FindEinsum(context.input(0).dtype);
    const Equation equation = equation_;
    return MakeMoveStep(
        context, "einsum reference",
        [kernel, equation](StepContext& run, std::span<const MutableTensorView> outputs) -> Status {
          std::vector<Shape> shapes;
          std::vector<int> ranks;
          std::vector<const void*> operands;
          for (int port = 0; port < static_cast<int>(equation.operands()); ++port) {
            shapes.push_back(run.input(port).shape());
            ranks.push_back(shapes.back().rank());
            operands.push_back(run.input(port).raw());
          }
          ASSIGN_OR_RETURN(const Subscripts subscripts, equation.Resolve(ranks));
          kernel(PlanOf(subscripts, shapes), operands, outputs[0].mutable_raw(), run.parallel());
          return absl::OkStatus();
        });
  }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    Cost cost = CostOfMove(shapes, dtype);
    std::vector<int> ranks;
    for (const Shape& shape : shapes.inputs) ranks.push_back(shape.rank());
    const StatusOr<Subscripts> subscripts = equation_.Resolve(ranks);
    if (!subscripts.ok()) return cost;
    const kernels::EinsumPlan plan = PlanOf(*subscripts, shapes.inputs);
    cost.multiply_adds = static_cast<double>(shapes.inputs.size());
    for (const kernels::EinsumAxis& axis : plan.outputs) {
      cost.multiply_adds *= static_cast<double>(axis.extent);
    }
    for (const kernels::EinsumAxis& axis : plan.sums) {
      cost.multiply_adds *= static_cast<double>(axis.extent);
    }
    return cost;
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    std::vector<int> ranks;
    for (const ValueFacts* input : query.inputs) ranks.push_back(input->rank());
    if (std::ranges::count(ranks, -1) > 0) return BatchAnswer::Decline("a rank is unknown");
    const StatusOr<Subscripts> subscripts = equation_.Resolve(ranks);
    if (!subscripts.ok()) return BatchAnswer::Decline(std::string(Message(subscripts.status())));
    std::optional<int> batch;  // its label
    for (size_t k = 0; k < query.axes.size(); ++k) {
      if (!query.axes[k]) continue;
      const int label = subscripts->operands[k][static_cast<size_t>(*query.axes[k])];
      if (batch && *batch != label) return BatchAnswer::Decline("the batch has two labels");
      batch = label;
    }
    for (size_t k = 0; k < query.axes.size(); ++k) {
      const auto times = std::ranges::count(subscripts->operands[k], *batch);
      if (times > (query.axes[k] ? 1 : 0)) {
        return BatchAnswer::Decline("items are combined with one another or with a shared axis");
      }
    }
    const auto place = std::ranges::find(subscripts->output, *batch);
    if (place == subscripts->output.end()) return BatchAnswer::Decline("it sums over the batch");
    return BatchAnswer::All(query, static_cast<int>(place - subscripts->output.begin()));
  }

 private:
  Equation equation_;
};

}  // namespace

void RegisterEinsum(OpRegistry& registry) {
  registry.Add({.op_type = "Einsum",
                .versions = {12},
                .max_inputs = kAnyNumber,
                .parse = Einsum::Parse,
                .doc = "Sums of products over labelled axes."});
}

}  // namespace tandem::ops
