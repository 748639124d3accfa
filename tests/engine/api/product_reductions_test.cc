// Reductions behind products, along every axis: with the numbers of the product's own elements.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/engine/api/comparison.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::ExpectMeans;
using test::LoadModel;
using test::ModelBuilder;
using test::RandomFloats;
using Ints = std::vector<int64_t>;

const graph::Dim kN = graph::Dim::Symbol("N");

struct Case {
  std::string op;
  graph::DimVector x;  // its last extent is 13; the product has 37 columns
  int64_t axis = -1;
  DType dtype = DType::kFloat;
};

Tensor Weight(DType dtype) {
  if (dtype == DType::kFloat) return RandomFloats({13, 37}, 1, 0.5F, 1);
  Tensor weight = *Tensor::Allocate(DType::kInt64, {13, 37});
  for (int64_t i = 0; i < 13 * 37; ++i) weight.mutable_data<int64_t>()[i] = i % 5 + 1;
  return weight;
}

// p = x w, of negative elements only where x is; y = op(p) over one axis.
std::string Build(const Case& c, const std::vector<std::string>& outputs) {
  graph::DimVector product = c.x;
  product.back() = 37;
  graph::DimVector reduced = product;
  reduced[c.axis < 0 ? reduced.size() - static_cast<size_t>(-c.axis)
                     : static_cast<size_t>(c.axis)] = 1;
  ModelBuilder builder(13);
  builder.Input("x", c.dtype, c.x)
      .Initializer("w", Weight(c.dtype))
      .Node("MatMul", {"x", "w"}, {"p"});
  if (c.op == "ReduceSum") {
    builder.Initializer("axes", Tensor::Of<int64_t>({1}, {c.axis}))
        .Node(c.op, {"p", "axes"}, {"y"});
  } else {
    builder.Node(c.op, {"p"}, {"y"}, {{"axes", Ints{c.axis}}});
  }
  for (const std::string& output : outputs) {
    builder.Output(output, c.dtype, output == "p" ? product : reduced);
  }
  return builder.Serialize();
}

Tensor NegativeInput(const Case& c, int64_t open) {
  Shape shape;
  for (const graph::Dim& dim : c.x) shape.Append(dim.is_number() ? dim.number() : open);
  if (c.dtype == DType::kFloat) return RandomFloats(shape, 2, -2, -1);
  Tensor x = *Tensor::Allocate(DType::kInt64, shape);
  for (int64_t i = 0; i < x.elements(); ++i) {
    // Beyond 2^53, where a detour through floating numbers would show.
    x.mutable_data<int64_t>()[i] = -(int64_t{1} << 54) - i;
  }
  return x;
}

// Extremes of `p` along the axis, found one by one.
template <typename T>
Tensor Extremes(const Tensor& p, int64_t axis, bool largest) {
  const int rank = p.shape().rank();
  const int at = static_cast<int>(axis < 0 ? axis + rank : axis);
  Shape shape = p.shape();
  const int64_t extent = shape[at];
  const int64_t inner = shape.Product(at + 1, rank);
  shape[at] = 1;
  Tensor y = *Tensor::Allocate(p.dtype(), shape);
  for (int64_t i = 0; i < y.elements(); ++i) {
    const int64_t start = i / inner * inner * extent + i % inner;
    T best = p.data<T>()[start];
    for (int64_t k = 1; k < extent; ++k) {
      const T next = p.data<T>()[start + k * inner];
      best = largest ? std::max(best, next) : std::min(best, next);
    }
    y.mutable_data<T>()[i] = best;
  }
  return y;
}

std::vector<graph::DimVector> Inputs() { return {{kN, 13}, {kN, 5, 13}, {kN, 2, 3, 13}}; }

TEST(ProductReductions, ExtremesOfNegativeElementsAreElements) {
  for (const DType dtype : {DType::kFloat, DType::kInt64}) {
    for (const graph::DimVector& x : Inputs()) {
      for (int64_t axis = -static_cast<int64_t>(x.size()); axis < 0; ++axis) {
        for (const bool largest : {true, false}) {
          const Case c = {largest ? "ReduceMax" : "ReduceMin", x, axis, dtype};
          SCOPED_TRACE(fmt::format("{} of {} over {}", c.op, DTypeName(dtype), axis));
          const Engine engine(EngineOptions{.threads = 2});
          const auto both = LoadModel(engine, Build(c, {"p", "y"}));
          const auto alone = LoadModel(engine, Build(c, {"y"}));
          ASSERT_TRUE(both != nullptr && alone != nullptr);
          for (const int64_t batch : {1, 2, 3}) {
            const std::vector<NamedTensor> inputs = {{"x", NegativeInput(c, batch)}};
            const auto outputs = test::Answers(*both, inputs);
            const Tensor& p = outputs.at("p");
            const Tensor expected = dtype == DType::kFloat ? Extremes<float>(p, axis, largest)
                                                           : Extremes<int64_t>(p, axis, largest);
            EXPECT_TRUE(test::Close(outputs.at("y"), expected, test::Exact()));
            EXPECT_TRUE(
                test::Close(test::Answers(*alone, inputs).at("y"), expected, test::Exact()));
          }
        }
      }
    }
  }
}

