#include "cli/cli.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "cli/command_line.h"
#include "cli/commands.h"

namespace tandem::cli {
namespace {

constexpr int kDone = 0;
constexpr int kFailed = 1;
constexpr int kUnusable = 2;

StatusOr<std::string> Execute(const Command& command) {
  return std::visit([](const auto& config) { return Execute(config); }, command);
}

}  // namespace

bool IsCommand(std::string_view name) {
  return std::ranges::find(kCommands, name) != std::end(kCommands);
}

int RunCommand(std::span<const std::string> arguments) {
  const std::string& name = arguments.front();
  const auto fail = [&name](const Status& status, int code) {
    fmt::print(stderr, "tandem {}: {}\n", name, Message(status));
    return code;
  };
  const StatusOr<Command> command = ParseCommand(name, arguments.subspan(1));
  if (!command.ok()) return fail(command.status(), kUnusable);
  const StatusOr<std::string> text = Execute(*command);
  if (!text.ok()) return fail(text.status(), kFailed);
  fmt::print("{}", *text);
  return kDone;
}

}  // namespace tandem::cli
