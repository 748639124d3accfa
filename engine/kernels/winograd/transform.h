// The transforms of minimal filtering, of one tile: by the points 0, 1, -1 for F(2 x 2, 3 x 3), by
// 0, 3/4, -3/4, 3/2, -3/2 for F(4 x 4, 3 x 3), and infinity. Around 1 these points keep the error
// of m = 4 at a quarter of that of 0, 1, -1, 2, -2; every factor of inputs and outputs is exact in
// float32.
#pragma once

#include <cstdint>

#include "engine/base/cpu.h"
#include "engine/kernels/epilogue.h"

namespace tandem::kernels {

// Weights of one input channel for some output columns to what the products take.
struct WinogradWeights {
  const float* taps = nullptr;  // `columns` neighbours for each of 9 taps
  int64_t columns = 0;          // whole vectors
  float* to = nullptr;          // `columns` neighbours for each of (m + 2)^2 points
  int64_t point_step = 0;       // from one point to the next
};

// Inputs of a tile to what the products take.
struct WinogradInput {
  const float* const* pixels = nullptr;  // (m + 2)^2 of them, row by row
  int64_t channels = 0;
  float* to = nullptr;     // `channels` neighbours for each of (m + 2)^2 points
  int64_t point_step = 0;  // from one point to the next
};

// What the products give to outputs of a tile.
struct WinogradOutput {
  const float* from = nullptr;  // `columns` neighbours for each of (m + 2)^2 points
  int64_t point_step = 0;
  int64_t columns = 0;
  int rows = 0;    // of the tile that lie in y, 1 to m
  int pixels = 0;  // of such a row, 1 to m
  float* y = nullptr;
  int64_t row_stride = 0;
  int64_t pixel_stride = 0;
  const Epilogue* epilogue = nullptr;  // null: none
  const EpilogueOperand* operands = nullptr;
  int64_t operand_row = 0;       // of the first pixel
  int64_t operand_row_step = 0;  // from one row of the tile to the next
  int64_t operand_column = 0;
};

struct WinogradTransforms {
  void (*weights)(const WinogradWeights& weights) = nullptr;
  void (*in)(const WinogradInput& input) = nullptr;
  // False where sums are huge, above 2^32 in all, or not finite: y is then to be written anew.
  bool (*out)(const WinogradOutput& output) = nullptr;
};

// `m` is 2 or 4.
WinogradTransforms WinogradTransformsFor(Isa isa, int m);

}  // namespace tandem::kernels
