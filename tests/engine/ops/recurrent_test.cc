#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/ops/registry.h"
#include "tests/support/bound_step.h"
#include "tests/support/compare.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using graph::Attributes;
using test::Close;
using test::Exact;
using test::RandomFloats;
using testing::HasSubstr;

using Strings = std::vector<std::string>;
using Floats = std::vector<float>;

constexpr const char* kLayers[] = {"RNN", "GRU", "LSTM"};

int64_t GatesOf(const std::string& layer) { return layer == "RNN" ? 1 : layer == "GRU" ? 3 : 4; }
int OutputsOf(const std::string& layer) { return layer == "LSTM" ? 3 : 2; }

std::vector<Tensor> RunLayer(const std::string& layer, const Attributes& attributes,
                             const std::vector<Tensor>& inputs, Isa isa = DetectIsa()) {
  const auto y = test::RunOp(
      {.op_type = layer, .attributes = attributes, .outputs = OutputsOf(layer), .isa = isa},
      inputs);
  EXPECT_TRUE(y.ok()) << layer << ": " << y.status();
  return y.ok() ? *y : std::vector<Tensor>(3, Tensor::Of<float>({0}, {}));
}

std::string ErrorOf(const test::OpCall& call, const std::vector<Tensor>& inputs) {
  const auto y = test::RunOp(call, inputs);
  return y.ok() ? "no error" : std::string(Message(y.status()));
}

// A layer of random weights; inputs that it does not name are omitted.
struct Layer {
  std::string op;
  int64_t steps = 5, items = 3, input = 4, hidden = 6;
  int64_t directions = 1;
  bool items_first = false;

  Tensor X() const {
    return RandomFloats(items_first ? Shape{items, steps, input} : Shape{steps, items, input}, 1);
  }
  Tensor W() const { return RandomFloats({directions, GatesOf(op) * hidden, input}, 2); }
  Tensor R() const { return RandomFloats({directions, GatesOf(op) * hidden, hidden}, 3); }
  Tensor B() const { return RandomFloats({directions, 2 * GatesOf(op) * hidden}, 4); }
  Tensor State(uint32_t seed) const {
    return RandomFloats(
        items_first ? Shape{items, directions, hidden} : Shape{directions, items, hidden}, seed);
  }
  Tensor P() const { return RandomFloats({directions, 3 * hidden}, 7); }

  std::vector<Tensor> Inputs(const Tensor& lengths = {}) const {
    std::vector<Tensor> inputs = {X(), W(), R(), B(), lengths, State(5)};
    if (op == "LSTM") inputs.insert(inputs.end(), {State(6), P()});
    return inputs;
  }
};

// Axes of a tensor in another order.
Tensor Transposed(const Tensor& x, const std::vector<int64_t>& perm) {
  return test::Apply({.op_type = "Transpose", .attributes = {{"perm", perm}}}, {x});
}

Tensor Slice(const Tensor& x, int64_t axis, int64_t begin, int64_t end, int64_t step = 1) {
  const auto vector = [](int64_t value) { return Tensor::Of<int64_t>({1}, {value}); };
  return test::Apply({.op_type = "Slice"},
                     {x, vector(begin), vector(end), vector(axis), vector(step)});
}
Tensor Reversed(const Tensor& x, int64_t axis) {
  return Slice(x, axis, -1, std::numeric_limits<int64_t>::min(), -1);
}

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

float At(const Tensor& tensor, int64_t i) { return tensor.data<float>()[i]; }

// One unit, two steps: every number by hand.
TEST(Rnn, FollowsItsFormula) {
  const Tensor one = Tensor::Of<float>({1, 1, 1}, {0.5f});
  const auto y = RunLayer(
      "RNN", {{"hidden_size", int64_t{1}}},
      {Tensor::Of<float>({2, 1, 1}, {1, -2}), one, Tensor::Of<float>({1, 1, 1}, {0.25f}),
       Tensor::Of<float>({1, 2}, {0.1f, 0.2f}), Tensor(), Tensor::Of<float>({1, 1, 1}, {0.4f})});
  const double first = std::tanh(0.5 + 0.25 * 0.4 + 0.3);
  const double second = std::tanh(-1 + 0.25 * first + 0.3);
  EXPECT_NEAR(At(y[0], 0), first, 1e-6);
  EXPECT_NEAR(At(y[0], 1), second, 1e-6);
  EXPECT_EQ(At(y[1], 0), At(y[0], 1));
}

