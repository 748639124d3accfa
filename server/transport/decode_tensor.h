// The elements of one input: from the bytes or the typed fields of a request into a Tensor.
#pragma once

#include <memory>
#include <string>

#include "engine/base/status.h"
#include "engine/tensor/tensor.h"
#include "grpc_service.pb.h"

namespace tandem::server {

// An input as the request declares it; the extents are >= 0 and their product fits int64.
struct DeclaredTensor {
  DType dtype = DType::kUndefined;  // one with a wire name
  Shape shape;
};

// A view of `raw`, which `owner` keeps alive; a copy where the alignment does not allow it, and for
// BYTES. InvalidArgument when the bytes are not what the declared type and shape take, when an
// element of BYTES passes the end, or a BOOL is neither 0 nor 1.
StatusOr<Tensor> DecodeRaw(const DeclaredTensor& declared, const std::string& raw,
                           std::shared_ptr<const void> owner);

// Copies the typed field of the declared type. InvalidArgument when another field holds elements,
// when their number is not the shape's (no contents at all included), when one does not fit the
// declared type, and for FP16 and BF16, which have no typed field.
StatusOr<Tensor> DecodeTyped(const DeclaredTensor& declared,
                             const inference::InferTensorContents& contents);

// True when some typed field holds elements.
bool HasElements(const inference::InferTensorContents& contents);

}  // namespace tandem::server
