#include <gtest/gtest.h>

#include <limits>

#include "tests/support/op_runner.h"

namespace tandem {
namespace {

using Rows = std::vector<int64_t>;

Tensor Floats(Shape shape, std::initializer_list<float> values) {
  return Tensor::Of<float>(std::move(shape), values);
}

struct Query {
  int64_t most = 10;
  float overlap = 0.5F;
  Tensor least_score;
  int64_t centred = 0;
};

test::OpCall Call(int64_t centred = 0) {
  return {.op_type = "NonMaxSuppression", .attributes = {{"center_point_box", centred}}};
}

Rows Chosen(const Tensor& boxes, const Tensor& scores, const Query& query = {}) {
  const Tensor y =
      test::Apply(Call(query.centred), {boxes, scores, Tensor::Of<int64_t>({1}, {query.most}),
                                        Floats({1}, {query.overlap}), query.least_score});
  EXPECT_EQ(y.shape()[1], 3);
  return {y.data<int64_t>(), y.data<int64_t>() + y.elements()};
}

// Boxes 0 and 1 overlap by 0.8 of a side, 2 lies apart.
const Tensor kBoxes = Floats({1, 3, 4}, {0, 0, 1, 1, 0, 0.2F, 1, 1.2F, 5, 5, 6, 6});

TEST(NonMaxSuppression, LeavesOutBoxesThatOverlapABetterOne) {
  const Tensor scores = Floats({1, 1, 3}, {0.6F, 0.9F, 0.7F});
  EXPECT_EQ(Chosen(kBoxes, scores), (Rows{0, 0, 1, 0, 0, 2}));
  EXPECT_EQ(Chosen(kBoxes, scores, {.overlap = 0.7F}), (Rows{0, 0, 1, 0, 0, 2, 0, 0, 0}))
      << "0.8 of 1.2 is no more than 0.7";
  EXPECT_EQ(Chosen(kBoxes, scores, {.most = 1}), (Rows{0, 0, 1}));
  EXPECT_EQ(Chosen(kBoxes, scores, {.most = 0}), Rows());
  EXPECT_EQ(Chosen(kBoxes, scores, {.least_score = Floats({1}, {0.7F})}), (Rows{0, 0, 1}))
      << "a score must be above the threshold";
}

TEST(NonMaxSuppression, ClassesAndBatchEntriesAreApart) {
  const Tensor boxes = Floats({2, 2, 4}, {0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 3, 3, 4, 4});
  const Tensor scores = Floats({2, 2, 2}, {1, 2, 4, 3, 1, 2, 2, 1});
  EXPECT_EQ(Chosen(boxes, scores), (Rows{0, 0, 1, 0, 1, 0, 1, 0, 1, 1, 0, 0, 1, 1, 0, 1, 1, 1}));
}

TEST(NonMaxSuppression, TakesAnyCornersAndCentredBoxes) {
  const Tensor scores = Floats({1, 1, 2}, {1, 2});
  EXPECT_EQ(Chosen(Floats({1, 2, 4}, {1, 1, 0, 0, 0, 0, 1, 1}), scores), (Rows{0, 0, 1}));
  const Tensor centred = Floats({1, 2, 4}, {0.5F, 0.5F, 1, 1, 2.5F, 0.5F, 1, 1});
  EXPECT_EQ(Chosen(centred, scores, {.centred = 1}), (Rows{0, 0, 1, 0, 0, 0}));
}

TEST(NonMaxSuppression, EqualScoresKeepTheirOrderAndNaNIsNeverChosen) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(Chosen(kBoxes, Floats({1, 1, 3}, {1, 1, 1})), (Rows{0, 0, 0, 0, 0, 2}));
  EXPECT_EQ(Chosen(kBoxes, Floats({1, 1, 3}, {kNaN, 1, kNaN})), (Rows{0, 0, 1}));
  EXPECT_EQ(Chosen(Floats({1, 0, 4}, {}), Floats({1, 2, 0}, {})), Rows());
}

TEST(NonMaxSuppression, WithoutANumberOfBoxesNoneIsChosen) {
  EXPECT_EQ(test::Apply(Call(), {kBoxes, Floats({1, 1, 3}, {1, 1, 1})}).shape(), Shape({0, 3}));
}

TEST(NonMaxSuppression, SaysWhatIsWrong) {
  const auto error = [](const std::vector<Tensor>& inputs) {
    const auto outputs = test::RunOp(Call(), inputs);
    return outputs.ok() ? "ok" : std::string(Message(outputs.status()));
  };
  const Tensor scores = Floats({1, 1, 3}, {1, 1, 1});
  EXPECT_EQ(error({Floats({1, 3, 3}, {0, 0, 0, 0, 0, 0, 0, 0, 0}), scores}),
            "input 0 (boxes) has shape [1,3,3] where [batch,boxes,4] is expected");
  EXPECT_EQ(error({kBoxes, Floats({1, 3}, {1, 1, 1})}),
            "input 1 (scores) has shape [1,3] where [batch,classes,boxes] is expected");
  EXPECT_EQ(error({kBoxes, Floats({1, 1, 2}, {1, 1})}),
            "boxes [1,3,4] and scores [1,1,2] differ in batch or number of boxes");
  EXPECT_EQ(error({kBoxes, scores, Tensor::Of<int64_t>({1}, {1}), Floats({1}, {1.5F})}),
            "iou_threshold is 1.5 where 0 to 1 are expected");
}

}  // namespace
}  // namespace tandem