TEST(Gru, FollowsItsFormulasInBothForms) {
  const Tensor x = Tensor::Of<float>({1, 1, 1}, {0.8f});
  const Tensor w = Tensor::Of<float>({1, 3, 1}, {0.5f, -0.3f, 0.7f});
  const Tensor r = Tensor::Of<float>({1, 3, 1}, {0.2f, 0.9f, -0.6f});
  const Tensor b = Tensor::Of<float>({1, 6}, {0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f});
  const Tensor h0 = Tensor::Of<float>({1, 1, 1}, {0.5f});
  const double z = Sigmoid(0.8 * 0.5 + 0.5 * 0.2 + 0.1 + 0.4);
  const double reset = Sigmoid(0.8 * -0.3 + 0.5 * 0.9 + 0.2 + 0.5);
  const double before = std::tanh(0.8 * 0.7 + reset * 0.5 * -0.6 + 0.3 + 0.6);
  const double after = std::tanh(0.8 * 0.7 + reset * (0.5 * -0.6 + 0.6) + 0.3);
  for (const Isa isa : {Isa::kReference, DetectIsa()}) {
    const std::vector<Tensor> inputs = {x, w, r, b, Tensor(), h0};
    EXPECT_NEAR(At(RunLayer("GRU", {}, inputs, isa)[1], 0), (1 - z) * before + z * 0.5, 1e-6);
    EXPECT_NEAR(At(RunLayer("GRU", {{"linear_before_reset", int64_t{1}}}, inputs, isa)[1], 0),
                (1 - z) * after + z * 0.5, 1e-6);
  }
}

TEST(Lstm, FollowsItsFormulasWithPeepholesCoupledGatesAndClip) {
  const Tensor x = Tensor::Of<float>({1, 1, 1}, {0.8f});
  const Tensor w = Tensor::Of<float>({1, 4, 1}, {0.5f, -0.3f, 0.7f, 2.0f});
  const Tensor r = Tensor::Of<float>({1, 4, 1}, {0.2f, 0.9f, -0.6f, 1.0f});
  const Tensor h0 = Tensor::Of<float>({1, 1, 1}, {0.5f});
  const Tensor c0 = Tensor::Of<float>({1, 1, 1}, {3.0f});
  const Tensor p = Tensor::Of<float>({1, 3}, {0.1f, -0.2f, 0.3f});
  const auto clip = [](double value, double bound) { return std::clamp(value, -bound, bound); };
  for (const bool coupled : {false, true}) {
    for (const double bound : {0.25, 100.0}) {
      const double in = Sigmoid(clip(0.8 * 0.5 + 0.5 * 0.2 + 0.1 * 3, bound));
      const double forget =
          coupled ? 1 - in : Sigmoid(clip(0.8 * 0.7 + 0.5 * -0.6 + 0.3 * 3, bound));
      const double c = forget * 3 + in * std::tanh(clip(0.8 * 2 + 0.5, bound));
      const double out = Sigmoid(clip(0.8 * -0.3 + 0.5 * 0.9 - 0.2 * c, bound));
      for (const Isa isa : {Isa::kReference, DetectIsa()}) {
        const auto y = RunLayer(
            "LSTM", {{"input_forget", int64_t{coupled}}, {"clip", static_cast<float>(bound)}},
            {x, w, r, Tensor(), Tensor(), h0, c0, p}, isa);
        EXPECT_NEAR(At(y[1], 0), out * std::tanh(c), 1e-6);
        EXPECT_NEAR(At(y[2], 0), c, 1e-6);
      }
    }
  }
}

