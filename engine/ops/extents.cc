#include "engine/ops/extents.h"

#include <algorithm>
#include <iterator>

namespace tandem::ops {

StatusOr<int> ResolveAxis(int64_t axis, int rank, std::string_view what) {
  if (axis < -rank || axis >= rank) {
    if (rank == 0) return InvalidArgument("{} is {} where the tensor has no axes", what, axis);
    return InvalidArgument("{} is {} where {} to {} are expected for rank {}", what, axis, -rank,
                           rank - 1, rank);
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

StatusOr<std::vector<int>> ResolveAxes(std::span<const int64_t> axes, int rank,
                                       std::string_view what) {
  std::vector<int> resolved;
  for (const int64_t axis : axes) {
    ASSIGN_OR_RETURN(const int one, ResolveAxis(axis, rank, what));
    if (std::ranges::find(resolved, one) != resolved.end()) {
      return InvalidArgument("{} names axis {} twice", what, one);
    }
    resolved.push_back(one);
  }
  return resolved;
}

graph::Dim Quotient(std::span<const graph::Dim> numerators,
                    std::span<const graph::Dim> denominators) {
  std::vector<std::string> symbols;
  graph::Dim above = 1;
  graph::Dim below = 1;
  for (const graph::Dim& dim : numerators) {
    if (dim.is_unknown()) return {};
    above = above * graph::Dim(dim.coefficient());
    if (dim.is_symbol()) symbols.push_back(dim.symbol());
  }
  for (const graph::Dim& dim : denominators) {
    if (dim.is_unknown()) return {};
    below = below * graph::Dim(dim.coefficient());
    if (!dim.is_symbol()) continue;
    const auto found = std::ranges::find(symbols, dim.symbol());
    if (found == symbols.end()) return {};
    symbols.erase(found);
  }
  if (symbols.size() > 1) return {};
  const graph::Dim quotient = ExactDiv(above, below);
  return symbols.empty() ? quotient : quotient * graph::Dim::Symbol(symbols[0]);
}

BatchAnswer BatchOfReshape(const BatchQuery& query) {
  const std::optional<int> batch = query.axes[0];
  if (!batch) return BatchAnswer::Decline("its shape carries the batch");
  if (!query.inputs[0]->dims || !query.outputs[0]->dims) {
    return BatchAnswer::Decline("a rank is unknown");
  }
  const graph::DimVector& in = *query.inputs[0]->dims;
  const graph::DimVector& out = *query.outputs[0]->dims;
  graph::DimVector before(in.begin(), in.begin() + *batch);
  before.push_back(query.rounds);
  for (size_t axis = 0; axis < out.size(); ++axis) {
    if (!out[axis].is_symbol() || out[axis].symbol() != query.items.symbol()) continue;
    const graph::Dim rounds = Quotient(before, {out.data(), axis});
    if (!rounds.is_number() || rounds.number() < 1) break;
    if (out[axis].coefficient() % rounds.number() != 0) break;
    BatchAnswer answer = BatchAnswer::All(query, static_cast<int>(axis));
    answer.rounds = rounds.number();
    return answer;
  }
  return BatchAnswer::Decline(fmt::format("the items on axis {} of {} are on no axis of {}", *batch,
                                          graph::ToString(in), graph::ToString(out)));
}

BatchAnswer BatchOfRepeated(const BatchQuery& query) {
  const ValueFacts& out = *query.outputs[0];
  if (!out.dims) return BatchAnswer::Decline("the rank of its shape is unknown");
  std::optional<int> batch;
  for (int axis = 0; axis < out.rank(); ++axis) {
    const graph::Dim& extent = (*out.dims)[static_cast<size_t>(axis)];
    if (extent.is_unknown()) {
      return BatchAnswer::Decline(fmt::format("extent {} of its shape is unknown", axis));
    }
    if (!batch && extent.is_symbol() && extent.symbol() == query.items.symbol()) batch = axis;
  }
  return BatchAnswer::All(query, batch);
}

std::optional<std::string> SumsDependOnItems(const graph::DimVector& dims, int batch,
                                             const std::vector<bool>& summed) {
  const auto at = summed.begin() + batch;
  const auto last = std::find(std::make_reverse_iterator(at), summed.rend(), true).base();
  if (last == summed.begin()) return std::nullopt;
  // A multiple of the items is more than one, too.
  const auto more_than_one = [](const graph::Dim& dim) {
    return !dim.is_unknown() && dim.coefficient() > 1;
  };
  if (std::find(at, summed.end(), true) == summed.end() &&
      std::any_of(dims.begin() + (last - summed.begin()), dims.end(), more_than_one)) {
    return std::nullopt;
  }
  return "the order of its sums depends on the number of items";
}

void SetIntegers(InferContext& context, int port, const graph::DimVector& content) {
  if (!context.has_output(port)) return;
  const ValueFacts& facts = context.results()[static_cast<size_t>(port)];
  const std::optional<Shape> shape = facts.shape();
  if (!shape || shape->rank() > 1) return;
  std::vector<int64_t> numbers;
  for (const graph::Dim& dim : content) {
    if (!dim.is_number()) return context.SetContent(port, content);
    numbers.push_back(dim.number());
  }
  if (facts.dtype == DType::kInt64) {
    context.SetValue(port, Tensor::Of<int64_t>(*shape, std::span<const int64_t>(numbers)));
  } else if (facts.dtype == DType::kInt32) {
    const std::vector<int32_t> narrow(numbers.begin(), numbers.end());
    context.SetValue(port, Tensor::Of<int32_t>(*shape, std::span<const int32_t>(narrow)));
  }
}

void PassContent(InferContext& context) {
  if (const auto content = context.Content(0)) SetIntegers(context, 0, *content);
}

graph::DimVector UnknownDims(int rank) { return graph::DimVector(static_cast<size_t>(rank)); }

StatusOr<int> RankFromVector(InferContext& context, int port, std::string_view what) {
  const graph::DimVector* dims = context.dims(port);
  if (dims == nullptr) return -1;
  if (dims->size() != 1) {
    return InvalidArgument("{} has shape {} where a vector is expected", what,
                           graph::ToString(*dims));
  }
  const graph::Dim& extent = (*dims)[0];
  constexpr int64_t kMaxRank = 64;
  if (extent.is_number() && extent.number() > kMaxRank) {
    return InvalidArgument("{} has {} elements where at most {} are expected", what,
                           extent.number(), kMaxRank);
  }
  return extent.is_number() ? static_cast<int>(extent.number()) : -1;
}

bool MayEqual(const graph::Dim& a, const graph::Dim& b) {
  return !a.is_number() || !b.is_number() || a.number() == b.number();
}

Status CheckOneElement(const InferContext& context, int port) {
  const graph::DimVector* dims = context.dims(port);
  if (dims == nullptr || MayEqual(graph::Product(*dims, 0, static_cast<int>(dims->size())), 1)) {
    return absl::OkStatus();
  }
  return InvalidArgument("input {} has shape {} where one element is expected", port,
                         graph::ToString(*dims));
}

}  // namespace tandem::ops
