// Binary operators of two constants: each is computed at load, broadcast or not, to the bits that a
// run gives.
#include <gtest/gtest.h>

#include "engine/optimizer/optimizer.h"
#include "tests/support/compare.h"
#include "tests/support/interpreter.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_tensor.h"

namespace tandem::optimizer {
namespace {

using test::Apply;
using test::Close;
using test::Exact;
using test::GraphBuilder;
using test::Interpret;
using test::RandomFloats;

// Numbers of [2, 7) in rows, as `dtype`; of bool the parity.
Tensor Numbers(const Shape& shape, uint32_t seed, DType dtype) {
  const Tensor floats = RandomFloats(shape, seed, 2, 7);
  if (dtype != DType::kBool) {
    return Apply({.op_type = "Cast", .attributes = {{"to", static_cast<int64_t>(dtype)}}},
                 {floats});
  }
  Tensor bools = *Tensor::Allocate(DType::kBool, shape);
  for (int64_t i = 0; i < bools.elements(); ++i) {
    bools.mutable_data<bool>()[i] = static_cast<int>(floats.data<float>()[i]) % 2 == 1;
  }
  return bools;
}

struct Binary {
  std::string op;
  std::vector<DType> dtypes;
  graph::Attributes attributes = {};
};

std::vector<Binary> Binaries() {
  const std::vector<DType> numbers = {DType::kFloat,    DType::kDouble, DType::kFloat16,
                                      DType::kBfloat16, DType::kInt64,  DType::kInt32,
                                      DType::kInt8,     DType::kUint8,  DType::kUint64};
  const std::vector<DType> integers = {DType::kInt64, DType::kInt32, DType::kUint8, DType::kUint64};
  const std::vector<DType> unsigned_integers = {DType::kUint8, DType::kUint16, DType::kUint32,
                                                DType::kUint64};
  const std::vector<DType> floats = {DType::kFloat, DType::kDouble, DType::kFloat16};
  const std::vector<DType> bools = {DType::kBool};
  return {
      {"Add", numbers},
      {"Sub", numbers},
      {"Mul", numbers},
      {"Div", numbers},
      {"Pow", {DType::kFloat, DType::kDouble, DType::kInt64, DType::kInt32}},
      {"Mod", integers},
      {"Mod", floats, {{"fmod", int64_t{1}}}},
      {"PRelu", floats},
      {"Min", numbers},
      {"Max", numbers},
      {"Mean", floats},
      {"Sum", floats},
      {"Equal", numbers},
      {"Less", numbers},
      {"LessOrEqual", numbers},
      {"Greater", numbers},
      {"GreaterOrEqual", numbers},
      {"And", bools},
      {"Or", bools},
      {"Xor", bools},
      {"Equal", bools},
      {"BitwiseAnd", integers},
      {"BitwiseOr", integers},
      {"BitwiseXor", integers},
      {"BitShift", unsigned_integers, {{"direction", std::string("LEFT")}}},
      {"BitShift", unsigned_integers, {{"direction", std::string("RIGHT")}}},
  };
}

struct Extents {
  Shape a;
  Shape b;
};

void ExpectFolded(const Binary& binary, DType dtype, const Extents& extents) {
  SCOPED_TRACE(binary.op + " " + std::string(DTypeName(dtype)) + " " + ToString(extents.a) + " " +
               ToString(extents.b));
  GraphBuilder builder(18);
  builder.Input("x", DType::kFloat, {2})
      .Constant("a", Numbers(extents.a, 1, dtype))
      .Constant("b", Numbers(extents.b, 2, dtype))
      .Node(binary.op, {"a", "b"}, {"y"}, binary.attributes)
      .Node("Relu", {"x"}, {"z"})
      .Output("y")
      .Output("z");
  graph::Graph graph = builder.Build();
  const test::NamedTensors inputs = {{"x", RandomFloats({2}, 3)}};
  const auto before = Interpret(graph, inputs);
  ASSERT_TRUE(before.ok()) << before.status();
  const auto report = Optimize(graph, builder.constants(), {});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->folded.nodes.size(), 1u);
  EXPECT_TRUE(report->declines.empty());
  ASSERT_EQ(graph.order().size(), 1u) << "what reads x is left alone";
  const auto after = Interpret(graph, inputs);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_TRUE(Close(after->at("y"), before->at("y"), Exact()));
}

TEST(FoldBinary, TwoConstantsAreOneWhateverTheOperatorAndTheType) {
  for (const Binary& binary : Binaries()) {
    for (const DType dtype : binary.dtypes) {
      ExpectFolded(binary, dtype, {{2, 17}, {2, 17}});
      ExpectFolded(binary, dtype, {{2, 17}, {17}});
      ExpectFolded(binary, dtype, {{2, 17}, {}});
    }
  }
}

// b repeats a smaller number of elements along any axis; where a broadcasts, so does the result.
TEST(FoldBinary, EitherSideMayBroadcast) {
  for (const Binary& binary : Binaries()) {
    const bool one_way = binary.op == "PRelu";
    ExpectFolded(binary, binary.dtypes[0], {{2, 3, 5}, {3, 1}});
    ExpectFolded(binary, binary.dtypes[0], {{1}, {1}});
    ExpectFolded(binary, binary.dtypes[0], {{0, 3}, {3}});
    if (one_way) continue;
    ExpectFolded(binary, binary.dtypes[0], {{5}, {2, 3, 1}});
    ExpectFolded(binary, binary.dtypes[0], {{}, {2, 3}});
  }
}

}  // namespace
}  // namespace tandem::optimizer
