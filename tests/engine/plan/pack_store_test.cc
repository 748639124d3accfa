#include "engine/plan/pack_store.h"

#include <gtest/gtest.h>

#include <cstring>

namespace tandem::plan {
namespace {

ops::PackSpec CopySpec(const std::string& parameters, size_t bytes) {
  return {"test.copy", parameters, bytes, [](const TensorView& native, std::span<std::byte> out) {
            std::memcpy(out.data(), native.raw(), out.size());
          }};
}

TEST(PackStore, EqualContentAndFormatArePackedOnce) {
  graph::ConstantStore constants;
  PackStore packs;
  const graph::ConstantRef weight = constants.Intern(Tensor::Of<float>({2}, {1, 2}));
  const auto first = packs.Get(*weight, CopySpec("avx2", 8));
  const auto second = packs.Get(*weight, CopySpec("avx2", 8));
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(*first, *second);
  EXPECT_EQ(packs.stats().built, 1u);
  EXPECT_EQ(packs.stats().shared, 1u);
  EXPECT_EQ(packs.stats().bytes, 8u);
}

TEST(PackStore, AnotherFormatOfTheSameContentIsAnotherPack) {
  graph::ConstantStore constants;
  PackStore packs;
  const graph::ConstantRef weight = constants.Intern(Tensor::Of<float>({2}, {1, 2}));
  const auto first = packs.Get(*weight, CopySpec("group 1", 8));
  const auto second = packs.Get(*weight, CopySpec("group 2", 8));
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(*first, *second);
  EXPECT_EQ(packs.stats().built, 2u);
}

TEST(PackStore, APackIsFoundAfterItsConstantIsGoneAndNotByAddress) {
  PackStore packs;
  StatusOr<ops::PackRef> first = Unavailable("not packed yet");
  {
    graph::ConstantStore constants;
    first = packs.Get(*constants.Intern(Tensor::Of<float>({2}, {1, 2})), CopySpec("f", 8));
  }
  graph::ConstantStore constants;
  // The new tensors may well lie where the first one lay.
  const auto other = packs.Get(*constants.Intern(Tensor::Of<float>({2}, {3, 4})), CopySpec("f", 8));
  const auto same = packs.Get(*constants.Intern(Tensor::Of<float>({2}, {1, 2})), CopySpec("f", 8));
  ASSERT_TRUE(first.ok() && other.ok() && same.ok());
  EXPECT_NE(*first, *other);
  EXPECT_EQ(*first, *same);
  first = Unavailable("let go");
}

// Two loads pack the same weight at the same time: the second one finds it missing, too, and is
// done first.
TEST(PackStore, APackThatTwoMakeAtTheSameTimeIsOneAndCountsOnce) {
  graph::ConstantStore constants;
  PackStore packs;
  const graph::ConstantRef weight = constants.Intern(Tensor::Of<float>({2}, {1, 2}));
  StatusOr<ops::PackRef> inner = Unavailable("not packed yet");
  ops::PackSpec spec = CopySpec("avx2", 8);
  const auto copy = spec.fill;
  spec.fill = [&](const TensorView& native, std::span<std::byte> out) {
    inner = packs.Get(*weight, CopySpec("avx2", 8));
    copy(native, out);
  };
  const auto outer = packs.Get(*weight, spec);
  ASSERT_TRUE(outer.ok() && inner.ok());
  EXPECT_EQ(*outer, *inner);
  EXPECT_EQ(packs.stats().built, 1u);
  EXPECT_EQ(packs.stats().shared, 1u);
  EXPECT_EQ(packs.stats().bytes, 8u);
}

TEST(PackStore, APackIsFreedWithItsLastReader) {
  graph::ConstantStore constants;
  PackStore packs;
  {
    const auto pack = packs.Get(*constants.Intern(Tensor::Of<float>({1}, {1})), CopySpec("f", 4));
    ASSERT_TRUE(pack.ok());
    EXPECT_EQ(packs.stats().bytes, 4u);
  }
  EXPECT_EQ(packs.stats().bytes, 0u);
}

}  // namespace
}  // namespace tandem::plan
