#include "engine/ops/integer_product.h"

#include <algorithm>

#include "engine/ops/epilogue.h"

namespace tandem::ops {

IntegerPorts PresentPorts(IntegerPorts ports, const BindContext& context) {
  for (int* port : {&ports.x_zero, &ports.w_zero, &ports.bias}) {
    if (*port >= 0 && !context.has_input(*port)) *port = -1;
  }
  return ports;
}

PackSpec IntegerPackSpec(Isa isa, DType x, const kernels::ConvGeometry& geometry,
                         IntegerWeightsOf weights) {
  PackSpec spec;
  spec.kernel = kernels::IntegerFormat(isa, geometry);
  spec.parameters =
      fmt::format("{} x={} group={} {}x{}x{}", IsaName(isa), DTypeName(x), geometry.group,
                  geometry.out_channels, geometry.in_per_group(), geometry.taps());
  spec.bytes = kernels::PackedIntegerBytes(isa, geometry);
  spec.fill = [=, weights = std::move(weights)](const TensorView& native,
                                                std::span<std::byte> packed) {
    kernels::PackIntegerWeights(isa, x, geometry, weights(native), packed.data());
  };
  return spec;
}

Decision TryFuseByteClip(const EpilogueRequest& request) {
  if (request.op != "Clip") return Decision();
  if (!request.stages.empty()) return Decision::Decline("the result is clipped already");
  return Decision::Accept();
}

ByteRange ByteRangeOf(DType y, std::span<const graph::EpilogueStage> epilogue) {
  ByteRange range = y == DType::kInt8 ? ByteRange{-128, 127} : ByteRange{0, 255};
  for (const graph::EpilogueStage& stage : epilogue) {
    const std::optional<kernels::EpilogueStage> clip = StageOf(stage.op, stage.attributes);
    if (!clip || clip->op != kernels::EpilogueOp::kClip) continue;
    const auto bound = [all = range](float value) {
      return static_cast<int32_t>(
          std::clamp(value, static_cast<float>(all.low), static_cast<float>(all.high)));
    };
    // With crossed bounds the upper one wins.
    range.high = bound(clip->beta);
    range.low = std::min(range.high, bound(clip->alpha));
  }
  return range;
}

int32_t ByteAt(const TensorView& view, int64_t i) {
  return view.dtype() == DType::kInt8 ? view.data<int8_t>()[i] : view.data<uint8_t>()[i];
}

}  // namespace tandem::ops
