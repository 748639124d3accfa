// How a model wants to be loaded and served, as the file config.pbtxt beside its versions says. The
// file is the text form of a message of the protocol, which the transport knows to read; what
// stands here is what the server makes of it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/precision.h"
#include "engine/base/status.h"

namespace tandem::server {

struct ModelSettings {
  std::optional<Precision> precision;  // nothing: the daemon's
  // What the file says beside that, for the log: fields and parameters that nobody acts upon.
  std::vector<std::string> without_effect;
};

// Settings from the text of a config.pbtxt. InvalidArgument where it is none, or where a setting
// has a value that does not exist: it names the setting, what came and what was expected.
using SettingsParser = std::function<StatusOr<ModelSettings>(std::string_view text)>;

// The settings in `<root>/<model>/config.pbtxt`; those of an empty file where there is none, or no
// `parse`. Errors, also of a file that is no readable one of at most 1 MiB, or that lies outside of
// `root`, name the file below `root`.
StatusOr<ModelSettings> ReadSettings(const std::string& root, const std::string& model,
                                     const SettingsParser& parse);

}  // namespace tandem::server
