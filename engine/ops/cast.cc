// Cast and CastLike (ai.onnx): another element type. Numbers and bool convert as
// kernels/elementwise/cast.h says. A number becomes text as by "%.8g" (float and narrower) or
// "%.17g" (double), an integer its digits, a bool "0" or "1"; infinities are "INF" and "-INF". Text
// becomes a number when all of it is one, in plain or scientific notation, or NaN, INF, +INF or
// -INF in any case; anything else fails the run. Text to an integer type must be an integer in its
// range.
#include "engine/kernels/elementwise/cast.h"

#include <charconv>
#include <cmath>

#include "absl/strings/ascii.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

using kernels::FindCast;

bool IsNumeric(DType dtype) {
  return IsFloating(dtype) || IsInteger(dtype) || dtype == DType::kBool;
}
bool IsCastable(DType dtype) { return IsNumeric(dtype) || dtype == DType::kString; }

template <typename T>
std::string ToText(T value) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>) {
    return ToText(ToFloat(value));
  } else if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "INF" : "-INF";
    return fmt::format("{}", value);  // as few digits as read back to the same number
  } else {
    return fmt::format("{}",
                       static_cast<std::conditional_t<std::is_same_v<T, bool>, int, T>>(value));
  }
}

// `text` as the floating type A, or nothing.
template <typename A>
std::optional<A> ParseFloating(std::string_view text) {
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  if (text.empty() || text.front() == '+') return std::nullopt;
  std::string lower(text);
  for (char& c : lower) c = absl::ascii_tolower(static_cast<unsigned char>(c));
  if (lower == "nan") return std::numeric_limits<A>::quiet_NaN();
  if (lower == "inf") return std::numeric_limits<A>::infinity();
  if (lower == "-inf") return -std::numeric_limits<A>::infinity();
  A value = 0;
  const auto [end, error] = std::from_chars(lower.data(), lower.data() + lower.size(), value);
  if (end != lower.data() + lower.size()) return std::nullopt;
  if (error == std::errc::result_out_of_range) {
    // Too large or too small: what rounding gives.
    return static_cast<A>(std::strtod(lower.c_str(), nullptr));
  }
  return error == std::errc() ? std::optional<A>(value) : std::nullopt;
}

template <typename T>
std::optional<T> ParseNumber(std::string_view text) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>) {
    const std::optional<float> value = ParseFloating<float>(text);
    if (!value) return std::nullopt;
    return kernels::FromFloat<T>(*value);
  } else if constexpr (std::is_floating_point_v<T>) {
    return ParseFloating<T>(text);
  } else if constexpr (std::is_same_v<T, bool>) {
    const std::optional<double> value = ParseFloating<double>(text);
    return value ? std::optional<bool>(*value != 0) : std::nullopt;
  } else {
    if (!text.empty() && text.front() == '+') text.remove_prefix(1);
    T value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
  }
}

template <typename T>
Status ToTexts(const TensorView& x, const MutableTensorView& y) {
  const auto from = x.span<T>();
  std::string* to = y.mutable_data<std::string>();
  for (size_t i = 0; i < from.size(); ++i) to[i] = ToText(from[i]);
  return absl::OkStatus();
}

template <typename T>
Status FromTexts(const TensorView& x, const MutableTensorView& y) {
  const auto from = x.span<std::string>();
  T* to = y.mutable_data<T>();
  for (size_t i = 0; i < from.size(); ++i) {
    const std::optional<T> value = ParseNumber<T>(from[i]);
    if (!value) {
      return InvalidArgument("element {} is '{}' where text of a number of type {} is expected", i,
                             from[i].substr(0, 64), DTypeName(y.dtype()));
    }
    to[i] = *value;
  }
  return absl::OkStatus();
}

// Calls f with a value of the storage type of `dtype`.
template <typename F>
Status ForNumber(DType dtype, const F& f) {
  switch (dtype) {
    case DType::kFloat:
      return f(float{});
    case DType::kDouble:
      return f(double{});
    case DType::kFloat16:
      return f(Float16{});
    case DType::kBfloat16:
      return f(Bfloat16{});
    case DType::kInt8:
      return f(int8_t{});
    case DType::kInt16:
      return f(int16_t{});
    case DType::kInt32:
      return f(int32_t{});
    case DType::kInt64:
      return f(int64_t{});
    case DType::kUint8:
      return f(uint8_t{});
    case DType::kUint16:
      return f(uint16_t{});
    case DType::kUint32:
      return f(uint32_t{});
    case DType::kUint64:
      return f(uint64_t{});
    case DType::kBool:
      return f(bool{});
    default:
      return Internal("{} is no number", DTypeName(dtype));
  }
}

// Casts from or to text. Text is never channels-last, so both sides lie alike.
class TextStep final : public Step {
 public:
  std::string kernel() const override { return "cast.text"; }

