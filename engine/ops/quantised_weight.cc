#include "engine/ops/quantised_weight.h"

namespace tandem::ops {

std::shared_ptr<const Quantised> QuantisedAlong(const graph::Constant& weight, int axis) {
  const StridedTensor& strided = weight.strided();
  if (strided.quantised == nullptr) return nullptr;
  const bool one = strided.quantised->scales.size() == 1;
  return one || strided.quantised_axis == axis ? strided.quantised : nullptr;
}

kernels::ColumnScales ScalesOf(const Quantised* quantised) {
  if (quantised == nullptr) return {};
  return {quantised->scales.data(), quantised->zero_points.data(),
          quantised->scales.size() == 1 ? 0 : 1};
}

}  // namespace tandem::ops
