// Which models can be served: those whose inputs and outputs all have a form on the wire.
#pragma once

#include "engine/engine.h"

namespace tandem::server {

// Unimplemented, naming the port and its type, when an input or output is of a type that the
// protocol has no name for: complex, float8, 4 and 2 bits.
Status CheckWireForm(const ModelInfo& info);

}  // namespace tandem::server
