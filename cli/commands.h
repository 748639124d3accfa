// What the subcommands do. Each returns the text for standard output; errors name the model or
// file.
#pragma once

#include <string>

#include "cli/command_line.h"
#include "engine/base/status.h"

namespace tandem::cli {

StatusOr<std::string> Execute(const ExplainConfig& config);
StatusOr<std::string> Execute(const DiffConfig& config);
StatusOr<std::string> Execute(const BisectConfig& config);
StatusOr<std::string> Execute(const BenchConfig& config);
StatusOr<std::string> Execute(const RunConfig& config);
StatusOr<std::string> Execute(const ExportConfig& config);
inline StatusOr<std::string> Execute(const HelpText& help) { return help.text; }

}  // namespace tandem::cli
