// Writes the list of operators, as the registry has them, to the Markdown file that is named.
#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <string>

#include "engine/graph/opset.h"
#include "engine/ops/registry.h"

namespace tandem {
namespace {

std::string Count(int low, int high) {
  if (high >= ops::kAnyNumber) return fmt::format("{} or more", low);
  return low == high ? fmt::format("{}", low) : fmt::format("{} to {}", low, high);
}

std::string Row(const ops::OpEntry& entry) {
  return fmt::format("| {} | {} | {} | {} | {} | {} |\n", entry.op_type,
                     entry.domain.empty() ? "ai.onnx" : entry.domain, entry.versions.front(),
                     Count(entry.min_inputs, entry.max_inputs),
                     Count(entry.min_outputs, entry.max_outputs), entry.doc);
}

std::string Document() {
  std::string text = fmt::format(
      "# Operators\n\nMade by `ninja operators_doc` from the registry; do not edit. Opsets of "
      "ai.onnx up to {} are\nknown; a model that needs anything else is refused when it is "
      "loaded, with all reasons.\n\n"
      "| operator | domain | since opset | inputs | outputs | |\n|---|---|---|---|---|---|\n",
      graph::kNewestOpset);
  for (const ops::OpEntry* entry : ops::Operators().entries()) text += Row(*entry);
  return text;
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: tandem_operators_doc FILE\n";
    return 2;
  }
  std::ofstream file(argv[1]);
  file << tandem::Document();
  file.close();
  if (!file) {
    std::cerr << "cannot write " << argv[1] << "\n";
    return 1;
  }
  return 0;
}
