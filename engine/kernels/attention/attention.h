// Scaled dot-product attention in float32:
//
//   Y = softmax(cap(scale * Q K^T) + mask) V            cap(s) = softcap * tanh(s / softcap)
//
// for each item and query head; groups of query heads share a head of K and V. A block of queries
// is computed at a time, so that scores take memory for a block and not for all queries. A query
// that sees no key at all answers zeros. Each element is summed in a fixed order, whatever the
// batch, the number of queries or threads. Functions cannot fail and, but for the reference, never
// allocate. Source: Vaswani et al., Attention Is All You Need, 2017; ONNX operator Attention.
#pragma once

#include <array>
#include <cstdint>

#include "engine/base/parallel.h"
#include "engine/base/precision.h"

namespace tandem::kernels {

struct AttentionShape {
  int64_t batch = 1;
  int64_t q_heads = 1;
  int64_t kv_heads = 1;  // divides q_heads
  int64_t queries = 1;
  int64_t keys = 1;
  int64_t head_size = 1;    // of Q and K
  int64_t v_head_size = 1;  // of V and Y
};

// Matrices [rows, head size] by item and head; the elements of a row are neighbours.
template <typename T>
struct Heads {
  T* data = nullptr;
  int64_t item_step = 0;
  int64_t head_step = 0;
  int64_t row_step = 0;

  T* At(int64_t item, int64_t head) const { return data + item * item_step + head * head_step; }
};

// What is added to the scores; steps over item, head, query and key are 0 where it broadcasts.
struct AttentionMask {
  const float* added = nullptr;  // one of the two, or neither
  const bool* kept = nullptr;    // false: the key is not seen
  std::array<int64_t, 4> steps = {};
  int64_t keys = 0;  // keys beyond are not seen
};

// Scores [item, head, query, key] that are wanted, too, and what of them.
enum class ScoreStage : uint8_t { kScaled, kCapped, kMasked, kSoftmax };

struct AttentionProblem {
  AttentionShape shape;
  Heads<const float> q;
  Heads<const float> k;
  Heads<const float> v;
  Heads<float> y;
  float scale = 1;
  float softcap = 0;  // 0: none
  AttentionMask mask;
  bool causal = false;  // query i sees keys up to i + causal_offset
  int64_t causal_offset = 0;
  // By item: how many keys there are, and the causal offset is that less the number of queries;
  // null: all.
  const int64_t* lengths = nullptr;
  float* scores = nullptr;  // null: not wanted
  ScoreStage stage = ScoreStage::kScaled;
};

// Floats of scratch, for as many threads.
int64_t AttentionScratchFloats(Arithmetic arithmetic, const AttentionShape& shape, int threads);

// `scratch` is aligned to kBufferAlignment. Isa::kReference takes plain loops and no scratch.
void Attention(Arithmetic arithmetic, const AttentionProblem& problem, float* scratch,
               const Parallel& parallel);

// The parts that both versions share.

// Caps and masks the scores of one query, which are scaled; false when it sees no key.
bool FinishScores(const AttentionProblem& problem, int64_t item, int64_t head, int64_t query,
                  float* scores);
// Where the scores of a query are wanted at `stage`, copies them.
void KeepScores(const AttentionProblem& problem, ScoreStage stage, int64_t item, int64_t head,
                int64_t query, const float* scores);

void AttentionReference(const AttentionProblem& problem);

}  // namespace tandem::kernels
