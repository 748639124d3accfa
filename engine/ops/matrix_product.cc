#include "engine/ops/matrix_product.h"

#include <cmath>

#include "engine/kernels/gemm/matrix_reference.h"

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
    const int64_t grain = GrainOf(kGrainSlowElements, e.m * e.n * e.k);
    context.parallel().For(e.batch.elements(), grain, [&](int64_t begin, int64_t end) {
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
      return BindFloatProduct(options, context);
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
