// Values that several nodes read: nobody's result lies in memory that somebody else still reads.
#include <gtest/gtest.h>

#include "tests/engine/api/comparison.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::ExpectMeans;
using test::ModelBuilder;
using test::RandomFloats;
using Ints = std::vector<int64_t>;

const graph::Dim kN = graph::Dim::Symbol("N");
const graph::DimVector kDims = {kN, 4, 6};

enum class Readers { kShareIt, kHaveTheirOwn };

// Where the value comes from that two nodes read.
enum class Source { kInput, kConstant, kComputed, kView, kViewOfInput };

struct InPlace {
  std::string op;
  std::vector<std::string> operands = {};
  graph::Attributes attributes = {};
};

std::vector<InPlace> Operators() {
  return {{"Softmax", {}, {{"axis", int64_t{-1}}}},
          {"Exp"},
          {"Neg"},
          {"Cast", {}, {{"to", int64_t{1}}}},
          {"Cast", {}, {{"to", int64_t{6}}}},
          {"CumSum", {"axis"}},
          {"Clip", {"low"}},
          {"Add", {"row"}},
          {"Mul", {"full"}},
          {"Max", {"row"}},
          {"Pow", {"two"}},
          {"Trilu", {}},
          {"LayerNormalization", {"row"}},
          {"ScatterElements", {"places", "updates"}, {{"axis", int64_t{1}}}},
          {"Identity"},
          {"Dropout"}};
}

// An operator beside another reader of the same value.
struct Case {
  Source source = Source::kComputed;
  bool visible = false;  // the value is an output, too
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const Source source : {Source::kInput, Source::kConstant, Source::kComputed, Source::kView,
                              Source::kViewOfInput}) {
    cases.push_back({source, false});
    const bool computed = source != Source::kInput && source != Source::kConstant;
    if (computed) cases.push_back({source, true});
  }
  return cases;
}

class InPlaceBuilder {
 public:
  InPlaceBuilder(const InPlace& op, Readers readers) : op_(op), readers_(readers) {
    builder_.Initializer("flat", Tensor::Of<int64_t>({2}, {0, -1}))
        .Initializer("back", Tensor::Of<int64_t>({3}, {0, 4, 6}))
        .Initializer("axis", Tensor::Scalar<int64_t>(1))
        .Initializer("low", Tensor::Scalar(0.1F))
        .Initializer("two", Tensor::Scalar(2.0F))
        .Initializer("zero", Tensor::Scalar(0.0F))
        .Initializer("row", RandomFloats({6}, 2))
        .Initializer("full", RandomFloats({4, 6}, 3))
        .Initializer("places", Tensor::Of<int64_t>({2, 1, 2}, {3, 0, 1, 2}))
        .Initializer("updates", Tensor::Of<float>({2, 1, 2}, {7, 8, 9, 10}));
  }

  // a = op(v) twice, b = Softmax(v) over another axis, c = v + 0, and v itself where it is visible;
  // `n` is part of every name. What op makes is no output: it may lie where v lies.
  InPlaceBuilder& Add(const Case& c, const std::string& n) {
    builder_.Input("x" + n, DType::kFloat, kDims)
        .Initializer("constant" + n, RandomFloats({2, 4, 6}, ++seed_));
    const std::string first = AddSource(c.source, n, "0");
    const bool own = readers_ == Readers::kHaveTheirOwn;
    const std::string second = own ? AddSource(c.source, n, "1") : first;
    const std::string third = own && c.visible ? AddSource(c.source, n, "2") : first;
    std::vector<std::string> inputs = {first};
    inputs.insert(inputs.end(), op_.operands.begin(), op_.operands.end());
    const auto to = op_.attributes.find("to");
    const bool integers = to != op_.attributes.end() && to->second.get<int64_t>() == 6;
    builder_.Node(op_.op, inputs, {"once" + n}, op_.attributes)
        .Node("Concat", {"once" + n, "once" + n}, {"a" + n}, {{"axis", int64_t{1}}})
        .Node("Softmax", {second}, {"b" + n}, {{"axis", int64_t{-1}}})
        .Node("Add", {third, "zero"}, {"c" + n})
        .Output("a" + n, integers ? DType::kInt32 : DType::kFloat, {kN, 8, 6})
        .Output("b" + n, DType::kFloat, kDims)
        .Output("c" + n, DType::kFloat, kDims);
    if (c.visible) {
      builder_.Node("Identity", {third}, {"d" + n}).Output("d" + n, DType::kFloat, kDims);
    }
    return *this;
  }

  std::string Build() { return builder_.Serialize(); }