TEST(Recurrent, EveryActivationOfTheSpecification) {
  struct Row {
    const char* name;
    Floats alpha, beta;
    double (*f)(double);
  };
  const Row rows[] = {
      {"Relu", {}, {}, [](double x) { return std::max(x, 0.0); }},
      {"Tanh", {}, {}, [](double x) { return std::tanh(x); }},
      {"Sigmoid", {}, {}, Sigmoid},
      {"sigmoid", {}, {}, Sigmoid},
      {"Affine", {}, {}, [](double x) { return x; }},
      {"Affine", {2}, {0.5f}, [](double x) { return 2 * x + 0.5; }},
      {"LeakyRelu", {}, {}, [](double x) { return x < 0 ? 0.01 * x : x; }},
      {"LeakyRelu", {0.3f}, {}, [](double x) { return x < 0 ? 0.3 * x : x; }},
      {"ThresholdedRelu", {}, {}, [](double x) { return x > 1 ? x : 0; }},
      {"ThresholdedRelu", {0.5f}, {}, [](double x) { return x > 0.5 ? x : 0; }},
      {"ScaledTanh", {2}, {0.5f}, [](double x) { return 2 * std::tanh(0.5 * x); }},
      {"HardSigmoid", {}, {}, [](double x) { return std::clamp(0.2 * x + 0.5, 0.0, 1.0); }},
      {"HardSigmoid", {1}, {0.1f}, [](double x) { return std::clamp(x + 0.1, 0.0, 1.0); }},
      {"Elu", {}, {}, [](double x) { return x < 0 ? std::expm1(x) : x; }},
      {"Elu", {0.5f}, {}, [](double x) { return x < 0 ? 0.5 * std::expm1(x) : x; }},
      {"Softsign", {}, {}, [](double x) { return x / (1 + std::fabs(x)); }},
      {"Softplus", {}, {}, [](double x) { return std::log1p(std::exp(x)); }},
  };
  for (const Row& row : rows) {
    Attributes attributes = {{"activations", Strings{row.name}}};
    if (!row.alpha.empty()) attributes["activation_alpha"] = row.alpha;
    if (!row.beta.empty()) attributes["activation_beta"] = row.beta;
    const Tensor one = Tensor::Of<float>({1, 1, 1}, {1});
    const Tensor zero = Tensor::Of<float>({1, 1, 1}, {0});
    for (const float x : {-1.7f, -0.2f, 0.0f, 0.7f, 1.3f}) {
      for (const Isa isa : {Isa::kReference, DetectIsa()}) {
        const auto y =
            RunLayer("RNN", attributes, {Tensor::Of<float>({1, 1, 1}, {x}), one, zero}, isa);
        EXPECT_NEAR(At(y[1], 0), row.f(x), 1e-6) << row.name << " of " << x;
      }
    }
  }
}

TEST(Recurrent, ActivationsTakeTheirValuesInOrder) {
  const Layer layer{"LSTM"};
  const Attributes sparse = {{"activations", Strings{"HardSigmoid", "Tanh", "LeakyRelu"}},
                             {"activation_alpha", Floats{0.3f, 0.1f}},
                             {"activation_beta", Floats{0.4f}}};
  const auto y = RunLayer("LSTM", sparse, layer.Inputs());
  Attributes other = sparse;
  other["activation_alpha"] = Floats{0.1f, 0.3f};
  EXPECT_FALSE(Close(RunLayer("LSTM", other, layer.Inputs())[0], y[0], Exact()));
  // Values beyond the list are the defaults.
  other["activation_alpha"] = Floats{0.3f, 0.01f};
  Attributes shorter = sparse;
  shorter["activation_alpha"] = Floats{0.3f};
  EXPECT_TRUE(Close(RunLayer("LSTM", shorter, layer.Inputs())[0],
                    RunLayer("LSTM", other, layer.Inputs())[0], Exact()));
}