TEST(ProductReductions, ExtremesOfIntegersAreTheSameInEveryOrderOfTheNodes) {
  for (const graph::DimVector& x : Inputs()) {
    for (int64_t axis = -static_cast<int64_t>(x.size()); axis < 0; ++axis) {
      for (const std::string op : {"ReduceMax", "ReduceMin", "ReduceSum"}) {
        SCOPED_TRACE(fmt::format("{} of rank {} over {}", op, x.size(), axis));
        const Case c = {op, x, axis, DType::kInt64};
        const std::string bytes = Build(c, {"y"});
        for (const int64_t batch : {1, 2, 3}) {
          ExpectMeans(bytes, {.oracle = bytes,
                              .options = test::WithoutPacks(),
                              .batches = {batch},
                              .given = {{"x", NegativeInput(c, batch)}}});
        }
      }
    }
  }
}

TEST(ProductReductions, EveryReductionAlongEveryAxisIsThatOfTheProduct) {
  for (const std::string op : {"ReduceMax", "ReduceSum", "ReduceMean", "ReduceL2", "ReduceProd"}) {
    for (const graph::DimVector& x : Inputs()) {
      for (int64_t axis = -static_cast<int64_t>(x.size()); axis < 0; ++axis) {
        SCOPED_TRACE(fmt::format("{} of rank {} over {}", op, x.size(), axis));
        const std::string bytes = Build({op, x, axis}, {"y"});
        ExpectMeans(bytes, {.oracle = bytes, .options = test::WithoutPasses()});
      }
    }
  }
}

// An activation in front, one behind, a product of batches: nothing is lost between the three.
TEST(ProductReductions, NodesInFrontAndBehindKeepTheirMeaning) {
  for (const bool batched : {false, true}) {
    ModelBuilder builder(17);
    builder.Input("x", DType::kFloat, {kN, 5, 13});
    if (batched) {
      builder.Input("w", DType::kFloat, {kN, 13, 37});
    } else {
      builder.Initializer("w", RandomFloats({13, 37}, 1));
    }
    const std::string bytes = builder.Initializer("b", RandomFloats({37}, 2))
                                  .Node("Relu", {"x"}, {"r"})
                                  .Node("MatMul", {"r", "w"}, {"p"})
                                  .Node("Add", {"p", "b"}, {"q"})
                                  .Node("Tanh", {"q"}, {"t"})
                                  .Node("ReduceMax", {"t"}, {"m"}, {{"axes", Ints{-1}}})
                                  .Node("Sub", {"t", "m"}, {"y"})
                                  .Output("y", DType::kFloat, {kN, 5, 37})
                                  .Serialize();
    ExpectMeans(bytes, {.oracle = bytes, .options = test::WithoutPasses()});
    test::ExpectItemsAlone(bytes, 3);
  }
}

// Numbers that no float holds pass through whatever moves, chooses, adds and compares them.
TEST(ProductReductions, LargeIntegersStayWhatTheyAre) {
  const int64_t large = (int64_t{1} << 24) + 1;
  const int64_t huge = (int64_t{1} << 60) + 1;
  const std::string bytes = ModelBuilder(17)
                                .Input("x", DType::kInt64, {2})
                                .Initializer("one", Tensor::Of<int64_t>({1}, {1}))
                                .Initializer("index", Tensor::Of<int64_t>({1}, {1}))
                                .Initializer("axis", Tensor::Of<int64_t>({1}, {0}))
                                .Node("Concat", {"x", "one"}, {"c"}, {{"axis", int64_t{0}}})
                                .Node("Gather", {"c", "index"}, {"g"})
                                .Node("Add", {"g", "one"}, {"a"})
                                .Node("Where", {"less", "a", "g"}, {"chosen"})
                                .Node("Less", {"g", "a"}, {"less"})
                                .Node("ReduceSum", {"c", "axis"}, {"sum"})
                                .Node("Max", {"chosen", "sum"}, {"y"})
                                .Output("c", DType::kInt64, {3})
                                .Output("chosen", DType::kInt64, {1})
                                .Output("y", DType::kInt64, {1})
                                .Serialize();
  const Engine engine(EngineOptions{.threads = 1});
  const auto model = LoadModel(engine, bytes);
  ASSERT_NE(model, nullptr);
  const auto outputs = test::Answers(*model, {{"x", Tensor::Of<int64_t>({2}, {large, huge})}});
  EXPECT_TRUE(
      test::Close(outputs.at("c"), Tensor::Of<int64_t>({3}, {large, huge, 1}), test::Exact()));
  EXPECT_TRUE(
      test::Close(outputs.at("chosen"), Tensor::Of<int64_t>({1}, {huge + 1}), test::Exact()));
  EXPECT_TRUE(
      test::Close(outputs.at("y"), Tensor::Of<int64_t>({1}, {large + huge + 1}), test::Exact()));
}

}  // namespace
}  // namespace tandem
