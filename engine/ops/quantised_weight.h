// Quantised weights that kernels keep in their bytes.
#pragma once

#include <memory>

#include "engine/graph/constant.h"
#include "engine/kernels/gemm/gemm.h"

namespace tandem::ops {

// What the integers of `weight` mean, where one scale is for all or each is for an index along
// `axis`; null for other weights. No axis: -1.
std::shared_ptr<const Quantised> QuantisedAlong(const graph::Constant& weight, int axis);

// The same for a kernel that packs the integers; valid as long as `quantised` is. Null gives none.
kernels::ColumnScales ScalesOf(const Quantised* quantised);

}  // namespace tandem::ops
