// A serialized ModelProto is parsed without its weights: large raw_data of the main graph's
// initializers stays where it is, to be read straight into the memory of tensors. Through a parsed
// message every weight would be copied once more, into memory that is new to the process.
//
// Source: Protocol Buffers, encoding of messages.
#pragma once

#include <google/protobuf/io/zero_copy_stream.h>
#include <onnx/onnx_pb.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/base/status.h"

namespace tandem::onnx_import {

// Of the serialized model, in bytes.
struct ByteRange {
  int64_t offset = 0;
  int64_t size = 0;
};

struct SplitModel {
  ::onnx::ModelProto rest;
  // raw_data that `rest` lacks, by the index of the initializer in `rest`'s graph.
  std::vector<std::optional<ByteRange>> raw_data;
};

// Parses exactly `size` bytes of `stream`. Errors as of ParseMessage.
StatusOr<SplitModel> ParseModel(google::protobuf::io::ZeroCopyInputStream& stream, int64_t size);

}  // namespace tandem::onnx_import
