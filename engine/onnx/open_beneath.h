// Opening a file below a directory without ever leaving it.
#pragma once

#include <string>

namespace tandem::onnx_import {

enum class LinkRule {
  kRefuse,  // no part of the path may be a symbolic link
  kInside,  // symbolic links are followed as long as they stay below the directory
};

// Opens `path`, relative and without "..", for reading; returns a descriptor or -errno: -ELOOP for
// a link that is refused, -EXDEV for one that leads out of the directory.
int OpenBeneath(int directory, const std::string& path, LinkRule links);

// The same for systems whose kernel or sandbox has no openat2: part by part; links are refused
// whatever the rule.
int OpenBeneathByParts(int directory, const std::string& path);

}  // namespace tandem::onnx_import
