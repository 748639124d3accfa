// What is known of the cases of a suite, and what a run says against it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "tests/conformance/case.h"

namespace tandem::conformance {

// Lines that are empty or start with # say nothing.
struct Manifest {
  std::map<std::string, Outcome> passing;        // cases that must pass, at least so well
  std::map<std::string, std::string> different;  // cases that cannot, with the reason
};

// One case a line, `loosely` behind it where it is so. A file that is absent lists nothing.
std::map<std::string, Outcome> ReadPassing(const std::string& path);
Status WritePassing(const std::string& path, const std::vector<CaseResult>& results);

// Lines "SUITE/CASE REASON"; those of other suites are left out.
StatusOr<std::map<std::string, std::string>> ReadDifferent(const std::string& path,
                                                           const std::string& suite);

enum class Strictness {
  kAsListed,   // what is listed passes; what is not is refused at load or known to be different
  kNoneWrong,  // the list does not matter: what loads answers rightly
};

// One sentence a fault.
std::vector<std::string> Faults(const Manifest& manifest, const std::vector<CaseResult>& results,
                                Strictness strictness);

}  // namespace tandem::conformance
