#include "server/models/model_settings.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "server/models/scan.h"

namespace tandem::server {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t kMaxBytes = 1 << 20;

// The bytes of the file `path`, a place below `root`.
StatusOr<std::string> ReadText(const std::string& root, const std::string& path) {
  ASSIGN_OR_RETURN(const std::string file, ResolveBeneath(root, path));
  std::error_code error;
  // Opening a pipe would wait for its writer.
  if (!fs::is_regular_file(file, error)) return InvalidArgument("it is no file");
  const uintmax_t bytes = fs::file_size(file, error);
  if (error) return InvalidArgument("it cannot be read: {}", error.message());
  if (bytes > kMaxBytes) {
    return InvalidArgument("a file of {} bytes came; at most {} were expected", bytes, kMaxBytes);
  }
  std::ifstream stream(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(stream), {}};
  if (!stream) return InvalidArgument("it cannot be read");
  return text;
}

}  // namespace

StatusOr<ModelSettings> ReadSettings(const std::string& root, const std::string& model,
                                     const SettingsParser& parse) {
  const std::string name = model + "/config.pbtxt";
  const std::string path = root + "/" + name;
  std::error_code error;
  // A link that leads nowhere is something: it is reported.
  if (!parse || fs::symlink_status(path, error).type() == fs::file_type::not_found) {
    return ModelSettings{};
  }
  const StatusOr<std::string> text = ReadText(root, path);
  if (!text.ok()) return Annotate(text.status(), name);
  StatusOr<ModelSettings> settings = parse(*text);
  if (!settings.ok()) return Annotate(settings.status(), name);
  return settings;
}

}  // namespace tandem::server
