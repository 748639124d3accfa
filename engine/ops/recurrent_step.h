// The step behind RNN, GRU and LSTM.
#pragma once

#include <memory>
#include <vector>

#include "engine/kernels/recurrent/recurrent.h"
#include "engine/ops/operator.h"

namespace tandem::ops {

// Attribute layout: X [steps, items, input] and Y [steps, directions, items, hidden], states
// [directions, items, hidden]; or the same with items first.
enum class SequenceLayout : uint8_t { kStepsFirst, kItemsFirst };

struct RecurrentDirection {
  kernels::Cell cell;
  kernels::TimeOrder order = kernels::TimeOrder::kForward;
};

struct RecurrentOptions {
  std::vector<RecurrentDirection> directions;  // one or two, of the same kind of cell
  SequenceLayout layout = SequenceLayout::kStepsFirst;

  kernels::CellKind kind() const { return directions.front().cell.kind; }
};

// Ports of an LSTM; the others have the first of them.
struct RecurrentPorts {
  static constexpr int kX = 0, kW = 1, kR = 2, kB = 3, kLengths = 4, kH = 5, kC = 6, kP = 7;
  static constexpr int kY = 0, kLastH = 1, kLastC = 2;
};

// Constant W and R are packed once, others in each run, with the same bits. Unimplemented names a
// dtype that has no kernel.
StatusOr<std::unique_ptr<Step>> BindRecurrent(const RecurrentOptions& options,
                                              BindContext& context);

}  // namespace tandem::ops