TEST(Recurrent, ReverseIsForwardOnTheReversedSequence) {
  for (const std::string op : kLayers) {
    const Layer layer{op};
    std::vector<Tensor> inputs = layer.Inputs();
    const auto reverse = RunLayer(op, {{"direction", std::string("reverse")}}, inputs);
    inputs[0] = Reversed(inputs[0], 0);
    const auto forward = RunLayer(op, {}, inputs);
    EXPECT_TRUE(Close(Reversed(reverse[0], 0), forward[0], Exact())) << op;
    for (int i = 1; i < OutputsOf(op); ++i) {
      EXPECT_TRUE(Close(reverse[static_cast<size_t>(i)], forward[static_cast<size_t>(i)], Exact()));
    }
  }
}

TEST(Recurrent, BothDirectionsLieSideBySide) {
  for (const std::string op : kLayers) {
    Layer layer{op};
    layer.directions = 2;
    const std::vector<Tensor> inputs = layer.Inputs();
    const auto both = RunLayer(op, {{"direction", std::string("bidirectional")}}, inputs);
    for (int64_t d = 0; d < 2; ++d) {
      std::vector<Tensor> own = {inputs[0]};
      for (size_t port = 1; port < inputs.size(); ++port) {
        own.push_back(inputs[port].valid() ? inputs[port].Rows(d, d + 1) : Tensor());
      }
      const auto one =
          RunLayer(op, {{"direction", std::string(d == 0 ? "forward" : "reverse")}}, own);
      EXPECT_TRUE(Close(Slice(both[0], 1, d, d + 1), one[0], Exact())) << op;
      EXPECT_TRUE(Close(both[1].Rows(d, d + 1), one[1], Exact())) << op;
    }
  }
}

// All extents are equal, so that no shape could tell the layouts apart.
TEST(Recurrent, LayoutOneHasItemsFirst) {
  for (const std::string op : kLayers) {
    const Layer layer{op, 2, 2, 2, 2, 2};
    const Tensor lengths = Tensor::Of<int32_t>({2}, {2, 1});
    std::vector<Tensor> inputs = layer.Inputs(lengths);
    const Attributes both = {{"direction", std::string("bidirectional")}};
    const auto steps_first = RunLayer(op, both, inputs);
    for (const size_t port : {size_t{0}, size_t{5}, size_t{6}}) {
      if (port < inputs.size()) inputs[port] = Transposed(inputs[port], {1, 0, 2});
    }
    Attributes attributes = both;
    attributes["layout"] = int64_t{1};
    const auto items_first = RunLayer(op, attributes, inputs);
    EXPECT_TRUE(Close(Transposed(steps_first[0], {2, 0, 1, 3}), items_first[0], Exact())) << op;
    for (size_t i = 1; i < items_first.size(); ++i) {
      EXPECT_TRUE(Close(Transposed(steps_first[i], {1, 0, 2}), items_first[i], Exact())) << op;
    }
  }
}

TEST(Recurrent, AnItemEndsAtItsLength) {
  for (const std::string op : kLayers) {
    for (const std::string direction : {"forward", "reverse"}) {
      const Attributes attributes = {{"direction", direction}};
      Layer layer{op};
      const auto y = RunLayer(op, attributes, layer.Inputs(Tensor::Of<int32_t>({3}, {0, 5, 2})));
      for (int64_t item = 0; item < 3; ++item) {
        const int64_t length = item == 0 ? 0 : (item == 1 ? 5 : 2);
        std::vector<Tensor> alone = layer.Inputs();
        alone[0] = Slice(Slice(alone[0], 1, item, item + 1), 0, 0, length);
        for (size_t port = 5; port < alone.size() && port < 7; ++port) {
          alone[port] = Slice(alone[port], 1, item, item + 1);
        }
        const auto expected = RunLayer(op, attributes, alone);
        const Tensor own = Slice(y[0], 2, item, item + 1);
        EXPECT_TRUE(Close(Slice(own, 0, 0, length), expected[0], Exact())) << op << direction;
        const Tensor rest = Slice(own, 0, length, 5);
        for (const float beyond : rest.span<float>()) EXPECT_EQ(beyond, 0);
        for (size_t i = 1; i < y.size(); ++i) {
          EXPECT_TRUE(Close(Slice(y[i], 1, item, item + 1), expected[i], Exact()))
              << op << direction;
        }
      }
      // Of length 0 there is the initial state.
      EXPECT_TRUE(Close(Slice(y[1], 1, 0, 1), Slice(layer.State(5), 1, 0, 1), Exact()));
    }
  }
}

