#include "tests/engine/api/small_networks.h"

#include <cmath>
#include <numeric>

#include "tests/support/model_builder.h"
#include "tests/support/random_tensor.h"

namespace tandem::test {
namespace {

using Ints = std::vector<int64_t>;

const graph::Dim kN = graph::Dim::Symbol("N");
const graph::Dim kH = graph::Dim::Symbol("H");
const graph::Dim kW = graph::Dim::Symbol("W");

Tensor IntVector(const Ints& values) {
  return Tensor::Of<int64_t>({static_cast<int64_t>(values.size())}, values);
}

// to = BatchNormalization(Conv(from)).
void AddConvolution(const std::string& from, const std::string& to, const Shape& weight,
                    const graph::Attributes& attributes, ModelBuilder& builder) {
  const uint32_t seed = std::accumulate(to.begin(), to.end(), 0U);
  const int64_t channels = weight[0];
  const float bound = 2 / std::sqrt(static_cast<float>(weight.Product(1, weight.rank())));
  builder.Initializer(to + "_w", RandomFloats(weight, seed, -bound, bound))
      .Initializer(to + "_scale", RandomFloats({channels}, seed + 1, 0.5F, 1.5F))
      .Initializer(to + "_shift", RandomFloats({channels}, seed + 2))
      .Initializer(to + "_mean", RandomFloats({channels}, seed + 3))
      .Initializer(to + "_var", RandomFloats({channels}, seed + 4, 0.5F, 1.5F))
      .Node("Conv", {from, to + "_w"}, {to + "_c"}, attributes)
      .Node("BatchNormalization",
            {to + "_c", to + "_scale", to + "_shift", to + "_mean", to + "_var"}, {to});
}

const graph::Attributes kSame = {{"pads", Ints{1, 1, 1, 1}}};

}  // namespace

std::string Residual() {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {kN, 3, kH, kW});
  AddConvolution("x", "stem", {8, 3, 3, 3}, {{"pads", Ints{1, 1, 1, 1}}, {"strides", Ints{2, 2}}},
                 builder);
  builder.Node("Relu", {"stem"}, {"r0"});
  AddConvolution("r0", "a", {8, 8, 3, 3}, kSame, builder);
  builder.Node("Relu", {"a"}, {"r1"});
  AddConvolution("r1", "b", {8, 8, 3, 3}, kSame, builder);
  builder.Node("Add", {"b", "r0"}, {"s1"}).Node("Relu", {"s1"}, {"r2"});
  const graph::Attributes strided = {{"strides", Ints{2, 2}}};
  AddConvolution("r2", "c", {12, 8, 1, 1}, strided, builder);
  AddConvolution("r2", "d", {12, 8, 3, 3}, {{"pads", Ints{1, 1, 1, 1}}, {"strides", Ints{2, 2}}},
                 builder);
  return builder.Node("Add", {"c", "d"}, {"s2"})
      .Node("Relu", {"s2"}, {"r3"})
      .Node("GlobalAveragePool", {"r3"}, {"pooled"})
      .Node("Flatten", {"pooled"}, {"flat"})
      .Initializer("fc", RandomFloats({10, 12}, 1))
      .Node("Gemm", {"flat", "fc"}, {"y"}, {{"transB", int64_t{1}}})
      .Output("y", DType::kFloat, {kN, 10})
      .Serialize();
}

std::string Mobile() {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {kN, 3, kH, kW});
  AddConvolution("x", "stem", {8, 3, 3, 3}, {{"pads", Ints{1, 1, 1, 1}}, {"strides", Ints{2, 2}}},
                 builder);
  builder.Node("HardSwish", {"stem"}, {"h0"});
  AddConvolution("h0", "expand", {20, 8, 1, 1}, {}, builder);
  builder.Node("HardSwish", {"expand"}, {"h1"});
  AddConvolution("h1", "depthwise", {20, 1, 5, 5},
                 {{"pads", Ints{2, 2, 2, 2}}, {"group", int64_t{20}}}, builder);
  // Squeeze and excitation.
  builder.Node("GlobalAveragePool", {"depthwise"}, {"pooled"})
      .Initializer("squeeze", RandomFloats({5, 20, 1, 1}, 1))
      .Initializer("excite", RandomFloats({20, 5, 1, 1}, 2))
      .Node("Conv", {"pooled", "squeeze"}, {"q"})
      .Node("Relu", {"q"}, {"qr"})
      .Node("Conv", {"qr", "excite"}, {"e"})
      .Node("HardSigmoid", {"e"}, {"gate"})
      .Node("Mul", {"depthwise", "gate"}, {"gated"});
  AddConvolution("gated", "project", {8, 20, 1, 1}, {}, builder);
  return builder.Node("Add", {"project", "h0"}, {"y"})
      .Output("y", DType::kFloat, {kN, 8, graph::Dim(), graph::Dim()})
      .Serialize();
}

