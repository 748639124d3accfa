#include "engine/kernels/elementwise/broadcast.h"

#include <cstring>

#include "engine/base/check.h"

namespace tandem::kernels {
namespace {

constexpr size_t kMaxElementBytes = 8;
constexpr int64_t kTogether = 1024;  // elements of short rows that run together

void Gather(const std::byte* source, int64_t stride, size_t element_bytes, int64_t n,
            std::byte* target) {
  const int64_t stride_bytes = stride * static_cast<int64_t>(element_bytes);
  for (int64_t i = 0; i < n; ++i) {
    std::memcpy(target + static_cast<size_t>(i) * element_bytes, source + i * stride_bytes,
                element_bytes);
  }
}

}  // namespace

BroadcastLoop::BroadcastLoop(std::span<const int64_t> extents,
                             std::span<const BroadcastOperand> operands) {
  for (const BroadcastOperand& operand : operands) {
    operands_.push_back(
        {static_cast<const std::byte*>(operand.data), operand.element_bytes, Extents()});
  }
  // The axis that is being built, as indices into the original axes; appended axes are merged.
  for (size_t axis = 0; axis < extents.size(); ++axis) {
    elements_ *= extents[axis];
    if (extents[axis] == 1) continue;
    bool merges = !extents_.empty();
    for (size_t i = 0; i < operands.size() && merges; ++i) {
      merges = operands_[i].strides.back() == operands[i].strides[axis] * extents[axis];
    }
    if (merges) {
      extents_.back() *= extents[axis];
    } else {
      extents_.push_back(extents[axis]);
    }
    for (size_t i = 0; i < operands.size(); ++i) {
      if (merges) {
        operands_[i].strides.back() = operands[i].strides[axis];
      } else {
        operands_[i].strides.push_back(operands[i].strides[axis]);
      }
    }
  }
  if (extents_.empty()) {
    extents_.push_back(1);
    for (Operand& operand : operands_) operand.strides.push_back(0);
  }
  for (const Operand& operand : operands_) {
    gathers_ = gathers_ || operand.strides.back() > 1;
    CHECK(operand.strides.back() <= 1 || operand.element_bytes <= kMaxElementBytes,
          "elements of {} bytes are only read in order", operand.element_bytes);
  }
  repeats_rows_ = MayRepeatRows();
}

// True when several short rows can be one: along the two innermost axes every operand lies side by
// side, or is the same row or element again and again.
bool BroadcastLoop::MayRepeatRows() const {
  const size_t inner = extents_.size() - 1;
  if (inner == 0 || gathers_ || operands_.size() > kMaxRowOperands) return false;
  if (2 * extents_[inner] > kTogether) return false;
  for (const Operand& operand : operands_) {
    const bool side_by_side = operand.strides[inner - 1] == extents_[inner];
    const bool again = operand.strides[inner - 1] == 0;
    const bool fits = operand.strides[inner] == 1 ? side_by_side || again : again;
    if (!fits || operand.element_bytes > kMaxElementBytes) return false;
  }
  return true;
}

void BroadcastLoop::Run(absl::FunctionRef<void(const RowArgs&)> row, void* output,
                        size_t output_bytes, const Parallel& parallel, int64_t work) const {
  const Target target{row, static_cast<std::byte*>(output), output_bytes};
  parallel.For(elements_, GrainOf(kGrainElements, work),
               [&](int64_t begin, int64_t end) { RunRange(target, begin, end); });
}

void BroadcastLoop::RunRange(const Target& target, int64_t begin, int64_t end) const {
  const int64_t inner = extents_.back();
  while (begin < end) {
    if (repeats_rows_ && begin % inner == 0) {
      const int64_t together = extents_[extents_.size() - 2];
      const int64_t rows = std::min((end - begin) / inner, together - begin / inner % together);
      if (rows > 1) {
        RunRepeated(target, begin, rows);
        begin += rows * inner;
        continue;
      }
    }
    const int64_t n = std::min(end - begin, inner - begin % inner);
    RunRow(target, begin, n);
    begin += n;
  }
}

// Where the operands lie for an output element.
void BroadcastLoop::FindStarts(int64_t element, const void** starts) const {
  absl::InlinedVector<int64_t, 8> offsets(operands_.size(), 0);
  for (size_t axis = extents_.size(); axis-- > 0;) {
    const int64_t at = element % extents_[axis];
    element /= extents_[axis];
    for (size_t i = 0; i < operands_.size(); ++i) offsets[i] += at * operands_[i].strides[axis];
  }
  for (size_t i = 0; i < operands_.size(); ++i) {
    starts[i] = operands_[i].data + offsets[i] * static_cast<int64_t>(operands_[i].element_bytes);
  }
}

// Whole rows from `begin` on, side by side in the output. Operands that are the same for each are
// written out as often as rows run together.
void BroadcastLoop::RunRepeated(const Target& target, int64_t begin, int64_t rows) const {
  alignas(64) std::byte buffers[kMaxRowOperands][kTogether * kMaxElementBytes];
  const void* starts[kMaxRowOperands];
  int64_t steps[kMaxRowOperands];
  bool advances[kMaxRowOperands];
  FindStarts(begin, starts);
  const auto inner = static_cast<size_t>(extents_.back());
  const auto most = static_cast<size_t>(std::min(rows, kTogether / extents_.back()));
  for (size_t i = 0; i < operands_.size(); ++i) {
    const Operand& operand = operands_[i];
    steps[i] = operand.strides.back();
    advances[i] = operand.strides[operand.strides.size() - 2] != 0;
    if (advances[i] || steps[i] == 0) continue;
    const size_t row_bytes = inner * operand.element_bytes;
    for (size_t row = 0; row < most; ++row) {
      std::memcpy(buffers[i] + row * row_bytes, starts[i], row_bytes);
    }
    starts[i] = buffers[i];
  }
  std::byte* output = target.output + static_cast<size_t>(begin) * target.output_bytes;
  for (auto left = static_cast<size_t>(rows); left > 0;) {
    const size_t elements = std::min(most, left) * inner;
    target.row({starts, steps, static_cast<int>(operands_.size()), output,
                static_cast<int64_t>(elements)});
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (!advances[i]) continue;
      starts[i] = static_cast<const std::byte*>(starts[i]) + elements * operands_[i].element_bytes;
    }
    output += elements * target.output_bytes;
    left -= elements / inner;
  }
}

