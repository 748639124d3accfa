#include "engine/kernels/move/strided_copy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "engine/base/check.h"
#include "engine/base/transpose.h"

namespace tandem::kernels {
namespace {

constexpr int64_t kPieceBytes = 64 << 10;  // of the inner axes, about
constexpr int64_t kTile = kTransposedTile;

// The innermost work: `row` is the axis along which the output is written, `column` the axis along
// which the input is read where that is another one (a transpose), else of extent 1.
struct Inner {
  StridedAxis row;
  StridedAxis column;
};

template <typename T>
void CopyRow(const StridedAxis& row, const T* in, T* out) {
  if (row.out_stride == 1 && row.in_stride == 1) {
    std::memcpy(out, in, static_cast<size_t>(row.extent) * sizeof(T));
  } else if (row.out_stride == 1 && row.in_stride == 0) {
    std::fill(out, out + row.extent, *in);
  } else if (row.out_stride == 1) {
    for (int64_t i = 0; i < row.extent; ++i) out[i] = in[i * row.in_stride];
  } else {
    for (int64_t i = 0; i < row.extent; ++i) out[i * row.out_stride] = in[i * row.in_stride];
  }
}

// A transpose to rows of kRow elements, too few for a tile: the channels of an image.
template <int64_t kRow, typename T>
void TransposeToShortRows(const StridedAxis& row, const StridedAxis& column, const T* in, T* out) {
  for (int64_t c = 0; c < column.extent; ++c, ++in, out += column.out_stride) {
    for (int64_t r = 0; r < kRow; ++r) out[r] = in[r * row.in_stride];
  }
}

template <typename T>
void CopyTiles(const StridedAxis& row, const StridedAxis& column, const T* in, T* out) {
  const bool dense = row.out_stride == 1 && column.in_stride == 1;
  if (dense && row.extent == 2) return TransposeToShortRows<2>(row, column, in, out);
  if (dense && row.extent == 3) return TransposeToShortRows<3>(row, column, in, out);
  if (dense && row.extent == 4) return TransposeToShortRows<4>(row, column, in, out);
  for (int64_t c = 0; c < column.extent; c += kTile) {
    const int64_t c_end = std::min(column.extent, c + kTile);
    for (int64_t r = 0; r < row.extent; r += kTile) {
      const int64_t r_end = std::min(row.extent, r + kTile);
      const T* from = in + r * row.in_stride + c * column.in_stride;
      T* to = out + r * row.out_stride + c * column.out_stride;
      if (dense && c_end - c == kTile && r_end - r == kTile) {
        TransposeTile(from, row.in_stride, to, column.out_stride);
        continue;
      }
      for (int64_t j = 0; j < c_end - c; ++j) {
        CopyRow({r_end - r, row.in_stride, row.out_stride}, from + j * column.in_stride,
                to + j * column.out_stride);
      }
    }
  }
}

// Splits off the innermost axes; what stays in `axes` is the outer loop.
Inner TakeInner(StridedAxes& axes) {
  Inner inner;
  if (axes.empty()) return inner;
  inner.row = axes.back();
  axes.pop_back();
  if (std::abs(inner.row.in_stride) <= 1) return inner;
  const auto nearest =
      std::min_element(axes.begin(), axes.end(), [](const StridedAxis& a, const StridedAxis& b) {
        return std::abs(a.in_stride) < std::abs(b.in_stride);
      });
  if (nearest == axes.end()) return inner;
  const int64_t stride = std::abs(nearest->in_stride);
  if (stride == 0 || stride >= std::abs(inner.row.in_stride)) return inner;
  inner.column = *nearest;
  axes.erase(nearest);
  return inner;
}

// Cuts the longer inner axis into pieces of `piece` indices, which become one more outer loop.
struct Pieces {
  bool of_row = true;
  int64_t piece = 1;
  int64_t count = 1;
};

Pieces CutInner(const Inner& inner, int element_size) {
  Pieces pieces;
  pieces.of_row = inner.column.extent <= inner.row.extent;
  const int64_t longer = pieces.of_row ? inner.row.extent : inner.column.extent;
  const int64_t shorter = pieces.of_row ? inner.column.extent : inner.row.extent;
  const int64_t wanted = kPieceBytes / std::max<int64_t>(1, shorter * element_size);
  pieces.piece = std::max<int64_t>(kTile, wanted / kTile * kTile);
  pieces.count = (longer + pieces.piece - 1) / pieces.piece;
  return pieces;
}

template <typename T>
void CopyPiece(const Inner& inner, const Pieces& pieces, int64_t index, const T* in, T* out) {
  Inner part = inner;
  StridedAxis& cut = pieces.of_row ? part.row : part.column;
  const int64_t begin = index * pieces.piece;
  cut.extent = std::min(pieces.piece, cut.extent - begin);
  in += begin * cut.in_stride;
  out += begin * cut.out_stride;
  if (part.column.extent == 1) {
    CopyRow(part.row, in, out);
  } else {
    CopyTiles(part.row, part.column, in, out);
  }
}

template <typename T>
void CopyTyped(StridedAxes axes, const T* in, T* out, const Parallel& parallel) {
  const Inner inner = TakeInner(axes);
  const Pieces pieces = CutInner(inner, sizeof(T));
  int64_t units = pieces.count;
  for (const StridedAxis& axis : axes) units *= axis.extent;
  const int64_t unit_bytes =
      inner.row.extent * inner.column.extent * static_cast<int64_t>(sizeof(T)) / pieces.count;
  constexpr int64_t kGrainBytes = kGrainElements * sizeof(float);
  const int64_t grain = GrainOf(kGrainBytes, unit_bytes);
  parallel.For(units, grain, [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      int64_t rest = unit / pieces.count;
      int64_t from = 0;
      int64_t to = 0;
      for (size_t k = axes.size(); k-- > 0;) {
        const int64_t i = rest % axes[k].extent;
        rest /= axes[k].extent;
        from += i * axes[k].in_stride;
        to += i * axes[k].out_stride;
      }
      CopyPiece(inner, pieces, unit % pieces.count, in + from, out + to);
    }
  });
}

}  // namespace

