#include "engine/tensor/strided.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "engine/base/transpose.h"

namespace tandem {
namespace {

using Emit = absl::FunctionRef<void(std::span<const std::byte>)>;

// Elements that do not lie side by side are gathered to pieces of about this size.
constexpr size_t kPieceBytes = size_t{256} << 10;

struct Axis {
  int64_t extent = 1;
  size_t block = 0;  // bytes of the result below this axis
  size_t step = 0;   // bytes of the tensor between neighbours; 0 where they repeat
};

// Axes of the result, outermost first, merged where two are one walk through memory.
std::vector<Axis> MergedAxes(const StridedTensor& tensor) {
  const size_t element = DTypeBytes(tensor.held.dtype(), 1);
  std::vector<Axis> axes;  // innermost first
  size_t block = element;
  for (int axis = tensor.shape.rank(); axis-- > 0;) {
    const int64_t extent = tensor.shape[axis];
    if (extent == 1) continue;
    const size_t step = static_cast<size_t>(tensor.strides[static_cast<size_t>(axis)]) * element;
    if (!axes.empty() && axes.back().step * static_cast<size_t>(axes.back().extent) == step) {
      axes.back().extent *= extent;
    } else {
      axes.push_back({extent, block, step});
    }
    block *= static_cast<size_t>(extent);
  }
  std::ranges::reverse(axes);
  return axes;
}

// Gathers `count` elements along `slow` for each of `columns` along `fast`.
template <typename T>
void GatherStrip(int64_t count, const Axis& slow, int64_t columns, const Axis& fast,
                 const std::byte* from, std::byte* to) {
  for (int64_t j = 0; j < columns; ++j, from += fast.step, to += fast.block) {
    for (int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<size_t>(i);
      std::memcpy(to + at * slow.block, from + at * slow.step, sizeof(T));
    }
  }
}

// One or two innermost axes. Of two, the one with the shorter step is walked along, whichever it is
// in the result, in strips of so many of the other that neighbours in the result fill cache lines.
template <typename T>
void GatherPlane(const Axis& outer, const Axis& inner, const std::byte* from, std::byte* to) {
  const bool swap = outer.extent > 1 && outer.step < inner.step;
  const Axis& slow = swap ? inner : outer;
  const Axis& fast = swap ? outer : inner;
  const bool dense = fast.step == sizeof(T) && slow.block == sizeof(T);
  const auto stride = [](size_t bytes) { return static_cast<int64_t>(bytes / sizeof(T)); };
  constexpr int64_t kStrip = kTransposedTile;
  for (int64_t first = 0; first < slow.extent; first += kStrip) {
    const int64_t count = std::min(kStrip, slow.extent - first);
    const std::byte* source = from + static_cast<size_t>(first) * slow.step;
    std::byte* target = to + static_cast<size_t>(first) * slow.block;
    int64_t left = fast.extent;
    for (; dense && count == kStrip && left >= kStrip; left -= kStrip) {
      TransposeTile(reinterpret_cast<const T*>(source), stride(slow.step),
                    reinterpret_cast<T*>(target), stride(fast.block));
      source += kStrip * fast.step;
      target += kStrip * fast.block;
    }
    GatherStrip<T>(count, slow, left, fast, source, target);
  }
}

void GatherPlane(const Axis& outer, const Axis& inner, const std::byte* from, std::byte* to) {
  switch (inner.block) {
    case 1:
      return GatherPlane<uint8_t>(outer, inner, from, to);
    case 2:
      return GatherPlane<uint16_t>(outer, inner, from, to);
    case 4:
      return GatherPlane<uint32_t>(outer, inner, from, to);
    case 8:
      return GatherPlane<uint64_t>(outer, inner, from, to);
    case 16:
      return GatherPlane<Bytes16>(outer, inner, from, to);
    default:
      CHECK(false, "elements of {} bytes", inner.block);
  }
}

// Writes the elements below `axes`, of `element` bytes each, side by side.
void Gather(std::span<const Axis> axes, size_t element, const std::byte* from, std::byte* to) {
  if (axes.empty()) {
    std::memcpy(to, from, element);
    return;
  }
  const Axis& axis = axes.front();
  if (axes.size() == 1 && axis.step == element) {
    std::memcpy(to, from, static_cast<size_t>(axis.extent) * element);
    return;
  }
  const Axis one;
  if (axes.size() == 1) return GatherPlane(one, axis, from, to);
  if (axes.size() == 2 && axes[1].step != element) return GatherPlane(axis, axes[1], from, to);
  for (int64_t i = 0; i < axis.extent; ++i) {
    const auto index = static_cast<size_t>(i);
    Gather(axes.subspan(1), element, from + index * axis.step, to + index * axis.block);
  }
}

void EmitBlock(std::span<const Axis> axes, size_t element, const std::byte* from, Emit emit) {
  if (axes.empty()) return emit({from, element});
  Axis axis = axes.front();
  if (axes.size() == 1 && axis.step == element) {
    return emit({from, element * static_cast<size_t>(axis.extent)});
  }
  const std::span<const Axis> below = axes.subspan(1);
  const auto extent = static_cast<size_t>(axis.extent);
  if (axis.block >= kPieceBytes) {
    for (size_t i = 0; i < extent; ++i) EmitBlock(below, element, from + i * axis.step, emit);
    return;
  }
  const size_t most = std::min(extent, kPieceBytes / axis.block);
  std::vector<std::byte> piece(most * axis.block);
  std::vector<Axis> part(axes.begin(), axes.end());
  for (size_t done = 0; done < extent; done += most) {
    const size_t count = std::min(most, extent - done);
    part[0].extent = static_cast<int64_t>(count);
    // Pieces that repeat are gathered once.
    if (done == 0 || axis.step != 0) Gather(part, element, from + done * axis.step, piece.data());
    emit(std::span(piece).first(count * axis.block));
  }
}

float AsFloat(int8_t value) { return value; }
float AsFloat(uint8_t value) { return static_cast<float>(value) - 128; }
float AsFloat(Float16 value) { return ToFloat(value); }
float AsFloat(Bfloat16 value) { return ToFloat(value); }

template <typename T>
void WidenBytes(std::span<const std::byte> bytes, absl::FunctionRef<void(std::span<float>)> emit) {
  std::vector<float> piece(std::min(bytes.size(), kPieceBytes) / sizeof(T));
  for (size_t done = 0; done < bytes.size();) {
    const size_t count = std::min(piece.size(), (bytes.size() - done) / sizeof(T));
    for (size_t i = 0; i < count; ++i) {
      T value;
      std::memcpy(&value, bytes.data() + done + i * sizeof(T), sizeof(T));
      piece[i] = AsFloat(value);
    }
    emit(std::span(piece).first(count));
    done += count * sizeof(T);
  }
}

void WidenBytes(DType held, std::span<const std::byte> bytes,
                absl::FunctionRef<void(std::span<float>)> emit) {
  switch (held) {
    case DType::kFloat16:
      return WidenBytes<Float16>(bytes, emit);
    case DType::kBfloat16:
      return WidenBytes<Bfloat16>(bytes, emit);
    case DType::kInt8:
      return WidenBytes<int8_t>(bytes, emit);
    case DType::kUint8:
      return WidenBytes<uint8_t>(bytes, emit);
    default:
      CHECK(false, "{} is not widened", DTypeName(held));
  }
}

// Puts numbers in the place of integers, of which the first is element `first` of the tensor.
void Dequantise(const StridedTensor& tensor, int64_t first, std::span<float> integers) {
  const std::vector<float>& scales = tensor.quantised->scales;
  const std::vector<float>& zero_points = tensor.quantised->zero_points;
  if (scales.size() == 1) {
    for (float& x : integers) x = (x - zero_points[0]) * scales[0];
    return;
  }
  // So many neighbours have one scale.
  const int64_t inner = tensor.shape.Product(tensor.quantised_axis + 1, tensor.shape.rank());
  auto at = static_cast<size_t>(first / inner) % scales.size();
  int64_t left = inner - first % inner;
  for (float& x : integers) {
    x = (x - zero_points[at]) * scales[at];
    if (--left > 0) continue;
    left = inner;
    if (++at == scales.size()) at = 0;
  }
}

}  // namespace

StridedTensor StridedTensor::Of(Tensor tensor) {
  Shape shape = tensor.shape();
  Dims strides = shape.Strides();
  const DType dtype = tensor.dtype();
  return {std::move(tensor), std::move(shape), std::move(strides), dtype};
}

StridedTensor StridedTensor::BroadcastTo(const Shape& wider) const {
  const int missing = wider.rank() - shape.rank();
  StridedTensor result = *this;
  result.shape = wider;
  result.strides.assign(static_cast<size_t>(wider.rank()), 0);
  result.quantised_axis += missing;
  for (int axis = missing; axis < wider.rank(); ++axis) {
    if (shape[axis - missing] == 1) continue;
    result.strides[static_cast<size_t>(axis)] = strides[static_cast<size_t>(axis - missing)];
  }
  return result;
}

StridedTensor StridedTensor::Permuted(std::span<const int> order) const {
  StridedTensor result = *this;
  result.shape = {};
  result.strides.clear();
  for (const int axis : order) {
    if (axis == quantised_axis) result.quantised_axis = result.shape.rank();
    result.shape.Append(shape[axis]);
    result.strides.push_back(strides[static_cast<size_t>(axis)]);
  }
  return result;
}

StridedTensor StridedTensor::Widened() const {
  StridedTensor result = *this;
  result.dtype = DType::kFloat;
  return result;
}

StridedTensor StridedTensor::Integers() const {
  StridedTensor result = *this;
  result.quantised = nullptr;
  return result;
}

bool StridedTensor::dense() const {
  if (dtype != held.dtype() || shape.elements() != held.elements()) return false;
  const Dims own = shape.Strides();
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const auto at = static_cast<size_t>(axis);
    if (shape[axis] > 1 && strides[at] != own[at]) return false;
  }
  return true;
}

