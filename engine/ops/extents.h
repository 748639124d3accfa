// Arithmetic on axes and symbolic extents that operators moving or viewing elements share.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/ops/operator.h"

namespace tandem::ops {

// `axis` in [0, rank); InvalidArgument outside [-rank, rank). `what` names it: "attribute 'axis'".
StatusOr<int> ResolveAxis(int64_t axis, int rank, std::string_view what);

// The same for a list; InvalidArgument also for an axis that is named twice. Order is kept.
StatusOr<std::vector<int>> ResolveAxes(std::span<const int64_t> axes, int rank,
                                       std::string_view what);

// Product of `numerators` divided by the product of `denominators`: extents that occur on both
// sides cancel, symbols included. Unknown where the quotient cannot be told or leaves a remainder.
graph::Dim Quotient(std::span<const graph::Dim> numerators,
                    std::span<const graph::Dim> denominators);

// The batch rule of an operator that keeps the order of elements: the axis of the result that has
// the items, by its symbol. What stands before the items becomes axes before or rounds, what stands
// behind them axes behind or more elements of each item.
BatchAnswer BatchOfReshape(const BatchQuery& query);

// The batch rule of an output that repeats what all items share: the axis that has the number of
// items, or a multiple of it, or none.
BatchAnswer BatchOfRepeated(const BatchQuery& query);

// Why sums over the flagged axes of an input of these extents would be taken in another order for
// one item than for several, or nothing. Items behind a summed axis are neighbouring columns, each
// summed by itself, while a single column is summed as a row is; and an axis of one item between
// summed axes makes these one.
std::optional<std::string> SumsDependOnItems(const graph::DimVector& dims, int batch,
                                             const std::vector<bool>& summed);

// Sets the content of an int64 or int32 output of rank <= 1 whose dtype and dims were set; sets
// the value when every element is a number.
void SetIntegers(InferContext& context, int port, const graph::DimVector& content);

// Output 0 has the elements of input 0 in the same order: passes known content on.
void PassContent(InferContext& context);

// Dims of rank `rank`, none known.
graph::DimVector UnknownDims(int rank);

// The rank that an integer vector of extents gives: its only extent; -1 where it is unknown.
StatusOr<int> RankFromVector(InferContext& context, int port, std::string_view what);

// True when both are the same extent for every request or one is not known well enough to differ.
bool MayEqual(const graph::Dim& a, const graph::Dim& b);

// InvalidArgument where the input at `port` is known to have no or several elements.
Status CheckOneElement(const InferContext& context, int port);

}  // namespace tandem::ops
