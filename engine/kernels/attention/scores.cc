#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/kernels/attention/attention.h"

namespace tandem::kernels {
namespace {

constexpr float kUnseen = -std::numeric_limits<float>::infinity();

// The first key that lengths and causality hide from a query.
int64_t SeenKeys(const AttentionProblem& problem, int64_t item, int64_t query) {
  const AttentionShape& shape = problem.shape;
  int64_t end = shape.keys;
  int64_t offset = problem.causal_offset;
  if (problem.lengths != nullptr) {
    end = std::clamp<int64_t>(problem.lengths[item], 0, shape.keys);
    offset = problem.lengths[item] - shape.queries;
  }
  if (problem.causal) end = std::min(end, query + offset + 1);
  return std::max<int64_t>(end, 0);
}

}  // namespace

bool FinishScores(const AttentionProblem& problem, int64_t item, int64_t head, int64_t query,
                  float* scores) {
  const int64_t keys = problem.shape.keys;
  KeepScores(problem, ScoreStage::kScaled, item, head, query, scores);
  if (problem.softcap > 0) {
    for (int64_t key = 0; key < keys; ++key) {
      scores[key] = problem.softcap * std::tanh(scores[key] / problem.softcap);
    }
  }
  KeepScores(problem, ScoreStage::kCapped, item, head, query, scores);
  const AttentionMask& mask = problem.mask;
  const int64_t at = item * mask.steps[0] + head * mask.steps[1] + query * mask.steps[2];
  int64_t seen = SeenKeys(problem, item, query);
  if (mask.added != nullptr || mask.kept != nullptr) seen = std::min(seen, mask.keys);
  for (int64_t key = 0; mask.added != nullptr && key < seen; ++key) {
    scores[key] += mask.added[at + key * mask.steps[3]];
  }
  for (int64_t key = 0; mask.kept != nullptr && key < seen; ++key) {
    if (!mask.kept[at + key * mask.steps[3]]) scores[key] = kUnseen;
  }
  std::fill(scores + seen, scores + keys, kUnseen);
  KeepScores(problem, ScoreStage::kMasked, item, head, query, scores);
  return std::any_of(scores, scores + seen, [](float score) { return score != kUnseen; });
}

void KeepScores(const AttentionProblem& problem, ScoreStage stage, int64_t item, int64_t head,
                int64_t query, const float* scores) {
  if (problem.scores == nullptr || problem.stage != stage) return;
  const AttentionShape& shape = problem.shape;
  const int64_t row = (item * shape.q_heads + head) * shape.queries + query;
  std::copy_n(scores, shape.keys, problem.scores + row * shape.keys);
}

}  // namespace tandem::kernels
