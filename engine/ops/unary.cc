// Unary element-wise operators (ai.onnx): one row each in the table below. Sources: the ONNX
// operator pages of the same names.
#include "engine/kernels/elementwise/unary.h"

#include <algorithm>

#include "engine/ops/elementwise.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

using kernels::FindUnary;
using kernels::FindUnaryReference;
using kernels::RowParams;
using kernels::UnaryOp;

using ParseParams = RowParams (*)(NodeReader& reader);

RowParams NoParams(NodeReader&) { return {}; }

template <int kHundredths>
RowParams Alpha(NodeReader& reader) {
  return {reader.Float("alpha", static_cast<float>(kHundredths / 100.0)), 0};
}

RowParams SeluParams(NodeReader& reader) {
  return {reader.Float("alpha", 1.67326319217681884765625f),
          reader.Float("gamma", 1.05070102214813232421875f)};
}

RowParams CeluParams(NodeReader& reader) {
  const float alpha = reader.Float("alpha", 1.0f);
  if (alpha == 0)
    reader.Fail(InvalidArgument("attribute 'alpha' is 0 where a divisor is expected"));
  return {alpha, 0};
}

RowParams HardSigmoidParams(NodeReader& reader) {
  return {reader.Float("alpha", 0.2f), reader.Float("beta", 0.5f)};
}

RowParams ShrinkParams(NodeReader& reader) {
  return {reader.Float("lambd", 0.5f), reader.Float("bias", 0.0f)};
}

RowParams IsInfParams(NodeReader& reader) {
  return {reader.Flag("detect_positive", true) ? 1.0f : 0.0f,
          reader.Flag("detect_negative", true) ? 1.0f : 0.0f};
}

struct UnaryEntry {
  const char* op_type;
  UnaryOp op;
  std::vector<int> versions;
  ParseParams params;
  const char* doc;
};

const std::vector<UnaryEntry>& Table() {
  static const std::vector<UnaryEntry> table = {
      {"Abs", UnaryOp::kAbs, {6, 13}, NoParams, "The absolute value."},
      {"Acos", UnaryOp::kAcos, {7, 22}, NoParams, "The arc cosine."},
      {"Acosh", UnaryOp::kAcosh, {9, 22}, NoParams, "The inverse hyperbolic cosine."},
      {"Asin", UnaryOp::kAsin, {7, 22}, NoParams, "The arc sine."},
      {"Asinh", UnaryOp::kAsinh, {9, 22}, NoParams, "The inverse hyperbolic sine."},
      {"Atan", UnaryOp::kAtan, {7, 22}, NoParams, "The arc tangent."},
      {"Atanh", UnaryOp::kAtanh, {9, 22}, NoParams, "The inverse hyperbolic tangent."},
      {"BitwiseNot", UnaryOp::kBitwiseNot, {18}, NoParams, "Every bit inverted."},
      {"Ceil", UnaryOp::kCeil, {6, 13}, NoParams, "Rounded up."},
      {"Celu", UnaryOp::kCelu, {12}, CeluParams, "The continuously differentiable Elu."},
      {"Cos", UnaryOp::kCos, {7, 22}, NoParams, "The cosine."},
      {"Cosh", UnaryOp::kCosh, {9, 22}, NoParams, "The hyperbolic cosine."},
      {"Elu", UnaryOp::kElu, {6, 22}, Alpha<100>, "alpha (exp(x) - 1) below 0, x above."},
      {"Erf", UnaryOp::kErf, {9, 13}, NoParams, "The error function."},
      {"Exp", UnaryOp::kExp, {6, 13}, NoParams, "The exponential."},
      {"Floor", UnaryOp::kFloor, {6, 13}, NoParams, "Rounded down."},
      {"HardSigmoid",
       UnaryOp::kHardSigmoid,
       {6, 22},
       HardSigmoidParams,
       "alpha x + beta, clipped to [0, 1]."},
      {"HardSwish", UnaryOp::kHardSwish, {14, 22}, NoParams, "x HardSigmoid(x) of alpha 1/6."},
      {"IsInf", UnaryOp::kIsInf, {10, 20}, IsInfParams, "True for infinities."},
      {"IsNaN", UnaryOp::kIsNan, {9, 13, 20}, NoParams, "True for NaN."},
      {"LeakyRelu", UnaryOp::kLeakyRelu, {6, 16}, Alpha<1>, "alpha x below 0, x above."},
      {"Log", UnaryOp::kLog, {6, 13}, NoParams, "The natural logarithm."},
      {"Mish", UnaryOp::kMish, {18, 22}, NoParams, "x tanh(softplus(x))."},
      {"Neg", UnaryOp::kNeg, {6, 13}, NoParams, "The negative."},
      {"Not", UnaryOp::kNot, {1}, NoParams, "The logical negation."},
      {"Reciprocal", UnaryOp::kReciprocal, {6, 13}, NoParams, "1 / x."},
      {"Relu", UnaryOp::kRelu, {6, 13, 14}, NoParams, "x where it is above 0, else 0."},
      {"Round", UnaryOp::kRound, {11, 22}, NoParams, "The nearest integer, halves to even."},
      {"Selu", UnaryOp::kSelu, {6, 22}, SeluParams, "gamma Elu(x)."},
      {"Shrink",
       UnaryOp::kShrink,
       {9},
       ShrinkParams,
       "x moved by bias towards 0, and 0 within lambd of it."},
      {"Sigmoid", UnaryOp::kSigmoid, {6, 13}, NoParams, "1 / (1 + exp(-x))."},
      {"Sign", UnaryOp::kSign, {9, 13}, NoParams, "-1, 0 or 1."},
      {"Sin", UnaryOp::kSin, {7, 22}, NoParams, "The sine."},
      {"Sinh", UnaryOp::kSinh, {9, 22}, NoParams, "The hyperbolic sine."},
      {"Softplus", UnaryOp::kSoftplus, {1, 22}, NoParams, "log(1 + exp(x))."},
      {"Softsign", UnaryOp::kSoftsign, {1, 22}, NoParams, "x / (1 + |x|)."},
      {"Sqrt", UnaryOp::kSqrt, {6, 13}, NoParams, "The square root."},
      {"Swish", UnaryOp::kSilu, {24}, Alpha<100>, "x sigmoid(alpha x)."},
      {"Tan", UnaryOp::kTan, {7, 22}, NoParams, "The tangent."},
      {"Tanh", UnaryOp::kTanh, {6, 13}, NoParams, "The hyperbolic tangent."},
      {"ThresholdedRelu",
       UnaryOp::kThresholdedRelu,
       {10, 22},
       Alpha<100>,
       "x where it is above alpha, else 0."},
  };
  return table;
}

