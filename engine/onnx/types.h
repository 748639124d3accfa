// TypeProto: what a file says of a value.
#pragma once

#include <onnx/onnx_pb.h>

#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace tandem::onnx_import {

// InvalidArgument names element types that do not exist, negative extents (-1 is read as unknown,
// as several exporters write it), more than kMaxRank axes and opaque types.
StatusOr<graph::ValueType> DecodeType(const ::onnx::TypeProto& proto);

// InvalidArgument unless a constant can be a value of type `declared`: same dtype and rank, and
// extents that are numbers agree.
Status CheckConstantType(const TensorView& constant, const graph::ValueType& declared);

}  // namespace tandem::onnx_import
