#include "tests/support/bound_step.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/kernels/move/permute.h"
#include "engine/ops/registry.h"
#include "tests/support/compare.h"
#include "tests/support/fine_parallel.h"

namespace tandem::test {
namespace {

constexpr int kSeveralThreads = 3;

class Binder final : public ops::BindContext {
 public:
  Binder(const BoundCall& call, const graph::Node& node, const std::vector<Tensor>& inputs)
      : call_(call), node_(node), inputs_(inputs) {
    for (const Tensor& input : inputs) facts_.push_back(ops::FactsOf(input));
  }
  const graph::Node& node() const override { return node_; }
  Isa isa() const override { return call_.isa; }
  const ops::ValueFacts& input(int port) const override {
    return static_cast<size_t>(port) < facts_.size() ? facts_[static_cast<size_t>(port)] : none_;
  }
  const ops::ValueFacts& output(int) const override { return none_; }
  Layout input_layout(int port) const override;
  Layout output_layout(int) const override {
    return (call_.channels_last & kOutput) != 0 ? Layout::kChannelsLast : Layout::kNative;
  }
  graph::ConstantRef constant(int port) const override {
    if (port != call_.constant_port) return nullptr;
    return std::make_shared<const graph::Constant>(inputs_[static_cast<size_t>(port)], Hash128());
  }
  StatusOr<ops::PackRef> MakePack(int port, const ops::PackSpec& spec) override {
    ++packs;
    ASSIGN_OR_RETURN(Buffer buffer, Buffer::Allocate(spec.bytes));
    spec.fill(inputs_[static_cast<size_t>(port)].view(), buffer.bytes());
    return std::make_shared<const ops::Pack>(ops::Pack{spec.kernel, std::move(buffer)});
  }
  int packs = 0;

 private:
  const BoundCall& call_;
  const graph::Node& node_;
  const std::vector<Tensor>& inputs_;
  ops::ValueFacts none_;
  std::vector<ops::ValueFacts> facts_;
};

Layout Binder::input_layout(int port) const {
  if (input(port).rank() < 3) return Layout::kNative;
  const bool first = port == 0 && (call_.channels_last & kInputZero) != 0;
  const bool operand = port >= call_.own_inputs && (call_.channels_last & kOperands) != 0;
  return first || operand ? Layout::kChannelsLast : Layout::kNative;
}

class Context final : public ops::StepContext {
 public:
  Context(std::vector<TensorView> inputs, MutableTensorView output, std::span<std::byte> scratch,
          const Parallel& parallel)
      : inputs_(std::move(inputs)),
        output_(std::move(output)),
        scratch_(scratch),
        parallel_(parallel) {}
  const TensorView& input(int port) const override {
    static const TensorView omitted;
    const auto i = static_cast<size_t>(port);
    return i < inputs_.size() ? inputs_[i] : omitted;
  }
  const MutableTensorView& output(int port) const override {
    static const MutableTensorView omitted;
    return port == 0 ? output_ : omitted;
  }
  StatusOr<MutableTensorView> AllocateOutput(int, const Shape&) override { return output_; }
  std::span<std::byte> scratch() const override { return scratch_; }
  const Parallel& parallel() const override { return parallel_; }

 private:
  std::vector<TensorView> inputs_;
  MutableTensorView output_;
  std::span<std::byte> scratch_;
  const Parallel& parallel_;
};

// Memory between bytes of a known value, which nobody may write.
class Guarded {
 public:
  explicit Guarded(size_t bytes) : buffer_(*Buffer::Allocate(bytes + 2 * kGuardBytes)) {
    std::ranges::fill(buffer_.bytes(), kUntouched);
  }
  std::span<std::byte> bytes() {
    return buffer_.bytes().subspan(kGuardBytes, buffer_.size() - 2 * kGuardBytes);
  }
  bool whole() {
    const auto untouched = [](std::byte byte) { return byte == kUntouched; };
    return std::ranges::all_of(buffer_.bytes().first(kGuardBytes), untouched) &&
           std::ranges::all_of(buffer_.bytes().last(kGuardBytes), untouched);
  }

