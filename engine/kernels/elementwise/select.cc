// Where, Clip and the variadic operators.
#include <limits>
#include <string>

#include "engine/kernels/elementwise/binary.h"
#include "engine/kernels/elementwise/integer.h"

namespace tandem::kernels {
namespace {

template <typename T>
void WhereRow(const RowArgs& args, const RowParams&) {
  const bool* condition = static_cast<const bool*>(args.operands[0]);
  const T* a = static_cast<const T*>(args.operands[1]);
  const T* b = static_cast<const T*>(args.operands[2]);
  T* y = static_cast<T*>(args.output);
  for (int64_t i = 0; i < args.n; ++i) {
    y[i] = condition[i * args.steps[0]] ? a[i * args.steps[1]] : b[i * args.steps[2]];
  }
}

template <typename T>
void ClipRow(const RowArgs& args, const RowParams&) {
  const T* x = static_cast<const T*>(args.operands[0]);
  const T* low = static_cast<const T*>(args.operands[1]);
  const T* high = static_cast<const T*>(args.operands[2]);
  T* y = static_cast<T*>(args.output);
  for (int64_t i = 0; i < args.n; ++i) {
    T value = x[i * args.steps[0]];
    if (value < low[i * args.steps[1]]) value = low[i * args.steps[1]];
    if (value > high[i * args.steps[2]]) value = high[i * args.steps[2]];
    y[i] = value;
  }
}

RowFunction FindClipReference(DType dtype) {
  switch (dtype) {
    case DType::kFloat:
      return ClipRow<float>;
    case DType::kDouble:
      return ClipRow<double>;
    case DType::kFloat16:
      return ThroughFloat<ClipRow<float>, Float16>;
    case DType::kBfloat16:
      return ThroughFloat<ClipRow<float>, Bfloat16>;
    case DType::kInt8:
      return ClipRow<int8_t>;
    case DType::kInt16:
      return ClipRow<int16_t>;
    case DType::kInt32:
      return ClipRow<int32_t>;
    case DType::kInt64:
      return ClipRow<int64_t>;
    case DType::kUint8:
      return ClipRow<uint8_t>;
    case DType::kUint16:
      return ClipRow<uint16_t>;
    case DType::kUint32:
      return ClipRow<uint32_t>;
    case DType::kUint64:
      return ClipRow<uint64_t>;
    default:
      return nullptr;
  }
}

BinaryOp PairOf(VariadicOp op) {
  switch (op) {
    case VariadicOp::kMax:
      return BinaryOp::kMax;
    case VariadicOp::kMin:
      return BinaryOp::kMin;
    case VariadicOp::kSum:
    case VariadicOp::kMean:
      return BinaryOp::kAdd;
  }
  return BinaryOp::kAdd;
}

template <typename T>
struct Accumulator {
  using Type = T;
  static T Load(T value) { return value; }
  static T Store(T value) { return value; }
};
template <>
struct Accumulator<Float16> {
  using Type = float;
  static float Load(Float16 value) { return ToFloat(value); }
  static Float16 Store(float value) { return ToFloat16(value); }
};
template <>
struct Accumulator<Bfloat16> {
  using Type = float;
  static float Load(Bfloat16 value) { return ToFloat(value); }
  static Bfloat16 Store(float value) { return ToBfloat16(value); }
};

template <typename T>
void LoadPiece(const RowArgs& args, int operand, int64_t begin, int64_t n,
               typename Accumulator<T>::Type* piece) {
  const int64_t step = args.steps[operand];
  const T* source = static_cast<const T*>(args.operands[operand]) + begin * step;
  for (int64_t i = 0; i < n; ++i) piece[i] = Accumulator<T>::Load(source[i * step]);
}

// Folds the operands piece by piece with the pair kernel of the accumulating type.
template <typename T, VariadicOp kOp>
void Fold(const RowArgs& args, RowFunction pair) {
  using A = typename Accumulator<T>::Type;
  alignas(64) A sum[kRowBlock];
  alignas(64) A next[kRowBlock];
  const int64_t steps[] = {1, 1};
  for (int64_t begin = 0; begin < args.n; begin += kRowBlock) {
    const int64_t n = std::min(kRowBlock, args.n - begin);
    LoadPiece<T>(args, 0, begin, n, sum);
    for (int operand = 1; operand < args.count; ++operand) {
      LoadPiece<T>(args, operand, begin, n, next);
      const void* operands[] = {sum, next};
      pair({operands, steps, 2, sum, n}, {});
    }
    T* y = static_cast<T*>(args.output) + begin;
    for (int64_t i = 0; i < n; ++i) {
      if constexpr (kOp == VariadicOp::kMean) sum[i] = sum[i] / static_cast<A>(args.count);
      y[i] = Accumulator<T>::Store(sum[i]);
    }
  }
}

template <typename T, VariadicOp kOp, Isa kIsa>
void VariadicRow(const RowArgs& args, const RowParams&) {
  static const RowFunction pair =
      FindBinary(PairOf(kOp), kDTypeOf<typename Accumulator<T>::Type>, kIsa);
  Fold<T, kOp>(args, pair);
}

template <typename T, VariadicOp kOp>
RowFunction VariadicFor(Isa isa) {
  if (isa >= Isa::kAvx512) return VariadicRow<T, kOp, Isa::kAvx512>;
  if (isa == Isa::kAvx2) return VariadicRow<T, kOp, Isa::kAvx2>;
  if (isa == Isa::kBaseline) return VariadicRow<T, kOp, Isa::kBaseline>;
  return VariadicRow<T, kOp, Isa::kReference>;
}

template <VariadicOp kOp>
RowFunction VariadicFloating(DType dtype, Isa isa) {
  switch (dtype) {
    case DType::kFloat:
      return VariadicFor<float, kOp>(isa);
    case DType::kDouble:
      return VariadicFor<double, kOp>(isa);
    case DType::kFloat16:
      return VariadicFor<Float16, kOp>(isa);
    case DType::kBfloat16:
      return VariadicFor<Bfloat16, kOp>(isa);
    default:
      return nullptr;
  }
}

template <VariadicOp kOp>
RowFunction VariadicNumbers(DType dtype, Isa isa) {
  constexpr Isa reference = Isa::kReference;
  switch (dtype) {
    case DType::kInt8:
      return VariadicRow<int8_t, kOp, reference>;
    case DType::kInt16:
      return VariadicRow<int16_t, kOp, reference>;
    case DType::kInt32:
      return VariadicRow<int32_t, kOp, reference>;
    case DType::kInt64:
      return VariadicRow<int64_t, kOp, reference>;
    case DType::kUint8:
      return VariadicRow<uint8_t, kOp, reference>;
    case DType::kUint16:
      return VariadicRow<uint16_t, kOp, reference>;
    case DType::kUint32:
      return VariadicRow<uint32_t, kOp, reference>;
    case DType::kUint64:
      return VariadicRow<uint64_t, kOp, reference>;
    default:
      return VariadicFloating<kOp>(dtype, isa);
  }
}

}  // namespace

RowFunction FindWhere(DType dtype) {
  if (dtype == DType::kString) return WhereRow<std::string>;
  switch (DTypeBits(dtype)) {
    case 8:
      return WhereRow<uint8_t>;
    case 16:
      return WhereRow<uint16_t>;
    case 32:
      return WhereRow<uint32_t>;
    case 64:
      return WhereRow<uint64_t>;
    default:
      return nullptr;
  }
}

RowFunction FindClip(DType dtype, Isa isa) {
  if (isa != Isa::kReference) {
    const RowFunction row = FindClipSimd(dtype, isa);
    if (row != nullptr) return row;
  }
  return FindClipReference(dtype);
}

RowFunction FindVariadic(VariadicOp op, DType dtype, Isa isa) {
  switch (op) {
    case VariadicOp::kMax:
      return VariadicNumbers<VariadicOp::kMax>(dtype, isa);
    case VariadicOp::kMin:
      return VariadicNumbers<VariadicOp::kMin>(dtype, isa);
    case VariadicOp::kSum:
      return VariadicFloating<VariadicOp::kSum>(dtype, isa);
    case VariadicOp::kMean:
      return VariadicFloating<VariadicOp::kMean>(dtype, isa);
  }
  return nullptr;
}

}  // namespace tandem::kernels
