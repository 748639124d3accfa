#include <algorithm>

#include "engine/graph/dump.h"
#include "engine/ops/registry.h"

namespace tandem::ops {

const graph::Attribute* NodeReader::Read(std::string_view name) {
  read_.emplace_back(name);
  const auto found = node_.attributes.find(name);
  return found == node_.attributes.end() ? nullptr : &found->second;
}

bool NodeReader::has(std::string_view name) const { return node_.attributes.contains(name); }

bool NodeReader::has_input(int port) const {
  return port < inputs() && node_.inputs[static_cast<size_t>(port)] != graph::kNoValue;
}

template <typename T>
T NodeReader::Get(std::string_view name, T fallback, std::string_view type) {
  const graph::Attribute* attribute = Read(name);
  if (attribute == nullptr) return fallback;
  if (const T* value = attribute->get_if<T>()) return *value;
  Fail(InvalidArgument("attribute '{}' is {} where {} is expected", name,
                       graph::ToString(*attribute), type));
  return fallback;
}

int64_t NodeReader::Int(std::string_view name, int64_t fallback) {
  return Get<int64_t>(name, fallback, "an int");
}

int64_t NodeReader::RequiredInt(std::string_view name) {
  if (!has(name)) Fail(InvalidArgument("attribute '{}' is missing", name));
  return Int(name, 0);
}

bool NodeReader::Flag(std::string_view name, bool fallback) {
  const int64_t value = Int(name, fallback ? 1 : 0);
  if (value != 0 && value != 1) {
    Fail(InvalidArgument("attribute '{}' is {} where 0 or 1 is expected", name, value));
  }
  return value != 0;
}

float NodeReader::Float(std::string_view name, float fallback) {
  return Get<float>(name, fallback, "a float");
}

std::string NodeReader::String(std::string_view name, std::string_view fallback) {
  return Get<std::string>(name, std::string(fallback), "a string");
}

std::vector<int64_t> NodeReader::Ints(std::string_view name, std::vector<int64_t> fallback) {
  return Get<std::vector<int64_t>>(name, std::move(fallback), "a list of ints");
}

std::vector<float> NodeReader::Floats(std::string_view name, std::vector<float> fallback) {
  return Get<std::vector<float>>(name, std::move(fallback), "a list of floats");
}

std::vector<std::string> NodeReader::Strings(std::string_view name,
                                             std::vector<std::string> fallback) {
  return Get<std::vector<std::string>>(name, std::move(fallback), "a list of strings");
}

graph::ConstantRef NodeReader::Constant(std::string_view name) {
  return Get<graph::ConstantRef>(name, nullptr, "a tensor");
}

std::shared_ptr<const graph::Graph> NodeReader::Body(std::string_view name) {
  return Get<std::shared_ptr<const graph::Graph>>(name, nullptr, "a graph");
}

void NodeReader::Ignore(std::string_view name) { Read(name); }

void NodeReader::Fail(Status error) {
  if (error_.ok()) error_ = std::move(error);
}

Status NodeReader::Finish() const {
  RETURN_IF_ERROR(error_);
  std::string unread;
  for (const auto& [name, value] : node_.attributes) {
    if (std::ranges::find(read_, name) != read_.end()) continue;
    unread += fmt::format("{}'{}' ({})", unread.empty() ? "" : ", ", name, graph::ToString(value));
  }
  if (unread.empty()) return absl::OkStatus();
  return InvalidArgument("opset {} of {} has no attribute {}", node_.opset, node_.op_type, unread);
}

}  // namespace tandem::ops
