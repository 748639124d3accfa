// The step behind Gemm and MatMul: products of (batches of) matrices.
#pragma once

#include <memory>

#include "engine/ops/operator.h"

namespace tandem::ops {

// op(A) is A or its transpose: Y = alpha * op(A) * op(B) + beta * C, then the node's epilogue.
struct ProductOptions {
  bool trans_a = false;  // only for matrices
  bool trans_b = false;  // only for matrices
  float alpha = 1;
  float beta = 1;
  int c_port = -1;  // of C, or -1
};

// Extents of one product. Leading axes are batches that broadcast; a vector A is one row, a vector
// B one column, and neither has that axis in the result.
struct ProductExtents {
  int64_t m = 1;
  int64_t n = 1;
  int64_t k = 1;
  Shape a_batch;
  Shape b_batch;
  Shape batch;  // of the result
  bool vector_b = false;
};

// For shapes that Infer has accepted.
ProductExtents ResolveProduct(const ProductOptions& options, const Shape& a, const Shape& b);

// Which matrix of a batch `own`, broadcast to the batch `result`, belongs to matrix `index` of it.
int64_t BatchIndex(const Shape& own, const Shape& result, int64_t index);

// Extents of numpy.matmul's result; InvalidArgument says what does not fit.
StatusOr<graph::DimVector> MatMulDims(const graph::DimVector& a, const graph::DimVector& b);

// Binds the product of inputs 0 and 1. A constant B is packed once, any other in each run, with the
// same bits. Unimplemented names a dtype that has no kernel.
StatusOr<std::unique_ptr<Step>> BindProduct(const ProductOptions& options, BindContext& context);
// The same where both are known to be float32.
StatusOr<std::unique_ptr<Step>> BindFloatProduct(const ProductOptions& options,
                                                 BindContext& context);

// Whether the product takes a prologue.
Decision TryFuseProductPrologue(const ProductOptions& options, const PrologueRequest& request);

}  // namespace tandem::ops
