// The versions of ai.onnx that a model may import.
#pragma once

namespace tandem::graph {

// Newest version whose meaning is known.
inline constexpr int kNewestOpset = 28;

}  // namespace tandem::graph
