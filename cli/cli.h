// The subcommands of the tandem binary that need no server: explain, bench, run and export.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tandem::cli {

bool IsCommand(std::string_view name);

// Executes arguments[0], which is one of them, with the arguments behind it; answers go to standard
// output, errors to standard error. Returns the exit code: 0 done; 1 a model or file was refused,
// or a run failed; 2 the command line cannot be used.
int RunCommand(std::span<const std::string> arguments);

}  // namespace tandem::cli
