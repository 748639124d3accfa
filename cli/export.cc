// `tandem export`: the optimized graph as an ONNX file.
#include "cli/commands.h"
#include "cli/tensor_file.h"

namespace tandem::cli {

StatusOr<std::string> Execute(const ExportConfig& config) {
  const Engine engine(config.model.engine);
  const StatusOr<ExportedModel> model = engine.Export(config.model.path);
  if (!model.ok()) {
    return Annotate(model.status(), fmt::format("model '{}'", config.model.path));
  }
  RETURN_IF_ERROR(WriteFile(config.output, model->bytes));
  std::string text = fmt::format("{}: {} bytes\n", config.output, model->bytes.size());
  for (const Decline& decline : model->written_out) text += ToText(decline) + "\n";
  return text;
}

}  // namespace tandem::cli
