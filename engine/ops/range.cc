// Range (ai.onnx, opset 11): start, start + delta, start + 2 * delta ... up to but without limit;
// max(0, ceil((limit - start) / delta)) elements. Floating types are computed in double and rounded
// once.
#include <algorithm>
#include <cmath>

#include "engine/kernels/elementwise/cast.h"
#include "engine/kernels/elementwise/integer.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/extents.h"
#include "engine/ops/movement.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

enum Port { kStart = 0, kLimit = 1, kDelta = 2 };

bool IsSupported(DType dtype) {
  return IsFloating(dtype) || dtype == DType::kInt16 || dtype == DType::kInt32 ||
         dtype == DType::kInt64;
}

constexpr int64_t kMostElements = int64_t{1} << 48;

Status TooMany() { return InvalidArgument("the range has more than {} elements", kMostElements); }

StatusOr<int64_t> CountOf(int64_t start, int64_t limit, int64_t delta) {
  if (delta == 0) return InvalidArgument("delta is 0");
  if (delta > 0 ? start >= limit : start <= limit) return 0;
  // The distance and the step are positive and fit 64 bits without a sign.
  const uint64_t distance = delta > 0 ? static_cast<uint64_t>(limit) - static_cast<uint64_t>(start)
                                      : static_cast<uint64_t>(start) - static_cast<uint64_t>(limit);
  const uint64_t step = delta > 0 ? static_cast<uint64_t>(delta) : -static_cast<uint64_t>(delta);
  const uint64_t count = (distance - 1) / step + 1;
  if (count > kMostElements) return TooMany();
  return static_cast<int64_t>(count);
}

StatusOr<int64_t> CountOf(double start, double limit, double delta) {
  if (delta == 0) return InvalidArgument("delta is 0");
  const double count = std::ceil((limit - start) / delta);
  if (std::isnan(count)) {
    return InvalidArgument("a range from {} to {} by {} has no length", start, limit, delta);
  }
  if (count > static_cast<double>(kMostElements)) return TooMany();
  return count <= 0 ? 0 : static_cast<int64_t>(count);
}

StatusOr<int64_t> CountOf(const TensorView& start, const TensorView& limit,
                          const TensorView& delta) {
  if (IsFloating(start.dtype())) {
    return CountOf(ReadNumber(start), ReadNumber(limit), ReadNumber(delta));
  }
  return CountOf(ReadInteger(start), ReadInteger(limit), ReadInteger(delta));
}

double At(double start, double delta, int64_t i) { return start + static_cast<double>(i) * delta; }
int64_t At(int64_t start, int64_t delta, int64_t i) {
  return kernels::WrapAdd(start, kernels::WrapMul(i, delta));
}

class Range final : public Operator {
 public:
  static std::shared_ptr<const Operator> Parse(NodeReader&) {
    return std::make_shared<const Range>();
  }

  Status Infer(InferContext& context) const override {
    RETURN_IF_ERROR(CheckDType(context, kStart, IsSupported));
    bool known = true;
    for (const int port : {kStart, kLimit, kDelta}) {
      RETURN_IF_ERROR(CheckSameDType(context, port, kStart));
      const graph::DimVector* dims = context.dims(port);
      if (dims != nullptr && !dims->empty() &&
          !(dims->size() == 1 && MayEqual((*dims)[0], int64_t{1}))) {
        return InvalidArgument("input {} has shape {} where a scalar is expected", port,
                               graph::ToString(*dims));
      }
      known = known && context.input(port).value.has_value();
    }
    const DType dtype = context.input(kStart).dtype;
    if (!known) {
      context.SetOutput(0, dtype, graph::DimVector{SymbolicCount(context)});
      return absl::OkStatus();
    }
    const auto view = [&](int port) { return context.input(port).value->view(); };
    ASSIGN_OR_RETURN(const int64_t count, CountOf(view(kStart), view(kLimit), view(kDelta)));
    context.SetOutput(0, dtype, graph::DimVector{count});
    constexpr int64_t kSmall = 64;  // elements of a vector whose content may be an axis list
    if (IsInteger(dtype) && count <= kSmall) {
      graph::DimVector content;
      const int64_t start = ReadInteger(view(kStart));
      const int64_t delta = ReadInteger(view(kDelta));
      for (int64_t i = 0; i < count; ++i) content.emplace_back(At(start, delta, i));
      SetIntegers(context, 0, content);
    }
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    return MakeMoveStep(context, "range",
                        [](StepContext& run, std::span<const MutableTensorView> outputs) {
                          Run(run, outputs[0]);
                          return absl::OkStatus();
                        });
  }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    return CostOfMove(shapes, dtype);
  }

 private:
  // 0 to N by 1 has N elements.
  static graph::Dim SymbolicCount(const InferContext& context) {
    const auto at = [&context](int port) {
      const std::optional<graph::DimVector> content = context.Content(port);
      return content ? content->front() : graph::Dim();
    };
    return at(kStart).SameAs(0) && at(kDelta).SameAs(1) && at(kLimit).is_symbol() ? at(kLimit)
                                                                                  : graph::Dim();
  }

  static void Run(StepContext& run, const MutableTensorView& out) {
    const auto fill = [&](auto start, auto delta) {
      using T = decltype(start);
      constexpr int64_t kBlock = 256;
      T block[kBlock];
      const kernels::RowFunction convert = kernels::FindCast(kDTypeOf<T>, out.dtype());
      const int64_t count = out.elements();
      auto* to = static_cast<std::byte*>(out.mutable_raw());
      for (int64_t begin = 0; begin < count; begin += kBlock) {
        const int64_t n = std::min(kBlock, count - begin);
        for (int64_t i = 0; i < n; ++i) block[i] = At(start, delta, begin + i);
        const void* operand = block;
        const int64_t step = 1;
        convert({&operand, &step, 1, to + DTypeBytes(out.dtype(), begin), n}, {});
      }
    };
    const TensorView& start = run.input(kStart);
    const TensorView& delta = run.input(kDelta);
    if (IsFloating(out.dtype())) {
      fill(ReadNumber(start), ReadNumber(delta));
    } else {
      fill(ReadInteger(start), ReadInteger(delta));
    }
  }
};

}  // namespace

void RegisterRange(OpRegistry& registry) {
  registry.Add({.op_type = "Range",
                .versions = {11},
                .min_inputs = 3,
                .max_inputs = 3,
                .parse = Range::Parse,
                .doc = "Numbers from start to limit by delta."});
}

}  // namespace tandem::ops
