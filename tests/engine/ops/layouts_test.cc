// Element-wise operators on views that lie in memory in different layouts.
#include <gtest/gtest.h>

#include <deque>

#include "engine/ops/registry.h"
#include "tests/support/compare.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::Close;
using test::Exact;
using test::RandomFloats;

// The elements of `x` in the order of `layout`.
Tensor InLayout(const Tensor& x, Layout layout) {
  const Shape& shape = x.shape();
  Tensor moved = *Tensor::Allocate(DType::kFloat, shape);
  if (layout == Layout::kNative) return x;
  const int64_t inner = shape.Product(2, shape.rank());
  for (int64_t n = 0; n < shape[0]; ++n) {
    for (int64_t c = 0; c < shape[1]; ++c) {
      for (int64_t i = 0; i < inner; ++i) {
        moved.mutable_data<float>()[(n * inner + i) * shape[1] + c] =
            x.data<float>()[(n * shape[1] + c) * inner + i];
      }
    }
  }
  return moved;
}

struct Operand {
  Tensor tensor;  // native
  Layout layout = Layout::kNative;
};

class Bind final : public ops::BindContext {
 public:
  Bind(const graph::Node& node, const std::vector<Operand>& operands, Layout output, Isa isa)
      : node_(node), operands_(operands), output_layout_(output), isa_(isa) {
    for (const Operand& operand : operands) inputs_.push_back(ops::FactsOf(operand.tensor));
  }
  const graph::Node& node() const override { return node_; }
  Isa isa() const override { return isa_; }
  const ops::ValueFacts& input(int port) const override {
    return inputs_[static_cast<size_t>(port)];
  }
  const ops::ValueFacts& output(int) const override { return output_; }
  Layout input_layout(int port) const override {
    return operands_[static_cast<size_t>(port)].layout;
  }
  Layout output_layout(int) const override { return output_layout_; }
  graph::ConstantRef constant(int) const override { return nullptr; }
  StatusOr<ops::PackRef> MakePack(int, const ops::PackSpec&) override {
    return Internal("no packs here");
  }

 private:
  const graph::Node& node_;
  const std::vector<Operand>& operands_;
  Layout output_layout_;
  Isa isa_;
  std::vector<ops::ValueFacts> inputs_;
  ops::ValueFacts output_;
};

class Run final : public ops::StepContext {
 public:
  Run(const std::vector<Operand>& operands, MutableTensorView output, std::span<std::byte> scratch)
      : output_(std::move(output)), scratch_(scratch) {
    for (const Operand& operand : operands) {
      const Tensor& moved = moved_.emplace_back(InLayout(operand.tensor, operand.layout));
      inputs_.emplace_back(DType::kFloat, moved.shape(), moved.view().raw(), operand.layout);
    }
  }
  const TensorView& input(int port) const override {
    static const TensorView omitted;
    return static_cast<size_t>(port) < inputs_.size() ? inputs_[static_cast<size_t>(port)]
                                                      : omitted;
  }
  const MutableTensorView& output(int) const override { return output_; }
  StatusOr<MutableTensorView> AllocateOutput(int, const Shape&) override {
    return Internal("shapes are known here");
  }
  std::span<std::byte> scratch() const override { return scratch_; }
  const Parallel& parallel() const override { return parallel_; }

 private:
  std::deque<Tensor> moved_;
  std::vector<TensorView> inputs_;
  MutableTensorView output_;
  std::span<std::byte> scratch_;
  SequentialParallel parallel_;
};

