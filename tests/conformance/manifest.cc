#include "tests/conformance/manifest.h"

#include <fstream>
#include <set>

namespace tandem::conformance {
namespace {

constexpr std::string_view kHeader = "# Cases that pass, written by `ninja conformance_update`.\n";
constexpr std::string_view kLoosely = " loosely";

bool SaysNothing(const std::string& line) { return line.empty() || line.front() == '#'; }

std::string_view Verb(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPassed:
      return "passes";
    case Outcome::kPassedLoosely:
      return "passes loosely only";
    case Outcome::kRefused:
      return "is refused";
    case Outcome::kWrong:
      return "answers wrongly";
  }
  return "";
}

// The fault of one case, or nothing.
std::string Fault(const Manifest& manifest, const CaseResult& result, Strictness strictness) {
  const bool different = manifest.different.contains(result.name);
  if (strictness == Strictness::kNoneWrong) {
    if (result.outcome != Outcome::kWrong || different) return "";
    return fmt::format("{} answers wrongly: {}", result.name, result.message);
  }
  const auto listed = manifest.passing.find(result.name);
  if (listed != manifest.passing.end() && result.outcome > listed->second) {
    return fmt::format("{} is listed as passing but {}: {}", result.name, Verb(result.outcome),
                       result.message);
  }
  if (Passed(result)) {
    if (different) {
      return fmt::format("{} passes but is listed as different: take it out of different.txt",
                         result.name);
    }
    if (listed != manifest.passing.end() && listed->second == result.outcome) return "";
    return fmt::format("{} {} but is not listed so: run `ninja conformance_update` and commit",
                       result.name, Verb(result.outcome));
  }
  if (result.outcome == Outcome::kRefused || different) return "";
  return fmt::format(
      "{} loads but answers wrongly: {}; mend the engine, refuse it at load, or give the reason in "
      "different.txt",
      result.name, result.message);
}

}  // namespace

std::map<std::string, Outcome> ReadPassing(const std::string& path) {
  std::map<std::string, Outcome> cases;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (SaysNothing(line)) continue;
    const bool loosely = line.ends_with(kLoosely);
    if (loosely) line.resize(line.size() - kLoosely.size());
    cases[line] = loosely ? Outcome::kPassedLoosely : Outcome::kPassed;
  }
  return cases;
}

Status WritePassing(const std::string& path, const std::vector<CaseResult>& results) {
  std::ofstream file(path);
  file << kHeader;
  for (const CaseResult& result : results) {
    if (!Passed(result)) continue;
    file << result.name << (result.outcome == Outcome::kPassedLoosely ? kLoosely : "") << "\n";
  }
  file.close();
  return file ? absl::OkStatus() : InvalidArgument("{} cannot be written", path);
}

StatusOr<std::map<std::string, std::string>> ReadDifferent(const std::string& path,
                                                           const std::string& suite) {
  std::map<std::string, std::string> different;
  std::ifstream file(path);
  if (!file) return NotFound("{} cannot be read", path);
  for (std::string line; std::getline(file, line);) {
    if (SaysNothing(line)) continue;
    const size_t slash = line.find('/');
    const size_t space = line.find(' ');
    if (slash == std::string::npos || space == std::string::npos || space < slash) {
      return InvalidArgument("{}: 'SUITE/CASE REASON' is expected, not '{}'", path, line);
    }
    if (line.substr(0, slash) != suite) continue;
    different[line.substr(slash + 1, space - slash - 1)] = line.substr(space + 1);
  }
  return different;
}

std::vector<std::string> Faults(const Manifest& manifest, const std::vector<CaseResult>& results,
                                Strictness strictness) {
  std::vector<std::string> faults;
  std::set<std::string> seen;
  for (const CaseResult& result : results) {
    seen.insert(result.name);
    std::string fault = Fault(manifest, result, strictness);
    if (!fault.empty()) faults.push_back(std::move(fault));
  }
  if (strictness == Strictness::kNoneWrong) return faults;
  for (const auto& [name, outcome] : manifest.passing) {
    if (!seen.contains(name)) {
      faults.push_back(fmt::format("{} is listed as passing but there is no such case", name));
    }
  }
  return faults;
}

}  // namespace tandem::conformance
