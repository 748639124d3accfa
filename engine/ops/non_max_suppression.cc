// NonMaxSuppression (ai.onnx, opset 10): of each class of each batch entry the boxes with the
// highest scores, without those that overlap a chosen one by more than the threshold. Rows of the
// result are batch entry, class and box; of equal scores the box with the lower index comes first,
// and a NaN is never chosen.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "engine/ops/elementwise.h"
#include "engine/ops/extents.h"
#include "engine/ops/movement.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

enum Port { kBoxes = 0, kScores = 1, kMostBoxes = 2, kOverlap = 3, kLeastScore = 4 };

// How four numbers are a box.
enum class BoxForm : uint8_t { kTwoCorners, kCentreAndSize };

struct Box {
  float top = 0;
  float left = 0;
  float bottom = 0;
  float right = 0;

  float area() const { return (bottom - top) * (right - left); }
};

Box BoxOf(BoxForm form, const float* numbers) {
  if (form == BoxForm::kCentreAndSize) {
    const float x = numbers[0];
    const float y = numbers[1];
    const float half_width = numbers[2] / 2;
    const float half_height = numbers[3] / 2;
    return {y - half_height, x - half_width, y + half_height, x + half_width};
  }
  // Any two opposite corners: y, x, y, x.
  const auto [top, bottom] = std::minmax(numbers[0], numbers[2]);
  const auto [left, right] = std::minmax(numbers[1], numbers[3]);
  return {top, left, bottom, right};
}

// True when the intersection of two boxes is more than `threshold` of their union.
bool Overlap(const Box& a, const Box& b, float threshold) {
  const float height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  const float width = std::min(a.right, b.right) - std::max(a.left, b.left);
  if (!(height > 0 && width > 0)) return false;
  const float intersection = height * width;
  const float both = a.area() + b.area() - intersection;
  return both > 0 && intersection / both > threshold;
}

struct Limits {
  int64_t most = 0;  // boxes of a class
  float overlap = 0;
  std::optional<float> least_score;
};

// The boxes of one class, best first.
std::vector<int64_t> Choose(std::span<const Box> boxes, const float* scores, const Limits& limits) {
  std::vector<int64_t> candidates;
  for (int64_t i = 0; i < std::ssize(boxes); ++i) {
    const bool good = !limits.least_score || scores[i] > *limits.least_score;
    if (good && !std::isnan(scores[i])) candidates.push_back(i);
  }
  std::ranges::stable_sort(candidates,
                           [scores](int64_t a, int64_t b) { return scores[a] > scores[b]; });
  std::vector<int64_t> chosen;
  for (const int64_t candidate : candidates) {
    if (std::ssize(chosen) >= limits.most) break;
    const Box& box = boxes[static_cast<size_t>(candidate)];
    const bool hidden = std::ranges::any_of(chosen, [&](int64_t other) {
      return Overlap(box, boxes[static_cast<size_t>(other)], limits.overlap);
    });
    if (!hidden) chosen.push_back(candidate);
  }
  return chosen;
}

