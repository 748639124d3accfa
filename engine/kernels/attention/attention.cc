#include "engine/kernels/attention/attention.h"

#include <algorithm>

#include "engine/kernels/gemm/gemm.h"
#include "engine/kernels/softmax/softmax.h"

namespace tandem::kernels {
namespace {

constexpr int64_t kBlockQueries = 64;
constexpr int64_t kAlignFloats = 16;  // kBufferAlignment

int64_t RoundUp(int64_t floats) {
  return (floats + kAlignFloats - 1) / kAlignFloats * kAlignFloats;
}

// The places of packed keys and values of all heads and of each thread's scores in the scratch.
struct ScratchPlan {
  int64_t k_floats;  // of one head
  int64_t v_floats;
  int64_t score_floats;  // of one thread
  int64_t heads;

  ScratchPlan(Arithmetic arithmetic, const AttentionShape& shape)
      : k_floats(RoundUp(PackedFloats(arithmetic, shape.head_size, shape.keys))),
        v_floats(RoundUp(PackedFloats(arithmetic, shape.keys, shape.v_head_size))),
        score_floats(RoundUp(std::min(kBlockQueries, shape.queries) * shape.keys)),
        heads(shape.batch * shape.kv_heads) {}

  int64_t Floats(int threads) const {
    return heads * (k_floats + v_floats) + threads * score_floats;
  }
  float* Keys(float* scratch, int64_t head) const { return scratch + head * k_floats; }
  float* Values(float* scratch, int64_t head) const {
    return scratch + heads * k_floats + head * v_floats;
  }
  float* Scores(float* scratch, int64_t thread) const {
    return scratch + heads * (k_floats + v_floats) + thread * score_floats;
  }
};

// Everything that stays the same for one problem.
struct Run {
  Arithmetic arithmetic;
  const AttentionProblem& problem;
  ScratchPlan plan;
  float* scratch;
  SoftmaxFunction softmax;
  SequentialParallel alone;  // a unit is one thread's
};

// Packs the keys, transposed and scaled, and the values of one head.
void PackHead(const Run& run, int64_t head) {
  const AttentionShape& shape = run.problem.shape;
  const int64_t item = head / shape.kv_heads;
  const int64_t of_item = head % shape.kv_heads;
  const PackSource keys{shape.head_size,
                        shape.keys,
                        {run.problem.k.At(item, of_item), 1, run.problem.k.row_step},
                        run.problem.scale};
  PackB(run.arithmetic, keys, run.plan.Keys(run.scratch, head), run.alone);
  const PackSource values{
      shape.keys, shape.v_head_size, {run.problem.v.At(item, of_item), run.problem.v.row_step, 1}};
  PackB(run.arithmetic, values, run.plan.Values(run.scratch, head), run.alone);
}

// Scores of `rows` queries from `first` on become their shares of the keys.
void Softmax(const Run& run, int64_t item, int64_t head, int64_t first, int64_t rows,
             float* scores) {
  const int64_t keys = run.problem.shape.keys;
  std::array<bool, kBlockQueries> sees;
  for (int64_t row = 0; row < rows; ++row) {
    sees[static_cast<size_t>(row)] =
        FinishScores(run.problem, item, head, first + row, scores + row * keys);
  }
  const SoftmaxShape shape{rows, keys, 1};
  run.softmax(shape, scores, scores, 0, SoftmaxUnits(shape));
  for (int64_t row = 0; row < rows; ++row) {
    if (!sees[static_cast<size_t>(row)]) std::fill_n(scores + row * keys, keys, 0.0f);
    KeepScores(run.problem, ScoreStage::kSoftmax, item, head, first + row, scores + row * keys);
  }
}

// One block of queries of one head.
void RunUnit(const Run& run, int64_t unit, float* scores) {
  const AttentionShape& shape = run.problem.shape;
  const int64_t blocks = (shape.queries + kBlockQueries - 1) / kBlockQueries;
  const int64_t first = unit % blocks * kBlockQueries;
  const int64_t head = unit / blocks % shape.q_heads;
  const int64_t item = unit / blocks / shape.q_heads;
  const int64_t kv_head = item * shape.kv_heads + head / (shape.q_heads / shape.kv_heads);
  GemmProblem problem;
  problem.m = std::min(kBlockQueries, shape.queries - first);
  problem.n = shape.keys;
  problem.k = shape.head_size;
  problem.a = run.problem.q.At(item, head) + first * run.problem.q.row_step;
  problem.a_row_stride = run.problem.q.row_step;
  problem.c = scores;
  problem.c_row_stride = shape.keys;
  Gemm(run.arithmetic, problem, run.plan.Keys(run.scratch, kv_head), run.alone);
  if (shape.keys > 0) Softmax(run, item, head, first, problem.m, scores);
  problem.n = shape.v_head_size;
  problem.k = shape.keys;
  problem.a = scores;
  problem.a_row_stride = shape.keys;
  problem.c = run.problem.y.At(item, head) + first * run.problem.y.row_step;
  problem.c_row_stride = run.problem.y.row_step;
  Gemm(run.arithmetic, problem, run.plan.Values(run.scratch, kv_head), run.alone);
}

}  // namespace

int64_t AttentionScratchFloats(Arithmetic arithmetic, const AttentionShape& shape, int threads) {
  return arithmetic.isa == Isa::kReference ? 0 : ScratchPlan(arithmetic, shape).Floats(threads);
}

void Attention(Arithmetic arithmetic, const AttentionProblem& problem, float* scratch,
               const Parallel& parallel) {
  if (arithmetic.isa == Isa::kReference) {
    AttentionReference(problem);
    return;
  }
  const AttentionShape& shape = problem.shape;
  const Run run{arithmetic,
                problem,
                ScratchPlan(arithmetic, shape),
                scratch,
                FindSoftmaxSimd(SoftmaxOp::kSoftmax, arithmetic.isa),
                {}};
  const int64_t head_size = shape.head_size + shape.v_head_size;
  parallel.For(run.plan.heads, GrainOf(kGrainElements, shape.keys * head_size),
               [&](int64_t begin, int64_t end) {
                 for (int64_t head = begin; head < end; ++head) PackHead(run, head);
               });
  const int64_t blocks = (shape.queries + kBlockQueries - 1) / kBlockQueries;
  const int64_t units = shape.batch * shape.q_heads * blocks;
  // Every thread has scores of its own: it takes every so many units.
  const int64_t unit_work = std::min(kBlockQueries, shape.queries) * shape.keys *
                            (head_size + kMultiplyAddsOfSlowElement);
  const int64_t threads = parallel.Shares(units, GrainOf(kGrainMultiplyAdds, unit_work));
  parallel.For(threads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t thread = begin; thread < end; ++thread) {
      float* scores = run.plan.Scores(scratch, thread);
      for (int64_t unit = thread; unit < units; unit += threads) RunUnit(run, unit, scores);
    }
  });
}

}  // namespace tandem::kernels
