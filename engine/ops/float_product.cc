// Products of float32: packed, with an epilogue, a prologue and a reduction of the rows.
#include <array>
#include <bit>

#include "engine/kernels/gemm/gemm.h"
#include "engine/kernels/gemm/tile.h"
#include "engine/kernels/move/permute.h"
#include "engine/ops/epilogue.h"
#include "engine/ops/matrix_product.h"
#include "engine/ops/prologue.h"
#include "engine/ops/quantised_weight.h"
#include "engine/ops/reduce.h"

namespace tandem::ops {
namespace {

constexpr int kA = 0;
constexpr int kB = 1;

kernels::MatrixView ViewOfB(const ProductOptions& options, const ProductExtents& extents,
                            const float* data) {
  if (options.trans_b) return {data, 1, extents.k};
  return {data, extents.n, 1};
}

// Matrix `index` of a constant B that is a view.
kernels::MatrixView ViewOfB(const ProductOptions& options, const ProductExtents& extents,
                            const StridedTensor& b, int64_t index) {
  const float* data = b.held.data<float>();
  if (extents.vector_b) return {data, b.strides[0], 0};
  const size_t rank = b.strides.size();
  for (size_t axis = rank - 2; axis-- > 0;) {
    const int64_t extent = b.shape[static_cast<int>(axis)];
    data += index % extent * b.strides[axis];
    index /= extent;
  }
  const int64_t rows = b.strides[rank - 2];
  const int64_t columns = b.strides[rank - 1];
  return options.trans_b ? kernels::MatrixView{data, columns, rows}
                         : kernels::MatrixView{data, rows, columns};
}

// What is the same in every float32 product of a step.
struct FloatStep {
  ProductOptions options;
  Arithmetic arithmetic;
  BoundStages stages;  // C first, if there is one
  BoundPrologue prologue;
  std::optional<kernels::ReduceOp> reduction;  // of the rows
  PackRef pack;                                // null: packed in each run, or not at all
  std::shared_ptr<const Quantised> quantised;  // of packed B in bytes
  std::optional<Shape> b_shape;                // of packed B
};

// The extents of products with a constant B. Any A that fits does: only B's side is looked at.
ProductExtents ExtentsOfB(const ProductOptions& options, const Shape& b) {
  const int rank = b.rank();
  const int64_t k = rank == 1 ? b[0] : b[options.trans_b ? rank - 1 : rank - 2];
  return ResolveProduct(options, options.trans_a ? Shape{k, 1} : Shape{1, k}, b);
}

// Consecutive parts of the scratch memory of one run, in floats.
struct Parts {
  int64_t a = 0;        // transposed, or behind the prologue of the reference kernel
  int64_t product = 0;  // whole, where the reference kernel is to reduce it
  int64_t packed = 0;
  int64_t strips = 0;                        // of products that are reduced as they are made
  absl::InlinedVector<int64_t, 4> operands;  // by stage; floats at the offset, if it needs any
  int64_t floats = 0;

  int64_t Take(int64_t count) {
    const int64_t at = floats;
    floats +=
        static_cast<int64_t>(AlignUp(static_cast<size_t>(count) * sizeof(float)) / sizeof(float));
    return at;
  }
};

// How one operand is brought to the kernel.
struct OperandPlan {
  kernels::OperandKind kind = kernels::OperandKind::kNone;
  bool expand = false;  // to the result's extents
  float scale = 1;
  int64_t scratch = 0;  // floats
};

// The data of one run.
struct Data {
  kernels::GemmProblem problem;  // of the first product
  const float* a = nullptr;
  const float* b = nullptr;  // packed, or as it is for the reference kernel
};

class ProductStep final : public Step {
 public:
  explicit ProductStep(FloatStep step) : step_(std::move(step)) {}

  std::string kernel() const override {
    if (is_reference()) return "gemm.f32 reference";
    const std::string isa(IsaName(step_.arithmetic.isa));
    if (step_.pack == nullptr) return fmt::format("gemm.f32 {} packing at run time", isa);
    const ProductExtents extents = ExtentsOfB(step_.options, *step_.b_shape);
    const std::string_view name =
        kernels::TileKernelFor(step_.arithmetic, extents.k, extents.n).name;
    return fmt::format("gemm.f32 {}{}{}", isa, name.empty() ? "" : " ", name);
  }