  Status Run(StepContext& context) const override {
    const TensorView& x = context.input(0);
    const MutableTensorView& y = context.output(0);
    if (x.dtype() == DType::kString && y.dtype() == DType::kString) {
      const auto from = x.span<std::string>();
      std::copy(from.begin(), from.end(), y.mutable_data<std::string>());
      return absl::OkStatus();
    }
    if (y.dtype() == DType::kString) {
      return ForNumber(x.dtype(), [&](auto type) { return ToTexts<decltype(type)>(x, y); });
    }
    return ForNumber(y.dtype(), [&](auto type) { return FromTexts<decltype(type)>(x, y); });
  }
};

class Cast final : public Operator {
 public:
  // `to` kUndefined: the dtype of input 1.
  explicit Cast(DType to) : to_(to) {}

  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    IgnoreNarrowTypes(reader);
    const int64_t to = reader.RequiredInt("to");
    const bool known = to >= 0 && to < 64 && IsKnownDType(static_cast<int32_t>(to));
    if (!known || !IsCastable(static_cast<DType>(to))) {
      reader.Fail(InvalidArgument("attribute 'to' is {} where the number of one of {} is expected",
                                  to, DTypeList(IsCastable)));
      return std::make_shared<const Cast>(DType::kFloat);
    }
    return std::make_shared<const Cast>(static_cast<DType>(to));
  }

  static std::shared_ptr<const Operator> ParseLike(NodeReader& reader) {
    IgnoreNarrowTypes(reader);
    return std::make_shared<const Cast>(DType::kUndefined);
  }

  Status Infer(InferContext& context) const override {
    RETURN_IF_ERROR(CheckDType(context, 0, IsCastable));
    if (to_ == DType::kUndefined) RETURN_IF_ERROR(CheckDType(context, 1, IsCastable));
    const ValueFacts& x = context.input(0);
    const DType to = to_ == DType::kUndefined ? context.input(1).dtype : to_;
    context.SetOutput(0, to, x.dims);
    if (x.content && KeepsContent(to, *x.content)) context.SetContent(0, *x.content);
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const override {
    const DType from = context.input(0).dtype;
    const DType to = context.output(0).dtype;
    if (from == DType::kString || to == DType::kString) return std::make_unique<TextStep>();
    return std::make_unique<ElementwiseStep>(
        fmt::format("cast {} {}", DTypeName(from), DTypeName(to)),
        kernels::RowKernel{FindCast(from, to), {}}, std::vector<RowOperand>{{0, Tensor()}});
  }

  // A 16-bit weight is widened by who packs it.
  std::optional<StridedTensor> ViewOf(std::span<const graph::ConstantRef> inputs,
                                      const Shape&) const override {
    if (to_ != DType::kFloat || !IsHalf(inputs[0]->dtype())) return std::nullopt;
    return inputs[0]->strided().Widened();
  }

  ConstantUse UseOfConstant(int, DType dtype) const override {
    return to_ == DType::kFloat && IsHalf(dtype) ? ConstantUse::kViewed : ConstantUse::kNative;
  }

  Traits traits() const override {
    return {.elementwise = true,
            .in_place = to_ != DType::kString && to_ != DType::kUndefined,
            .layout = LayoutRule::kFollow};
  }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    return ElementwiseCost(shapes, dtype, 1);
  }

  BatchAnswer Batch(const BatchQuery& query) const override {
    if (!query.axes[0]) return BatchAnswer::All(query, std::nullopt);
    return BatchAnswer::All(query, query.axes[0]);
  }

 private:
  // Attributes that only have a meaning for 8-bit floating types, to which nothing is cast here.
  static void IgnoreNarrowTypes(NodeReader& reader) {
    if (reader.opset() >= 19) reader.Ignore("saturate");
    if (reader.opset() >= 24) reader.Ignore("round_mode");
  }

  static bool IsHalf(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBfloat16; }

  // An integer vector keeps its symbols when no number is cut.
  static bool KeepsContent(DType to, const graph::DimVector& content) {
    if (to == DType::kInt64) return true;
    if (to != DType::kInt32) return false;
    for (const graph::Dim& dim : content) {
      if (dim.is_number() && dim.number() != static_cast<int32_t>(dim.number())) return false;
    }
    return true;
  }

  DType to_;
};

}  // namespace

void RegisterCast(OpRegistry& registry) {
  registry.Add({.op_type = "Cast",
                .versions = {6, 9, 13, 19, 21, 23, 24},
                .parse = Cast::Parse,
                .doc = "The input in another element type."});
  registry.Add({.op_type = "CastLike",
                .versions = {15, 19, 21, 23, 24},
                .min_inputs = 2,
                .max_inputs = 2,
                .parse = Cast::ParseLike,
                .doc = "The input in the element type of a second input."});
}

}  // namespace tandem::ops