 private:
  // Adds the source of reader `reader` and returns its name.
  std::string AddSource(Source source, const std::string& n, const std::string& reader) {
    std::string x = "x" + n;
    const std::string suffix = n + "_" + reader;
    switch (source) {
      case Source::kInput:
        return x;
      case Source::kConstant:
        return "constant" + n;
      case Source::kComputed:
        builder_.Node("Softmax", {x}, {"v" + suffix}, {{"axis", int64_t{1}}});
        break;
      case Source::kView:
        builder_.Node("Softmax", {x}, {"s" + suffix}, {{"axis", int64_t{1}}})
            .Node("Reshape", {"s" + suffix, "flat"}, {"f" + suffix})
            .Node("Reshape", {"f" + suffix, "back"}, {"v" + suffix});
        break;
      case Source::kViewOfInput:
        builder_.Node("Reshape", {x, "flat"}, {"f" + suffix})
            .Node("Reshape", {"f" + suffix, "back"}, {"v" + suffix});
        break;
    }
    return "v" + suffix;
  }

  const InPlace op_;
  const Readers readers_;
  ModelBuilder builder_{17};
  uint32_t seed_ = 10;
};

// Every case of the operator, beside each other.
std::string Build(const InPlace& op, Readers readers) {
  InPlaceBuilder builder(op, readers);
  for (const Case& c : Cases()) {
    builder.Add(c, fmt::format("_{}{}", static_cast<int>(c.source), c.visible ? "_visible" : ""));
  }
  return builder.Build();
}

TEST(SeveralReaders, AnOperatorThatWorksInPlaceLeavesTheValueToTheOthers) {
  for (const InPlace& op : Operators()) {
    SCOPED_TRACE(op.op);
    ExpectMeans(Build(op, Readers::kShareIt),
                {.oracle = Build(op, Readers::kHaveTheirOwn), .batches = {2}});
  }
}

// Fifty readers of one value, each with its own output, then with one sum of all.
std::string Fan(Readers readers, bool summed) {
  constexpr int kReaders = 50;
  const char* const ops[] = {"Exp", "Neg", "Softmax", "Tanh", "Identity"};
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, kDims);
  std::vector<std::string> results;
  for (int i = 0; i < kReaders; ++i) {
    const std::string value = readers == Readers::kShareIt ? "v" : fmt::format("v{}", i);
    if (i == 0 || readers == Readers::kHaveTheirOwn) builder.Node("Softmax", {"x"}, {value});
    results.push_back(fmt::format("r{}", i));
    builder.Node(ops[i % 5], {value}, {results.back()});
    if (!summed) builder.Output(results.back(), DType::kFloat, kDims);
  }
  if (summed) builder.Node("Sum", results, {"y"}).Output("y", DType::kFloat, kDims);
  return builder.Serialize();
}

TEST(SeveralReaders, FiftyReadersOfOneValue) {
  for (const bool summed : {false, true}) {
    ExpectMeans(Fan(Readers::kShareIt, summed), {.oracle = Fan(Readers::kHaveTheirOwn, summed)});
  }
}

// The features of a convolution as a sequence, transposed for two products and an activation.
std::string TransposedFeatures(Readers readers, const std::string& visible) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {kN, 3, 5, 7})
      .Initializer("w", RandomFloats({6, 3, 3, 3}, 1))
      .Initializer("shape", Tensor::Of<int64_t>({3}, {0, 6, -1}))
      .Initializer("m1", RandomFloats({6, 9}, 2))
      .Initializer("m2", RandomFloats({6, 4}, 3));
  for (int i = 0; i < 4; ++i) {
    if (readers == Readers::kShareIt && i > 0) continue;
    const std::string n = readers == Readers::kShareIt ? "" : std::to_string(i);
    builder.Node("Conv", {"x", "w"}, {"c" + n})
        .Node("Reshape", {"c" + n, "shape"}, {"r" + n})
        .Node("Transpose", {"r" + n}, {"t" + n}, {{"perm", Ints{0, 2, 1}}});
  }
  const auto name = [readers](const std::string& value, int i) {
    return readers == Readers::kShareIt ? value : value + std::to_string(i);
  };
  builder.Node("MatMul", {name("t", 0), "m1"}, {"y1"})
      .Node("MatMul", {name("t", 1), "m2"}, {"y2"})
      .Node("Relu", {name("t", 2)}, {"y3"})
      .Output("y1", DType::kFloat, {kN, 15, 9})
      .Output("y2", DType::kFloat, {kN, 15, 4})
      .Output("y3", DType::kFloat, {kN, 15, 6});
  if (!visible.empty()) {
    builder.Node("Identity", {name(visible, 3)}, {"y4"})
        .Output("y4", DType::kFloat,
                visible == "t" ? graph::DimVector{kN, 15, 6} : graph::DimVector{kN, 6, 15});
  }
  return builder.Serialize();
}