  size_t ScratchBytes(const StepShapes& shapes) const override {
    const Shape& b = step_.b_shape ? *step_.b_shape : shapes.inputs[kB];
    const ProductExtents extents = ResolveProduct(step_.options, shapes.inputs[kA], b);
    Parts parts = MatrixParts(extents, shapes.threads);
    const Shape result = ResultOf(extents, shapes.outputs[0]);
    for (size_t i = 0; i < step_.stages.size(); ++i) {
      if (step_.stages[i].port < 0) continue;
      const Shape& operand = shapes.inputs[static_cast<size_t>(step_.stages[i].port)];
      parts.Take(PlanOperand(i, operand, result, extents).scratch);
    }
    return static_cast<size_t>(parts.floats) * sizeof(float);
  }

  Status Run(StepContext& context) const override;

 private:
  bool is_reference() const { return step_.arithmetic.isa == Isa::kReference; }
  Parts MatrixParts(const ProductExtents& extents, int threads) const {
    Parts parts;
    if (step_.options.trans_a) parts.a = parts.Take(extents.m * extents.k);
    if (is_reference() && !step_.prologue.empty()) {
      parts.a = parts.Take(extents.a_batch.elements() * extents.m * extents.k);
    }
    if (step_.reduction && is_reference()) {
      parts.product = parts.Take(extents.batch.elements() * extents.m * extents.n);
    } else if (step_.reduction) {
      parts.strips = parts.Take(
          kernels::ReducedGemmScratchFloats(step_.arithmetic, Reduced(extents, {}), threads));
    }
    if (step_.pack == nullptr && step_.arithmetic.isa != Isa::kReference) {
      parts.packed = parts.Take(extents.b_batch.elements() * PackedFloats(extents));
    }
    return parts;
  }
  int64_t PackedFloats(const ProductExtents& extents) const {
    return kernels::PackedFloats(step_.arithmetic, extents.k, extents.n);
  }
  // The extents that stages see: of the product, before its rows are reduced.
  Shape ResultOf(const ProductExtents& extents, const Shape& output) const {
    if (!step_.reduction) return output;
    Shape result = extents.batch;
    result.Append(extents.m);
    result.Append(extents.n);
    return result;
  }
  // The product without its data.
  kernels::ReducedGemm Reduced(const ProductExtents& extents,
                               const kernels::GemmProblem& problem) const;
  OperandPlan PlanOperand(size_t stage, const Shape& operand, const Shape& result,
                          const ProductExtents& extents) const;
  RunStages Stages(StepContext& context, const ProductExtents& extents, Parts& parts) const;
  const float* PackedB(StepContext& context, const ProductExtents& extents, float* scratch) const;
  const float* PreparedA(StepContext& context, const ProductExtents& extents,
                         const kernels::Prologue& prologue, float* scratch) const;
  void RunProducts(const Data& data, const ProductExtents& extents, const Parallel& parallel) const;
  void RunReduced(const Data& data, const ProductExtents& extents, float* scratch,
                  const Parallel& parallel) const;

  void ReduceReference(const ProductExtents& extents, const float* product, float* y) const;

  FloatStep step_;
};

OperandPlan ProductStep::PlanOperand(size_t stage, const Shape& operand, const Shape& result,
                                     const ProductExtents& extents) const {
  OperandPlan plan;
  const bool is_c = step_.options.c_port >= 0 && stage == 0;
  plan.scale = is_c ? step_.options.beta : 1.0f;
  plan.kind = OperandKindOf(operand, result, ColumnAxis::kLast);
  // The result of a vector B has rows only.
  if (extents.vector_b && plan.kind == kernels::OperandKind::kColumn) {
    plan.kind = kernels::OperandKind::kFull;
  }
  plan.expand = plan.kind == kernels::OperandKind::kFull && operand != result;
  if (plan.expand) {
    plan.scratch = result.elements();
  } else if (plan.scale != 1) {
    plan.scratch = operand.elements();
  }
  return plan;
}

RunStages ProductStep::Stages(StepContext& context, const ProductExtents& extents,
                              Parts& parts) const {
  RunStages run;
  const Shape result = ResultOf(extents, context.output(0).shape());
  auto* scratch = reinterpret_cast<float*>(context.scratch().data());
  for (size_t i = 0; i < step_.stages.size(); ++i) {
    kernels::EpilogueStage stage = step_.stages[i].stage;
    if (step_.stages[i].port < 0) {
      run.Add(stage, {});
      continue;
    }
    const TensorView& operand = context.input(step_.stages[i].port);
    const OperandPlan plan = PlanOperand(i, operand.shape(), result, extents);
    stage.kind = plan.kind;
    const float* data = operand.data<float>();
    const int64_t at = parts.Take(plan.scratch);
    if (plan.scratch > 0) {
      ExpandOperand(operand, plan.expand ? result : operand.shape(), plan.scale, scratch + at);
      data = scratch + at;
    }
    run.Add(stage, {data, extents.n});
  }
  return run;
}

const float* ProductStep::PackedB(StepContext& context, const ProductExtents& extents,
                                  float* scratch) const {
  if (step_.pack != nullptr) return reinterpret_cast<const float*>(step_.pack->buffer.data());
  const float* b = context.input(kB).data<float>();
  const int64_t grain = GrainOf(kGrainElements, extents.k * extents.n);
  context.parallel().For(extents.b_batch.elements(), grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const kernels::PackSource source{
          extents.k, extents.n, ViewOfB(step_.options, extents, b + i * extents.k * extents.n),
          step_.options.alpha};
      kernels::PackB(step_.arithmetic, source, scratch + i * PackedFloats(extents),
                     context.parallel());
    }
  });
  return scratch;
}

