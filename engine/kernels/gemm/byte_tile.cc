// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/gemm/byte_tile.cc"
#include "hwy/foreach_target.h"  // before every other Highway header
#include "engine/kernels/gemm/tile-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tandem::kernels {
namespace HWY_NAMESPACE {

// Panels of int8 behind a head of the columns' scales and zero points, which become floats in
// registers: one row of a panel for each k, as many rows in the space of one of floats as bytes in
// a float.
class BytePanels {
 public:
  static constexpr int64_t kStep = sizeof(float);
  static constexpr int64_t kHeadFloats = 2 * kPanelColumns;

  BytePanels(const Tile& tile, int64_t column)
      : panel_floats_(tile.panel_floats),
        scales_(tile.b + column / kPanelColumns * panel_floats_),
        at_(reinterpret_cast<const int8_t*>(scales_ + kHeadFloats) + tile.k * kPanelColumns) {}

  HWY_INLINE V Load(int j) const {
    const hn::Rebind<int32_t, D> ints;
    const hn::Rebind<int8_t, D> bytes;
    const int64_t panel = j / kVectors * panel_floats_;
    const int64_t lane = j % kVectors * kLanes;
    const auto integers = hn::Load(bytes, at_ + panel * int64_t{sizeof(float)} + lane);
    const float* scales = scales_ + panel + lane;
    const V x = hn::ConvertTo(D(), hn::PromoteTo(ints, integers));
    return hn::Mul(hn::Sub(x, hn::Load(D(), scales + kPanelColumns)), hn::Load(D(), scales));
  }
  HWY_INLINE void Next() { at_ += kPanelColumns; }

  static void Pack(int64_t k, PanelReader read, float* panel) {
    HWY_ALIGN float rows[kStep * kPanelColumns];
    auto* to = reinterpret_cast<int8_t*>(panel + kHeadFloats);
    for (int64_t first = 0; first < k; first += kStep) {
      const int64_t count = HWY_MIN(kStep, k - first);
      read(first, count, rows);
      for (int64_t i = 0; i < kStep * kPanelColumns; ++i) {
        *to++ = i < count * kPanelColumns ? static_cast<int8_t>(rows[i]) : int8_t{0};
      }
    }
  }

 private:
  int64_t panel_floats_;
  const float* scales_;
  const int8_t* at_;
};

void Expand(const Tile& tile, float* floats) {
  for (int64_t column = 0; column < tile.columns; column += kPanelColumns) {
    BytePanels panel(tile, column);
    for (int64_t row = 0; row < tile.taps * tile.depth; ++row, panel.Next()) {
      TANDEM_UNROLL
      for (int j = 0; j < kVectors; ++j, floats += kLanes) hn::Store(panel.Load(j), D(), floats);
    }
  }
}

TileKernel MakeByteTileKernel() {
  TileKernel kernel = MakeTileKernelOn<BytePanels>();
  kernel.name = "int8";
  kernel.has_scales = true;
  kernel.head_floats = BytePanels::kHeadFloats;
  kernel.step = BytePanels::kStep;
  kernel.expand = &Expand;
  return kernel;
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::kernels {

HWY_EXPORT(MakeByteTileKernel);

TileKernel ByteTileKernel(Isa isa) {
  TileKernel kernel = TANDEM_DISPATCH(isa, MakeByteTileKernel)();
  kernel.run_expanded = PlainTileKernel(isa).run;
  return kernel;
}

}  // namespace tandem::kernels
#endif  // HWY_ONCE