// Runs the operator with views in the given layouts; the native result must be moved like the
// output.
void ExpectLayouts(const std::string& op, const std::vector<Operand>& operands, Layout output) {
  std::vector<Tensor> tensors;
  graph::Node node;
  node.op_type = op;
  node.opset = 17;
  for (size_t i = 0; i < operands.size(); ++i) {
    tensors.push_back(operands[i].tensor);
    node.inputs.push_back(static_cast<graph::ValueId>(i));
  }
  node.outputs = {100};
  node.op = *ops::ParseNode(node);
  for (const Isa isa : {Isa::kReference, DetectIsa()}) {
    const auto native = test::RunOp({.op_type = op, .isa = isa}, tensors);
    ASSERT_TRUE(native.ok()) << native.status();
    const Shape& shape = (*native)[0].shape();
    const Tensor y = *Tensor::Allocate(DType::kFloat, shape);
    Bind bind(node, operands, output, isa);
    const auto step = ops::OpOf(node).Bind(bind);
    ASSERT_TRUE(step.ok()) << step.status();
    std::vector<Shape> shapes;
    for (const Tensor& tensor : tensors) shapes.push_back(tensor.shape());
    const Shape output_shapes[] = {shape};
    Buffer scratch = *Buffer::Allocate((*step)->ScratchBytes({shapes, output_shapes, 1}));
    Run run(operands, {DType::kFloat, shape, y.mutable_view().mutable_raw(), output},
            scratch.bytes());
    const Status ran = (*step)->Run(run);
    ASSERT_TRUE(ran.ok()) << ran;
    EXPECT_TRUE(Close(y, InLayout((*native)[0], output), Exact()))
        << op << " " << ToString(operands.back().tensor.shape()) << " " << IsaName(isa);
  }
}

constexpr Layout kNative = Layout::kNative;
constexpr Layout kLast = Layout::kChannelsLast;

TEST(Layouts, UnaryAndEqualShapesRunAlongTheMemory) {
  for (const Shape& shape : {Shape{2, 3, 5, 7}, Shape{1, 17, 9}, Shape{2, 3, 2, 3, 2}}) {
    const Tensor x = RandomFloats(shape, 1);
    ExpectLayouts("Relu", {{x, kLast}}, kLast);
    ExpectLayouts("Tanh", {{x, kLast}}, kNative);
    ExpectLayouts("Add", {{x, kLast}, {RandomFloats(shape, 2), kLast}}, kLast);
    ExpectLayouts("Sub", {{x, kLast}, {RandomFloats(shape, 2), kNative}}, kLast);
    ExpectLayouts("Sub", {{x, kNative}, {RandomFloats(shape, 2), kLast}}, kNative);
  }
}

TEST(Layouts, OperandsOfEveryRankBroadcast) {
  const Tensor x = RandomFloats({2, 19, 5, 7}, 1);
  for (const Shape& shape :
       {Shape{}, Shape{1}, Shape{7}, Shape{5, 1}, Shape{5, 7}, Shape{19, 1, 1}, Shape{19, 5, 7},
        Shape{1, 19, 1, 1}, Shape{2, 1, 5, 1}, Shape{2, 1, 1, 1}, Shape{1, 19, 5, 7}}) {
    const Tensor b = RandomFloats(shape, 2);
    ExpectLayouts("Mul", {{x, kLast}, {b, kNative}}, kLast);
    ExpectLayouts("Div", {{b, kNative}, {x, kLast}}, kLast);
    if (shape.rank() == 4) ExpectLayouts("Sub", {{x, kLast}, {b, kLast}}, kLast);
    if (shape.rank() == 3) ExpectLayouts("Sub", {{x, kLast}, {b, kLast}}, kLast);
  }
}

TEST(Layouts, OperandsThatAreLargerThanTheFirst) {
  const Tensor small = RandomFloats({1, 3, 1, 4}, 1);
  const Tensor large = RandomFloats({2, 3, 5, 4}, 2);
  ExpectLayouts("Sub", {{small, kLast}, {large, kLast}}, kLast);
  ExpectLayouts("Sum", {{small, kLast}, {large, kNative}, {RandomFloats({4}, 3), kNative}}, kLast);
}

TEST(Layouts, ClipKeepsItsBoundsScalar) {
  ExpectLayouts("Clip", {{RandomFloats({2, 3, 5, 7}, 1), kLast}, {Tensor::Scalar(-0.5f), kNative}},
                kLast);
}

TEST(Layouts, BatchNormalizationFindsItsChannels) {
  for (const Shape& shape : {Shape{2, 19, 5, 7}, Shape{3, 4, 9}, Shape{1, 70, 1, 3}}) {
    const Shape channels{shape[1]};
    const std::vector<Operand> parameters = {{RandomFloats(channels, 2)},
                                             {RandomFloats(channels, 3)},
                                             {RandomFloats(channels, 4)},
                                             {RandomFloats(channels, 5, 0.1f, 2)}};
    std::vector<Operand> operands = {{RandomFloats(shape, 1), kLast}};
    operands.insert(operands.end(), parameters.begin(), parameters.end());
    ExpectLayouts("BatchNormalization", operands, kLast);
  }
}

}  // namespace
}  // namespace tandem