// Output elements [begin, begin + n), which lie in one row of the innermost axis.
void BroadcastLoop::RunRow(const Target& target, int64_t begin, int64_t n) const {
  absl::InlinedVector<const void*, 8> starts(operands_.size());
  absl::InlinedVector<int64_t, 8> steps;
  FindStarts(begin, starts.data());
  for (const Operand& operand : operands_) steps.push_back(operand.strides.back());
  if (gathers_) {
    RunGathered(target, starts.data(), begin, n);
    return;
  }
  target.row({starts.data(), steps.data(), static_cast<int>(operands_.size()),
              target.output + static_cast<size_t>(begin) * target.output_bytes, n});
}

void BroadcastLoop::RunGathered(const Target& target, const void* const* starts, int64_t begin,
                                int64_t n) const {
  CHECK(operands_.size() <= kMaxRowOperands, "{} operands in different orders", operands_.size());
  alignas(64) std::byte buffers[kMaxRowOperands][kRowBlock * kMaxElementBytes];
  const void* pieces[kMaxRowOperands];
  int64_t steps[kMaxRowOperands];
  for (int64_t done = 0; done < n; done += kRowBlock) {
    const int64_t count = std::min(kRowBlock, n - done);
    for (size_t i = 0; i < operands_.size(); ++i) {
      const size_t bytes = operands_[i].element_bytes;
      const int64_t stride = operands_[i].strides.back();
      const auto* source =
          static_cast<const std::byte*>(starts[i]) + done * stride * static_cast<int64_t>(bytes);
      pieces[i] = source;
      steps[i] = stride;
      if (stride > 1) {
        Gather(source, stride, bytes, count, buffers[i]);
        pieces[i] = buffers[i];
        steps[i] = 1;
      }
    }
    target.row({pieces, steps, static_cast<int>(operands_.size()),
                target.output + static_cast<size_t>(begin + done) * target.output_bytes, count});
  }
}

}  // namespace tandem::kernels
