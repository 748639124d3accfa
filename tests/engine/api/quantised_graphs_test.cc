// Networks of 8-bit integers written as floats between DequantizeLinear and QuantizeLinear, against
// the same networks of integer operators, which run one by one on the reference kernels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/engine/api/comparison.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_bytes.h"

namespace tandem {
namespace {

using test::ExpectMeans;
using test::ModelBuilder;
using test::RandomBytes;
using Ints = std::vector<int64_t>;

const graph::Dim kN = graph::Dim::Symbol("N");

enum class Form { kFloats, kIntegers };
enum class Activation { kNone, kRelu, kClip };

struct Layer {
  int64_t in = 8;
  int64_t out = 8;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t group = 1;
  Activation activation = Activation::kNone;
};

// Builds one network in either form; values are named by their integers.
class Network {
 public:
  explicit Network(Form form, int64_t channels, int64_t size = 9) : form_(form) {
    builder_.Input("x", DType::kFloat, {kN, channels, size, size});
    Parameters("x");
    builder_.Node("QuantizeLinear", {"x", "x_scale", "x_zero"}, {"xq"});
    builder_.Initializer("low", Tensor::Scalar(0.0f)).Initializer("high", Tensor::Scalar(1.5f));
  }

  std::string Conv(const std::string& x, const Layer& layer) {
    std::string name = Next();
    const Shape filters = {layer.out, layer.in / layer.group, layer.kernel, layer.kernel};
    const Tensor scales = test::RandomFloats({layer.out}, seed_, 0.002f, 0.006f);
    Tensor bias_scales = *Tensor::Allocate(DType::kFloat, {layer.out});
    Tensor bias = *Tensor::Allocate(DType::kInt32, {layer.out});
    for (int64_t m = 0; m < layer.out; ++m) {
      bias_scales.mutable_data<float>()[m] = scales_.at(x) * scales.data<float>()[m];
      bias.mutable_data<int32_t>()[m] = static_cast<int32_t>(m % 7 * 300 - 900);
    }
    builder_.Initializer(name + "w", RandomBytes<int8_t>(filters, seed_ + 1))
        .Initializer(name + "ws", scales)
        .Initializer(name + "wz", RandomZeros(layer.out))
        .Initializer(name + "b", bias)
        .Initializer(name + "bs", bias_scales);
    Parameters(name);
    const int64_t pad = layer.kernel / 2;
    const graph::Attributes attributes = {{"group", layer.group},
                                          {"strides", Ints{layer.stride, layer.stride}},
                                          {"pads", Ints{pad, pad, pad, pad}}};
    if (form_ == Form::kIntegers) {
      const std::string result = layer.activation == Activation::kNone ? name + "q" : name + "p";
      builder_.Node("QLinearConv",
                    {x + "q", x + "_scale", x + "_zero", name + "w", name + "ws", name + "wz",
                     name + "_scale", name + "_zero", name + "b"},
                    {result}, attributes);
      Bound(name, layer.activation);
      return name;
    }
    builder_
        .Node("DequantizeLinear", {name + "w", name + "ws", name + "wz"}, {name + "wf"},
              {{"axis", int64_t{0}}})
        .Node("DequantizeLinear", {name + "b", name + "bs"}, {name + "bf"}, {{"axis", int64_t{0}}})
        .Node("Conv", {Dequantised(x), name + "wf", name + "bf"}, {name + "p"}, attributes);
    Quantise(name, layer.activation);
    return name;
  }

  std::string Add(const std::string& a, const std::string& b, Activation activation) {
    std::string name = Next();
    Parameters(name);
    if (form_ == Form::kIntegers) {
      builder_.Node("QLinearAdd",
                    {a + "q", a + "_scale", a + "_zero", b + "q", b + "_scale", b + "_zero",
                     name + "_scale", name + "_zero"},
                    {activation == Activation::kNone ? name + "q" : name + "p"}, {}, "",
                    "com.microsoft");
      Bound(name, activation);
      return name;
    }
    builder_.Node("Add", {Dequantised(a), Dequantised(b)}, {name + "p"});
    Quantise(name, activation);
    return name;
  }

