// Cases in the layout of ONNX's backend tests: CASE/model.onnx beside CASE/test_data_set_N with
// input_i.pb and output_i.pb.
#pragma once

#include <string>
#include <vector>

#include "engine/engine.h"
#include "tests/support/compare.h"

namespace tandem::conformance {

// From good to bad.
enum class Outcome {
  kPassed,
  kPassedLoosely,  // within the tolerance that the data comes with, not within ours
  kRefused,        // at load, with reasons
  kWrong,          // it loads, and fails or answers otherwise than expected
};

struct CaseResult {
  std::string name;
  Outcome outcome = Outcome::kPassed;
  std::string message;  // why it did not pass
};

bool Passed(const CaseResult& result);

// Names of the folders of `suite` that hold a model, in order; none when there is no such suite.
std::vector<std::string> CaseNames(const std::string& suite);

// What is loaded: the file, or what the engine exports of it (a case is refused when it exports
// nothing, and wrong when it refuses what it exported).
enum class Source { kFile, kExport };

struct CaseOptions {
  test::Tolerance loose;
  Source source = Source::kFile;
};

// Loads the model of `folder` and compares its answers to all data sets, within
// test::OtherRuntime() or at least within `loose`.
CaseResult RunCase(const Engine& engine, const std::string& folder, const CaseOptions& options);

}  // namespace tandem::conformance
