// A graph back as an ONNX model.
#pragma once

#include <string>

#include "engine/base/status.h"
#include "engine/onnx/import.h"

namespace tandem::onnx_import {

// The serialized ModelProto of `model`, whose graph is sorted and resolved; its inputs and outputs
// keep their names, but inputs with a default become plain initializers. Prologues and epilogues
// become nodes of their own. Unimplemented names all nodes without an ONNX form: operators of our
// own, and those whose meaning in their opset is another one than in the opset that the model
// imports.
StatusOr<std::string> SerializeModel(const ImportedModel& model);

}  // namespace tandem::onnx_import