class NonMaxSuppression final : public Operator {
 public:
  explicit NonMaxSuppression(BoxForm form) : form_(form) {}

  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    return std::make_shared<const NonMaxSuppression>(
        reader.Flag("center_point_box", false) ? BoxForm::kCentreAndSize : BoxForm::kTwoCorners);
  }

  Status Infer(InferContext& context) const override {
    const auto is = [](DType expected) {
      return [expected](DType dtype) { return dtype == expected; };
    };
    RETURN_IF_ERROR(CheckDType(context, kBoxes, is(DType::kFloat)));
    RETURN_IF_ERROR(CheckDType(context, kScores, is(DType::kFloat)));
    for (const int port : {kMostBoxes, kOverlap, kLeastScore}) {
      if (!context.has_input(port)) continue;
      const DType expected = port == kMostBoxes ? DType::kInt64 : DType::kFloat;
      RETURN_IF_ERROR(CheckDType(context, port, is(expected)));
      const graph::DimVector* dims = context.dims(port);
      if (dims != nullptr && !graph::Product(*dims, 0, static_cast<int>(dims->size())).SameAs(1)) {
        return InvalidArgument("input {} has shape {} where one element is expected", port,
                               graph::ToString(*dims));
      }
    }
    RETURN_IF_ERROR(CheckShapes(context.dims(kBoxes), context.dims(kScores)));
    context.SetOutput(0, DType::kInt64, graph::DimVector{graph::Dim(), 3});
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext&) const override {
    const BoxForm form = form_;
    return MakeDataStep("order.non_max_suppression",
                        [form](StepContext& run) { return Run(run, form); });
  }

  Cost EstimateCost(const StepShapes& shapes, DType dtype) const override {
    Cost cost = CostOfMove(shapes, dtype);
    cost.multiply_adds = 32 * static_cast<double>(shapes.inputs[kScores].elements());
    return cost;
  }

 private:
  static Status CheckShapes(const graph::DimVector* boxes, const graph::DimVector* scores) {
    if (boxes != nullptr && (boxes->size() != 3 || !MayEqual((*boxes)[2], int64_t{4}))) {
      return InvalidArgument("input 0 (boxes) has shape {} where [batch,boxes,4] is expected",
                             graph::ToString(*boxes));
    }
    if (scores != nullptr && scores->size() != 3) {
      return InvalidArgument(
          "input 1 (scores) has shape {} where [batch,classes,boxes] is "
          "expected",
          graph::ToString(*scores));
    }
    if (boxes == nullptr || scores == nullptr) return absl::OkStatus();
    if (MayEqual((*boxes)[0], (*scores)[0]) && MayEqual((*boxes)[1], (*scores)[2])) {
      return absl::OkStatus();
    }
    return InvalidArgument("boxes {} and scores {} differ in batch or number of boxes",
                           graph::ToString(*boxes), graph::ToString(*scores));
  }

  static Status Run(StepContext& run, BoxForm form) {
    const Shape& shape = run.input(kScores).shape();
    const int64_t classes = shape[1];
    const int64_t count = shape[2];
    Limits limits;
    if (run.has_input(kMostBoxes)) limits.most = ReadInteger(run.input(kMostBoxes));
    if (run.has_input(kOverlap)) limits.overlap = run.input(kOverlap).data<float>()[0];
    if (run.has_input(kLeastScore)) limits.least_score = run.input(kLeastScore).data<float>()[0];
    if (!(limits.overlap >= 0 && limits.overlap <= 1)) {
      return InvalidArgument("iou_threshold is {} where 0 to 1 are expected", limits.overlap);
    }
    std::vector<std::vector<int64_t>> chosen(static_cast<size_t>(shape[0] * classes));
    const float* numbers = run.input(kBoxes).data<float>();
    const float* scores = run.input(kScores).data<float>();
    constexpr int64_t kWorkOfBox = 8;  // to be sorted and compared, in slow elements
    const int64_t grain = GrainOf(kGrainSlowElements, kWorkOfBox * count);
    for (int64_t item = 0; item < shape[0] && limits.most > 0; ++item) {
      std::vector<Box> boxes;
      for (int64_t i = 0; i < count; ++i) {
        boxes.push_back(BoxOf(form, numbers + (item * count + i) * 4));
      }
      run.parallel().For(classes, grain, [&](int64_t begin, int64_t end) {
        for (int64_t c = begin; c < end; ++c) {
          const int64_t row = item * classes + c;
          chosen[static_cast<size_t>(row)] = Choose(boxes, scores + row * count, limits);
        }
      });
    }
    return Write(run, chosen, classes);
  }

  static Status Write(StepContext& run, const std::vector<std::vector<int64_t>>& chosen,
                      int64_t classes) {
    int64_t rows = 0;
    for (const auto& list : chosen) rows += std::ssize(list);
    ASSIGN_OR_RETURN(const MutableTensorView out, run.AllocateOutput(0, Shape{rows, 3}));
    int64_t* to = out.mutable_data<int64_t>();
    for (int64_t row = 0; row < std::ssize(chosen); ++row) {
      for (const int64_t box : chosen[static_cast<size_t>(row)]) {
        const std::array<int64_t, 3> triple = {row / classes, row % classes, box};
        to = std::ranges::copy(triple, to).out;
      }
    }
    return absl::OkStatus();
  }

  BoxForm form_;
};

}  // namespace

void RegisterNonMaxSuppression(OpRegistry& registry) {
  registry.Add({.op_type = "NonMaxSuppression",
                .versions = {10, 11},
                .min_inputs = 2,
                .max_inputs = 5,
                .parse = NonMaxSuppression::Parse,
                .doc = "The boxes with the highest scores that do not overlap."});
}

}  // namespace tandem::ops
