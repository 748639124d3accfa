// Binary element-wise operators (ai.onnx) with multidirectional broadcasting: arithmetic,
// comparisons, logic and bits; one row each in the table below. Sources: the ONNX operator pages of
// the same names.
//
// Where ONNX leaves the result of integer arithmetic open, it is defined: see
// kernels/elementwise/binary.h.
#include "engine/kernels/elementwise/binary.h"

#include <algorithm>

#include "engine/ops/broadcast.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

using kernels::BinaryOp;
using kernels::FindBinary;
using kernels::FindBinaryReference;

struct BinaryEntry {
  const char* op_type;
  BinaryOp op;
  std::vector<int> versions;
  const char* doc;
};

const std::vector<BinaryEntry>& Table() {
  static const std::vector<BinaryEntry> table = {
      {"Add", BinaryOp::kAdd, {7, 13, 14}, "a + b."},
      {"And", BinaryOp::kAnd, {7}, "Logical and."},
      {"BitwiseAnd", BinaryOp::kBitwiseAnd, {18}, "Bitwise and."},
      {"BitwiseOr", BinaryOp::kBitwiseOr, {18}, "Bitwise or."},
      {"BitwiseXor", BinaryOp::kBitwiseXor, {18}, "Bitwise exclusive or."},
      {"Div", BinaryOp::kDiv, {7, 13, 14}, "a / b; integers truncate."},
      {"Equal", BinaryOp::kEqual, {7, 11, 13, 19}, "a == b."},
      {"Greater", BinaryOp::kGreater, {7, 9, 13}, "a > b."},
      {"GreaterOrEqual", BinaryOp::kGreaterOrEqual, {12, 16}, "a >= b."},
      {"Less", BinaryOp::kLess, {7, 9, 13}, "a < b."},
      {"LessOrEqual", BinaryOp::kLessOrEqual, {12, 16}, "a <= b."},
      {"Mul", BinaryOp::kMul, {7, 13, 14}, "a b."},
      {"Or", BinaryOp::kOr, {7}, "Logical or."},
      {"PRelu", BinaryOp::kPRelu, {7, 9, 16}, "b a below 0, a above; b broadcasts to a."},
      {"Sub", BinaryOp::kSub, {7, 13, 14}, "a - b."},
      {"Xor", BinaryOp::kXor, {7}, "Logical exclusive or."},
  };
  return table;
}

bool IsPredicate(BinaryOp op) { return op >= BinaryOp::kEqual; }

graph::Dim Apply(BinaryOp op, const graph::Dim& a, const graph::Dim& b) {
  switch (op) {
    case BinaryOp::kAdd:
      return a + b;
    case BinaryOp::kSub:
      return a - b;
    case BinaryOp::kMul:
      return a * b;
    case BinaryOp::kDiv:
      if (a.is_number() && b.is_number() && b.number() != 0 && b.number() != -1) {
        return a.number() / b.number();
      }
      return ExactDiv(a, b);
    default:
      return {};
  }
}

bool FollowsContent(BinaryOp op) {
  return op == BinaryOp::kAdd || op == BinaryOp::kSub || op == BinaryOp::kMul ||
         op == BinaryOp::kDiv;
}

// The contents of both inputs, one element each of the result; empty when one is not known.
std::vector<std::pair<graph::Dim, graph::Dim>> PairsOf(const InferContext& context) {
  const auto a = context.Content(0);
  const auto b = context.Content(1);
  std::vector<std::pair<graph::Dim, graph::Dim>> pairs;
  if (!a || !b || a->empty() || b->empty()) return pairs;
  if (a->size() != b->size() && a->size() != 1 && b->size() != 1) return pairs;
  const size_t size = std::max(a->size(), b->size());
  for (size_t i = 0; i < size; ++i) {
    pairs.emplace_back((*a)[a->size() == 1 ? 0 : i], (*b)[b->size() == 1 ? 0 : i]);
  }
  return pairs;
}

// Follows shape arithmetic of int64 (int32 may wrap, which symbols do not show).
void InferContent(BinaryOp op, InferContext& context) {
  if (!FollowsContent(op) || context.input(0).dtype != DType::kInt64) return;
  graph::DimVector content;
  for (const auto& [a, b] : PairsOf(context)) content.push_back(Apply(op, a, b));
  if (!content.empty()) context.SetContent(0, std::move(content));
}

