// Instructions of AMX against their formulas: those of the machine where it has them, or the
// emulator's (tests/support/amx_emulator.h).
#include <gtest/gtest.h>
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <csignal>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "engine/kernels/amx_registers.h"
#include "tests/support/amx_emulator.h"

#define TANDEM_AMX_ALL __attribute__((target("amx-tile,amx-int8,amx-bf16")))

namespace tandem {
namespace {

using kernels::amx::Configure;
using kernels::amx::Release;
using kernels::amx::TileConfig;

class AmxEmulator : public testing::Test {
 protected:
  static void SetUpTestSuite() { test::EmulateAmx(); }
};

// Rows of memory, 80 bytes apart: more than a register has.
constexpr int kRows = 17;
constexpr int64_t kStride = 80;
struct Memory {
  std::array<uint8_t, kRows * kStride> bytes;

  explicit Memory(uint32_t seed) {
    std::mt19937 random(seed);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  }
  uint8_t* Row(int r) { return bytes.data() + r * kStride; }
  const uint8_t* Row(int r) const { return bytes.data() + r * kStride; }
  template <typename T>
  T At(int r, int i) const {
    T value;
    std::memcpy(&value, Row(r) + i * static_cast<int>(sizeof(T)), sizeof(T));
    return value;
  }
  template <typename T>
  void Set(int r, int i, T value) {
    std::memcpy(Row(r) + i * static_cast<int>(sizeof(T)), &value, sizeof(T));
  }
  bool operator==(const Memory&) const = default;
};

// Every register has the same extents.
TileConfig Alike(int rows, int row_bytes) {
  TileConfig config(1, 1);
  std::fill_n(config.rows, 8, static_cast<uint8_t>(rows));
  std::fill_n(config.row_bytes, 8, static_cast<uint16_t>(row_bytes));
  return config;
}

// Of a product in registers 0, 1 and 2: m x k times k x n words.
struct Extents {
  int m, k, n;

