// Random chains of reshapes and transposes that merge the batch with other axes, cut it off them
// and come back: whatever the analysis of the batch says of them, requests that join get the rows
// that the operators, one by one, give for all items.
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "tests/engine/api/comparison.h"
#include "tests/support/op_runner.h"
#include "tests/support/random_tensor.h"

namespace tandem {
namespace {

using test::ModelBuilder;
using Ints = std::vector<int64_t>;

constexpr int64_t kItems = 3;
const graph::Dim kN = graph::Dim::Symbol("N");
const graph::DimVector kDims = {kN, 4, 6};

struct Link {
  std::string op;
  graph::Attributes attributes;
  std::optional<Ints> shape;  // of a Reshape
};

Link ReshapeTo(const graph::DimVector& dims) {
  Ints shape;
  for (const graph::Dim& dim : dims) shape.push_back(dim.is_number() ? dim.number() : -1);
  return {"Reshape", {}, shape};
}

// One axis of `dims` is a multiple of N all the time.
class Chain {
 public:
  explicit Chain(uint32_t seed) : generator_(seed) {
    for (int i = 0; i < 6; ++i) Move();
    Compute();
    for (; !inverses_.empty(); inverses_.pop_back()) links_.push_back(inverses_.back());
  }

  std::string Model() const {
    ModelBuilder builder(17);
    builder.Input("v0", DType::kFloat, kDims);
    for (size_t i = 0; i < links_.size(); ++i) {
      std::vector<std::string> inputs = {fmt::format("v{}", i)};
      if (links_[i].shape) {
        inputs.push_back(fmt::format("s{}", i));
        builder.Initializer(inputs.back(), ShapeTensor(links_[i]));
      }
      builder.Node(links_[i].op, inputs, {fmt::format("v{}", i + 1)}, links_[i].attributes);
    }
    return builder.Output(fmt::format("v{}", links_.size()), DType::kFloat, kDims).Serialize();
  }

  Tensor Oracle(Tensor x) const {
    for (const Link& link : links_) {
      std::vector<Tensor> inputs = {x};
      if (link.shape) inputs.push_back(ShapeTensor(link));
      x = test::Apply({.op_type = link.op, .attributes = link.attributes}, inputs);
    }
    return x;
  }

 private:
  static Tensor ShapeTensor(const Link& link) {
    return Tensor::Of<int64_t>({static_cast<int64_t>(link.shape->size())}, *link.shape);
  }

  size_t Pick(size_t n) { return generator_() % n; }

  void Move() {
    switch (Pick(3)) {
      case 0:
        return Transpose();
      case 1:
        return Merge();
      default:
        return Cut();
    }
  }

  void Transpose() {
    Ints perm(dims_.size());
    std::iota(perm.begin(), perm.end(), 0);
    std::shuffle(perm.begin(), perm.end(), generator_);
    Ints inverse(perm.size());
    graph::DimVector dims;
    for (size_t i = 0; i < perm.size(); ++i) {
      inverse[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
      dims.push_back(dims_[static_cast<size_t>(perm[i])]);
    }
    links_.push_back({"Transpose", {{"perm", perm}}, {}});
    inverses_.push_back({"Transpose", {{"perm", inverse}}, {}});
    dims_ = dims;
  }

  void Reshape(graph::DimVector dims) {
    links_.push_back(ReshapeTo(dims));
    inverses_.push_back(ReshapeTo(dims_));
    dims_ = std::move(dims);
  }

  // Two neighbours become one.
  void Merge() {
    if (dims_.size() < 2) return;
    const size_t at = Pick(dims_.size() - 1);
    graph::DimVector dims = dims_;
    dims[at] = dims[at] * dims[at + 1];
    dims.erase(dims.begin() + static_cast<int>(at) + 1);
    Reshape(dims);
  }

  // A factor of 2 or 3 is cut off an axis, in front or behind.
  void Cut() {
    const size_t at = Pick(dims_.size());
    const int64_t factor = 2 + static_cast<int64_t>(Pick(2));
    const graph::Dim whole = dims_[at];
    if (whole.coefficient() % factor != 0 || dims_.size() > 6) return;
    graph::DimVector dims = dims_;
    dims[at] = ExactDiv(whole, factor);
    dims.insert(dims.begin() + static_cast<int>(at + Pick(2)), factor);
    Reshape(dims);
  }

  void Compute() {
    links_.push_back({"Softmax", {{"axis", static_cast<int64_t>(Pick(dims_.size()))}}, {}});
  }

  std::mt19937 generator_;
  graph::DimVector dims_ = kDims;
  std::vector<Link> links_;
  std::vector<Link> inverses_;
};

void ExpectRows(const Chain& chain, const Model& model) {
  const Tensor x = test::RandomFloats({kItems, 4, 6}, 7);
  const Tensor expected = chain.Oracle(x);
  const auto whole = model.Run(std::vector<NamedTensor>{{"v0", x}});
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_TRUE(test::Close(whole->outputs[0].tensor, expected, test::Exact()));
  if (!model.info().joinable) return;
  std::vector<BatchItem> items;
  for (int64_t item = 0; item < kItems; ++item) {
    items.push_back({.inputs = {{"v0", x.Rows(item, item + 1)}}, .outputs = {}});
  }
  const auto joined = model.RunBatch(items, {});
  ASSERT_TRUE(joined.ok()) << joined.status();
  for (int64_t item = 0; item < kItems; ++item) {
    const auto alone = model.Run(items[static_cast<size_t>(item)].inputs);
    ASSERT_TRUE(alone.ok()) << alone.status();
    for (const RunResult* result : {&(*joined)[static_cast<size_t>(item)], &*alone}) {
      EXPECT_TRUE(
          test::Close(result->outputs[0].tensor, expected.Rows(item, item + 1), test::Exact()));
    }
  }
}

TEST(BatchedReshapes, RequestsThatJoinGetTheirRows) {
  const Engine engine(EngineOptions{.threads = 1});
  int joinable = 0;
  for (uint32_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(seed);
    const Chain chain(seed);
    const auto model = test::LoadModel(engine, chain.Model());
    ASSERT_NE(model, nullptr);
    joinable += model->info().joinable ? 1 : 0;
    ExpectRows(chain, *model);
    if (HasFailure()) break;
  }
  EXPECT_GE(joinable, 100);
  EXPECT_LE(joinable, 300);  // a softmax over an axis that has the batch mixes items
}

}  // namespace
}  // namespace tandem