StridedAxes Simplify(StridedAxes axes) {
  axes.erase(std::remove_if(axes.begin(), axes.end(),
                            [](const StridedAxis& axis) { return axis.extent == 1; }),
             axes.end());
  std::stable_sort(axes.begin(), axes.end(), [](const StridedAxis& a, const StridedAxis& b) {
    return std::abs(a.out_stride) > std::abs(b.out_stride);
  });
  StridedAxes merged;
  for (const StridedAxis& axis : axes) {
    if (!merged.empty()) {
      StridedAxis& outer = merged.back();
      if (outer.in_stride == axis.in_stride * axis.extent &&
          outer.out_stride == axis.out_stride * axis.extent) {
        outer = {outer.extent * axis.extent, axis.in_stride, axis.out_stride};
        continue;
      }
    }
    merged.push_back(axis);
  }
  return merged;
}

void StridedCopy(const StridedAxes& axes, int element_size, const void* in, void* out,
                 const Parallel& parallel) {
  for (const StridedAxis& axis : axes) {
    if (axis.extent <= 0) return;
  }
  const auto copy = [&](auto element) {
    using T = decltype(element);
    CopyTyped(Simplify(axes), static_cast<const T*>(in), static_cast<T*>(out), parallel);
  };
  switch (element_size) {
    case 1:
      return copy(uint8_t{});
    case 2:
      return copy(uint16_t{});
    case 4:
      return copy(uint32_t{});
    case 8:
      return copy(uint64_t{});
    case 16:
      return copy(Bytes16{});
    default:
      CHECK(false, "elements of {} bytes", element_size);
  }
}

}  // namespace tandem::kernels