std::string Transformer() {
  ModelBuilder builder(13);
  builder.Input("x", DType::kFloat, {kN, 3, kH, kW})
      .Initializer("patch", RandomFloats({16, 3, 4, 4}, 1, -0.2F, 0.2F))
      .Initializer("sequence", IntVector({0, 16, -1}))
      .Initializer("heads", IntVector({0, -1, 2, 8}))
      .Initializer("merged", IntVector({0, -1, 16}))
      .Initializer("two", Tensor::Scalar(2.0F))
      .Initializer("half", Tensor::Scalar(0.5F))
      .Initializer("one", Tensor::Scalar(1.0F))
      .Initializer("root", Tensor::Scalar(1.4142135F))
      .Initializer("epsilon", Tensor::Scalar(1e-5F))
      .Initializer("scale", Tensor::Scalar(0.35355339F))
      .Initializer("gain", RandomFloats({16}, 2, 0.5F, 1.5F))
      .Initializer("shift", RandomFloats({16}, 3))
      .Initializer("up", RandomFloats({16, 32}, 4, -0.3F, 0.3F))
      .Initializer("down", RandomFloats({32, 16}, 5, -0.3F, 0.3F));
  const graph::Attributes last = {{"axes", Ints{-1}}};
  builder.Node("Conv", {"x", "patch"}, {"p"}, {{"strides", Ints{4, 4}}})
      .Node("Reshape", {"p", "sequence"}, {"ps"})
      .Node("Transpose", {"ps"}, {"t"}, {{"perm", Ints{0, 2, 1}}})
      .Node("ReduceMean", {"t"}, {"m"}, last)
      .Node("Sub", {"t", "m"}, {"d"})
      .Node("Pow", {"d", "two"}, {"sq"})
      .Node("ReduceMean", {"sq"}, {"v"}, last)
      .Node("Add", {"v", "epsilon"}, {"ve"})
      .Node("Sqrt", {"ve"}, {"sd"})
      .Node("Div", {"d", "sd"}, {"z"})
      .Node("Mul", {"z", "gain"}, {"zg"})
      .Node("Add", {"zg", "shift"}, {"n"});
  for (const std::string name : {"q", "k", "v"}) {
    builder
        .Initializer("w" + name,
                     RandomFloats({16, 16}, static_cast<uint32_t>(name[0]), -0.3F, 0.3F))
        .Node("MatMul", {"n", "w" + name}, {name + "p"})
        .Node("Reshape", {name + "p", "heads"}, {name + "h"})
        .Node("Transpose", {name + "h"}, {name + "t"},
              {{"perm", name == "k" ? Ints{0, 2, 3, 1} : Ints{0, 2, 1, 3}}});
  }
  return builder.Node("MatMul", {"qt", "kt"}, {"qk"})
      .Node("Mul", {"qk", "scale"}, {"qks"})
      .Node("Softmax", {"qks"}, {"attention"}, {{"axis", int64_t{-1}}})
      .Node("MatMul", {"attention", "vt"}, {"o"})
      .Node("Transpose", {"o"}, {"ot"}, {{"perm", Ints{0, 2, 1, 3}}})
      .Node("Reshape", {"ot", "merged"}, {"om"})
      .Node("Add", {"om", "t"}, {"r"})
      .Node("MatMul", {"r", "up"}, {"u"})
      .Node("Div", {"u", "root"}, {"g1"})
      .Node("Erf", {"g1"}, {"g2"})
      .Node("Add", {"g2", "one"}, {"g3"})
      .Node("Mul", {"u", "g3"}, {"g4"})
      .Node("Mul", {"g4", "half"}, {"g"})
      .Node("MatMul", {"g", "down"}, {"f"})
      .Node("Add", {"f", "r"}, {"y"})
      .Output("y", DType::kFloat, {kN, graph::Dim(), 16})
      .Serialize();
}

