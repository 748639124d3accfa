#include "engine/onnx/split_model.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>

#include <string>

#include "absl/functional/function_ref.h"
#include "engine/onnx/parse_message.h"

namespace tandem::onnx_import {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;
using google::protobuf::io::StringOutputStream;

// Less is not worth a read of its own.
constexpr uint32_t kLeastBytes = uint32_t{64} << 10;

constexpr uint32_t TagOf(int field) {
  return WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
}
constexpr uint32_t kGraph = TagOf(::onnx::ModelProto::kGraphFieldNumber);
constexpr uint32_t kInitializer = TagOf(::onnx::GraphProto::kInitializerFieldNumber);
constexpr uint32_t kRawData = TagOf(::onnx::TensorProto::kRawDataFieldNumber);

// Copies a serialized model field by field, but for the raw_data that stays. False means that the
// bytes are no such message.
class Splitter {
 public:
  Splitter(CodedInputStream& input, std::vector<std::optional<ByteRange>>& raw_data)
      : input_(input), raw_data_(raw_data) {}

  bool Model(std::string& rest) {
    return Copy(rest, kGraph, [&](uint32_t size, CodedOutputStream& out) {
      return Inside(size, kGraph, out, [&](std::string& graph) { return Graph(graph); });
    });
  }

 private:
  // Copies the fields up to the end or limit of the input; `take` handles those of tag `special`,
  // whose length has been read.
  bool Copy(std::string& to, uint32_t special,
            absl::FunctionRef<bool(uint32_t size, CodedOutputStream& out)> take) {
    StringOutputStream stream(&to);
    CodedOutputStream out(&stream);
    while (const uint32_t tag = input_.ReadTag()) {
      uint32_t size = 0;
      const bool copied = tag == special ? ReadSize(size) && take(size, out)
                                         : WireFormatLite::SkipField(&input_, tag, &out);
      if (!copied) return false;
    }
    return input_.ConsumedEntireMessage();
  }

  bool ReadSize(uint32_t& size) {
    return input_.ReadVarint32(&size) && size <= static_cast<uint32_t>(input_.BytesUntilLimit());
  }

  // A message of `size` bytes, of which `copy` appends what is kept to a string.
  bool Inside(uint32_t size, uint32_t tag, CodedOutputStream& out,
              absl::FunctionRef<bool(std::string&)> copy) {
    std::string kept;
    const CodedInputStream::Limit outer = input_.PushLimit(static_cast<int>(size));
    if (!copy(kept)) return false;
    input_.PopLimit(outer);
    out.WriteVarint32(tag);
    out.WriteVarint32(static_cast<uint32_t>(kept.size()));
    out.WriteString(kept);
    return true;
  }

  bool Graph(std::string& rest) {
    return Copy(rest, kInitializer, [&](uint32_t size, CodedOutputStream& out) {
      raw_data_.emplace_back();
      return Inside(size, kInitializer, out, [&](std::string& tensor) { return Tensor(tensor); });
    });
  }

  // The last raw_data of a tensor counts, as everywhere in protobuf.
  bool Tensor(std::string& rest) {
    return Copy(rest, kRawData, [&](uint32_t size, CodedOutputStream& out) {
      raw_data_.back().reset();
      if (size >= kLeastBytes) {
        raw_data_.back() = {input_.CurrentPosition(), size};
        return input_.Skip(static_cast<int>(size));
      }
      std::string bytes;
      if (!input_.ReadString(&bytes, static_cast<int>(size))) return false;
      out.WriteVarint32(kRawData);
      out.WriteVarint32(size);
      out.WriteString(bytes);
      return true;
    });
  }

  CodedInputStream& input_;
  std::vector<std::optional<ByteRange>>& raw_data_;
};

}  // namespace

StatusOr<SplitModel> ParseModel(google::protobuf::io::ZeroCopyInputStream& stream, int64_t size) {
  RETURN_IF_ERROR(CheckMessageSize(size));
  SplitModel model;
  std::string rest;
  CodedInputStream input(&stream);
  input.PushLimit(static_cast<int>(size));
  Splitter splitter(input, model.raw_data);
  if (!splitter.Model(rest) || input.CurrentPosition() != size ||
      !ParseMessage(rest, model.rest).ok()) {
    return NotAMessage(size, model.rest);
  }
  return model;
}

}  // namespace tandem::onnx_import
