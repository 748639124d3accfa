// Rows of A of the AMX kernels: cut into bfloat16 parts, or copied for the plain kernel.
#include <algorithm>

#include "engine/kernels/gemm/amx_parts.h"

namespace tandem::kernels::amx {
namespace {

constexpr int64_t kRunFloats = 256;  // behind a prologue, at a time

// The largest magnitudes of a row so far, by lane.
struct Largest {
  __m512i lanes;
};

TANDEM_AMX inline void See(__m512 x, Largest& largest) {
  const __m512i magnitude = _mm512_set1_epi32(kMagnitude);
  largest.lanes =
      _mm512_max_epu32(largest.lanes, _mm512_and_si512(_mm512_castps_si512(x), magnitude));
}

// A number that lies in the range, above, below or at 0 as the largest of them does.
TANDEM_AMX inline uint32_t MostOf(const Largest& largest) {
  const __m512i lanes = largest.lanes;
  if (_mm512_cmpgt_epu32_mask(lanes, _mm512_set1_epi32(kMost)) != 0) return kMost + 1;
  if (_mm512_cmpge_epu32_mask(lanes, _mm512_set1_epi32(kLeastOfRow)) != 0) return kLeastOfRow;
  return _mm512_test_epi32_mask(lanes, lanes) != 0 ? kLeastOfRow - 1 : 0;
}

// x of 16 lanes as bits of bfloat16 in the upper halves.
TANDEM_AMX inline __m512i UpperHalves(__m256i bits) {
  return _mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16);
}

// A whole step of one row, whose parts lie kApart bytes apart.
template <int kParts, int64_t kApart>
TANDEM_AMX inline void PutStep(const float* from, std::byte* to, Largest& largest) {
  __m512 low = _mm512_loadu_ps(from);
  __m512 high = _mm512_loadu_ps(from + 16);
  See(low, largest);
  See(high, largest);
  for (int part = 0; part < kParts; ++part) {
    const auto bits = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
    _mm512_store_si512(to + part * kApart, bits);
    if (part + 1 == kParts) return;
    low = _mm512_sub_ps(low, _mm512_castsi512_ps(UpperHalves(_mm512_castsi512_si256(bits))));
    high = _mm512_sub_ps(
        high, _mm512_castsi512_ps(UpperHalves(_mm512_maskz_extracti64x4_epi64(0xff, bits, 1))));
  }
}

// Up to 16 neighbours that lie in one step.
template <int kParts>
TANDEM_AMX inline void PutSome(const float* from, int64_t count, std::byte* to, Largest& largest) {
  const auto lanes = static_cast<__mmask16>((1u << count) - 1);
  __m512 x = _mm512_maskz_loadu_ps(lanes, from);
  See(x, largest);
  for (int part = 0; part < kParts; ++part) {
    const auto bits = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x));
    _mm256_mask_storeu_epi16(to + part * kPartBytes, lanes, bits);
    x = _mm512_sub_ps(x, _mm512_castsi512_ps(UpperHalves(bits)));
  }
}

// `count` neighbours; the first has place `at` in the row's steps.
template <int kParts>
TANDEM_AMX inline void PutRun(const float* from, int64_t count, int64_t at, std::byte* row,
                              Largest& largest) {
  Largest so_far = largest;  // in a register
  while (count > 0) {
    std::byte* to = row + at / kStep * StepBytes(kParts) + at % kStep * 2;
    int64_t done = 0;
    if (at % kStep == 0) {
      for (; count - done >= kStep; done += kStep, to += StepBytes(kParts)) {
        PutStep<kParts, kPartBytes>(from + done, to, so_far);
      }
    }
    if (done == 0) {
      done = std::min(std::min<int64_t>(count, 16), kStep - at % kStep);
      PutSome<kParts>(from, done, to, so_far);
    }
    from += done;
    at += done;
    count -= done;
  }
  largest = so_far;
}

template <int kParts>
TANDEM_AMX void ClearStep(std::byte* to) {
  for (int part = 0; part < kParts; ++part) {
    _mm512_store_si512(to + part * kPartBytes, _mm512_setzero_si512());
  }
}

