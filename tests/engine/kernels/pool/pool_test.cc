#include "engine/kernels/pool/pool.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tests/support/fine_parallel.h"
#include "tests/support/random_bytes.h"
#include "tests/support/random_tensor.h"

namespace tandem::kernels {
namespace {

struct Case {
  Pool pool;
  std::vector<float> in;   // native
  std::vector<float> out;  // native
};

// Windows of several kinds on a 1 x height x width input.
std::vector<Pool> Pools(int64_t channels) {
  std::vector<Pool> pools;
  for (const PoolKind kind : {PoolKind::kMax, PoolKind::kAverage, PoolKind::kLp}) {
    for (const PoolDivisor divisor : {PoolDivisor::kTaps, PoolDivisor::kPadded}) {
      Pool pool;
      pool.kind = kind;
      pool.divisor = divisor;
      pool.items = 3;
      pool.channels = channels;
      pool.axes[1] = {.in = 7, .out = 4, .kernel = 3, .stride = 2, .pad_begin = 1, .pad_end = 1};
      pool.axes[2] = {.in = 9, .out = 7, .kernel = 2, .dilation = 3, .pad_begin = 1};
      pools.push_back(pool);
      pool.axes[0] = {.in = 4, .out = 2, .kernel = 2, .stride = 2};
      pool.p = 1;
      pools.push_back(pool);
    }
  }
  return pools;
}

TEST(Pool, ChannelsLastHasTheBitsOfTheReferenceOnEveryIsaAndThreadCount) {
  for (const int64_t channels : {1, 3, 4, 7, 8, 9, 15, 16, 17, 31, 33, 300}) {
    for (Pool pool : Pools(channels)) {
      Tensor in = test::RandomFloats({pool.items * channels * pool.in_spatial()}, 5);
      in.mutable_data<float>()[in.elements() / 2] = std::numeric_limits<float>::quiet_NaN();
      in.mutable_data<float>()[0] = -std::numeric_limits<float>::infinity();
      const int64_t size = pool.items * channels * pool.out_spatial();
      pool.in = pool.out = {.channel = 1, .spatial = channels};
      std::vector<float> expected(static_cast<size_t>(size));
      PoolReference(pool, {DType::kFloat, in.view().raw(), expected.data()}, SequentialParallel());
      for (const Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
        if (isa > DetectIsa()) continue;
        for (const int threads : {1, 2, 4}) {
          std::vector<float> out(static_cast<size_t>(size), -7);
          PoolChannelsLast(isa, pool, in.data<float>(), out.data(), test::FineParallel(threads));
          for (size_t i = 0; i < out.size(); ++i) {
            if (std::isnan(out[i]) && std::isnan(expected[i])) continue;
            ASSERT_EQ(out[i], expected[i])
                << IsaName(isa) << " element " << i << " of " << channels << " channels";
          }
        }
      }
    }
  }
}

TEST(Pool, TheMaximumOfBytesIsThatOfTheReferenceOnEveryIsaAndThreadCount) {
  for (const DType dtype : {DType::kInt8, DType::kUint8}) {
    for (const int64_t channels : {1, 3, 15, 16, 17, 31, 33, 63, 64, 65, 130}) {
      for (Pool pool : Pools(channels)) {
        if (pool.kind != PoolKind::kMax) continue;
        const auto size = static_cast<size_t>(pool.items * channels * pool.out_spatial());
        const Tensor in = test::RandomBytes<int8_t>({pool.items * channels * pool.in_spatial()}, 5);
        pool.in = pool.out = {.channel = 1, .spatial = channels};
        std::vector<uint8_t> expected(size);
        PoolReference(pool, {dtype, in.view().raw(), expected.data()}, SequentialParallel());
        for (const Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
          if (isa > DetectIsa()) continue;
          for (const int threads : {1, 3}) {
            std::vector<uint8_t> out(size, 77);
            MaxPoolBytes(isa, pool, {dtype, in.view().raw(), out.data()},
                         *MakeThreadParallel(threads));
            ASSERT_EQ(out, expected) << IsaName(isa) << " " << channels << " channels";
          }
        }
      }
    }
  }
}

// A window of 2 x 3 that moves by 1 and 2, on images of these extents.
Pool PoolOf(PoolKind kind, int64_t channels, int64_t height, int64_t width) {
  Pool pool;
  pool.kind = kind;
  pool.items = 2;
  pool.channels = channels;
  pool.axes[1] = {.in = height, .out = height, .kernel = 2, .pad_begin = 1};
  pool.axes[2] = {
      .in = width, .out = (width + 1) / 2, .kernel = 3, .stride = 2, .pad_begin = 1, .pad_end = 1};
  pool.in = pool.out = {.channel = 1, .spatial = channels};
  return pool;
}

// The versions of every instruction set have the bytes that the reference makes of `in`.
void ExpectAsReference(const Pool& pool, DType dtype, const Tensor& in) {
  const auto run = [&](const auto& kernel) {
    const auto bytes =
        static_cast<size_t>(pool.items * pool.channels * pool.out_spatial()) * DTypeBits(dtype) / 8;
    std::vector<uint8_t> out(bytes, 77);
    kernel(PoolBuffers{dtype, in.view().raw(), out.data()});
    return out;
  };
  const std::vector<uint8_t> expected =
      run([&](const PoolBuffers& data) { PoolReference(pool, data, SequentialParallel()); });
  for (const Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    if (isa > DetectIsa()) continue;
    const std::vector<uint8_t> out = run([&](const PoolBuffers& data) {
      if (dtype != DType::kFloat) return MaxPoolBytes(isa, pool, data, SequentialParallel());
      PoolChannelsLast(isa, pool, static_cast<const float*>(data.in), static_cast<float*>(data.out),
                       SequentialParallel());
    });
    ASSERT_EQ(out, expected) << IsaName(isa) << " " << pool.channels << " channels of "
                             << pool.axes[1].in << " x " << pool.axes[2].in;
  }
}

TEST(Pool, EverySizeHasTheBitsOfTheReference) {
  for (int64_t size = 1; size <= 70; ++size) {
    for (const auto& [channels, height, width] :
         {std::array<int64_t, 3>{size, 3, 4}, {5, size, 3}, {5, 3, size}, {17, 2, size}}) {
      const Shape shape = {2, height * width, channels};
      for (const PoolKind kind : {PoolKind::kMax, PoolKind::kAverage, PoolKind::kLp}) {
        ExpectAsReference(PoolOf(kind, channels, height, width), DType::kFloat,
                          test::RandomFloats(shape, 5));
      }
      const Pool most = PoolOf(PoolKind::kMax, channels, height, width);
      for (const DType dtype : {DType::kInt8, DType::kUint8}) {
        ExpectAsReference(most, dtype, test::RandomBytes<int8_t>(shape, 5));
      }
    }
  }
}

TEST(Pool, TheReferenceIsTheSameInBothLayouts) {
  for (Pool pool : Pools(5)) {
    const int64_t in_spatial = pool.in_spatial();
    const int64_t out_spatial = pool.out_spatial();
    const Tensor native = test::RandomFloats({pool.items * 5 * in_spatial}, 9);
    std::vector<float> last(static_cast<size_t>(native.elements()));
    for (int64_t n = 0; n < pool.items; ++n) {
      for (int64_t c = 0; c < 5; ++c) {
        for (int64_t s = 0; s < in_spatial; ++s) {
          last[static_cast<size_t>((n * in_spatial + s) * 5 + c)] =
              native.data<float>()[(n * 5 + c) * in_spatial + s];
        }
      }
    }
    std::vector<float> out(static_cast<size_t>(pool.items * 5 * out_spatial));
    std::vector<float> mixed(out.size());
    pool.in = {.channel = in_spatial, .spatial = 1};
    pool.out = {.channel = out_spatial, .spatial = 1};
    PoolReference(pool, {DType::kFloat, native.view().raw(), out.data()}, SequentialParallel());
    pool.in = {.channel = 1, .spatial = 5};
    PoolReference(pool, {DType::kFloat, last.data(), mixed.data()}, SequentialParallel());
    EXPECT_EQ(out, mixed);
  }
}

TEST(Pool, TapsLeaveOutThePadding) {
  const WindowAxis axis{.in = 4, .out = 3, .kernel = 3, .stride = 2, .pad_begin = 1, .pad_end = 1};
  const PoolTaps first = TapsOf(axis, 0);
  EXPECT_EQ(first.begin, 1);
  EXPECT_EQ(first.end, 3);
  EXPECT_EQ(first.padded, 3);
  const PoolTaps last = TapsOf(axis, 2);
  EXPECT_EQ(last.begin, 0);
  EXPECT_EQ(last.end, 1);
  EXPECT_EQ(last.padded, 2);
}

}  // namespace
}  // namespace tandem::kernels
