#include "engine/tensor/spell_out.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace tandem {
namespace {

using Emit = absl::FunctionRef<void(std::span<const std::byte>)>;

// Smaller blocks that repeat are gathered to pieces of about this size.
constexpr size_t kPieceBytes = size_t{64} << 10;

// Axes of the result, merged where neighbours are both repeated or both are not.
struct Axis {
  int64_t extent = 1;
  bool repeated = false;
  size_t block = 0;  // bytes of the result below this axis
  size_t step = 0;   // bytes of the tensor between neighbours; 0 where repeated
};

std::vector<Axis> MergedAxes(const TensorView& tensor, const Shape& shape) {
  std::vector<Axis> axes;  // innermost first
  size_t block = DTypeBytes(tensor.dtype(), 1);
  size_t step = block;
  const int missing = shape.rank() - tensor.shape().rank();
  for (int axis = shape.rank(); axis-- > 0;) {
    const int64_t extent = shape[axis];
    const int64_t own = axis < missing ? 1 : tensor.shape()[axis - missing];
    if (extent == 1) continue;
    const bool repeated = own != extent;
    if (!axes.empty() && axes.back().repeated == repeated) {
      axes.back().extent *= extent;
    } else {
      axes.push_back({extent, repeated, block, repeated ? 0 : step});
    }
    block *= static_cast<size_t>(extent);
    step *= static_cast<size_t>(own);
  }
  std::ranges::reverse(axes);
  return axes;
}

// Copies what `bytes` holds until it is `copies` times as long.
void Multiply(std::vector<std::byte>& bytes, size_t copies) {
  const size_t all = bytes.size() * copies;
  size_t filled = bytes.size();
  bytes.resize(all);
  while (filled < all) {
    const size_t more = std::min(filled, all - filled);
    std::memcpy(bytes.data() + filled, bytes.data(), more);
    filled += more;
  }
}

void EmitBlock(std::span<const Axis> axes, size_t element, const std::byte* from, Emit emit) {
  if (axes.empty()) return emit({from, element});
  const Axis& axis = axes.front();
  if (axes.size() == 1 && !axis.repeated) {
    return emit({from, axis.block * static_cast<size_t>(axis.extent)});
  }
  const std::span<const Axis> below = axes.subspan(1);
  if (!axis.repeated || axis.block >= kPieceBytes) {
    for (int64_t i = 0; i < axis.extent; ++i) {
      EmitBlock(below, element, from + static_cast<size_t>(i) * axis.step, emit);
    }
    return;
  }
  std::vector<std::byte> piece;
  EmitBlock(below, element, from, [&piece](std::span<const std::byte> bytes) {
    piece.insert(piece.end(), bytes.begin(), bytes.end());
  });
  const auto extent = static_cast<size_t>(axis.extent);
  const size_t copies = std::min(extent, kPieceBytes / axis.block);
  Multiply(piece, copies);
  for (size_t done = 0; done < extent; done += copies) {
    emit(std::span(piece).first(std::min(copies, extent - done) * axis.block));
  }
}

}  // namespace

void EmitBroadcast(const TensorView& tensor, const Shape& shape, Emit emit) {
  if (shape.elements() == 0) return;
  EmitBlock(MergedAxes(tensor, shape), DTypeBytes(tensor.dtype(), 1),
            static_cast<const std::byte*>(tensor.raw()), emit);
}

StatusOr<Tensor> SpellOut(const TensorView& tensor, const Shape& shape) {
  ASSIGN_OR_RETURN(Tensor result, Tensor::Allocate(tensor.dtype(), shape));
  std::byte* to = result.mutable_view().mutable_bytes().data();
  EmitBroadcast(tensor, shape, [&to](std::span<const std::byte> bytes) {
    std::memcpy(to, bytes.data(), bytes.size());
    to += bytes.size();
  });
  return result;
}

}  // namespace tandem
