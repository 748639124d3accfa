#include "engine/kernels/quant/quantize.h"

#include "engine/kernels/compute_type.h"

namespace tandem::kernels {
namespace {

template <typename X, typename Y>
void QuantizeRow(const RowArgs& args, const RowParams&) {
  const X* x = static_cast<const X*>(args.operands[0]);
  const float* scale = static_cast<const float*>(args.operands[1]);
  const Y* zero_point = static_cast<const Y*>(args.operands[2]);
  Y* y = static_cast<Y*>(args.output);
  for (int64_t i = 0; i < args.n; ++i) {
    const float divisor = scale[i * args.steps[1]];
    const auto value = ToCompute(x[i * args.steps[0]]);
    double quotient;
    if constexpr (std::is_same_v<X, int32_t>) {
      quotient = static_cast<double>(value) / static_cast<double>(divisor);
    } else {
      quotient = static_cast<double>(value / divisor);
    }
    y[i] = Saturate<Y>(quotient, zero_point[i * args.steps[2]]);
  }
}

template <typename X, typename Y>
void DequantizeRow(const RowArgs& args, const RowParams&) {
  const X* x = static_cast<const X*>(args.operands[0]);
  const float* scale = static_cast<const float*>(args.operands[1]);
  const X* zero_point = static_cast<const X*>(args.operands[2]);
  Y* y = static_cast<Y*>(args.output);
  for (int64_t i = 0; i < args.n; ++i) {
    const int64_t steps = static_cast<int64_t>(x[i * args.steps[0]]) -
                          static_cast<int64_t>(zero_point[i * args.steps[2]]);
    y[i] = FromCompute<Y>(static_cast<float>(steps) * scale[i * args.steps[1]]);
  }
}

template <typename X>
RowFunction QuantizeTo(DType y) {
  switch (y) {
    case DType::kInt8:
      return QuantizeRow<X, int8_t>;
    case DType::kUint8:
      return QuantizeRow<X, uint8_t>;
    case DType::kInt16:
      return QuantizeRow<X, int16_t>;
    case DType::kUint16:
      return QuantizeRow<X, uint16_t>;
    default:
      return nullptr;
  }
}

template <typename X>
RowFunction DequantizeTo(DType y) {
  switch (y) {
    case DType::kFloat:
      return DequantizeRow<X, float>;
    case DType::kFloat16:
      return DequantizeRow<X, Float16>;
    case DType::kBfloat16:
      return DequantizeRow<X, Bfloat16>;
    default:
      return nullptr;
  }
}

}  // namespace

RowFunction FindQuantize(DType x, DType y) {
  switch (x) {
    case DType::kFloat:
      return QuantizeTo<float>(y);
    case DType::kFloat16:
      return QuantizeTo<Float16>(y);
    case DType::kBfloat16:
      return QuantizeTo<Bfloat16>(y);
    case DType::kInt32:
      return QuantizeTo<int32_t>(y);
    default:
      return nullptr;
  }
}

RowFunction FindDequantize(DType x, DType y) {
  switch (x) {
    case DType::kInt8:
      return DequantizeTo<int8_t>(y);
    case DType::kUint8:
      return DequantizeTo<uint8_t>(y);
    case DType::kInt16:
      return DequantizeTo<int16_t>(y);
    case DType::kUint16:
      return DequantizeTo<uint16_t>(y);
    case DType::kInt32:
      return DequantizeTo<int32_t>(y);
    default:
      return nullptr;
  }
}

}  // namespace tandem::kernels
