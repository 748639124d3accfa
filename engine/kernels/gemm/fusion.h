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

// A reduction of the result of Gemm and MatMul, which ends the epilogue.
struct ReductionRequest {
  bool known_reduction = false;
  bool is_float32 = false;
  bool has_matrices = false;  // both sides are known to have rows and columns
  bool reduces_rows = false;  // the second last axis, and no other
  std::string axes_text;      // for people
  int readers = 1;            // of the result
  bool is_output = false;     // the result is a graph output
};

FusionAnswer TryFuseReduction(const ReductionRequest& request);

// Element-wise kernels on A of Gemm and MatMul. They run again for every group of columns, so that
// the rows that are read fit the caches with the columns that they meet.
struct PrologueQuery {
  bool has_kernels = false;  // every stage has one
  bool is_float32 = false;
  bool is_transposed = false;  // A is turned before it is read
  bool fits_columns = false;   // other operands: one element, or one for each column of A
  int64_t columns = -1;        // of the product; -1: unknown
};

// Columns of one group at the least (gemm/block.h).
inline constexpr int64_t kMostPrologueColumns = 256;

FusionAnswer TryFusePrologue(const PrologueQuery& query);

}  // namespace tandem::kernels