// A in rows of k neighbours, with what the kernel does not do to it itself.
const float* ProductStep::PreparedA(StepContext& context, const ProductExtents& extents,
                                    const kernels::Prologue& prologue, float* scratch) const {
  const float* a = context.input(kA).data<float>();
  if (step_.options.trans_a) {
    kernels::ConvertLayout({.channels = extents.k, .spatial = extents.m}, a, scratch,
                           context.parallel());
    return scratch;
  }
  if (!is_reference() || prologue.stages.empty()) return a;
  for (int64_t row = 0; row < extents.a_batch.elements() * extents.m; ++row) {
    kernels::ApplyPrologue(prologue, {a + row * extents.k, 0, extents.k},
                           scratch + row * extents.k);
  }
  return scratch;
}

void ProductStep::RunProducts(const Data& data, const ProductExtents& extents,
                              const Parallel& parallel) const {
  // One B for all: the batch of A is a longer matrix.
  const bool one_b = extents.b_batch.elements() == 1;
  const int64_t products = one_b ? 1 : extents.batch.elements();
  const int64_t rows = one_b ? extents.batch.elements() * extents.m : extents.m;
  const int64_t grain = GrainOf(kGrainMultiplyAdds, rows * extents.n * extents.k);
  parallel.For(products, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t a_index = one_b ? 0 : BatchIndex(extents.a_batch, extents.batch, i);
      const int64_t b_index = one_b ? 0 : BatchIndex(extents.b_batch, extents.batch, i);
      kernels::GemmProblem problem = data.problem;
      problem.m = rows;
      problem.a = data.a + a_index * extents.m * extents.k;
      problem.c += i * rows * extents.n;
      problem.row = i * rows;
      if (is_reference()) {
        kernels::GemmReference(
            problem, ViewOfB(step_.options, extents, data.b + b_index * extents.k * extents.n),
            step_.options.alpha);
      } else {
        kernels::Gemm(step_.arithmetic, problem, data.b + b_index * PackedFloats(extents),
                      parallel);
      }
    }
  });
}

kernels::ReducedGemm ProductStep::Reduced(const ProductExtents& extents,
                                          const kernels::GemmProblem& problem) const {
  kernels::ReducedGemm product;
  product.items = extents.batch.elements();
  product.joined = extents.b_batch.elements() == 1 ? product.items : 1;
  product.problem = problem;
  product.problem.m = extents.m;
  product.problem.n = extents.n;
  product.problem.k = extents.k;
  product.op = *step_.reduction;
  return product;
}

void ProductStep::RunReduced(const Data& data, const ProductExtents& extents, float* scratch,
                             const Parallel& parallel) const {
  const auto operands = [&](int64_t item) -> kernels::ReducedGemm::Operands {
    const int64_t a_index = BatchIndex(extents.a_batch, extents.batch, item);
    const int64_t b_index = BatchIndex(extents.b_batch, extents.batch, item);
    return {data.a + a_index * extents.m * extents.k, data.b + b_index * PackedFloats(extents)};
  };
  kernels::ReduceGemm(step_.arithmetic, Reduced(extents, data.problem), operands, scratch,
                      parallel);
}

