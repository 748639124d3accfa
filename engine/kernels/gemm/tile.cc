// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/gemm/tile.cc"
#include "hwy/foreach_target.h"  // before every other Highway header
#include "engine/kernels/gemm/tile-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels {
namespace HWY_NAMESPACE {

// Panels of float32: one row of a panel for each k.
class FloatPanels {
 public:
  FloatPanels(const Tile& tile, int64_t column)
      : panel_floats_(tile.panel_floats),
        at_(tile.b + column / kPanelColumns * panel_floats_ +
            (tile.k - tile.first_k) * kPanelColumns) {}

  HWY_INLINE V Load(int j) const {
    return hn::Load(D(), at_ + j / kVectors * panel_floats_ + j % kVectors * kLanes);
  }
  HWY_INLINE void Next() { at_ += kPanelColumns; }

  static void Pack(int64_t k, PanelReader read, float* panel) { read(0, k, panel); }

 private:
  int64_t panel_floats_;
  const float* at_;
};

TileKernel MakeTileKernel() { return MakeTileKernelOn<FloatPanels>(); }

}  // namespace HWY_NAMESPACE
}  // namespace tandem::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels {

HWY_EXPORT(MakeTileKernel);

TileKernel PlainTileKernel(Isa isa) { return TANDEM_DISPATCH(isa, MakeTileKernel)(); }

}  // namespace tandem::kernels
#endif  // HWY_ONCE
