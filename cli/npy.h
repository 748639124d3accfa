// NumPy's file format (numpy/lib/format.py): versions 1 to 3, little endian, C order.
#pragma once

#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "engine/tensor/tensor.h"

namespace tandem::cli {

// InvalidArgument for damaged headers, other byte or element orders and wrong sizes; Unimplemented
// for element types that ONNX does not have.
StatusOr<Tensor> ParseNpy(std::string_view bytes);

// Unimplemented for element types that NumPy does not have, and for strings.
StatusOr<std::string> SerializeNpy(const Tensor& tensor);

}  // namespace tandem::cli