 private:
  static constexpr size_t kGuardBytes = 64;  // keeps the alignment of the buffer
  static constexpr std::byte kUntouched{0xCD};

  Buffer buffer_;
};

Tensor Converted(const Tensor& tensor, kernels::LayoutDirection direction) {
  const Shape& shape = tensor.shape();
  Tensor result = *Tensor::Allocate(tensor.dtype(), shape);
  kernels::ConvertLayout({.items = shape[0],
                          .channels = shape[1],
                          .spatial = shape.Product(2, shape.rank()),
                          .direction = direction},
                         tensor.view().raw(), result.mutable_view().mutable_raw(),
                         SequentialParallel());
  return result;
}

graph::Node NodeOf(const BoundCall& call, size_t inputs) {
  graph::Node node;
  node.op_type = call.op_type;
  node.opset = call.opset;
  node.attributes = call.attributes;
  node.outputs = {100};
  const size_t own = std::min(inputs, call.epilogue.empty() ? inputs : size_t(call.own_inputs));
  for (size_t i = 0; i < own; ++i) node.inputs.push_back(static_cast<int>(i));
  node.op = *ops::ParseNode(node);
  for (size_t i = own; i < inputs; ++i) node.inputs.push_back(static_cast<int>(i));
  node.epilogue = call.epilogue;
  return node;
}

// The result of the step, in the layout of `like`: it lies between bytes that stay what they are,
// as does the scratch.
Tensor RunGuarded(const ops::Step& step, const std::vector<Shape>& shapes,
                  const std::vector<TensorView>& inputs, const MutableTensorView& like,
                  const Parallel& parallel) {
  const Shape& out = like.shape();
  Guarded scratch(step.ScratchBytes({shapes, std::span(&out, 1), parallel.threads()}));
  Tensor y = *Tensor::Allocate(like.dtype(), out);
  Guarded result(y.view().byte_size());
  Context context(inputs, {like.dtype(), out, result.bytes().data(), like.layout()},
                  scratch.bytes(), parallel);
  EXPECT_TRUE(step.Run(context).ok());
  EXPECT_TRUE(scratch.whole()) << "scratch of " << scratch.bytes().size() << " bytes is exceeded";
  EXPECT_TRUE(result.whole()) << "the result is written beyond its shape";
  std::ranges::copy(result.bytes(), static_cast<std::byte*>(y.mutable_view().mutable_raw()));
  return y;
}

}  // namespace

Tensor BindAndRun(const BoundCall& given, const std::vector<Tensor>& inputs) {
  BoundCall call = given;
  if (call.isa == Isa::kReference) call.constant_port = -1;
  const graph::Node node = NodeOf(call, inputs.size());
  Binder binder(call, node, inputs);
  const auto step = *ops::OpOf(node).Bind(binder);
  EXPECT_EQ(binder.packs, call.constant_port >= 0 ? 1 : 0);
  std::vector<Shape> shapes;
  std::vector<Tensor> kept;
  std::vector<TensorView> views;
  for (size_t port = 0; port < inputs.size(); ++port) {
    shapes.push_back(inputs[port].shape());
    const Layout layout = binder.input_layout(static_cast<int>(port));
    kept.push_back(layout == Layout::kNative
                       ? inputs[port]
                       : Converted(inputs[port], kernels::LayoutDirection::kNativeToChannelsLast));
    views.emplace_back(kept.back().dtype(), shapes.back(), kept.back().view().raw(), layout);
  }
  // A packed constant is not there when the step runs.
  if (call.constant_port >= 0) views[static_cast<size_t>(call.constant_port)] = TensorView();
  const Layout layout = binder.output_layout(0);
  const MutableTensorView like(DType::kFloat, call.out, nullptr, layout);
  const Tensor y = RunGuarded(*step, shapes, views, like, SequentialParallel());
  const Tensor several = RunGuarded(*step, shapes, views, like, FineParallel(kSeveralThreads));
  EXPECT_TRUE(Close(several, y, Exact())) << "on several threads";
  return layout == Layout::kNative ? y
                                   : Converted(y, kernels::LayoutDirection::kChannelsLastToNative);
}

}  // namespace tandem::test