TEST(Recurrent, NoStepsLeaveTheInitialState) {
  for (const std::string op : kLayers) {
    for (const Isa isa : {Isa::kReference, DetectIsa()}) {
      Layer layer{op};
      layer.steps = 0;
      const auto y = RunLayer(op, {}, layer.Inputs(), isa);
      EXPECT_EQ(y[0].shape(), (Shape{0, 1, 3, 6}));
      EXPECT_TRUE(Close(y[1], layer.State(5), Exact()));
      const auto without = RunLayer(op, {}, {layer.X(), layer.W(), layer.R()}, isa);
      for (const float h : without[1].span<float>()) EXPECT_EQ(h, 0);
    }
  }
}

TEST(Recurrent, OmittedOutputsAreNotMissed) {
  const Layer layer{"LSTM"};
  const auto all = RunLayer("LSTM", {}, layer.Inputs());
  test::OpCall call{.op_type = "LSTM", .outputs = 1};
  EXPECT_TRUE(Close((*test::RunOp(call, layer.Inputs()))[0], all[0], Exact()));
}

TEST(Recurrent, ThreadsDoNotChangeBits) {
  for (const std::string op : kLayers) {
    Layer layer{op, 4, 9, 20, 50, 2};
    test::OpCall call{.op_type = op, .attributes = {{"direction", std::string("bidirectional")}}};
    const Tensor expected = (*test::RunOp(call, layer.Inputs()))[0];
    for (const int threads : {2, 4}) {
      call.threads = threads;
      for (int i = 0; i < 20; ++i) {
        EXPECT_TRUE(Close((*test::RunOp(call, layer.Inputs()))[0], expected, Exact())) << op;
      }
    }
  }
}

TEST(Recurrent, WeightsKnownAtLoadAndInTheRunGiveTheSameBits) {
  for (const std::string op : kLayers) {
    const Layer layer{op, 3, 2, 5, 19, 2};
    test::BoundCall call{.op_type = op,
                         .attributes = {{"direction", std::string("bidirectional")}},
                         .out = {3, 2, 2, 19}};
    const std::vector<Tensor> inputs = {layer.X(), layer.W(), layer.R(), layer.B()};
    const Tensor in_the_run = test::BindAndRun(call, inputs);
    for (const int port : {1, 2}) {
      call.constant_port = port;
      EXPECT_TRUE(Close(test::BindAndRun(call, inputs), in_the_run, Exact())) << op << port;
    }
  }
}

TEST(Recurrent, DoublesAndHalvesAreTakenToo) {
  for (const std::string op : kLayers) {
    const Layer layer{op};
    std::vector<Tensor> wide = layer.Inputs();
    const auto cast = [](const std::vector<Tensor>& tensors, DType to) {
      std::vector<Tensor> result;
      for (const Tensor& tensor : tensors) {
        result.push_back(tensor.valid()
                             ? (*test::RunOp({.op_type = "Cast",
                                              .attributes = {{"to", static_cast<int64_t>(to)}}},
                                             {tensor}))[0]
                             : Tensor());
      }
      return result;
    };
    const auto y = RunLayer(op, {}, wide);
    EXPECT_TRUE(Close(cast(RunLayer(op, {}, cast(wide, DType::kDouble)), DType::kFloat)[0], y[0],
                      test::Reduction(50)));
    // A result of halves is the rounded result of floats.
    const std::vector<Tensor> halves = cast(wide, DType::kFloat16);
    const auto of_halves = RunLayer(op, {}, halves);
    ASSERT_EQ(of_halves[1].dtype(), DType::kFloat16);
    const auto of_floats = RunLayer(op, {}, cast(halves, DType::kFloat), Isa::kReference);
    EXPECT_TRUE(Close(of_halves[0], cast(of_floats, DType::kFloat16)[0], Exact())) << op;
  }
}

