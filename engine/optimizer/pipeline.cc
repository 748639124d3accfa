// The pipeline, in order. Constants come first so that the patterns behind find them; batch
// normalizations are folded, and formulas that exporters write out are recognised, before lowering
// could take them apart; fusion into kernels is last, when nothing else wants to see the nodes.
// Bodies come when all is known of what they read. Quantised weights become views when no pass
// wants the nodes that dequantise them any more.
#include <array>

#include "engine/optimizer/pass.h"

namespace tandem::optimizer {

std::span<const Pass> Pipeline() {
  static constexpr std::array<Pass, 19> kPasses = {{
      {.name = "fold_constants", .run = FoldConstants, .infers = true},
      {.name = "inline_if", .run = InlineIf},
      {.name = "drop_identity", .run = DropIdentity},
      {.name = "drop_noop", .run = DropNoop},
      {.name = "fold_batch_norm", .run = FoldBatchNorm},
      {.name = "fuse_qdq", .run = FuseQdq},
      {.name = "fuse_swish", .run = FuseSwish},
      {.name = "fuse_gelu", .run = FuseGelu},
      {.name = "fuse_layer_norm", .run = FuseLayerNorm},
      {.name = "fuse_rms_norm", .run = FuseRmsNorm},
      {.name = "fuse_group_norm", .run = FuseGroupNorm},
      {.name = "fuse_attention", .run = FuseAttention},
      {.name = "lower", .run = Lower},
      {.name = "fuse_epilogue", .run = FuseEpilogue},
      {.name = "fuse_prologue", .run = FusePrologue},
      {.name = "fuse_depthwise", .run = FuseDepthwise},
      {.name = "fuse_reduction", .run = FuseReduction},
      {.name = "optimize_bodies", .run = OptimizeBodies},
      {.name = "view_quantised", .run = ViewQuantised, .infers = true, .late = true},
  }};
  return kPasses;
}

std::vector<std::string> PassNames() {
  std::vector<std::string> names;
  for (const Pass& pass : Pipeline()) names.emplace_back(pass.name);
  return names;
}

StatusOr<OptimizeReport> Optimize(graph::Graph& graph, graph::ConstantStore& constants,
                                  const OptimizeOptions& options) {
  return RunPasses(Pipeline(), graph, constants, options);
}

}  // namespace tandem::optimizer
