#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/kernels/attention/attention.h"

namespace tandem::kernels {
namespace {

void AnswerQuery(const AttentionProblem& problem, int64_t item, int64_t head, int64_t query,
                 std::vector<float>& scores) {
  const AttentionShape& shape = problem.shape;
  const int64_t kv_head = head / (shape.q_heads / shape.kv_heads);
  const float* q = problem.q.At(item, head) + query * problem.q.row_step;
  for (int64_t key = 0; key < shape.keys; ++key) {
    const float* k = problem.k.At(item, kv_head) + key * problem.k.row_step;
    double sum = 0;
    for (int64_t i = 0; i < shape.head_size; ++i) sum += double{q[i]} * k[i];
    scores[static_cast<size_t>(key)] = static_cast<float>(sum * problem.scale);
  }
  const bool sees = FinishScores(problem, item, head, query, scores.data());
  const float max = sees ? *std::ranges::max_element(scores) : 0;
  double total = 0;
  for (float& score : scores) {
    score = sees ? std::exp(score - max) : 0;
    total += score;
  }
  for (float& score : scores) score = sees ? static_cast<float>(score / total) : 0;
  KeepScores(problem, ScoreStage::kSoftmax, item, head, query, scores.data());
  float* y = problem.y.At(item, head) + query * problem.y.row_step;
  for (int64_t i = 0; i < shape.v_head_size; ++i) {
    double sum = 0;
    for (int64_t key = 0; key < shape.keys; ++key) {
      const float* v = problem.v.At(item, kv_head) + key * problem.v.row_step;
      sum += double{scores[static_cast<size_t>(key)]} * v[i];
    }
    y[i] = static_cast<float>(sum);
  }
}

}  // namespace

void AttentionReference(const AttentionProblem& problem) {
  std::vector<float> scores(static_cast<size_t>(problem.shape.keys));
  for (int64_t item = 0; item < problem.shape.batch; ++item) {
    for (int64_t head = 0; head < problem.shape.q_heads; ++head) {
      for (int64_t query = 0; query < problem.shape.queries; ++query) {
        AnswerQuery(problem, item, head, query, scores);
      }
    }
  }
}

}  // namespace tandem::kernels
