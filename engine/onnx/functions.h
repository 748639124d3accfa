// The functions a model brings along (ModelProto.functions).
#pragma once

#include <onnx/onnx_pb.h>

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "engine/base/status.h"

namespace tandem::onnx_import {

// Versions by domain; "" is ai.onnx.
using Opsets = std::map<std::string, int, std::less<>>;

// "ai.onnx" is another name of "".
std::string NormalDomain(std::string_view domain);

// What is imported, and InvalidArgument that lists what is wrong with it: versions below 1, ai.onnx
// beyond kNewestOpset, and a domain with two versions. The versions nearest to those are taken, so
// that a model is told what else it is refused for.
struct DecodedOpsets {
  Opsets opsets;
  Status status;
};
DecodedOpsets DecodeOpsets(
    const google::protobuf::RepeatedPtrField<::onnx::OperatorSetIdProto>& imports);

struct Function {
  const ::onnx::FunctionProto* proto = nullptr;
  Opsets opsets;                                 // its own, and the model's for other domains
  std::vector<::onnx::AttributeProto> defaults;  // attributes that calls may leave out
  absl::flat_hash_set<std::string> attributes;   // the names of all
  std::string label;                             // "domain.name", with the overload if there is one
};

// All functions of a model, by domain, name and overload. Borrows the messages.
class FunctionTable {
 public:
  // InvalidArgument for functions without a name, defined twice, or with repeated inputs, outputs
  // or attributes.
  static StatusOr<FunctionTable> Make(const ::onnx::ModelProto& model, const Opsets& opsets);

  // What is wrong with the opsets that functions import, of all functions.
  const Status& opsets_status() const { return opsets_status_; }

  // The function that `node` calls, or null.
  const Function* Find(const ::onnx::NodeProto& node) const;

 private:
  std::map<std::tuple<std::string, std::string, std::string>, Function> functions_;
  Status opsets_status_;
};

}  // namespace tandem::onnx_import
