#include "engine/kernels/elementwise/batch_norm.h"

#include "engine/kernels/compute_type.h"

namespace tandem::kernels {
namespace {

template <typename T>
void Row(const RowArgs& args, const RowParams&) {
  using A = ComputeType<T>;
  const T* x = static_cast<const T*>(args.operands[0]);
  const A* mean = static_cast<const A*>(args.operands[1]);
  const A* factor = static_cast<const A*>(args.operands[2]);
  const A* shift = static_cast<const A*>(args.operands[3]);
  T* y = static_cast<T*>(args.output);
  for (int64_t i = 0; i < args.n; ++i) {
    const A centred = ToCompute(x[i * args.steps[0]]) - mean[i * args.steps[1]];
    const A value = centred * factor[i * args.steps[2]] + shift[i * args.steps[3]];
    y[i] = FromCompute<T>(value);
  }
}

}  // namespace

RowFunction FindBatchNorm(DType dtype, Isa isa) {
  switch (dtype) {
    case DType::kFloat:
      return isa == Isa::kReference ? Row<float> : FindBatchNormSimd(isa);
    case DType::kDouble:
      return Row<double>;
    case DType::kFloat16:
      return Row<Float16>;
    case DType::kBfloat16:
      return Row<Bfloat16>;
    default:
      return nullptr;
  }
}

}  // namespace tandem::kernels
