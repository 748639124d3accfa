// Which element-wise stages the epilogue of Gemm, MatMul and Conv takes: pure functions on plain
// data, asked while a graph is optimised.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tandem::kernels {

// The second operand of a stage, seen from the result's frame of rows and columns.
enum class OperandForm : uint8_t {
  kNone,    // the stage has none
  kScalar,  // one element
  kColumn,  // one element per column
  kFull,    // the result's own extents
  kOther,   // broadcast in another way, of unknown extents, or of a higher rank
};

struct FusionRequest {
  bool known_stage = false;  // the epilogue has an operation for it, with these attributes
  bool is_float32 = false;
  OperandForm operand = OperandForm::kNone;
  std::string operand_text;  // its extents and the result's, for people
  int readers = 1;           // of the result
  bool is_output = false;    // the result is a graph output
  size_t stages = 0;         // already fused
};

struct FusionAnswer {
  bool accepted = false;
  std::string rule;     // why not
  std::string numbers;  // what it was
};

inline constexpr size_t kMostStages = 8;

FusionAnswer TryFuseStage(const FusionRequest& request);

}  // namespace tandem::kernels
