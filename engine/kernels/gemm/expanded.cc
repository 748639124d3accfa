#include "engine/kernels/gemm/expanded.h"

#include "engine/kernels/ceil_div.h"

namespace tandem::kernels {

ExpandedPanels::ExpandedPanels(const TileKernel& kernel, const Tile& tile, int64_t tiles)
    : kernel_(kernel) {
  if (kernel.expand == nullptr || tiles < 2) return;
  const int64_t columns = CeilDiv(tile.columns, kernel.panel_columns) * kernel.panel_columns;
  const int64_t rows = tile.taps * tile.depth;
  if (rows * columns > kMostFloats) return;
  kernel.expand(tile, floats_);
  rows_ = rows;
}

void ExpandedPanels::Run(Tile tile) const {
  if (rows_ == 0) return kernel_.run(tile);
  tile.b = floats_;
  tile.panel_floats = rows_ * kernel_.panel_columns;
  tile.first_k = tile.k;
  kernel_.run_expanded(tile);
}

}  // namespace tandem::kernels
