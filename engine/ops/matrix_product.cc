#include "engine/ops/matrix_product.h"

#include <bit>
#include <cmath>

#include "engine/kernels/gemm/gemm.h"
#include "engine/kernels/gemm/matrix_reference.h"
#include "engine/kernels/move/permute.h"
#include "engine/ops/epilogue.h"

namespace tandem::ops {
namespace {

constexpr int kA = 0;
constexpr int kB = 1;

// The extent of two that broadcast; InvalidArgument when they never do.
StatusOr<graph::Dim> BroadcastDim(const graph::Dim& a, const graph::Dim& b) {
  if (a.is_number() && a.number() == 1) return b;
  if (b.is_number() && b.number() == 1) return a;
  if (a.SameAs(b)) return a;
  if (a.is_number() && b.is_number()) {
    return InvalidArgument("batch extents {} and {} do not broadcast", a.number(), b.number());
  }
  // One of the two is larger than 1, so the other is that or 1.
  if (a.is_number()) return a;
  if (b.is_number()) return b;
  return graph::Dim();
}

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
  Isa isa = Isa::kReference;
  BoundStages stages;            // C first, if there is one
  PackRef pack;                  // null: packed in each run, or not at all
  std::optional<Shape> b_shape;  // of packed B
};

// Consecutive parts of the scratch memory of one run, in floats.
struct Parts {
  int64_t a = 0;
  int64_t packed = 0;
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

class ProductStep final : public Step {
 public:
  explicit ProductStep(FloatStep step) : step_(std::move(step)) {}

  std::string kernel() const override {
    if (step_.isa == Isa::kReference) return "gemm.f32 reference";
    return fmt::format("gemm.f32 {}{}", IsaName(step_.isa),
                       step_.pack == nullptr ? " packing at run time" : "");
  }

  size_t ScratchBytes(const StepShapes& shapes) const override {
    const Shape& b = step_.b_shape ? *step_.b_shape : shapes.inputs[kB];
    const ProductExtents extents = ResolveProduct(step_.options, shapes.inputs[kA], b);
    Parts parts = MatrixParts(extents);
    for (size_t i = 0; i < step_.stages.size(); ++i) {
      if (step_.stages[i].port < 0) continue;
      const Shape& operand = shapes.inputs[static_cast<size_t>(step_.stages[i].port)];
      parts.Take(PlanOperand(i, operand, shapes.outputs[0], extents).scratch);
    }
    return static_cast<size_t>(parts.floats) * sizeof(float);
  }

  Status Run(StepContext& context) const override;