Status ProductStep::Run(StepContext& context) const {
  const Shape& b = step_.b_shape ? *step_.b_shape : context.input(kB).shape();
  const ProductExtents extents = ResolveProduct(step_.options, context.input(kA).shape(), b);
  Parts parts = MatrixParts(extents, context.parallel().threads());
  const RunStages stages = Stages(context, extents, parts);
  const kernels::Prologue prologue = RunPrologue(step_.prologue, context);
  auto* scratch = reinterpret_cast<float*>(context.scratch().data());
  float* y = context.output(0).mutable_data<float>();
  Data data;
  data.problem = {extents.m, extents.n,      extents.k,
                  nullptr,   extents.k,      y,
                  extents.n, &stages.stages, stages.operands.data()};
  data.a = PreparedA(context, extents, prologue, scratch + parts.a);
  if (is_reference()) {
    data.b = context.input(kB).data<float>();
    if (step_.reduction) data.problem.c = scratch + parts.product;
    RunProducts(data, extents, context.parallel());
    if (step_.reduction) ReduceReference(extents, scratch + parts.product, y);
    return absl::OkStatus();
  }
  data.b = PackedB(context, extents, scratch + parts.packed);
  if (!prologue.stages.empty()) data.problem.prologue = &prologue;
  if (step_.reduction) {
    RunReduced(data, extents, scratch + parts.strips, context.parallel());
  } else {
    RunProducts(data, extents, context.parallel());
  }
  return absl::OkStatus();
}

void ProductStep::ReduceReference(const ProductExtents& extents, const float* product,
                                  float* y) const {
  const std::array<int64_t, 3> shape = {extents.batch.elements(), extents.m, extents.n};
  kernels::RunReduce(kernels::FindReduceReference(*step_.reduction, DType::kFloat),
                     kernels::MakeReducePlan(shape, {false, true, false}), product, y,
                     SequentialParallel());
}

PackSpec SpecOf(const FloatStep& step, const Shape& b) {
  const ProductExtents extents = ExtentsOfB(step.options, b);
  const int64_t floats = kernels::PackedFloats(step.arithmetic, extents.k, extents.n);
  PackSpec spec;
  spec.kernel = "gemm.f32";
  spec.parameters =
      fmt::format("{} trans={} alpha={:08x} vector={}",
                  kernels::PackFormat(step.arithmetic, extents.k, extents.n), step.options.trans_b,
                  std::bit_cast<uint32_t>(step.options.alpha), extents.vector_b);
  spec.bytes = static_cast<size_t>(extents.b_batch.elements() * floats) * sizeof(float);
  spec.of_integers = step.quantised != nullptr;
  // view_of(i) is matrix i of B.
  const auto pack = [extents, floats, options = step.options, arithmetic = step.arithmetic,
                     quantised = step.quantised](const auto& view_of, std::span<std::byte> packed) {
    auto* out = reinterpret_cast<float*>(packed.data());
    for (int64_t i = 0; i < extents.b_batch.elements(); ++i) {
      const kernels::PackSource source{extents.k, extents.n, view_of(i), options.alpha,
                                       ScalesOf(quantised.get())};
      kernels::PackB(arithmetic, source, out + i * floats, SequentialParallel());
    }
  };
  spec.fill = [extents, pack, options = step.options](const TensorView& native,
                                                      std::span<std::byte> packed) {
    const auto view_of = [&](int64_t i) {
      return ViewOfB(options, extents, native.data<float>() + i * extents.k * extents.n);
    };
    pack(view_of, packed);
  };
  spec.fill_strided = [extents, pack, options = step.options](const StridedTensor& view,
                                                              std::span<std::byte> packed) {
    pack([&](int64_t i) { return ViewOfB(options, extents, view, i); }, packed);
  };
  return spec;
}

// The axis of B that holds the columns of the product.
int ColumnAxisOfB(const ProductOptions& options, const Shape& b) {
  if (b.rank() == 1) return -1;
  return options.trans_b ? b.rank() - 2 : b.rank() - 1;
}

}  // namespace

StatusOr<std::unique_ptr<Step>> BindFloatProduct(const ProductOptions& options,
                                                 BindContext& context) {
  FloatStep step;
  step.options = options;
  step.arithmetic = context.arithmetic();
  if (options.c_port >= 0) {
    step.stages.push_back({{kernels::EpilogueOp::kAdd}, options.c_port});
  }
  ASSIGN_OR_RETURN(const BoundStages fused, BindStages(context.node()));
  step.stages.insert(step.stages.end(), fused.begin(), fused.end());
  ASSIGN_OR_RETURN(step.prologue, BindPrologue(context.node(), step.arithmetic.isa));
  step.reduction = RowReductionOf(context.node());
  const graph::ConstantRef b = context.constant(kB);
  if (b != nullptr && step.arithmetic.isa != Isa::kReference) {
    step.b_shape = b->shape();
    step.quantised = QuantisedAlong(*b, ColumnAxisOfB(options, *step.b_shape));
    if (step.quantised != nullptr) step.arithmetic.weights = Weights::kBytes;
    ASSIGN_OR_RETURN(step.pack, context.MakePack(kB, SpecOf(step, *step.b_shape)));
  }
  return std::make_unique<ProductStep>(std::move(step));
}

}  // namespace tandem::ops
