// Bodies of control flow are graphs and are optimized as such, by the same passes:
//
//   y = Loop(..., w) {body reads w}, w constant   -> w is a constant of the body
//   y = If(c, a, b) {bodies read a only}          -> y = If(c, a)
//
// A body is left alone when nothing about its inputs has changed since it was optimized last. The
// folds of all bodies come out of the budget of the graph around them.
#include "engine/base/check.h"
#include "engine/ops/body.h"
#include "engine/ops/registry.h"
#include "engine/optimizer/rewrite.h"

namespace tandem::optimizer {
namespace {

using graph::kNoValue;

// A body with the values of the graph around it that it still reads.
struct Result {
  std::shared_ptr<const graph::Graph> body;
  std::vector<graph::ValueId> captures;
  bool changed = false;
  FoldCost cost;
};

class BodyOptimizer {
 public:
  BodyOptimizer(const graph::Graph& graph, graph::NodeId anchor, PassContext& context)
      : graph_(graph), anchor_(anchor), node_(graph.node(anchor)), context_(context) {
    for (const graph::ValueId id : node_.inputs) {
      facts_.push_back(id == kNoValue ? ops::ValueFacts() : ops::FactsOf(graph.value(id)));
    }
  }

  // Body `index`, which captures the inputs of the node from `port` on.
  StatusOr<Result> Run(const graph::Body& body, int index, size_t port) {
    const auto count = static_cast<size_t>(body.graph->captures());
    const auto first = node_.inputs.begin() + static_cast<std::ptrdiff_t>(port);
    Result result{body.graph, {first, first + static_cast<std::ptrdiff_t>(count)}};
    ASSIGN_OR_RETURN(const std::vector<ops::ValueFacts> inputs,
                     ops::OpOf(node_).BodyInputs(InferContextOf(), index));
    const std::string signature = Signature(inputs, port);
    if (const OptimizedBody* known = context_.FindBody(body.graph)) {
      if (known->inputs == signature) {
        Report(body, known->declines);
        return result;
      }
    }
    auto copy = std::make_shared<graph::Graph>(*body.graph);
    ops::SetInputTypes(*copy, inputs);
    TakeConstants(*copy, result.captures, port);
    RETURN_IF_ERROR(ops::InferAll(*copy));
    OptimizeOptions options = context_.options();
    options.fold = context_.ledger().Rest();
    options.defaults = DefaultsOf(*copy, result.captures);
    ASSIGN_OR_RETURN(OptimizeReport report, Optimize(*copy, context_.constants(), options));
    DropUnread(*copy, result.captures);
    result.cost = std::move(report.folded);
    for (std::string& node : result.cost.nodes) node.insert(0, PathOf(body));
    Report(body, report.declines);
    result.changed = result.captures.size() != count;
    for (const PassReport& pass : report.passes) result.changed |= pass.changes > 0;
    if (result.changed) result.body = std::move(copy);
    context_.RecordBody(result.body, {signature, std::move(report.declines)});
    return result;
  }

 private:
  ops::InferContext InferContextOf() const {
    std::vector<const ops::ValueFacts*> inputs;
    for (size_t port = 0; port < facts_.size(); ++port) {
      inputs.push_back(node_.inputs[port] == kNoValue ? nullptr : &facts_[port]);
    }
    return {node_, std::move(inputs)};
  }

  // What the result of optimizing the body depends on, beside the body.
  std::string Signature(const std::vector<ops::ValueFacts>& inputs, size_t port) const {
    std::string text;
    for (const ops::ValueFacts& facts : inputs) text += ops::ToString(facts) + ";";
    for (; port < node_.inputs.size(); ++port) {
      text += CapturedConstant(port) != nullptr ? "constant;" : "value;";
    }
    return text;
  }

  graph::ConstantRef CapturedConstant(size_t port) const {
    return graph_.constant_input(node_, static_cast<int>(port));
  }

