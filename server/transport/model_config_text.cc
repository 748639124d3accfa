#include "server/transport/model_config_text.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "model_config.pb.h"
#include "server/models/quoted.h"
#include "server/transport/text_fields.h"

namespace tandem::server {
namespace {

namespace pb = google::protobuf;

// As many names as one line of a log should have.
constexpr size_t kMostNames = 16;

// `text` has no other field than parameters.
StatusOr<inference::ModelConfig> ParseParameters(const std::string& text) {
  TextErrors errors;
  pb::TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  inference::ModelConfig config;
  if (!parser.ParseFromString(text, &config)) return errors.status();
  // A map keeps one value of each key; until it is read, the message has all that came.
  const pb::FieldDescriptor* field = inference::ModelConfig::descriptor()->FindFieldByNumber(
      inference::ModelConfig::kParametersFieldNumber);
  const auto came = static_cast<size_t>(config.GetReflection()->FieldSize(config, field));
  const size_t keys = config.parameters().size();
  if (came == keys) return config;
  return InvalidArgument("{} parameters with {} different keys came; each key was expected once",
                         came, keys);
}

StatusOr<Precision> PrecisionOf(const inference::ModelParameter& parameter) {
  const std::string& name = parameter.string_value();
  if (StatusOr<Precision> precision = ParsePrecision(name); precision.ok()) return precision;
  return InvalidArgument("parameter '{}': string_value {} came; {} was expected",
                         kPrecisionParameter, Quoted(name), kPrecisionNames);
}

}  // namespace

StatusOr<ModelSettings> ParseSettings(std::string_view text) {
  ASSIGN_OR_RETURN(const TextFields fields, TakeFields(text, "parameters"));
  ASSIGN_OR_RETURN(const inference::ModelConfig config, ParseParameters(fields.wanted));
  ModelSettings settings;
  std::vector<std::string> parameters;
  for (const auto& [key, parameter] : config.parameters()) {
    if (key == kPrecisionParameter) {
      ASSIGN_OR_RETURN(settings.precision, PrecisionOf(parameter));
    } else {
      parameters.push_back("parameter " + Quoted(key));
    }
  }
  std::sort(parameters.begin(), parameters.end());
  std::vector<std::string>& names = settings.without_effect;
  for (const std::string& name : fields.others) names.push_back(Quoted(name));
  names.insert(names.end(), parameters.begin(), parameters.end());
  if (names.size() > kMostNames) {
    names.resize(kMostNames);
    names.emplace_back("...");
  }
  return settings;
}

}  // namespace tandem::server