 private:
  Parts MatrixParts(const ProductExtents& extents) const {
    Parts parts;
    if (step_.options.trans_a) parts.a = parts.Take(extents.m * extents.k);
    if (step_.pack == nullptr && step_.isa != Isa::kReference) {
      parts.packed = parts.Take(extents.b_batch.elements() * PackedFloats(extents));
    }
    return parts;
  }
  int64_t PackedFloats(const ProductExtents& extents) const {
    return kernels::PackedFloats(step_.isa, extents.k, extents.n);
  }
  OperandPlan PlanOperand(size_t stage, const Shape& operand, const Shape& result,
                          const ProductExtents& extents) const;
  RunStages Stages(StepContext& context, const ProductExtents& extents, Parts& parts) const;
  const float* PackedB(StepContext& context, const ProductExtents& extents, float* scratch) const;
  void RunBatch(StepContext& context, const ProductExtents& extents, const RunStages& stages,
                const Parts& parts) const;

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
  const Shape& result = context.output(0).shape();
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
  context.parallel().For(extents.b_batch.elements(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const kernels::PackSource source{
          extents.k, extents.n, ViewOfB(step_.options, extents, b + i * extents.k * extents.n),
          step_.options.alpha};
      kernels::PackB(step_.isa, source, scratch + i * PackedFloats(extents), context.parallel());
    }
  });
  return scratch;
}

void ProductStep::RunBatch(StepContext& context, const ProductExtents& extents,
                           const RunStages& stages, const Parts& parts) const {
  auto* scratch = reinterpret_cast<float*>(context.scratch().data());
  const bool reference = step_.isa == Isa::kReference;
  const float* packed = reference ? nullptr : PackedB(context, extents, scratch + parts.packed);
  const float* native = reference ? context.input(kB).data<float>() : nullptr;
  const float* a = context.input(kA).data<float>();
  if (step_.options.trans_a) {
    kernels::ConvertLayout({.channels = extents.k, .spatial = extents.m}, a, scratch + parts.a,
                           context.parallel());
    a = scratch + parts.a;
  }
  float* c = context.output(0).mutable_data<float>();
  // One B for all: the batch of A is a longer matrix.
  const bool one_b = extents.b_batch.elements() == 1;
  const int64_t products = one_b ? 1 : extents.batch.elements();
  const int64_t rows = one_b ? extents.batch.elements() * extents.m : extents.m;
  context.parallel().For(products, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t a_index = one_b ? 0 : BatchIndex(extents.a_batch, extents.batch, i);
      const int64_t b_index = one_b ? 0 : BatchIndex(extents.b_batch, extents.batch, i);
      RunStages own = stages;
      for (size_t s = 0; s < own.stages.size(); ++s) {
        if (own.stages[s].kind == kernels::OperandKind::kFull) {
          own.operands[s].data += i * rows * extents.n;
        }
      }
      const kernels::GemmProblem problem{rows,
                                         extents.n,
                                         extents.k,
                                         a + a_index * extents.m * extents.k,
                                         extents.k,
                                         c + i * rows * extents.n,
                                         extents.n,
                                         &own.stages,
                                         own.operands.data()};
      if (reference) {
        kernels::GemmReference(
            problem, ViewOfB(step_.options, extents, native + b_index * extents.k * extents.n),
            step_.options.alpha);
      } else {
        kernels::Gemm(step_.isa, problem, packed + b_index * PackedFloats(extents),
                      context.parallel());
      }
    }
  });
}

Status ProductStep::Run(StepContext& context) const {
  const Shape& b = step_.b_shape ? *step_.b_shape : context.input(kB).shape();
  const ProductExtents extents = ResolveProduct(step_.options, context.input(kA).shape(), b);
  Parts parts = MatrixParts(extents);
  const RunStages stages = Stages(context, extents, parts);
  RunBatch(context, extents, stages, parts);
  return absl::OkStatus();
}

// Double and integers, on the reference kernel.
template <typename T>
class PlainProductStep final : public Step {
 public:
  explicit PlainProductStep(ProductOptions options) : options_(options) {}

  std::string kernel() const override {
    return fmt::format("gemm.{} reference", DTypeName(kDTypeOf<T>));
  }

  Status Run(StepContext& context) const override {
    const TensorView& a = context.input(kA);
    const TensorView& b = context.input(kB);
    const ProductExtents e = ResolveProduct(options_, a.shape(), b.shape());
    T* y = context.output(0).mutable_data<T>();
    const T alpha = static_cast<T>(options_.alpha);
    context.parallel().For(e.batch.elements(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T* a_data = a.data<T>() + BatchIndex(e.a_batch, e.batch, i) * e.m * e.k;
        const T* b_data = b.data<T>() + BatchIndex(e.b_batch, e.batch, i) * e.k * e.n;
        const kernels::StridedMatrix<T> left{a_data, options_.trans_a ? 1 : e.k,
                                             options_.trans_a ? e.m : 1};
        const kernels::StridedMatrix<T> right{b_data, options_.trans_b ? 1 : e.n,
                                              options_.trans_b ? e.k : 1};
        kernels::MatrixProductReference<T>({e.m, e.n, e.k}, left, right, alpha, y + i * e.m * e.n);
      }
    });
    if (options_.c_port >= 0) AddC(context.input(options_.c_port), e, y);
    return absl::OkStatus();
  }

 private:
  void AddC(const TensorView& c, const ProductExtents& e, T* y) const {
    using Wide = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>,
                                             std::type_identity<T>>::type;
    const Shape& shape = c.shape();
    const int64_t columns = shape.rank() == 0 ? 1 : shape[shape.rank() - 1];
    const int64_t rows = shape.rank() < 2 ? 1 : shape[0];
    const auto beta = static_cast<Wide>(static_cast<T>(options_.beta));
    for (int64_t i = 0; i < e.m; ++i) {
      for (int64_t j = 0; j < e.n; ++j, ++y) {
        const T addend = c.data<T>()[(rows == 1 ? 0 : i) * columns + (columns == 1 ? 0 : j)];
        *y = static_cast<T>(static_cast<Wide>(*y) + beta * static_cast<Wide>(addend));
      }
    }
  }

  ProductOptions options_;
};

