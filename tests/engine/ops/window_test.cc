#include "engine/ops/window.h"

#include <gtest/gtest.h>

namespace tandem::ops {
namespace {

kernels::WindowAxis Resolve(const WindowAttributes& attributes, int64_t kernel, int64_t in) {
  const int64_t kernels[] = {kernel};
  const int64_t extents[] = {in};
  const auto axes = ResolveWindow(attributes, kernels, extents);
  EXPECT_TRUE(axes.ok()) << axes.status();
  return axes.ok() ? (*axes)[0] : kernels::WindowAxis();
}

TEST(Window, CeilModeRoundsUpOnceAndDropsWindowsThatStartInThePadding) {
  const auto out = [](int64_t n, int64_t k, int64_t s) {
    return Resolve({.strides = {s}, .ceil_mode = true}, k, n).out;
  };
  EXPECT_EQ(out(6, 3, 2), 3);
  EXPECT_EQ(out(7, 3, 2), 3);
  EXPECT_EQ(out(5, 2, 3), 2);
  EXPECT_EQ(out(8, 2, 3), 3);
  const WindowAttributes padded{.strides = {3}, .pads = {1, 1}, .ceil_mode = true};
  EXPECT_EQ(Resolve(padded, 3, 3).out, 2);
  EXPECT_EQ(Resolve(padded, 3, 6).out, 3);
  EXPECT_EQ(Resolve(padded, 3, 5).out, 2);
}

TEST(Window, SameUpperPutsTheOddPadBehindAndSameLowerInFront) {
  const auto upper = Resolve({.auto_pad = AutoPad::kSameUpper, .strides = {2}}, 3, 6);
  EXPECT_EQ(upper.out, 3);
  EXPECT_EQ(upper.pad_begin, 0);
  EXPECT_EQ(upper.pad_end, 1);
  const auto lower = Resolve({.auto_pad = AutoPad::kSameLower, .strides = {2}}, 3, 6);
  EXPECT_EQ(lower.out, 3);
  EXPECT_EQ(lower.pad_begin, 1);
  EXPECT_EQ(lower.pad_end, 0);
  const auto dilated = Resolve({.auto_pad = AutoPad::kSameUpper, .dilations = {2}}, 3, 5);
  EXPECT_EQ(dilated.out, 5);
  EXPECT_EQ(dilated.pad_begin, 2);
  EXPECT_EQ(dilated.pad_end, 2);
}

TEST(Window, ValidHasNoPadsAndIgnoresCeilMode) {
  const auto axis = Resolve({.auto_pad = AutoPad::kValid, .strides = {2}, .ceil_mode = true}, 3, 6);
  EXPECT_EQ(axis.out, 2);
  EXPECT_EQ(axis.pad_begin, 0);
}

TEST(Window, AWindowThatDoesNotFitIsRefusedWithItsNumbers) {
  const int64_t kernel[] = {3};
  const int64_t in[] = {4};
  const auto axes = ResolveWindow({.dilations = {2}}, kernel, in);
  ASSERT_FALSE(axes.ok());
  EXPECT_EQ(Message(axes.status()),
            "a window of extent 5 (kernel 3, dilation 2) does not fit into an input of extent 4 "
            "with pads 0 and 0");
}

TEST(Window, AnEmptyInputGivesAnEmptyOutput) { EXPECT_EQ(Resolve({}, 3, 0).out, 0); }

TEST(Window, SymbolsStayWhereTheWindowKeepsOrDividesThem) {
  using graph::Dim;
  const auto infer = [](const WindowAttributes& attributes, int64_t kernel, const Dim& in) {
    const int64_t kernels[] = {kernel};
    const Dim dims[] = {in};
    const auto out = InferWindow(attributes, kernels, dims);
    EXPECT_TRUE(out.ok()) << out.status();
    return ToString(*out);
  };
  const Dim h = Dim::Symbol("h");
  EXPECT_EQ(infer({.pads = {1, 1}}, 3, h), "[h]");
  EXPECT_EQ(infer({}, 3, h), "[?]");
  EXPECT_EQ(infer({.strides = {2}, .pads = {1, 1}}, 3, Dim(4) * h), "[2*h]");
  EXPECT_EQ(infer({.strides = {2}}, 2, Dim(2) * h), "[h]");
  EXPECT_EQ(infer({.strides = {2}}, 2, h), "[?]");
  EXPECT_EQ(infer({.auto_pad = AutoPad::kSameLower, .strides = {2}}, 5, Dim(2) * h), "[h]");
  EXPECT_EQ(infer({.strides = {2}, .pads = {1, 1}}, 3, 7), "[4]");
}

}  // namespace
}  // namespace tandem::ops