TEST(SeveralReaders, ATransposeThatProductsAndOthersRead) {
  for (const std::string visible : {"", "t", "r"}) {
    SCOPED_TRACE(visible);
    ExpectMeans(TransposedFeatures(Readers::kShareIt, visible),
                {.oracle = TransposedFeatures(Readers::kHaveTheirOwn, visible)});
  }
}

// A table that is looked up and, transposed, scores the result.
std::string TiedEmbedding(Readers readers) {
  const Tensor table = RandomFloats({11, 6}, 1);
  const bool own = readers == Readers::kHaveTheirOwn;
  ModelBuilder builder(17);
  builder.Input("ids", DType::kInt64, {kN, 5}).Initializer("table", table);
  if (own) builder.Initializer("copy", table);
  return builder.Node("Gather", {"table", "ids"}, {"h"})
      .Node("Transpose", {own ? "copy" : "table"}, {"scores"})
      .Node("MatMul", {"h", "scores"}, {"y"})
      .Output("h", DType::kFloat, {kN, 5, 6})
      .Output("y", DType::kFloat, {kN, 5, 11})
      .Serialize();
}

TEST(SeveralReaders, ATableThatIsLookedUpAndTransposed) {
  ExpectMeans(TiedEmbedding(Readers::kShareIt), {.oracle = TiedEmbedding(Readers::kHaveTheirOwn)});
}

// What Split takes apart is read as a whole, too, and so are its parts.
std::string TakenApart(Readers readers) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, kDims).Initializer("sizes", Tensor::Of<int64_t>({2}, {1, 3}));
  for (const std::string n : {"1", "2", "3"}) {
    if (n == "1" || readers == Readers::kHaveTheirOwn) builder.Node("Softmax", {"x"}, {"v" + n});
  }
  const bool own = readers == Readers::kHaveTheirOwn;
  return builder.Node("Split", {"v1", "sizes"}, {"p", "q"}, {{"axis", int64_t{1}}})
      .Node("Exp", {"p"}, {"e"})
      .Node("Concat", {"p", "q", "e"}, {"whole"}, {{"axis", int64_t{1}}})
      .Node("Relu", {own ? "v2" : "v1"}, {"relu"})
      .Node("Transpose", {own ? "v3" : "v1"}, {"turned"}, {{"perm", Ints{0, 2, 1}}})
      .Output("p", DType::kFloat, {kN, 1, 6})
      .Output("whole", DType::kFloat, {kN, 5, 6})
      .Output("relu", DType::kFloat, kDims)
      .Output("turned", DType::kFloat, {kN, 6, 4})
      .Serialize();
}

TEST(SeveralReaders, ASplitLeavesTheWholeToTheOthers) {
  ExpectMeans(TakenApart(Readers::kShareIt), {.oracle = TakenApart(Readers::kHaveTheirOwn)});
}

// An image that lies channels-last meets one that does not.
std::string MixedLayouts(const std::string& op) {
  ModelBuilder builder(17);
  builder.Input("x", DType::kFloat, {kN, 5, 6, 7})
      .Input("z", DType::kFloat, {kN, 5, 6, 7})
      .Initializer("w", RandomFloats({5, 5, 1, 1}, 1))
      .Node("Conv", {"x", "w"}, {"c"})
      .Node("MaxPool", {"c"}, {"p"}, {{"kernel_shape", Ints{1, 1}}});
  const int64_t channels = op == "Concat" ? 10 : 5;
  int i = 0;
  for (const auto& [a, b] : std::vector<std::pair<std::string, std::string>>{
           {"p", "z"}, {"z", "p"}, {"c", "p"}, {"z", "z"}}) {
    const std::string y = fmt::format("y{}", i++);
    builder
        .Node(op, {a, b}, {y},
              op == "Concat" ? graph::Attributes{{"axis", int64_t{1}}} : graph::Attributes{})
        .Output(y, DType::kFloat, {kN, channels, 6, 7});
  }
  return builder.Serialize();
}

TEST(SeveralReaders, ImagesOfBothLayoutsMeet) {
  for (const std::string op : {"Concat", "Add", "Max", "Sub"}) {
    SCOPED_TRACE(op);
    const std::string bytes = MixedLayouts(op);
    ExpectMeans(bytes, {.oracle = bytes, .options = test::WithoutPasses()});
    ExpectMeans(bytes, {.oracle = bytes,
                        .options = test::WithoutPacks(),
                        .tolerance = test::Reduction(5),
                        .batches = {2}});
  }
}

}  // namespace
}  // namespace tandem
