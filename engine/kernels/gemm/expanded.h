// Panels of packed B as floats, for the tiles of a block that read the same ones.
#pragma once

#include "engine/kernels/gemm/tile.h"

namespace tandem::kernels {

class ExpandedPanels {
 public:
  // Makes them where the kernel can and several tiles will read them; `tile` is like those,
  // whatever its rows.
  ExpandedPanels(const TileKernel& kernel, const Tile& tile, int64_t tiles);

  // Runs a tile that reads these panels.
  void Run(Tile tile) const;

 private:
  static constexpr int64_t kMostFloats = int64_t{1} << 15;

  const TileKernel& kernel_;
  int64_t rows_ = 0;  // 0: not made
  alignas(64) float floats_[kMostFloats];
};

}  // namespace tandem::kernels