TEST(Recurrent, ErrorsNameWhatIsWrong) {
  const Layer layer{"GRU"};
  const auto error = [&](Attributes attributes, std::vector<Tensor> inputs, int opset = 14) {
    return ErrorOf({.op_type = "GRU", .opset = opset, .attributes = std::move(attributes)},
                   inputs.empty() ? layer.Inputs() : inputs);
  };
  EXPECT_EQ(error({{"direction", std::string("both")}}, {}),
            "attribute 'direction' is 'both' where forward, reverse or bidirectional is expected");
  EXPECT_THAT(error({{"activations", Strings{"Sigmoid", "Swish"}}}, {}),
              HasSubstr("activation 'Swish' is not one of Relu, Tanh, "));
  EXPECT_THAT(error({{"activations", Strings{"Sigmoid"}}}, {}),
              HasSubstr("'activations' has 1 names where 2 are expected"));
  EXPECT_EQ(error({{"activation_alpha", Floats{0.5f}}}, {}),
            "attribute 'activation_alpha' has 1 values where the activations take 0");
  EXPECT_THAT(error({{"activations", Strings{"Sigmoid", "ScaledTanh"}}}, {}),
              HasSubstr("'activation_alpha' has no value for scaledtanh"));
  EXPECT_EQ(error({{"clip", -1.0f}}, {}), "attribute 'clip' is -1 where 0 or more is expected");
  EXPECT_EQ(error({{"layout", int64_t{1}}}, {}, 7), "opset 7 of GRU has no attribute 'layout' (1)");
  EXPECT_EQ(error({{"input_forget", int64_t{1}}}, {}),
            "opset 14 of GRU has no attribute 'input_forget' (1)");
  EXPECT_EQ(error({{"hidden_size", int64_t{1000}}}, {}),
            "W has shape [1,18,4] where [1,3000,4] is expected");
  EXPECT_EQ(error({{"direction", std::string("bidirectional")}}, {}),
            "W has shape [1,18,4] where [2,18,4] is expected");
  std::vector<Tensor> inputs = layer.Inputs();
  inputs[2] = RandomFloats({1, 18, 5}, 1);
  EXPECT_EQ(error({}, inputs), "W has shape [1,18,4] where [1,15,4] is expected");
  inputs = layer.Inputs();
  inputs[3] = RandomFloats({1, 18}, 1);
  EXPECT_EQ(error({}, inputs), "B has shape [1,18] where [1,36] is expected");
  inputs = layer.Inputs();
  inputs[5] = RandomFloats({3, 1, 6}, 1);
  EXPECT_EQ(error({}, inputs), "initial_h has shape [3,1,6] where [1,3,6] is expected");
  inputs[5] = Tensor::Of<double>({1}, {0});
  EXPECT_EQ(error({}, inputs), "initial_h is of type double where float is expected");
  EXPECT_THAT(error({}, {Tensor::Of<int32_t>({1}, {0}), layer.W(), layer.R()}),
              HasSubstr("is of type int32"));
  EXPECT_THAT(error({}, {RandomFloats({5, 3}, 1), layer.W(), layer.R()}),
              HasSubstr("X has shape [5,3] where [?,?,?] is expected"));
  for (const int32_t length : {-1, 6}) {
    EXPECT_EQ(error({}, layer.Inputs(Tensor::Of<int32_t>({3}, {5, length, 0}))),
              "sequence_lens holds " + std::to_string(length) +
                  " where 0 to 5, the steps of X, are expected");
  }
}