// Boxes are expectations over four places.
std::string Detector(Shapes shapes) {
  const bool computed = shapes == Shapes::kComputed;
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {kN, 3, kH, kW});
  std::vector<std::string> levels;
  for (const std::string n : {"1", "2"}) {
    const int64_t stride = n == "1" ? 2 : 4;
    AddConvolution("x", "l" + n, {19, 3, 3, 3},
                   {{"pads", Ints{1, 1, 1, 1}}, {"strides", Ints{stride, stride}}}, builder);
    if (computed) {
      builder.Node("Shape", {"l" + n}, {"shape" + n})
          .Node("Constant", {}, {"zero" + n},
                {{"value", TensorAttribute(Tensor::Scalar<int64_t>(0))}})
          .Node("Gather", {"shape" + n, "zero" + n}, {"items" + n})
          .Initializer("axis" + n, IntVector({0}))
          .Node("Unsqueeze", {"items" + n, "axis" + n}, {"items_" + n})
          .Node("Constant", {}, {"rest" + n}, {{"value_ints", Ints{19, -1}}})
          .Node("Concat", {"items_" + n, "rest" + n}, {"to" + n}, {{"axis", int64_t{0}}});
    } else {
      builder.Initializer("to" + n, IntVector({0, 19, -1}));
    }
    builder.Node("Reshape", {"l" + n, "to" + n}, {"r" + n});
    levels.push_back("r" + n);
  }
  builder.Node("Concat", levels, {"joined"}, {{"axis", int64_t{2}}})
      .Initializer("sizes", IntVector({16, 3}))
      .Node("Split", {"joined", "sizes"}, {"box", "classes"}, {{"axis", int64_t{1}}})
      .Initializer("sides", IntVector({0, 4, 4, -1}))
      .Initializer("flat", IntVector({0, 4, -1}))
      .Initializer("places", Tensor::Of<float>({1, 4, 1, 1}, {0, 1, 2, 3}))
      .Node("Reshape", {"box", "sides"}, {"b1"})
      .Node("Transpose", {"b1"}, {"b2"}, {{"perm", Ints{0, 2, 1, 3}}})
      .Node("Softmax", {"b2"}, {"b3"}, {{"axis", int64_t{1}}})
      .Node("Conv", {"b3", "places"}, {"b4"})
      .Node("Reshape", {"b4", "flat"}, {"b5"})
      .Initializer("from", IntVector({0}))
      .Initializer("middle", IntVector({2}))
      .Initializer("end", IntVector({4}))
      .Initializer("channel", IntVector({1}))
      .Node("Slice", {"b5", "from", "middle", "channel"}, {"lt"})
      .Node("Slice", {"b5", "middle", "end", "channel"}, {"rb"});
  const Tensor anchors = RandomFloats({1, 2, 80}, 9, 0, 16);
  if (computed) {
    builder.Node("Constant", {}, {"anchors"}, {{"value", TensorAttribute(anchors)}})
        .Node("Constant", {}, {"two"}, {{"value_float", 2.0F}});
  } else {
    builder.Initializer("anchors", anchors).Initializer("two", Tensor::Scalar(2.0F));
  }
  return builder.Node("Sub", {"anchors", "lt"}, {"x1y1"})
      .Node("Add", {"anchors", "rb"}, {"x2y2"})
      .Node("Add", {"x1y1", "x2y2"}, {"sum"})
      .Node("Div", {"sum", "two"}, {"centre"})
      .Node("Sub", {"x2y2", "x1y1"}, {"extent"})
      .Node("Concat", {"centre", "extent"}, {"boxes"}, {{"axis", int64_t{1}}})
      .Node("Sigmoid", {"classes"}, {"scores"})
      .Node("Concat", {"boxes", "scores"}, {"y"}, {{"axis", int64_t{1}}})
      .Output("y", DType::kFloat, {kN, 7, 80})
      .Serialize();
}

std::string SmallCnn(const graph::Dim& batch) {
  return ModelBuilder(17)
      .Input("x", DType::kFloat, {batch, 3, 8, 8})
      .Initializer("w", RandomFloats({7, 3, 3, 3}, 1))
      .Initializer("b", RandomFloats({7}, 2))
      .Initializer("fc", RandomFloats({112, 5}, 3))
      .Node("Conv", {"x", "w", "b"}, {"c"}, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}})
      .Node("Relu", {"c"}, {"r"})
      .Node("MaxPool", {"r"}, {"p"},
            {{"kernel_shape", std::vector<int64_t>{2, 2}}, {"strides", std::vector<int64_t>{2, 2}}})
      .Node("Flatten", {"p"}, {"f"})
      .Node("Gemm", {"f", "fc"}, {"y"})
      .Output("y", DType::kFloat, {batch, 5})
      .Serialize();
}

std::string Siamese(int depth) {
  ModelBuilder builder(17);
  builder.Input("a", DType::kFloat, {kN, 8, 16, 16}).Input("b", DType::kFloat, {kN, 8, 16, 16});
  for (int i = 0; i < depth; ++i) {
    builder.Initializer("w" + std::to_string(i),
                        RandomFloats({8, 8, 3, 3}, static_cast<uint32_t>(i), -0.2f, 0.2f));
  }
  std::string left = "a", right = "b";
  for (int i = 0; i < depth; ++i) {
    for (std::string* tower : {&left, &right}) {
      const std::string conv = *tower + "c", relu = *tower + "r";
      builder.Node("Conv", {*tower, "w" + std::to_string(i)}, {conv},
                   {{"pads", std::vector<int64_t>{1, 1, 1, 1}}});
      builder.Node("Relu", {conv}, {relu});
      *tower = relu;
    }
  }
  return builder.Node("Add", {left, right}, {"y"})
      .Output("y", DType::kFloat, {kN, 8, 16, 16})
      .Serialize();
}

std::vector<Network> Networks() {
  return {{"residual", Residual()},
          {"mobile", Mobile()},
          {"transformer", Transformer()},
          {"detector", Detector(Shapes::kComputed)}};
}

}  // namespace tandem::test
