// config.pbtxt, the text form of the message ModelConfig: what a model asks of the server.
#pragma once

#include <string_view>

#include "engine/base/status.h"
#include "server/models/model_settings.h"

namespace tandem::server {

// The key among the parameters of a ModelConfig, with a PrecisionName as its string_value.
inline constexpr std::string_view kPrecisionParameter = "precision";

// Reads the parameter `precision`. All else is listed as without effect; only parameters must be
// what ModelConfig says, since files written for other servers have fields that it does not.
// InvalidArgument: `text` is no text form of a message or its parameters are none, with line and
// column; a key of a parameter comes twice; the precision is none.
StatusOr<ModelSettings> ParseSettings(std::string_view text);

}  // namespace tandem::server
