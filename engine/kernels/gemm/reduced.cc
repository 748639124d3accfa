#include <algorithm>

#include "engine/kernels/ceil_div.h"
#include "engine/kernels/gemm/block.h"

namespace tandem::kernels {
namespace {

// How the rows of all items are cut: short items lie in one strip together, long ones are several
// parts. Depends on the shape of an item, on how many share B, and on the kernel only.
struct Strips {
  GemmUnits units;
  int64_t items;  // that lie in one strip
  int64_t parts;  // of an item
  int64_t count;

  Strips(const ReducedGemm& product, const TileKernel& kernel)
      : units(product.problem.m, product.problem.n, product.problem.k, kernel) {
    const int64_t fitting = units.rows / std::max<int64_t>(1, product.problem.m);
    items = std::clamp<int64_t>(fitting, 1, std::max<int64_t>(1, product.joined));
    parts = std::max<int64_t>(1, units.blocks);
    count = CeilDiv(product.items, items) * parts;
  }
};

// Places in the scratch: of each thread a strip of the product and states, and of all items the
// states of their parts, where they have several.
struct ScratchPlan {
  int64_t strip_floats;
  int64_t state_floats;  // of one thread
  int64_t part_floats;   // states of one part of one item
  int64_t parts;         // of all items

  ScratchPlan(const ReducedGemm& product, const Strips& strips) {
    constexpr int64_t kFloatsPerState = sizeof(double) / sizeof(float);
    const int64_t rows = std::min(strips.units.rows, strips.items * product.problem.m);
    const int64_t columns = std::min(strips.units.columns, product.problem.n);
    strip_floats = ColumnStates(rows * columns);
    state_floats = ColumnStates(columns) * kFloatsPerState;
    part_floats = ColumnStates(product.problem.n) * kFloatsPerState;
    parts = strips.parts > 1 ? product.items * strips.parts : 0;
  }

  int64_t Floats(int threads) const {
    return parts * part_floats + threads * (strip_floats + state_floats);
  }
  double* Part(float* scratch, int64_t part) const {
    return reinterpret_cast<double*>(scratch + part * part_floats);
  }
  float* Strip(float* scratch, int64_t thread) const {
    return scratch + parts * part_floats + thread * (strip_floats + state_floats);
  }
  double* States(float* scratch, int64_t thread) const {
    return reinterpret_cast<double*>(Strip(scratch, thread) + strip_floats);
  }
};

class Run {
 public:
  Run(Arithmetic arithmetic, const ReducedGemm& product,
      absl::FunctionRef<ReducedGemm::Operands(int64_t)> operands, float* scratch)
      : product_(product),
        operands_(operands),
        scratch_(scratch),
        kernel_(TileKernelFor(arithmetic, product.problem.k, product.problem.n)),
        strips_(product, kernel_),
        plan_(product, strips_),
        reduction_(FindColumnReduction(product.op, arithmetic.isa)) {}

  int64_t units() const { return strips_.count * strips_.units.groups; }
  int64_t groups() const { return strips_.units.groups; }
  int64_t parts() const { return strips_.parts; }  // of an item
  bool has_parts() const { return plan_.parts > 0; }

  // A strip times a group of columns.
  void RunUnit(int64_t unit, int64_t thread) const {
    const GemmProblem& shape = product_.problem;
    const int64_t strip = unit / groups();
    const int64_t first = strip / strips_.parts * strips_.items;
    const int64_t items = std::min(strips_.items, product_.items - first);
    const ReducedGemm::Operands operands = operands_(first);
    GemmProblem problem = shape;
    problem.a = operands.a;
    problem.row += first * shape.m;
    GemmBlock block = Columns(unit % groups());
    block.row = strip % strips_.parts * strips_.units.rows;
    block.rows = std::min(strips_.units.rows, items * shape.m - block.row);
    block.c = plan_.Strip(scratch_, thread);
    block.c_row_stride = block.columns;
    RunBlock(problem, operands.packed_b, kernel_, block);
    if (has_parts()) {
      const int64_t part = first * strips_.parts + strip % strips_.parts;
      Reduce(block, {0, block.rows}, plan_.Part(scratch_, part) + block.column);
      return;
    }
    double* states = plan_.States(scratch_, thread);
    for (int64_t item = 0; item < items; ++item) {
      Reduce(block, {item * shape.m, (item + 1) * shape.m}, states);
      Finish(states, first + item, block);
    }
  }

  // The parts of an item, one after the other, in a group of columns.
  void Join(int64_t item, int64_t group) const {
    const GemmBlock block = Columns(group);
    double* states = plan_.Part(scratch_, item * strips_.parts) + block.column;
    for (int64_t part = 1; part < strips_.parts; ++part) {
      reduction_.merge(states, plan_.Part(scratch_, item * strips_.parts + part) + block.column,
                       block.columns);
    }
    Finish(states, item, block);
  }

 private:
  struct Rows {
    int64_t begin;
    int64_t end;
  };

  GemmBlock Columns(int64_t group) const {
    GemmBlock block;
    block.column = group * strips_.units.columns;
    block.columns = std::min(product_.problem.n - block.column, strips_.units.columns);
    return block;
  }

  void Reduce(const GemmBlock& block, const Rows& rows, double* states) const {
    reduction_.start(states, block.columns);
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      reduction_.add(states, block.c + row * block.c_row_stride, block.columns);
    }
  }

  void Finish(const double* states, int64_t item, const GemmBlock& block) const {
    const GemmProblem& shape = product_.problem;
    reduction_.finish(states, shape.m, block.columns,
                      shape.c + item * shape.c_row_stride + block.column);
  }

  const ReducedGemm& product_;
  absl::FunctionRef<ReducedGemm::Operands(int64_t)> operands_;
  float* scratch_;
  TileKernel kernel_;
  Strips strips_;
  ScratchPlan plan_;
  ColumnReduction reduction_;
};

}  // namespace

bool HasRowReduction(ReduceOp op) { return op != ReduceOp::kProd && op != ReduceOp::kLogSumExp; }

int64_t ReducedGemmScratchFloats(Arithmetic arithmetic, const ReducedGemm& product, int threads) {
  const TileKernel kernel = TileKernelFor(arithmetic, product.problem.k, product.problem.n);
  return ScratchPlan(product, Strips(product, kernel)).Floats(threads);
}

void ReduceGemm(Arithmetic arithmetic, const ReducedGemm& product,
                absl::FunctionRef<ReducedGemm::Operands(int64_t item)> operands, float* scratch,
                const Parallel& parallel) {
  const GemmProblem& shape = product.problem;
  if (product.items == 0 || shape.n == 0) return;
  const Run run(arithmetic, product, operands, scratch);
  const int64_t work = product.items * shape.m * shape.n * std::max<int64_t>(1, shape.k);
  // Every thread has a strip of its own: it takes every so many units.
  const int64_t threads =
      parallel.Shares(run.units(), GrainOf(kGrainMultiplyAdds, work / run.units()));
  parallel.For(threads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t thread = begin; thread < end; ++thread) {
      for (int64_t unit = thread; unit < run.units(); unit += threads) run.RunUnit(unit, thread);
    }
  });
  if (!run.has_parts()) return;
  const int64_t grain = GrainOf(kGrainElements, run.parts() * shape.n / run.groups());
  parallel.For(product.items * run.groups(), grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) run.Join(i / run.groups(), i % run.groups());
  });
}

}  // namespace tandem::kernels