  TileConfig Config() const {
    TileConfig config = Alike(m, 4 * n);
    config.row_bytes[1] = static_cast<uint16_t>(4 * k);
    config.rows[2] = static_cast<uint8_t>(k);
    return config;
  }
};

constexpr Extents kExtents[] = {{16, 16, 16}, {1, 1, 1},  {16, 1, 16}, {1, 16, 16}, {16, 16, 1},
                                {3, 5, 7},    {15, 9, 2}, {2, 13, 15}, {7, 16, 11}};

TEST_F(AmxEmulator, RowsAndBytesBeyondTheExtentsAreNotTouched) {
  for (const int rows : {1, 2, 15, 16}) {
    for (const int row_bytes : {1, 4, 7, 63, 64}) {
      const Memory from(1);
      Memory to(2);
      Memory expected = to;
      for (int r = 0; r < rows; ++r) std::copy_n(from.Row(r), row_bytes, expected.Row(r));
      [&]() TANDEM_AMX_ALL {
        Configure(Alike(rows, row_bytes));
        _tile_loadd(5, from.bytes.data(), kStride);
        _tile_stored(5, to.bytes.data(), kStride);
        Release();
      }();
      EXPECT_EQ(to, expected) << rows << " " << row_bytes;
    }
  }
}

TEST_F(AmxEmulator, EveryRegisterHasAPlaceOfItsOwn) {
  const Memory from(3);
  Memory to(4);
  [&]() TANDEM_AMX_ALL {
    Configure(Alike(1, 64));
    _tile_loadd(0, from.Row(0), 64);
    _tile_loadd(1, from.Row(1), 64);
    _tile_loadd(2, from.Row(2), 64);
    _tile_loadd(3, from.Row(3), 64);
    _tile_stream_loadd(4, from.Row(4), 64);
    _tile_stream_loadd(5, from.Row(5), 64);
    _tile_stream_loadd(6, from.Row(6), 64);
    _tile_stream_loadd(7, from.Row(7), 64);
    _tile_stored(7, to.Row(7), 64);
    _tile_stored(6, to.Row(6), 64);
    _tile_stored(5, to.Row(5), 64);
    _tile_stored(4, to.Row(4), 64);
    _tile_stored(3, to.Row(3), 64);
    _tile_stored(2, to.Row(2), 64);
    _tile_stored(1, to.Row(1), 64);
    _tile_stored(0, to.Row(0), 64);
    Release();
  }();
  for (int r = 0; r < 8; ++r) {
    EXPECT_TRUE(std::equal(from.Row(r), from.Row(r) + 64, to.Row(r))) << r;
  }
}

TEST_F(AmxEmulator, RegistersAreZeroOnceConfiguredAndOnceCleared) {
  const Memory from(5);
  Memory configured(6);
  Memory cleared(7);
  [&]() TANDEM_AMX_ALL {
    Configure(Alike(16, 64));
    _tile_loadd(3, from.bytes.data(), kStride);
    Configure(Alike(16, 64));
    _tile_stored(3, configured.bytes.data(), kStride);
    _tile_loadd(3, from.bytes.data(), kStride);
    _tile_zero(3);
    _tile_stored(3, cleared.bytes.data(), kStride);
    Release();
  }();
  for (int r = 0; r < 16; ++r) {
    EXPECT_EQ(std::count(configured.Row(r), configured.Row(r) + 64, 0), 64) << r;
    EXPECT_EQ(std::count(cleared.Row(r), cleared.Row(r) + 64, 0), 64) << r;
  }
}

// Rows of 4 bytes at 0, 100, 200, by one form of address: with every scale and both sizes of
// displacements, without any, and with the registers whose numbers have a meaning of their own.
#define TANDEM_LOAD_BY(base, index, scale, displacement, origin, step)                      \
  [&]() TANDEM_AMX_ALL {                                                                    \
    Configure(Alike(3, 4));                                                                 \
    __asm__ volatile("mov %0, %%" base "\n\tmov %1, %%" index "\n\ttileloadd " displacement \
                     "(%%" base ",%%" index "," scale "), %%tmm2"                           \
                     :                                                                      \
                     : "a"(origin), "d"(step)                                               \
                     : "memory", base, index);                                              \
    _tile_stored(2, found, 4);                                                              \
    Release();                                                                              \
  }()

TEST_F(AmxEmulator, EveryFormOfAddressIsUnderstood) {
  std::array<uint8_t, 1000> from;
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<uint8_t>(i * 7 + i / 256);
  uint8_t found[12];
  const auto expect = [&](int origin, int step) {
    for (int r = 0; r < 3; ++r) {
      const uint8_t* row = from.data() + origin + r * step;
      EXPECT_TRUE(std::equal(row, row + 4, found + 4 * r)) << "row " << r;
    }
    std::fill_n(found, sizeof(found), uint8_t{0});
  };
  TANDEM_LOAD_BY("rbx", "rcx", "1", "", from.data(), 100L);
  expect(0, 100);
  TANDEM_LOAD_BY("r13", "r12", "2", "72", from.data(), 50L);
  expect(72, 100);
  TANDEM_LOAD_BY("rbx", "r9", "4", "-8", from.data() + 500, -25L);
  expect(492, -100);
  TANDEM_LOAD_BY("r12", "rsi", "8", "400", from.data(), 20L);
  expect(400, 160);
  TANDEM_LOAD_BY("r13", "r15", "1", "-400", from.data() + 450, 9L);
  expect(50, 9);
  TANDEM_LOAD_BY("r8", "r14", "1", "", from.data() + 1, 0L);
  expect(1, 0);
}

TEST_F(AmxEmulator, AddressesWithoutIndexOrBaseAreUnderstood) {
  static const TileConfig kConfig = Alike(2, 8);
  const uint64_t from[] = {1, 2, 3};
  uint64_t found[2] = {};
  [&]() TANDEM_AMX_ALL {
    __asm__ volatile("ldtilecfg %0\n\ttileloadd (%1), %%tmm1"
                     :
                     : "m"(kConfig), "r"(from)
                     : "memory");
    _tile_stored(1, found, 8);
    Release();
  }();
  EXPECT_EQ(found[0], 1);
  EXPECT_EQ(found[1], 1);
  [&]() TANDEM_AMX_ALL {
    __asm__ volatile("ldtilecfg -64(%0,%1,8)\n\ttileloadd 8(%2,%3,1), %%tmm1"
                     :
                     : "r"(reinterpret_cast<const std::byte*>(&kConfig) - 64), "r"(16L), "r"(from),
                       "r"(8L)
                     : "memory");
    _tile_stored(1, found, 8);
    Release();
  }();
  EXPECT_EQ(found[0], 2);
  EXPECT_EQ(found[1], 3);
}

template <typename Left, typename Right>
Memory ExpectedBytes(const Extents& extents, Memory sums, const Memory& left, const Memory& right) {
  for (int m = 0; m < extents.m; ++m) {
    for (int n = 0; n < extents.n; ++n) {
      int64_t sum = sums.At<int32_t>(m, n);
      for (int k = 0; k < extents.k; ++k) {
        for (int i = 0; i < 4; ++i) {
          sum += int64_t{left.At<Left>(m, 4 * k + i)} * right.At<Right>(k, 4 * n + i);
        }
      }
      sums.Set(m, n, static_cast<int32_t>(sum));
    }
  }
  return sums;
}

#define TANDEM_DOTS(instruction, extents, sums, left, right) \
  [&]() TANDEM_AMX_ALL {                                     \
    Configure(extents.Config());                             \
    _tile_loadd(0, sums.bytes.data(), kStride);              \
    _tile_loadd(1, left.bytes.data(), kStride);              \
    _tile_loadd(2, right.bytes.data(), kStride);             \
    instruction(0, 1, 2);                                    \
    _tile_stored(0, sums.bytes.data(), kStride);             \
    Release();                                               \
  }()

TEST_F(AmxEmulator, ProductsOfBytesAreExactForEverySignAndExtent) {
  for (uint32_t seed = 0; seed < 4; ++seed) {
    const Memory left(10 + seed);
    const Memory right(20 + seed);
    const Memory start(30 + seed);  // sums that wrap around, too
    for (const Extents& extents : kExtents) {
      Memory sums = start;
      TANDEM_DOTS(_tile_dpbssd, extents, sums, left, right);
      EXPECT_EQ(sums, (ExpectedBytes<int8_t, int8_t>(extents, start, left, right)));
      sums = start;
      TANDEM_DOTS(_tile_dpbsud, extents, sums, left, right);
      EXPECT_EQ(sums, (ExpectedBytes<int8_t, uint8_t>(extents, start, left, right)));
      sums = start;
      TANDEM_DOTS(_tile_dpbusd, extents, sums, left, right);
      EXPECT_EQ(sums, (ExpectedBytes<uint8_t, int8_t>(extents, start, left, right)));
      sums = start;
      TANDEM_DOTS(_tile_dpbuud, extents, sums, left, right);
      EXPECT_EQ(sums, (ExpectedBytes<uint8_t, uint8_t>(extents, start, left, right)));
    }
  }
}

constexpr uint16_t Bfloat16(float x) {
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16);
}
float Float(uint16_t bfloat16) { return std::bit_cast<float>(uint32_t{bfloat16} << 16); }

TEST_F(AmxEmulator, ProductsOfBfloat16AddFirstAndSecondElementsApart) {
  std::mt19937 random(40);
  std::uniform_real_distribution<float> number(-2, 2);
  for (const Extents& extents : kExtents) {
    Memory left(41);
    Memory right(42);
    Memory sums(43);
    for (int r = 0; r < 16; ++r) {
      for (int i = 0; i < 32; ++i) {
        left.Set(r, i, Bfloat16(number(random)));
        right.Set(r, i, Bfloat16(number(random)));
      }
      for (int i = 0; i < 16; ++i) sums.Set(r, i, number(random));
    }
    Memory expected = sums;
    for (int m = 0; m < extents.m; ++m) {
      for (int n = 0; n < extents.n; ++n) {
        float of[2] = {};
        for (int k = 0; k < extents.k; ++k) {
          for (int i = 0; i < 2; ++i) {
            of[i] = std::fma(Float(left.At<uint16_t>(m, 2 * k + i)),
                             Float(right.At<uint16_t>(k, 2 * n + i)), of[i]);
          }
        }
        expected.Set(m, n, sums.At<float>(m, n) + (of[0] + of[1]));
      }
    }
    TANDEM_DOTS(_tile_dpbf16ps, extents, sums, left, right);
    EXPECT_EQ(sums, expected) << extents.m << " " << extents.k << " " << extents.n;
  }
}

// sum + left[0] * right[0] + left[1] * right[1] by one instruction, which rounds after each of
// them.
float OnePair(float sum, std::array<float, 2> left, std::array<float, 2> right) {
  Memory sums(50);
  Memory lefts(51);
  Memory rights(52);
  sums.Set(0, 0, sum);
  for (int i = 0; i < 2; ++i) {
    lefts.Set(0, i, Bfloat16(left[static_cast<size_t>(i)]));
    rights.Set(0, i, Bfloat16(right[static_cast<size_t>(i)]));
  }
  const Extents one{1, 1, 1};
  TANDEM_DOTS(_tile_dpbf16ps, one, sums, lefts, rights);
  return sums.At<float>(0, 0);
}

TEST_F(AmxEmulator, ProductsOfBfloat16RoundToEven) {
  EXPECT_EQ(OnePair(1, {0x1p-24f, 0}, {1, 0}), 1);
  EXPECT_EQ(OnePair(1 + 0x1p-23f, {0x1p-24f, 0}, {1, 0}), 1 + 0x1p-22f);
  EXPECT_EQ(OnePair(0, {1, 0x1p-24f}, {1, 1}), 1);
  EXPECT_EQ(OnePair(-1, {1, 0x1p-24f}, {1, 1}), 0) << "the pair is rounded before the sum";
}

TEST_F(AmxEmulator, ProductsOfBfloat16TakeDenormalsForZeros) {
  EXPECT_EQ(OnePair(0, {0x1p-130f, 0}, {0x1p100f, 0}), 0) << "an element";
  EXPECT_EQ(OnePair(0, {0x1p-70f, 0}, {0x1p-60f, 0}), 0) << "a product";
  EXPECT_EQ(OnePair(0x1p-130f, {0x1p-126f, 0}, {1, 0}), 0x1p-126f) << "a sum before";
  EXPECT_EQ(OnePair(-0x1.8p-126f, {0x1p-126f, 0}, {1, 0}), 0) << "a sum after";
  EXPECT_EQ(OnePair(0, {0x1.8p-126f, -0x1p-126f}, {1, 1}), 0) << "the two together";
  EXPECT_EQ(OnePair(0, {0x1p-126f, 0}, {1, 0}), 0x1p-126f) << "the least that is none";
}

TEST_F(AmxEmulator, EveryThreadHasRegistersOfItsOwn) {
  std::vector<std::thread> threads;
  std::array<int, 4> wrong = {};
  for (uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([t, &wrong] {
      const Memory left(60 + t);
      const Memory right(70 + t);
      for (const Extents& extents : kExtents) {
        Memory sums(80 + t);
        const Memory expected = ExpectedBytes<uint8_t, int8_t>(extents, sums, left, right);
        TANDEM_DOTS(_tile_dpbusd, extents, sums, left, right);
        wrong[t] += sums != expected;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, (std::array<int, 4>{}));
}

using AmxEmulatorDeathTest = AmxEmulator;

TEST_F(AmxEmulatorDeathTest, OtherInstructionsEndTheProcess) {
  EXPECT_EXIT(__asm__ volatile("ud2"), testing::KilledBySignal(SIGILL), "");
}

TEST_F(AmxEmulatorDeathTest, RegistersThatAreNotConfiguredEndTheProcess) {
  const auto clear = []() TANDEM_AMX_ALL {
    Configure(Alike(16, 64));
    Release();
    _tile_zero(0);
  };
  EXPECT_EXIT(clear(), testing::KilledBySignal(SIGILL), "");
}

TEST_F(AmxEmulatorDeathTest, ExtentsThatDoNotMatchEndTheProcess) {
  const auto multiply = [](const TileConfig& config) TANDEM_AMX_ALL {
    Configure(config);
    _tile_dpbusd(0, 1, 2);
    Release();
  };
  const Extents extents{5, 6, 7};
  TileConfig config = extents.Config();
  multiply(config);
  config.rows[1] = 6;
  EXPECT_EXIT(multiply(config), testing::KilledBySignal(SIGILL), "") << "rows";
  config = extents.Config();
  config.rows[2] = 7;
  EXPECT_EXIT(multiply(config), testing::KilledBySignal(SIGILL), "") << "depth";
  config = extents.Config();
  config.row_bytes[2] = 32;
  EXPECT_EXIT(multiply(config), testing::KilledBySignal(SIGILL), "") << "columns";
}

}  // namespace
}  // namespace tandem
