// The names of packed formats, by which models of different precisions share packs or do not.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <span>
#include <string>

#include "engine/kernels/gemm/gemm.h"
#include "tests/support/arithmetics.h"
#include "tests/support/random_tensor.h"

namespace tandem::kernels {
namespace {

constexpr Precision kAll[] = {Precision::kF32Plain, Precision::kF32, Precision::kF32Strict,
                              Precision::kBf16};
constexpr Isa kPacked[] = {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512, Isa::kVnni, Isa::kAmx};

TEST(PackFormat, EqualOnesAreOfEqualBytes) {
  for (const int64_t k : {1, 31, 32, 100}) {
    for (const int64_t n : {1, 15, 16, 40}) {
      const Tensor b = test::RandomFloats({k, n}, 7);
      std::map<std::string, Tensor> packs;
      for (const Isa isa : kPacked) {
        if (isa > DetectIsa()) break;
        for (const Precision precision : kAll) {
          const Arithmetic by{isa, precision};
          Tensor packed = *Tensor::Allocate(DType::kFloat, {PackedFloats(by, k, n)});
          PackB(by, {k, n, {b.data<float>(), n, 1}, 1}, packed.mutable_data<float>(),
                SequentialParallel());
          const auto [first, made] = packs.try_emplace(PackFormat(by, k, n), packed);
          const auto expected = std::as_bytes(first->second.span<float>());
          const auto bytes = std::as_bytes(packed.span<float>());
          EXPECT_TRUE(std::ranges::equal(bytes, expected))
              << test::NameOf(by) << " k=" << k << " n=" << n;
        }
      }
    }
  }
}

// Named for every CPU, also one that this machine is not.
TEST(PackFormat, PrecisionsThatCutWeightsIntoPartsHaveOnesOfTheirOwn) {
  std::map<std::string, Precision> formats;
  for (const Precision precision : kAll) {
    const auto [first, made] =
        formats.try_emplace(PackFormat({Isa::kAmx, precision}, 32, 16), precision);
    EXPECT_TRUE(made) << PrecisionName(precision) << " as " << PrecisionName(first->second);
  }
  // Elsewhere, and where products are too small for parts, all are multiplied as float32.
  for (const Precision precision : kAll) {
    const Arithmetic by{Isa::kAmx, precision};
    EXPECT_EQ(PackFormat(by, 31, 16), PackFormat({Isa::kVnni}, 31, 16));
    EXPECT_EQ(PackFormat(by, 32, 15), PackFormat({Isa::kVnni}, 32, 15));
    EXPECT_EQ(PackFormat({Isa::kVnni, precision}, 32, 16), PackFormat({Isa::kVnni}, 32, 16));
  }
}

TEST(PackFormat, QuantisedWeightsHaveOnesOfTheirOwn) {
  for (const Isa isa : kPacked) {
    for (const Precision precision : kAll) {
      EXPECT_NE(PackFormat({isa, precision, Weights::kBytes}, 64, 64),
                PackFormat({isa, precision}, 64, 64))
          << IsaName(isa) << " " << PrecisionName(precision);
    }
  }
}

}  // namespace
}  // namespace tandem::kernels
