// What passes ask that recognise a formula: who computes a value, and which scalars and factors a
// product is made of. Matching follows dataflow, never position or name.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/graph.h"

namespace tandem::optimizer {

// The ai.onnx node of type `op` that defines `id` as its first output, or kNoNode; never one that
// has a prologue or an epilogue already.
graph::NodeId Maker(const graph::Graph& graph, graph::ValueId id, std::string_view op);

// The element of a constant of one float element and of rank `max_rank` at most.
std::optional<double> Scalar(const graph::Graph& graph, graph::ValueId id, size_t max_rank);

// A binary node's inputs, of which one is such a scalar.
struct ScalarOperand {
  double scalar = 0;
  graph::ValueId other = graph::kNoValue;
  int port = 0;  // of the scalar
};
std::optional<ScalarOperand> WithScalar(const graph::Graph& graph, const graph::Node& node);

// scale times the product of `factors`, computed by `nodes` (Mul, and Div by a scalar; the root
// first), whose results but the root's have no other reader.
struct Product {
  double scale = 1;
  std::vector<graph::ValueId> factors;
  std::vector<graph::NodeId> nodes;
};
// The product that `id` is; `id` itself where nothing multiplies.
Product ProductOf(const graph::Graph& graph, graph::ValueId id);

// The mean of a value over its last axes, which are kept. `axis` is the first of them, counted from
// the end: -1 is the last one.
struct LastAxesMean {
  graph::NodeId node = graph::kNoNode;
  graph::ValueId of = graph::kNoValue;
  int64_t axis = 0;
};
std::optional<LastAxesMean> LastAxesMeanOf(const graph::Graph& graph, graph::ValueId id);

// A value times itself, or raised to the power of 2.
struct Square {
  graph::NodeId node = graph::kNoNode;
  graph::ValueId of = graph::kNoValue;
};
std::optional<Square> SquareOf(const graph::Graph& graph, graph::ValueId id);

// The extents of `id` are known to be those of the axes of `x` from `axis` on, counted from the
// end.
bool CoversLastAxes(const graph::Graph& graph, graph::ValueId id, graph::ValueId x, int64_t axis);

// True when the relative difference is at most 1e-5: exporters print constants with six digits.
bool IsAbout(double value, double expected);

// The extents of `id` are known to be those of `other`.
bool SameExtents(const graph::Graph& graph, graph::ValueId id, graph::ValueId other);

// What `nodes` compute, except all of `root`, their last, and others read: "'m' is a graph output".
// Nothing when only they read it.
std::optional<std::string> ReadOutside(const graph::Graph& graph,
                                       const std::vector<graph::NodeId>& nodes, graph::NodeId root);

}  // namespace tandem::optimizer
