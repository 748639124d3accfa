// The names of element types on the wire, and text for error messages about what a client sent.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/graph/dim.h"
#include "engine/tensor/dtype.h"
#include "model_config.pb.h"

namespace tandem::server {

// "FP32", "BYTES", ...; empty for a type that the protocol has no name for (complex, float8, 4 and
// 2 bits).
std::string_view WireName(DType dtype);

// kUndefined for a name that the protocol does not have.
DType DTypeOfWireName(std::string_view name);

// TYPE_INVALID where WireName is empty.
inference::DataType ConfigDataType(DType dtype);

// "[2,3]", cut after 16 extents.
std::string ShapeText(std::span<const int64_t> dims);
// The same of a model's port; -1 where the extent is open.
std::string ShapeText(const graph::DimVector& dims);

}  // namespace tandem::server
