// Tensors in files: NumPy's .npy and ONNX's TensorProto (.pb), told apart by the name's ending.
#pragma once

#include <string>

#include "engine/base/status.h"
#include "engine/tensor/tensor.h"

namespace tandem::cli {

// InvalidArgument names the file and says what came and what is expected; NotFound: no such file.
StatusOr<Tensor> ReadTensorFile(const std::string& path);

// `name` goes into a .pb. Unimplemented: .npy has no such element type.
Status WriteTensorFile(const std::string& path, const Tensor& tensor, const std::string& name);

StatusOr<std::string> ReadFile(const std::string& path);
Status WriteFile(const std::string& path, std::string_view bytes);

}  // namespace tandem::cli