// The batch axes of Y and Y_h; the reason where the layer declines.
std::string BatchOf(const std::string& op, std::vector<std::optional<int>> axes,
                    Attributes attributes = {}) {
  graph::Node node;
  node.op_type = op;
  node.opset = 14;
  node.attributes = std::move(attributes);
  std::vector<ops::ValueFacts> facts(axes.size());
  std::vector<const ops::ValueFacts*> inputs;
  for (size_t i = 0; i < axes.size(); ++i) {
    const bool omitted = axes[i] == -1;
    node.inputs.push_back(omitted ? graph::kNoValue : static_cast<graph::ValueId>(i));
    inputs.push_back(omitted ? nullptr : &facts[i]);
  }
  node.outputs = {100, 101};
  const auto answer =
      (*ops::ParseNode(node))->Batch({node, graph::Dim::Symbol("N"), axes, inputs, {}});
  if (answer.declined) return *answer.declined;
  return fmt::format("{} {}", *answer.outputs[0], *answer.outputs[1]);
}

TEST(Recurrent, KeepsABatchOfItems) {
  const std::optional<int> none;
  for (const std::string op : kLayers) {
    EXPECT_EQ(BatchOf(op, {1, none, none}), "2 1");
    EXPECT_EQ(BatchOf(op, {1, none, none, none, 0, 1}), "2 1");
    EXPECT_EQ(BatchOf(op, {0, none, none, -1, -1, 0}, {{"layout", int64_t{1}}}), "0 0");
    EXPECT_EQ(BatchOf(op, {0, none, none}),
              "X carries the batch on axis 0 where its items are on axis 1");
    EXPECT_EQ(BatchOf(op, {1, none, none, none, -1, none}), "initial_h is shared by all items");
    EXPECT_EQ(BatchOf(op, {1, 0, none}), "W carries the batch");
    EXPECT_EQ(BatchOf(op, {none, none, none, -1, -1, 1}), "X is shared by all items");
  }
}

TEST(Recurrent, InitialStatesOfZerosAreLeftOut) {
  const graph::Dim n = graph::Dim::Symbol("N");
  const auto build = [&](const std::string& state) {
    test::GraphBuilder b;
    b.Input("x", DType::kFloat, {5, n, 4})
        .Input("h", DType::kFloat, {1, n, 6})
        .Constant("w", RandomFloats({1, 18, 4}, 1))
        .Constant("r", RandomFloats({1, 18, 6}, 2))
        .Constant("shape", Tensor::Of<int64_t>({3}, {1, 2, 6}))
        .Constant("zeros", Tensor::Of<float>({1, 1, 6}, {0, 0, 0, 0, 0, 0}))
        .Constant("number", Tensor::Of<float>({1, 1, 6}, {0, 0, 0, 0, 0, 1}))
        .Node("ConstantOfShape", {"shape"}, {"filled"})
        .Node("ConstantOfShape", {"shape"}, {"ones"},
              {{"value", b.constants().Intern(Tensor::Of<float>({1}, {1}))}})
        .Node("Expand", {"zeros", "shape"}, {"expanded"})
        .Node("Expand", {"number", "shape"}, {"numbers"})
        .Node("GRU", {"x", "w", "r", "", "", state}, {"y"})
        .Output("y");
    const graph::Graph graph = b.BuildRaw();
    graph::Graph resolved = graph;
    EXPECT_TRUE(ops::ResolveAll(resolved).ok());
    const graph::NodeId node = resolved.value(resolved.FindValue("y")).def;
    const auto patch = ops::OpOf(resolved.node(node)).Lower(resolved, node);
    return patch.has_value();
  };
  EXPECT_TRUE(build("zeros"));
  EXPECT_TRUE(build("filled"));
  EXPECT_TRUE(build("expanded"));
  EXPECT_FALSE(build("h"));
  EXPECT_FALSE(build("number"));
  EXPECT_FALSE(build("ones"));
  EXPECT_FALSE(build("numbers"));
}

}  // namespace
}  // namespace tandem
