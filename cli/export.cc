// `tandem export`: the optimized graph as an ONNX file.
#include "cli/commands.h"
#include "cli/tensor_file.h"

namespace tandem::cli {

StatusOr<std::string> Execute(const ExportConfig& config) {
  const Engine engine(config.model.engine);
  const StatusOr<std::string> bytes = engine.Export(config.model.path);
  if (!bytes.ok()) {
    return Annotate(bytes.status(), fmt::format("model '{}'", config.model.path));
  }
  RETURN_IF_ERROR(WriteFile(config.output, *bytes));
  return fmt::format("{}: {} bytes\n", config.output, bytes->size());
}

}  // namespace tandem::cli