// Equal of shapes: equal and different extents are both known before a request comes.
void InferEqual(InferContext& context, const graph::DimVector& dims) {
  const auto shape = graph::ToShape(dims);
  const auto pairs = PairsOf(context);
  if (pairs.empty() || !shape || shape->elements() != static_cast<int64_t>(pairs.size())) return;
  StatusOr<Tensor> value = Tensor::Allocate(DType::kBool, *shape);
  if (!value.ok()) return;
  bool* result = value->mutable_data<bool>();
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto& [a, b] = pairs[i];
    const bool same = a.SameAs(b);
    const bool differ = (a.is_number() && b.is_number() && !same) ||
                        (a.is_symbol() && b.is_number() && b.number() < 0) ||
                        (b.is_symbol() && a.is_number() && a.number() < 0);
    if (!same && !differ) return;
    result[i] = same;
  }
  context.SetValue(0, *std::move(value));
}

class Binary final : public ElementwiseOperator {
 public:
  explicit Binary(BinaryOp op) : op_(op) {}

  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    const auto& table = Table();
    const auto entry = std::ranges::find_if(
        table, [&](const BinaryEntry& row) { return reader.node().op_type == row.op_type; });
    CHECK(entry != table.end(), "{} is not in the table", reader.node().op_type);
    return std::make_shared<const Binary>(entry->op);
  }

  static std::shared_ptr<const Operator> ParseMod(NodeReader& reader) {
    return std::make_shared<const Binary>(reader.Flag("fmod", false) ? BinaryOp::kFmod
                                                                     : BinaryOp::kMod);
  }

  static std::shared_ptr<const Operator> ParseBitShift(NodeReader& reader) {
    const std::string direction = reader.String("direction", "");
    if (direction != "LEFT" && direction != "RIGHT") {
      reader.Fail(InvalidArgument(
          "attribute 'direction' is '{}' where 'LEFT' or 'RIGHT' is expected", direction));
    }
    return std::make_shared<const Binary>(direction == "LEFT" ? BinaryOp::kShiftLeft
                                                              : BinaryOp::kShiftRight);
  }

  Status Infer(InferContext& context) const override {
    const DType dtype = context.input(0).dtype;
    if (op_ == BinaryOp::kMod && IsFloating(dtype)) {
      return InvalidArgument("input 0 is of type {}, for which fmod=1 is expected",
                             DTypeName(dtype));
    }
    RETURN_IF_ERROR(CheckDType(
        context, 0, [this](DType type) { return FindBinaryReference(op_, type) != nullptr; }));
    RETURN_IF_ERROR(CheckSameDType(context, 1, 0));
    ASSIGN_OR_RETURN(const std::optional<graph::DimVector> dims, BroadcastInputs(context));
    if (op_ == BinaryOp::kPRelu) {
      RETURN_IF_ERROR(CheckSlope(context));
      context.SetOutput(0, dtype, context.input(0).dims);
      return absl::OkStatus();
    }
    context.SetOutput(0, IsPredicate(op_) ? DType::kBool : dtype, dims);
    InferContent(op_, context);
    if (op_ == BinaryOp::kEqual && dims) InferEqual(context, *dims);
    return absl::OkStatus();
  }

  kernels::RowKernel Row(DType dtype, Isa isa) const override {
    return {FindBinary(op_, dtype, isa), {}};
  }

  bool is_predicate() const override { return IsPredicate(op_); }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    return ElementwiseCost(shapes, dtype, 1);
  }

 private:
  // The slope must not make the result larger than the input.
  static Status CheckSlope(const InferContext& context) {
    const graph::DimVector* x = context.dims(0);
    const graph::DimVector* slope = context.dims(1);
    if (x == nullptr || slope == nullptr) return absl::OkStatus();
    bool fits = slope->size() <= x->size();
    for (size_t axis = 0; fits && axis < slope->size(); ++axis) {
      const graph::Dim& wide = (*x)[x->size() - slope->size() + axis];
      const graph::Dim& narrow = (*slope)[axis];
      fits = !wide.is_number() || !narrow.is_number() || narrow.number() == 1 ||
             narrow.number() == wide.number();
    }
    if (fits) return absl::OkStatus();
    return InvalidArgument("slope {} does not broadcast to {}, the shape of input 0",
                           graph::ToString(*slope), graph::ToString(*x));
  }

  BinaryOp op_;
};

OpEntry Entry(std::string op_type, std::vector<int> versions, ParseFunction parse,
              std::string doc) {
  return {.op_type = std::move(op_type),
          .versions = std::move(versions),
          .min_inputs = 2,
          .max_inputs = 2,
          .parse = parse,
          .doc = std::move(doc)};
}

}  // namespace

void RegisterBinary(OpRegistry& registry) {
  for (const BinaryEntry& row : Table()) {
    registry.Add(Entry(row.op_type, row.versions, Binary::Parse, row.doc));
  }
  registry.Add(Entry("Mod", {10, 13}, Binary::ParseMod,
                     "The remainder with the sign of b, or with fmod=1 of a."));
  registry.Add(Entry("BitShift", {11}, Binary::ParseBitShift, "a shifted by b bits."));
}

}  // namespace tandem::ops
