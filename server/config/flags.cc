#include "server/config/flags.h"

#include <vector>

namespace tandem::server {

void AddComputeFlags(FlagGroup& group, ComputeFlags& flags) {
  group
      .Add("--threads", flags.threads, "N",
           "Threads that compute; 0: the CPUs that cgroup, cpuset and affinity allow")
      ->check(CLI::Range(0, 4096));
  group
      .Add("--cpu", flags.cpu, "ISA",
           "Highest instruction set to use: reference, baseline, avx2, avx512, vnni or amx")
      ->option_text("ISA [what the machine has]");
  group.Add("--precision", flags.precision, "PRECISION",
            "Of float32 products that have faster ways: f32_plain, f32, f32_strict or bf16");
}

StatusOr<std::optional<Isa>> ResolveCpu(const ComputeFlags& flags) {
  if (flags.cpu.empty()) return std::optional<Isa>();
  const StatusOr<Isa> isa = ParseIsa(flags.cpu);
  if (!isa.ok()) return Annotate(isa.status(), "--cpu");
  return std::optional<Isa>(*isa);
}

StatusOr<Precision> ResolvePrecision(const ComputeFlags& flags) {
  const StatusOr<Precision> precision = ParsePrecision(flags.precision);
  if (!precision.ok()) return Annotate(precision.status(), "--precision");
  return *precision;
}

StatusOr<std::optional<std::string>> ParseFlags(CLI::App& app,
                                                std::span<const std::string> arguments) {
  // CLI11 takes them last first.
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    return app.help();
  } catch (const CLI::CallForVersion& version) {
    return std::string(version.what()) + "\n";
  } catch (const CLI::ParseError& error) {
    return InvalidArgument("{}; see --help", error.what());
  }
  return std::nullopt;
}

}  // namespace tandem::server