  // Captures that are constants by now become constants of the body.
  void TakeConstants(graph::Graph& body, std::vector<graph::ValueId>& captures, size_t port) const {
    const auto formal = static_cast<size_t>(ops::FormalInputs(body));
    const std::vector<graph::ValueId> inputs = body.inputs();
    std::vector<graph::ValueId> kept;
    for (size_t i = 0; i < captures.size(); ++i) {
      const graph::ConstantRef constant = CapturedConstant(port + i);
      if (constant == nullptr) {
        kept.push_back(captures[i]);
        continue;
      }
      body.SetConstant(inputs[formal + i], constant);
      body.RemoveInput(inputs[formal + i]);
    }
    captures = std::move(kept);
    body.set_captures(static_cast<int>(captures.size()));
  }

  // The inputs of the body that are `captures` with a default that a request may replace.
  graph::Defaults DefaultsOf(const graph::Graph& body,
                             const std::vector<graph::ValueId>& captures) const {
    const graph::Defaults& around = context_.options().defaults;
    const auto formal = static_cast<size_t>(ops::FormalInputs(body));
    graph::Defaults defaults;
    for (size_t i = 0; i < captures.size(); ++i) {
      const auto found = around.find(captures[i]);
      if (found != around.end()) defaults[body.inputs()[formal + i]] = found->second;
    }
    return defaults;
  }

  static void DropUnread(graph::Graph& body, std::vector<graph::ValueId>& captures) {
    const auto formal = static_cast<size_t>(ops::FormalInputs(body));
    const std::vector<graph::ValueId> inputs = body.inputs();
    std::vector<graph::ValueId> kept;
    for (size_t i = 0; i < captures.size(); ++i) {
      if (body.value(inputs[formal + i]).uses.empty()) {
        body.RemoveInput(inputs[formal + i]);
      } else {
        kept.push_back(captures[i]);
      }
    }
    captures = std::move(kept);
    body.set_captures(static_cast<int>(captures.size()));
  }

  std::string PathOf(const graph::Body& body) const {
    return fmt::format("{}: {}: ", graph::Describe(graph_, anchor_), body.attribute);
  }

  void Report(const graph::Body& body, const std::vector<Decline>& declines) {
    for (Decline decline : declines) {
      decline.node = PathOf(body) + decline.node;
      context_.Report(std::move(decline));
    }
  }

  const graph::Graph& graph_;
  const graph::NodeId anchor_;
  const graph::Node& node_;
  PassContext& context_;
  std::vector<ops::ValueFacts> facts_;  // by input
};

}  // namespace

std::optional<graph::Patch> OptimizeBodies(const graph::Graph& graph, graph::NodeId anchor,
                                           PassContext& context) {
  const graph::Node& node = graph.node(anchor);
  const std::vector<graph::Body> bodies = graph::BodiesOf(node);
  if (bodies.empty()) return std::nullopt;
  BodyOptimizer optimizer(graph, anchor, context);
  graph::Node changed = node;
  changed.inputs.resize(static_cast<size_t>(ops::OwnInputs(node)));
  std::vector<std::shared_ptr<const graph::Graph>> results;
  bool any = false;
  FoldCost cost;
  size_t port = changed.inputs.size();
  for (size_t i = 0; i < bodies.size(); ++i) {
    StatusOr<Result> result = optimizer.Run(bodies[i], static_cast<int>(i), port);
    if (!result.ok()) {
      context.Refuse(graph, anchor, bodies[i].attribute, "it cannot be optimized",
                     std::string(Message(result.status())));
      return std::nullopt;
    }
    any |= result->changed;
    cost += result->cost;
    results.push_back(result->body);
    changed.inputs.insert(changed.inputs.end(), result->captures.begin(), result->captures.end());
    port += static_cast<size_t>(bodies[i].graph->captures());
  }
  if (!any) return std::nullopt;
  context.Charge(cost);
  changed.captures = static_cast<int>(changed.inputs.size()) - ops::OwnInputs(node);
  graph::SetBodies(changed, results);
  graph::Patch patch(graph);
  patch.AddNode(std::move(changed));
  patch.RemoveNode(anchor);
  return patch;
}

}  // namespace tandem::optimizer
