#include "engine/kernels/resize/resize.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "engine/kernels/resize/rows.h"
#include "tests/support/compare.h"
#include "tests/support/fine_parallel.h"
#include "tests/support/random_tensor.h"

namespace tandem::kernels {
namespace {

using Places = std::vector<int32_t>;
using Weights = std::vector<double>;

ResizeExtent Sized(int64_t in, int64_t out) {
  return {in, out, {static_cast<double>(out), static_cast<double>(in)}};
}

Places NearestPlaces(ResizeCoordinates coordinates, ResizeRounding rounding,
                     const ResizeExtent& extent) {
  return MakeResizeAxis({.coordinates = coordinates, .rounding = rounding}, extent).places;
}

TEST(ResizeAxis, NearestTiesOfGivenSizesAreExact) {
  EXPECT_EQ(NearestPlaces(ResizeCoordinates::kHalfPixel, ResizeRounding::kPreferCeil, Sized(20, 6)),
            (Places{1, 5, 8, 11, 15, 18}));
  EXPECT_EQ(
      NearestPlaces(ResizeCoordinates::kHalfPixel, ResizeRounding::kPreferFloor, Sized(20, 6)),
      (Places{1, 4, 8, 11, 14, 18}));
}

TEST(ResizeAxis, AFloat32ScaleFallsOnWholePlaces) {
  // 0.1f is above 0.1, so that 1 / 0.1f is below 10.
  const ResizeExtent extent{25, 2, {0.1F, 1, true}};
  EXPECT_EQ(NearestPlaces(ResizeCoordinates::kAsymmetric, ResizeRounding::kFloor, extent),
            (Places{0, 10}));
}

TEST(ResizeAxis, EveryRoundingOfTheSameCoordinates) {
  // Coordinates 0, 0.5, 1, 1.5, 2, 2.5 of three places.
  const auto places = [](ResizeRounding rounding) {
    return NearestPlaces(ResizeCoordinates::kAsymmetric, rounding, Sized(3, 6));
  };
  EXPECT_EQ(places(ResizeRounding::kFloor), (Places{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(places(ResizeRounding::kCeil), (Places{0, 1, 1, 2, 2, 2}));
  EXPECT_EQ(places(ResizeRounding::kPreferFloor), (Places{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(places(ResizeRounding::kPreferCeil), (Places{0, 1, 1, 2, 2, 2}));
  EXPECT_EQ(places(ResizeRounding::kFloorUpCeilDown), (Places{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(NearestPlaces(ResizeCoordinates::kAsymmetric, ResizeRounding::kFloorUpCeilDown,
                          {4, 2, {0.6F, 1, true}}),
            (Places{0, 2}));
}

TEST(ResizeAxis, EveryCoordinateRuleOnFourPlacesMadeTwo) {
  const auto weights = [](ResizeCoordinates coordinates, const ResizeExtent& extent) {
    return MakeResizeAxis({.mode = ResizeMode::kLinear, .coordinates = coordinates}, extent);
  };
  const ResizeExtent extent = Sized(4, 2);
  // [tap][output place]: coordinates 0.5 and 2.5.
  ResizeAxis axis = weights(ResizeCoordinates::kHalfPixel, extent);
  EXPECT_EQ(axis.places, (Places{0, 2, 1, 3}));
  EXPECT_EQ(axis.weights, (Weights{0.5, 0.5, 0.5, 0.5}));
  // 0 and 3.
  axis = weights(ResizeCoordinates::kAlignCorners, extent);
  EXPECT_EQ(axis.places, (Places{0, 3, 1, 3}));
  EXPECT_EQ(axis.weights, (Weights{1, 1, 0, 0}));
  // 0 and 2.
  axis = weights(ResizeCoordinates::kAsymmetric, extent);
  EXPECT_EQ(axis.places, (Places{0, 2, 1, 3}));
  EXPECT_EQ(axis.weights, (Weights{1, 1, 0, 0}));
  // 1 and 3.
  axis = weights(ResizeCoordinates::kTfHalfPixelForNn, extent);
  EXPECT_EQ(axis.places, (Places{1, 3, 2, 3}));
  // The region from a sixth to five sixths: 0.5 and 2.5.
  ResizeExtent region = extent;
  region.roi_begin = 0.5 / 3;
  region.roi_end = 2.5 / 3;
  axis = weights(ResizeCoordinates::kTfCropAndResize, region);
  EXPECT_EQ(axis.places, (Places{0, 2, 1, 3}));
  EXPECT_TRUE(axis.outside.empty());
  // An output of 2.4 places, of which two are there: the centres meet.
  axis = weights(ResizeCoordinates::kHalfPixelSymmetric, {4, 2, {0.5, 0.8333333333333334}});
  EXPECT_EQ(axis.places, (Places{0, 2, 1, 3}));
  EXPECT_DOUBLE_EQ(axis.weights[0] + axis.weights[1], 1) << "symmetric about the centre";
}

TEST(ResizeAxis, OneOutputPlaceIsTheFirstOrTheMiddle) {
  const auto place = [](ResizeCoordinates coordinates) {
    return NearestPlaces(coordinates, ResizeRounding::kPreferFloor, Sized(5, 1));
  };
  EXPECT_EQ(place(ResizeCoordinates::kPytorchHalfPixel), (Places{0}));
  EXPECT_EQ(place(ResizeCoordinates::kAlignCorners), (Places{0}));
  EXPECT_EQ(place(ResizeCoordinates::kHalfPixel), (Places{2}));
  EXPECT_EQ(place(ResizeCoordinates::kTfCropAndResize), (Places{2}));
}

TEST(ResizeAxis, CubicWeightsFollowTheCoefficientAndLeaveOutTheEdges) {
  ResizeRule rule{.mode = ResizeMode::kCubic, .coordinates = ResizeCoordinates::kAsymmetric};
  // Coordinate 0.5 is output place 1.
  const auto column = [&rule] {
    const ResizeAxis axis = MakeResizeAxis(rule, Sized(4, 8));
    Weights weights;
    for (int t = 0; t < axis.taps; ++t)
      weights.push_back(axis.weights[static_cast<size_t>(t * 8 + 1)]);
    return weights;
  };
  EXPECT_EQ(column(), (Weights{-0.09375, 0.59375, 0.59375, -0.09375}));
  rule.cubic_a = -0.5;
  EXPECT_EQ(column(), (Weights{-0.0625, 0.5625, 0.5625, -0.0625}));
  rule.edge = ResizeEdge::kExclude;
  EXPECT_EQ(column(), (Weights{0, 0.5625 / 1.0625, 0.5625 / 1.0625, -0.0625 / 1.0625}));
}

TEST(ResizeAxis, AntialiasingWidensTheFilterAsTheAxisShrinks) {
  const ResizeRule rule{.mode = ResizeMode::kLinear, .filter = ResizeFilter::kAntialias};
  const ResizeAxis axis = MakeResizeAxis(rule, Sized(8, 4));
  // Coordinate 2.5: places 1 to 4 weigh 1/4, 3/4, 3/4, 1/4 of 2.
  ASSERT_EQ(axis.taps, 4);
  for (int t = 0; t < 4; ++t) {
    EXPECT_EQ(axis.places[static_cast<size_t>(t * 4 + 1)], 1 + t);
    EXPECT_EQ(axis.weights[static_cast<size_t>(t * 4 + 1)], t == 0 || t == 3 ? 0.125 : 0.375);
  }
  EXPECT_EQ(MakeResizeAxis(rule, Sized(4, 8)).taps, 2) << "no filter where the axis grows";
}

TEST(ResizeAxis, PlacesOutsideTheRegionAreMarkedNaNIncluded) {
  const ResizeRule rule{.mode = ResizeMode::kLinear,
                        .coordinates = ResizeCoordinates::kTfCropAndResize};
  ResizeExtent extent = Sized(4, 3);
  extent.roi_begin = -0.5;
  EXPECT_EQ(MakeResizeAxis(rule, extent).outside, (std::vector<uint8_t>{1, 0, 0}));
  extent.roi_begin = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(MakeResizeAxis(rule, extent).outside, (std::vector<uint8_t>{1, 1, 1}));
  extent.roi_begin = -std::numeric_limits<double>::infinity();
  EXPECT_EQ(MakeResizeAxis(rule, extent).outside[0], 1);
}

TEST(ResizePlan, SmallPlacesBecomePartOfTheRowAndNeighboursMerge) {
  const ResizeRule rule{.mode = ResizeMode::kLinear};
  const ResizeAxis kept{.in = 3, .out = 3};
  const ResizePlan images = MakeResizePlan(
      {kept, kept, MakeResizeAxis(rule, Sized(4, 8)), MakeResizeAxis(rule, Sized(5, 9)), kept});
  EXPECT_EQ(images.inner, 1);
  EXPECT_EQ(images.row.in, 15);
  EXPECT_EQ(images.row.out, 27);
  ASSERT_EQ(images.outer.size(), 2U);
  EXPECT_EQ(images.outer[0].out, 9);
  EXPECT_EQ(images.rows(), 72);
  const ResizeAxis wide{.in = 16, .out = 16};
  const ResizePlan last = MakeResizePlan({MakeResizeAxis(rule, Sized(5, 9)), wide});
  EXPECT_EQ(last.inner, 16);
  EXPECT_EQ(last.row.out, 9);
}

TEST(ResizePlan, BlocksCoverTheRowAndFitTheTile) {
  const ResizeRule rule{.mode = ResizeMode::kLinear};
  const ResizePlan plan = MakeResizePlan({MakeResizeAxis(rule, Sized(10000, 20001))});
  int64_t next = 0;
  for (const ResizeBlock& block : plan.blocks) {
    EXPECT_EQ(block.begin, next);
    EXPECT_LE(block.last - block.first + 1, kResizeTile);
    next = block.end;
  }
  EXPECT_EQ(next, 20001);
  EXPECT_EQ(plan.blocks.size(), 3U);
  const ResizeRule antialias{.mode = ResizeMode::kLinear, .filter = ResizeFilter::kAntialias};
  EXPECT_TRUE(MakeResizePlan({MakeResizeAxis(antialias, Sized(10000, 3))}).blocks.empty());
}

struct Case {
  std::string name;
  std::vector<ResizeExtent> extents;
};

std::vector<Case> Cases() {
  const ResizeExtent items = Sized(2, 2);
  std::vector<Case> cases = {
      {"3-D, all axes", {items, Sized(3, 5), Sized(4, 7), Sized(6, 3)}},
      {"rows only", {Sized(5, 12), Sized(33, 33)}},
      {"one place becomes many", {Sized(1, 9), Sized(1, 40)}},
      {"an axis too long for one tile", {items, Sized(2, 3), Sized(5000, 9001)}},
      {"places of many elements", {items, Sized(9, 17), Sized(11, 5), Sized(700, 700)}},
  };
  for (int64_t width = 1; width <= 70; ++width) {
    cases.push_back(
        {fmt::format("width {}", width), {items, Sized(3, 7), Sized(width, 2 * width + 1)}});
    cases.push_back({fmt::format("{} elements of a place", width),
                     {items, Sized(5, 3), Sized(4, 9), Sized(width, width)}});
  }
  return cases;
}

std::vector<ResizeRule> Rules() {
  std::vector<ResizeRule> rules;
  for (const ResizeMode mode : {ResizeMode::kLinear, ResizeMode::kCubic}) {
    rules.push_back({.mode = mode});
    rules.push_back({.mode = mode,
                     .coordinates = ResizeCoordinates::kAlignCorners,
                     .edge = ResizeEdge::kExclude});
    rules.push_back({.mode = mode, .filter = ResizeFilter::kAntialias});
  }
  return rules;
}

TEST(ResizeRows, AgreesWithTheReferenceOnEveryIsaAndHasTheSameBitsOnAnyThreads) {
  for (const Case& c : Cases()) {
    for (const ResizeRule& rule : Rules()) {
      Shape in;
      Shape out;
      std::vector<ResizeAxis> axes;
      int64_t products = 1;
      for (const ResizeExtent& extent : c.extents) {
        in.Append(extent.in);
        out.Append(extent.out);
        axes.push_back(MakeResizeAxis(rule, extent));
        products *= std::max(1, axes.back().taps);
      }
      const ResizePlan plan = MakeResizePlan(std::move(axes));
      ASSERT_FALSE(plan.blocks.empty()) << c.name;
      const Tensor x = test::RandomFloats(in, 3);
      const Tensor expected = *Tensor::Allocate(DType::kFloat, out);
      ResizeReference(plan, {DType::kFloat, x.view().raw(), expected.mutable_view().mutable_raw()},
                      SequentialParallel());
      for (const Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
        if (isa > DetectIsa()) continue;
        std::optional<Tensor> first;
        for (const int threads : {1, 2, 4}) {
          const Tensor y = *Tensor::Allocate(DType::kFloat, out);
          ResizeRows(isa, plan, x.data<float>(), y.mutable_data<float>(),
                     test::FineParallel(threads));
          EXPECT_TRUE(test::Close(y, expected, test::Reduction(products)))
              << c.name << " " << IsaName(isa);
          if (!first) first = y;
          EXPECT_TRUE(test::Close(y, *first, test::Exact())) << c.name << " " << IsaName(isa);
        }
      }
    }
  }
}

TEST(ResizeReference, IntegersAreTruncatedAndSaturated) {
  const ResizeRule rule{.mode = ResizeMode::kCubic};
  const ResizePlan plan = MakeResizePlan({MakeResizeAxis(rule, Sized(4, 8))});
  const std::vector<uint8_t> x = {0, 0, 255, 255};
  std::vector<uint8_t> y(8);
  ResizeReference(plan, {DType::kUint8, x.data(), y.data()}, SequentialParallel());
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[1], 0);
  EXPECT_EQ(y[6], 255) << "an overshoot is cut";
  const std::vector<int64_t> wide = {0, 3};
  std::vector<int64_t> out(4);
  const ResizePlan linear =
      MakeResizePlan({MakeResizeAxis({.mode = ResizeMode::kLinear}, Sized(2, 4))});
  ResizeReference(linear, {DType::kInt64, wide.data(), out.data()}, SequentialParallel());
  EXPECT_EQ(out, (std::vector<int64_t>{0, 0, 2, 3})) << "0, 0.75, 2.25, 3";
}

}  // namespace
}  // namespace tandem::kernels