template <typename T>
StatusOr<std::unique_ptr<Step>> BindPlain(const ProductOptions& options) {
  if constexpr (std::is_integral_v<T>) {
    if (options.alpha != std::trunc(options.alpha) || options.beta != std::trunc(options.beta)) {
      return Unimplemented("alpha {} and beta {} on {}: only whole numbers are supported there",
                           options.alpha, options.beta, DTypeName(kDTypeOf<T>));
    }
  }
  return std::make_unique<PlainProductStep<T>>(options);
}

PackSpec SpecOf(const FloatStep& step, const Shape& b) {
  // Any A that fits does: only B's side is looked at.
  const int b_rank = b.rank();
  const int64_t k = b_rank == 1 ? b[0] : b[step.options.trans_b ? b_rank - 1 : b_rank - 2];
  const ProductExtents extents =
      ResolveProduct(step.options, step.options.trans_a ? Shape{k, 1} : Shape{1, k}, b);
  const int64_t floats = kernels::PackedFloats(step.isa, extents.k, extents.n);
  PackSpec spec;
  spec.kernel = "gemm.f32";
  spec.parameters = fmt::format("panel={} trans={} alpha={:08x} vector={}",
                                kernels::PanelColumns(step.isa), step.options.trans_b,
                                std::bit_cast<uint32_t>(step.options.alpha), extents.vector_b);
  spec.bytes = static_cast<size_t>(extents.b_batch.elements() * floats) * sizeof(float);
  spec.fill = [extents, floats, options = step.options, isa = step.isa](
                  const TensorView& native, std::span<std::byte> packed) {
    auto* out = reinterpret_cast<float*>(packed.data());
    for (int64_t i = 0; i < extents.b_batch.elements(); ++i) {
      const float* b_data = native.data<float>() + i * extents.k * extents.n;
      kernels::PackB(isa, {extents.k, extents.n, ViewOfB(options, extents, b_data), options.alpha},
                     out + i * floats, SequentialParallel());
    }
  };
  spec.fill_strided = [extents, floats, options = step.options, isa = step.isa](
                          const StridedTensor& view, std::span<std::byte> packed) {
    auto* out = reinterpret_cast<float*>(packed.data());
    for (int64_t i = 0; i < extents.b_batch.elements(); ++i) {
      kernels::PackB(isa, {extents.k, extents.n, ViewOfB(options, extents, view, i), options.alpha},
                     out + i * floats, SequentialParallel());
    }
  };
  return spec;
}

StatusOr<std::unique_ptr<Step>> BindFloat(const ProductOptions& options, BindContext& context) {
  FloatStep step;
  step.options = options;
  step.isa = context.isa();
  if (options.c_port >= 0) {
    step.stages.push_back({{kernels::EpilogueOp::kAdd}, options.c_port});
  }
  ASSIGN_OR_RETURN(const BoundStages fused, BindStages(context.node()));
  step.stages.insert(step.stages.end(), fused.begin(), fused.end());
  const graph::ConstantRef b = context.constant(kB);
  if (b != nullptr && step.isa != Isa::kReference) {
    step.b_shape = b->shape();
    ASSIGN_OR_RETURN(step.pack, context.MakePack(kB, SpecOf(step, *step.b_shape)));
  }
  return std::make_unique<ProductStep>(std::move(step));
}

}  // namespace

