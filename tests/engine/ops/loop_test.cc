// The step of a Loop by itself, with a body that the test runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

// y = Loop(M, , x) over one carried value of two elements.
graph::Node LoopNode() {
  auto body = std::make_shared<graph::Graph>();
  body->AddInput("i", {.dtype = DType::kInt64, .dims = graph::DimVector()});
  const graph::ValueId go =
      body->AddInput("go", {.dtype = DType::kBool, .dims = graph::DimVector()});
  const graph::ValueId a =
      body->AddInput("a", {.dtype = DType::kFloat, .dims = graph::DimVector{2}});
  body->AddOutput("on", go);
  body->AddOutput("b", a);
  graph::Node node;
  node.op_type = "Loop";
  node.opset = 17;
  node.inputs = {0, graph::kNoValue, 1};
  node.outputs = {2};
  node.attributes["body"] = std::shared_ptr<const graph::Graph>(std::move(body));
  return node;
}

class Binder final : public BindContext {
 public:
  explicit Binder(const graph::Node& node) : node_(node) {}
  const graph::Node& node() const override { return node_; }
  Isa isa() const override { return Isa::kReference; }
  const ValueFacts& input(int) const override { return none_; }
  const ValueFacts& output(int) const override { return none_; }
  Layout input_layout(int) const override { return Layout::kNative; }
  Layout output_layout(int) const override { return Layout::kNative; }
  graph::ConstantRef constant(int) const override { return nullptr; }
  StatusOr<PackRef> MakePack(int, const PackSpec&) override { return Internal("nothing to pack"); }

 private:
  const graph::Node& node_;
  ValueFacts none_;
};

// Its body adds one to both elements, in the memory it is offered or in memory of its own.
class Counting final : public StepContext {
 public:
  enum class Results { kLetGo, kKept };

  Counting(int64_t trips, Results results)
      : trips_(Tensor::Scalar(trips)), results_(results), values_{trips_.view(), {}, x_.view()} {}

  const TensorView& input(int port) const override { return values_[static_cast<size_t>(port)]; }
  const MutableTensorView& output(int) const override { return none_; }
  StatusOr<MutableTensorView> AllocateOutput(int, const Shape&) override {
    return Internal("the result is handed over");
  }
  Status HandOver(int, const Tensor& tensor) override {
    y = tensor;
    return absl::OkStatus();
  }
  StatusOr<std::vector<Tensor>> RunBody(int, std::span<const TensorView> formal,
                                        std::vector<Tensor> memory) override {
    const TensorView& a = formal[2];
    Tensor b = memory[1];
    if (!b.valid()) {
      ++allocated;
      b = *Tensor::Allocate(DType::kFloat, {2});
    }
    EXPECT_NE(b.view().raw(), a.raw()) << "the body would write what it reads";
    for (const Tensor& tensor : kept) EXPECT_NE(b.view().raw(), tensor.view().raw());
    for (int i = 0; i < 2; ++i) b.mutable_view().mutable_data<float>()[i] = a.data<float>()[i] + 1;
    if (results_ == Results::kKept) kept.push_back(b);
    return std::vector<Tensor>{Tensor::Scalar(true), b};
  }
  std::span<std::byte> scratch() const override { return {}; }
  const Parallel& parallel() const override { return parallel_; }

  int allocated = 0;
  std::vector<Tensor> kept;
  Tensor y;

 private:
  const Tensor x_ = Tensor::Of<float>({2}, {0, 10});
  const Tensor trips_;
  const Results results_;
  std::vector<TensorView> values_;
  MutableTensorView none_;
  SequentialParallel parallel_;
};

void RunLoop(Counting& context) {
  graph::Node node = LoopNode();
  StatusOr<std::shared_ptr<const Operator>> op = ParseNode(node);
  ASSERT_TRUE(op.ok()) << op.status();
  node.op = *op;
  Binder binder(node);
  const auto step = (*op)->Bind(binder);
  ASSERT_TRUE(step.ok()) << step.status();
  const Status status = (*step)->Run(context);
  ASSERT_TRUE(status.ok()) << status;
}

TEST(LoopStep, TwoBuffersCarryAValueThroughAnyNumberOfIterations) {
  for (const int64_t trips : {1, 2, 3, 100}) {
    Counting context(trips, Counting::Results::kLetGo);
    RunLoop(context);
    EXPECT_EQ(context.allocated, std::min<int64_t>(trips, 2));
    EXPECT_EQ(context.y.data<float>()[1], 10.0F + static_cast<float>(trips));
  }
}

TEST(LoopStep, MemoryThatSomebodyElseHoldsIsNotUsedAgain) {
  Counting context(10, Counting::Results::kKept);
  RunLoop(context);
  EXPECT_EQ(context.allocated, 10);
  for (size_t i = 0; i < context.kept.size(); ++i) {
    EXPECT_EQ(context.kept[i].data<float>()[0], static_cast<float>(i + 1));
  }
}

}  // namespace
}  // namespace tandem::ops
