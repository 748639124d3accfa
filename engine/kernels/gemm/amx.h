// Products of float32 on Intel AMX, which multiplies bfloat16 and adds in float32. A number is the
// sum of bfloat16 parts, each the rest of those before it rounded to nearest: x = x1 + x2 + x3. Of
// the products of parts, these are added up:
//
//   kBf16       a1 b1                                           operands rounded to bfloat16
//   kF32        a2 b1 + a1 b1 + a1 b2                           what is left out: 2^-17 of a b
//   kF32Strict  a3 b1 + a2 b1 + a1 b1 + a1 b2 + a2 b2 + a1 b3   what is left out: 2^-25 of a b
//
// Largest errors over outputs of K = 27 to 4608, as a share of the largest output, are in
// docs/adr/0015-bfloat16-products.md and tested: kF32 stays within 1e-5, kF32Strict is no worse
// than float32 multiply-adds. Every sum is made of steps of 32 neighbours in k, step by step, in
// the order above, and cut in pieces that depend on k only.
//
// Numbers that are not finite, huge or near to the smallest do not survive this. A row of A that
// holds one in a piece of k (out of the range in amx_parts.h) is multiplied in float32 there, by B
// put together from its parts; a panel of B that holds one is packed as for the plain kernel and
// multiplied there, with kBf16 put together likewise. Which it is depends on the row and the panel
// alone, so the neighbours in a batch change nothing.
//
// Source: Henry, Tang, Heinecke, Leveraging the bfloat16 Artificial Intelligence Datatype For
// Higher-Precision Computations, 2019. Intel Architecture Instruction Set Extensions, chapter AMX.
#pragma once

#include <cstdint>

#include "engine/kernels/gemm/tile.h"

namespace tandem::kernels {

// Whether k x n matrices B are worth it.
bool IsWorthAmx(int64_t k, int64_t n);

// The kernel for kF32, kF32Strict or kBf16, on CPUs of Isa::kAmx.
TileKernel AmxTileKernel(Precision precision);

}  // namespace tandem::kernels