  // Pools, and keeps the parameters of x.
  std::string MaxPool(const std::string& x) {
    std::string name = Next();
    scales_[name] = scales_.at(x);
    builder_.Initializer(name + "_scale", Tensor::Scalar(scales_.at(x)))
        .Initializer(name + "_zero", Tensor::Scalar<uint8_t>(kZero));
    const graph::Attributes window = {
        {"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}};
    if (form_ == Form::kIntegers) {
      builder_.Node("MaxPool", {x + "q"}, {name + "q"}, window);
      return name;
    }
    builder_.Node("MaxPool", {Dequantised(x)}, {name + "p"}, window);
    Quantise(name, Activation::kNone);
    return name;
  }

  ModelBuilder& builder() { return builder_; }
  std::string Dequantised(const std::string& x) {
    std::string name = fmt::format("{}f{}", x, ++copies_);
    builder_.Node("DequantizeLinear", {x + "q", x + "_scale", x + "_zero"}, {name});
    return name;
  }
  // The model with the numbers of `x` as an output.
  std::string Serialize(const std::string& x, const graph::DimVector& dims) {
    builder_.ImportOpset("com.microsoft", 1);
    builder_.Node("DequantizeLinear", {x + "q", x + "_scale", x + "_zero"}, {"y"})
        .Output("y", DType::kFloat, dims);
    return builder_.Serialize();
  }

 private:
  static constexpr uint8_t kZero = 118;

  static Tensor RandomZeros(int64_t n) {
    Tensor zeros = *Tensor::Allocate(DType::kInt8, {n});
    for (int64_t i = 0; i < n; ++i) {
      zeros.mutable_data<int8_t>()[i] = static_cast<int8_t>(i % 5 - 2);
    }
    return zeros;
  }

  std::string Next() {
    seed_ += 10;
    return fmt::format("v{}", seed_);
  }

  void Parameters(const std::string& name) {
    const float scale = 0.011f + 0.0007f * static_cast<float>(seed_ % 17);
    scales_[name] = scale;
    builder_.Initializer(name + "_scale", Tensor::Scalar(scale))
        .Initializer(name + "_zero", Tensor::Scalar<uint8_t>(kZero));
  }

  // From the floats `name`p.
  void Quantise(const std::string& name, Activation activation) {
    std::string floats = name + "p";
    if (activation == Activation::kRelu) builder_.Node("Relu", {floats}, {name + "a"});
    if (activation == Activation::kClip) {
      builder_.Node("Clip", {floats, "low", "high"}, {name + "a"});
    }
    if (activation != Activation::kNone) floats = name + "a";
    builder_.Node("QuantizeLinear", {floats, name + "_scale", name + "_zero"}, {name + "q"});
  }

  // From the integers `name`p, where there is an activation.
  void Bound(const std::string& name, Activation activation) {
    if (activation == Activation::kNone) return;
    const float six = std::nearbyint(1.5f / scales_.at(name)) + kZero;
    const float high = activation == Activation::kRelu ? 255 : std::min(255.0f, six);
    builder_.Initializer(name + "high", Tensor::Scalar(static_cast<uint8_t>(high)))
        .Node("Clip", {name + "p", name + "_zero", name + "high"}, {name + "q"});
  }

  Form form_;
  ModelBuilder builder_{17};
  std::map<std::string, float> scales_;
  uint32_t seed_ = 0;
  int copies_ = 0;
};

// The same network from floats and from integers, made by `build`.
template <typename Build>
void ExpectTheIntegerPath(const Build& build) {
  ExpectMeans(build(Form::kFloats), {.oracle = build(Form::kIntegers),
                                     .options = test::WithoutPacks(),
                                     .levels = test::IsaLevels()});
}

// Kernels of the floats' form, without those that convert at the borders.
template <typename Build>
std::vector<std::string> Kernels(const Build& build) {
  const Engine engine(EngineOptions{.threads = 1});
  const auto model = test::LoadModel(engine, build(Form::kFloats));
  if (model == nullptr) return {};
  return test::KernelsOf(test::ReportOf(*model, test::InputsOf(*model, 1)));
}

TEST(QuantisedGraphs, TheBoundaryOfFloatsAndIntegersHasTheBitsOfTheIntegerPath) {
  const auto build = [](Form form) {
    Network network(form, 3);
    return network.Serialize(network.Conv("x", {3, 20, 3, 2}), {kN, 20, 5, 5});
  };
  ExpectTheIntegerPath(build);
  EXPECT_THAT(Kernels(build), testing::Contains(testing::HasSubstr("conv.integer")));
}

TEST(QuantisedGraphs, PointwiseThenDepthwiseHasTheBitsOfTheIntegerPath) {
  for (const int64_t stride : {1, 2}) {
    for (const int64_t kernel : {3, 5}) {
      const auto build = [=](Form form) {
        Network network(form, 8);
        const std::string p = network.Conv("x", {8, 36, 1, 1, 1, Activation::kClip});
        const std::string d = network.Conv(p, {36, 36, kernel, stride, 36, Activation::kClip});
        const int64_t size = (9 - 1) / stride + 1;
        return network.Serialize(d, {kN, 36, size, size});
      };
      ExpectTheIntegerPath(build);
    }
  }
}

TEST(QuantisedGraphs, DepthwiseThenPointwiseHasTheBitsOfTheIntegerPath) {
  for (const int64_t channels : {12, 40, 72}) {
    const auto build = [=](Form form) {
      Network network(form, channels);
      const std::string d =
          network.Conv("x", {channels, channels, 3, 1, channels, Activation::kRelu});
      return network.Serialize(network.Conv(d, {channels, 24}), {kN, 24, 9, 9});
    };
    ExpectTheIntegerPath(build);
    for (const std::string& kernel : Kernels(build)) {
      EXPECT_THAT(kernel, testing::Not(testing::HasSubstr("f32")));
    }
  }
}

TEST(QuantisedGraphs, AForkHasTheBitsOfTheIntegerPath) {
  const auto build = [](Form form) {
    Network network(form, 16);
    const std::string stem = network.Conv("x", {16, 24, 3, 1, 1, Activation::kRelu});
    const std::string left = network.Conv(stem, {24, 24, 3});
    const std::string right = network.Conv(stem, {24, 24, 1, 1, 1, Activation::kRelu});
    const std::string pool = network.MaxPool(network.Add(left, right, Activation::kRelu));
    return network.Serialize(pool, {kN, 24, 5, 5});
  };
  ExpectTheIntegerPath(build);
  const std::vector<std::string> kernels = Kernels(build);
  EXPECT_THAT(kernels, testing::Contains(testing::HasSubstr("add.quantised")));
  EXPECT_THAT(kernels, testing::Not(testing::Contains(testing::HasSubstr("elementwise"))));
}

TEST(QuantisedGraphs, AChainOfResidualsHasTheBitsOfTheIntegerPath) {
  const auto build = [](Form form) {
    Network network(form, 24);
    std::string x = "x";
    for (int block = 0; block < 3; ++block) {
      const std::string a = network.Conv(x, {24, 40, 1, 1, 1, Activation::kRelu});
      const std::string b = network.Conv(a, {40, 40, 3, 1, 40, Activation::kClip});
      x = network.Add(network.Conv(b, {40, 24}), x,
                      block == 1 ? Activation::kNone : Activation::kRelu);
    }
    return network.Serialize(x, {kN, 24, 9, 9});
  };
  ExpectTheIntegerPath(build);
}

// QLinearConv -> DQ -> Relu, which is read as floats and quantised again.
TEST(QuantisedGraphs, FloatsWithTwoReadersStayForBoth) {
  const auto build = [] {
    Network network(Form::kIntegers, 8);
    const std::string a = network.Conv("x", {8, 20, 3});
    const std::string b = network.Conv(a, {20, 20});
    network.builder()
        .Node("Relu", {network.Dequantised(a)}, {"relu"})
        .Node("QuantizeLinear", {"relu", b + "_scale", b + "_zero"}, {"again"})
        .Initializer("cw", RandomBytes<int8_t>({20, 20, 1, 1}, 7))
        .Initializer("cs", test::RandomFloats({20}, 8, 0.002f, 0.006f))
        .Initializer("cz", RandomBytes<int8_t>({20}, 9))
        .Node("QLinearConv",
              {"again", b + "_scale", b + "_zero", "cw", "cs", "cz", a + "_scale", a + "_zero"},
              {"c"})
        .Node("DequantizeLinear", {"c", a + "_scale", a + "_zero"}, {"cf"})
        .Node("Add", {"relu", "cf"}, {"sum"})
        .Output("sum", DType::kFloat, {kN, 20, 9, 9});
    return network.Serialize(b, {kN, 20, 9, 9});
  };
  ExpectMeans(build(),
              {.oracle = build(), .options = test::WithoutPacks(), .levels = test::IsaLevels()});
}

}  // namespace
}  // namespace tandem