bool IsPredicate(UnaryOp op) { return op == UnaryOp::kIsNan || op == UnaryOp::kIsInf; }

// Multiply-adds that one element is worth.
double WorkOf(UnaryOp op) { return op < UnaryOp::kExp ? 1 : 16; }

class Unary final : public ElementwiseOperator {
 public:
  Unary(UnaryOp op, RowParams params) : op_(op), params_(params) {}

  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    const auto& table = Table();
    const auto entry = std::ranges::find_if(
        table, [&](const UnaryEntry& row) { return reader.node().op_type == row.op_type; });
    CHECK(entry != table.end(), "{} is not in the table", reader.node().op_type);
    return std::make_shared<const Unary>(entry->op, entry->params(reader));
  }

  static std::shared_ptr<const Operator> ParseGelu(NodeReader& reader) {
    const std::string form = reader.String("approximate", "none");
    if (form != "none" && form != "tanh") {
      reader.Fail(InvalidArgument(
          "attribute 'approximate' is '{}' where 'none' or 'tanh' is expected", form));
    }
    const UnaryOp op = form == "tanh" ? UnaryOp::kGeluTanh : UnaryOp::kGeluErf;
    return std::make_shared<const Unary>(op, RowParams{});
  }

  Status Infer(InferContext& context) const override {
    RETURN_IF_ERROR(CheckDType(
        context, 0, [this](DType dtype) { return FindUnaryReference(op_, dtype) != nullptr; }));
    const ValueFacts& x = context.input(0);
    context.SetOutput(0, IsPredicate(op_) ? DType::kBool : x.dtype, x.dims);
    return absl::OkStatus();
  }

  kernels::RowKernel Row(DType dtype, Isa isa) const override {
    return {FindUnary(op_, dtype, isa), params_};
  }

  bool is_predicate() const override { return IsPredicate(op_); }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    return ElementwiseCost(shapes, dtype, WorkOf(op_));
  }

 private:
  UnaryOp op_;
  RowParams params_;
};

}  // namespace

void RegisterUnary(OpRegistry& registry) {
  for (const UnaryEntry& row : Table()) {
    registry.Add(
        {.op_type = row.op_type, .versions = row.versions, .parse = Unary::Parse, .doc = row.doc});
  }
  registry.Add({.op_type = "Gelu",
                .versions = {20},
                .parse = Unary::ParseGelu,
                .doc = "x times the cumulative normal distribution at x, or its tanh form."});
}

}  // namespace tandem::ops