void EmitBytes(const StridedTensor& tensor, Emit emit) {
  if (tensor.shape.elements() == 0) return;
  const DType held = tensor.held.dtype();
  int64_t emitted = 0;
  const auto emit_floats = [&](std::span<float> floats) {
    if (tensor.quantised != nullptr) Dequantise(tensor, emitted, floats);
    emitted += static_cast<int64_t>(floats.size());
    emit(std::as_bytes(floats));
  };
  const auto as_dtype = [&](std::span<const std::byte> bytes) {
    return held == tensor.dtype ? emit(bytes) : WidenBytes(held, bytes, emit_floats);
  };
  EmitBlock(MergedAxes(tensor), DTypeBytes(held, 1),
            static_cast<const std::byte*>(tensor.held.view().raw()), as_dtype);
}

StatusOr<Tensor> SpellOut(const StridedTensor& tensor) {
  if (tensor.dense()) return tensor.held.Reshaped(tensor.shape);
  ASSIGN_OR_RETURN(Tensor result, Tensor::Allocate(tensor.dtype, tensor.shape));
  std::byte* to = result.mutable_view().mutable_bytes().data();
  EmitBytes(tensor, [&to](std::span<const std::byte> bytes) {
    std::memcpy(to, bytes.data(), bytes.size());
    to += bytes.size();
  });
  return result;
}

}  // namespace tandem