int64_t BatchIndex(const Shape& own, const Shape& result, int64_t index) {
  int64_t at = 0;
  int64_t step = 1;
  const int offset = result.rank() - own.rank();
  for (int axis = result.rank() - 1; axis >= offset; --axis) {
    const int64_t extent = own[axis - offset];
    if (extent != 1) at += index % result[axis] * step;
    step *= extent;
    index /= result[axis];
  }
  return at;
}

StatusOr<graph::DimVector> MatMulDims(const graph::DimVector& a, const graph::DimVector& b) {
  if (a.empty() || b.empty()) {
    return InvalidArgument("{} is a scalar where rank 1 or more is expected",
                           a.empty() ? "A" : "B");
  }
  const graph::Dim& a_inner = a.back();
  const graph::Dim& b_inner = b.size() == 1 ? b.front() : b[b.size() - 2];
  if (a_inner.is_number() && b_inner.is_number() && a_inner.number() != b_inner.number()) {
    return InvalidArgument("A of shape {} has inner extent {} where B of shape {} expects {}",
                           graph::ToString(a), a_inner.number(), graph::ToString(b),
                           b_inner.number());
  }
  const size_t a_batch = a.size() > 2 ? a.size() - 2 : 0;
  const size_t b_batch = b.size() > 2 ? b.size() - 2 : 0;
  const size_t batch = std::max(a_batch, b_batch);
  graph::DimVector out;
  for (size_t i = 0; i < batch; ++i) {
    const graph::Dim left = i + a_batch < batch ? graph::Dim(1) : a[i + a_batch - batch];
    const graph::Dim right = i + b_batch < batch ? graph::Dim(1) : b[i + b_batch - batch];
    ASSIGN_OR_RETURN(const graph::Dim extent, BroadcastDim(left, right));
    out.push_back(extent);
  }
  if (a.size() > 1) out.push_back(a[a.size() - 2]);
  if (b.size() > 1) out.push_back(b.back());
  return out;
}

ProductExtents ResolveProduct(const ProductOptions& options, const Shape& a, const Shape& b) {
  ProductExtents extents;
  extents.vector_b = b.rank() == 1;
  const int64_t a_last = a[a.rank() - 1];
  extents.k = options.trans_a ? a[0] : a_last;
  if (a.rank() > 1) extents.m = options.trans_a ? a_last : a[a.rank() - 2];
  if (!extents.vector_b) extents.n = b[options.trans_b ? 0 : b.rank() - 1];
  if (a.rank() > 2) extents.a_batch = Shape(a.dims().first(static_cast<size_t>(a.rank() - 2)));
  if (b.rank() > 2) extents.b_batch = Shape(b.dims().first(static_cast<size_t>(b.rank() - 2)));
  const std::optional<Shape> batch = BroadcastShapes(extents.a_batch, extents.b_batch);
  CHECK(batch.has_value(), "batches {} and {} were accepted", ToString(extents.a_batch),
        ToString(extents.b_batch));
  extents.batch = *batch;
  return extents;
}

StatusOr<std::unique_ptr<Step>> BindProduct(const ProductOptions& options, BindContext& context) {
  const DType dtype = context.input(kA).dtype;
  switch (dtype) {
    case DType::kFloat:
      return BindFloat(options, context);
    case DType::kDouble:
      return BindPlain<double>(options);
    case DType::kInt32:
      return BindPlain<int32_t>(options);
    case DType::kInt64:
      return BindPlain<int64_t>(options);
    case DType::kUint32:
      return BindPlain<uint32_t>(options);
    case DType::kUint64:
      return BindPlain<uint64_t>(options);
    default:
      return Unimplemented(
          "{} has no kernel for {}; float, double, int32, int64, uint32 and uint64 are supported",
          context.node().op_type, DTypeName(dtype));
  }
}

}  // namespace tandem::ops
