// What the command lines of all subcommands share.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "engine/base/precision.h"
#include "engine/base/status.h"

namespace tandem::server {

// The flags of one heading of the help text.
class FlagGroup {
 public:
  FlagGroup(CLI::App& app, std::string heading) : app_(app), heading_(std::move(heading)) {}

  // A flag that shows its `unit` and its default.
  template <typename T>
  CLI::Option* Add(const std::string& names, T& value, const char* unit, const std::string& help) {
    return app_.add_option(names, value, help)
        ->option_text(fmt::format("{} [{}]", unit, value))
        ->group(heading_);
  }
  // A flag that takes true or false and means true when it stands alone.
  void AddSwitch(const std::string& names, bool& value, const std::string& help) {
    Add(names, value, "BOOL", help)->expected(0, 1)->default_str("true");
  }
  // A flag that may be given any number of times.
  CLI::Option* AddList(const std::string& names, std::vector<std::string>& values, const char* unit,
                       const std::string& help) {
    return app_.add_option(names, values, help)
        ->option_text(unit)
        ->group(heading_)
        ->allow_extra_args(false);
  }

 private:
  CLI::App& app_;
  const std::string heading_;
};

// --threads, --cpu and --precision.
struct ComputeFlags {
  int threads = 0;
  std::string cpu;
  std::string precision = "f32";
};
void AddComputeFlags(FlagGroup& group, ComputeFlags& flags);
// InvalidArgument names the flag, what came and what exists.
StatusOr<std::optional<Isa>> ResolveCpu(const ComputeFlags& flags);
StatusOr<Precision> ResolvePrecision(const ComputeFlags& flags);

// Parses; the text to print when --help or --version came. InvalidArgument for what does not parse.
StatusOr<std::optional<std::string>> ParseFlags(CLI::App& app,
                                                std::span<const std::string> arguments);

}  // namespace tandem::server