// Calls put(from, count, place) for the runs of row r in the piece, behind the prologue.
template <typename Put>
TANDEM_AMX void ForRuns(const Tile& tile, const Piece& piece, int row, const Put& put) {
  float transformed[kRunFloats];
  const int64_t most = tile.prologue == nullptr ? piece.count : kRunFloats;
  int64_t tap = piece.first / std::max<int64_t>(1, tile.depth);
  int64_t offset = piece.first - tap * tile.depth;
  for (int64_t done = 0; done < piece.count;) {
    const int64_t count = std::min({tile.depth - offset, piece.count - done, most});
    const float* from = tile.rows[tap * tile.row_step + row] + offset;
    if (tile.prologue != nullptr) {
      ApplyPrologue(*tile.prologue, {from, tile.k + offset, count}, transformed);
      from = transformed;
    }
    put(from, count, done);
    done += count;
    offset += count;
    if (offset == tile.depth) {
      offset = 0;
      ++tap;
    }
  }
}

template <int kParts>
struct Putting {
  std::byte* row;
  int64_t lead;
  Largest& largest;

  TANDEM_AMX void operator()(const float* from, int64_t count, int64_t done) const {
    PutRun<kParts>(from, count, lead + done, row, largest);
  }
};

template <int kParts>
TANDEM_AMX RowsFound CutRowsOf(const Tile& tile, const Piece& piece, std::byte* steps) {
  const int64_t lead = piece.Lead(tile);
  const int64_t last = piece.Steps(tile) - 1;
  RowsFound found;
  for (int r = 0; r < tile.row_count; ++r) {
    std::byte* row = steps + r / kSide * kTileBytes + r % kSide * kLineBytes;
    if (lead > 0) ClearStep<kParts>(row);
    if ((lead + piece.count) % kStep != 0) ClearStep<kParts>(row + last * StepBytes(kParts));
    Largest largest{_mm512_setzero_si512()};
    ForRuns(tile, piece, r, Putting<kParts>{row, lead, largest});
    found.See(r, MostOf(largest));
  }
  return found;
}

// The same from runs that are cut. The piece consists of whole steps.
template <int kParts>
TANDEM_AMX RowsFound GatherRowsOf(const Tile& tile, const Piece& piece, std::byte* steps) {
  const int64_t first_tap = piece.first / tile.depth;
  const int64_t first_step = piece.first % tile.depth / kStep;
  const int64_t steps_of_run = tile.depth / kStep;
  RowsFound found;
  for (int r = 0; r < tile.row_count; ++r) {
    std::byte* to = steps + r / kSide * kTileBytes + r % kSide * kLineBytes;
    uint32_t most = 0;
    int64_t left = piece.count / kStep;
    int64_t step = first_step;
    for (int64_t tap = first_tap; left > 0; ++tap, step = 0) {
      const float* run = tile.cut[tap * tile.row_step + r];
      most = std::max(most, std::bit_cast<uint32_t>(run[0]));
      const int64_t count = std::min(left, steps_of_run - step);
      const auto* from =
          reinterpret_cast<const std::byte*>(run + kCutHeadFloats) + step * kParts * kLineBytes;
      for (int64_t i = 0; i < count; ++i, to += StepBytes(kParts)) {
        for (int part = 0; part < kParts; ++part, from += kLineBytes) {
          _mm512_store_si512(to + part * kPartBytes, _mm512_load_si512(from));
        }
      }
      left -= count;
    }
    found.See(r, most);
  }
  return found;
}

template <int kParts>
TANDEM_AMX void CutRunOf(const float* run, int64_t depth, float* to) {
  auto* line = reinterpret_cast<std::byte*>(to + kCutHeadFloats);
  Largest largest{_mm512_setzero_si512()};
  for (int64_t at = 0; at < depth; at += kStep, line += kParts * kLineBytes) {
    PutStep<kParts, kLineBytes>(run + at, line, largest);
  }
  to[0] = std::bit_cast<float>(MostOf(largest));
}

}  // namespace

template <int kParts>
RowsFound CutRows(const Tile& tile, const Piece& piece, std::byte* steps) {
  return tile.cut == nullptr ? CutRowsOf<kParts>(tile, piece, steps)
                             : GatherRowsOf<kParts>(tile, piece, steps);
}

template <int kParts>
void CutRun(const float* run, int64_t depth, float* to) {
  CutRunOf<kParts>(run, depth, to);
}

template RowsFound CutRows<1>(const Tile&, const Piece&, std::byte*);
template RowsFound CutRows<2>(const Tile&, const Piece&, std::byte*);
template RowsFound CutRows<3>(const Tile&, const Piece&, std::byte*);
template void CutRun<1>(const float*, int64_t, float*);
template void CutRun<2>(const float*, int64_t, float*);
template void CutRun<3>(const float*, int64_t, float*);

void CopyRow(const Tile& tile, const Piece& piece, int row, float* to) {
  ForRuns(tile, piece, row, [to](const float* from, int64_t count, int64_t done) {
    std::copy_n(from, count, to + done);
  });
}

}  // namespace tandem::kernels::amx
