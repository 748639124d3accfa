// The step behind Scan.
#pragma once

#include <memory>
#include <vector>

#include "engine/ops/operator.h"

namespace tandem::ops {

enum class ScanOrder : uint8_t { kForward, kReverse };
// Opset 8 has a batch as first axis of all inputs and outputs.
enum class ScanBatch : uint8_t { kNone, kFirstAxis };

// An axis that is walked along: of a scan input, or of a result with all steps.
struct ScanTrack {
  int64_t axis = 0;  // without the batch; negative: from the end
  ScanOrder order = ScanOrder::kForward;

  int AxisOf(int rank) const { return static_cast<int>(axis < 0 ? axis + rank : axis); }
  int64_t Place(int64_t step, int64_t steps) const {
    return order == ScanOrder::kForward ? step : steps - 1 - step;
  }
};

// The node's inputs are, with a batch, the lengths; then states; then scan inputs. Its outputs are
// the states, then the results of all steps.
struct ScanOptions {
  int states = 0;
  std::vector<ScanTrack> inputs;
  std::vector<ScanTrack> outputs;
  ScanBatch batch = ScanBatch::kNone;

  bool has_batch() const { return batch == ScanBatch::kFirstAxis; }
  int state_port(int state) const { return (has_batch() ? 1 : 0) + state; }
  int input_port(size_t i) const { return state_port(states) + static_cast<int>(i); }
  int result_port(size_t i) const { return states + static_cast<int>(i); }
};

// `no_step` are extents and dtypes of one step's results, where no step is run.
struct ScanResult {
  DType dtype = DType::kUndefined;
  Shape shape;
};
std::unique_ptr<Step> MakeScanStep(ScanOptions options, std::vector<ScanResult> no_step);

}  // namespace tandem::ops
