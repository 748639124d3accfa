#include "engine/onnx/tensor_decode.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "engine/onnx/tensor_proto.h"

namespace tandem::onnx_import {
namespace {

using ::onnx::TensorProto;
using testing::HasSubstr;

TensorProto Proto(DType dtype, std::vector<int64_t> dims) {
  TensorProto proto;
  proto.set_name("w");
  proto.set_data_type(static_cast<int32_t>(dtype));
  for (const int64_t extent : dims) proto.add_dims(extent);
  return proto;
}

std::vector<int> BytesOf(const StatusOr<Tensor>& tensor) {
  std::vector<int> bytes;
  if (!tensor.ok()) return {-1};
  for (const std::byte byte : tensor->view().bytes()) bytes.push_back(std::to_integer<int>(byte));
  return bytes;
}

std::string ErrorOf(const TensorProto& proto) {
  const StatusOr<Tensor> tensor = DecodeTensor(proto, nullptr);
  return tensor.ok() ? "no error" : std::string(Message(tensor.status()));
}

TEST(TensorDecode, EveryDtypeIsReadFromRawBytesOfItsSize) {
  for (int number = 1; number <= 26; ++number) {
    const auto dtype = static_cast<DType>(number);
    if (dtype == DType::kString) continue;
    TensorProto proto = Proto(dtype, {3});
    const size_t bytes = DTypeBytes(dtype, 3);
    proto.set_raw_data(std::string(bytes, '\x01'));
    EXPECT_EQ(BytesOf(DecodeTensor(proto, nullptr)).size(), bytes) << DTypeName(dtype);
    proto.set_raw_data(std::string(bytes + 1, '\x01'));
    EXPECT_THAT(ErrorOf(proto), HasSubstr("raw_data has")) << DTypeName(dtype);
    proto.set_raw_data(std::string(bytes - 1, '\x01'));
    EXPECT_THAT(ErrorOf(proto), HasSubstr("raw_data has")) << DTypeName(dtype);
  }
}

TEST(TensorDecode, Int64KeepsAllItsBits) {
  TensorProto proto = Proto(DType::kInt64, {3});
  proto.add_int64_data((int64_t{1} << 53) + 1);
  proto.add_int64_data(INT64_MIN);
  proto.add_int64_data(INT64_MAX);
  const StatusOr<Tensor> tensor = DecodeTensor(proto, nullptr);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_THAT(tensor->span<int64_t>(),
              testing::ElementsAre((int64_t{1} << 53) + 1, INT64_MIN, INT64_MAX));
}

TEST(TensorDecode, NarrowTypesComeFromInt32Data) {
  TensorProto proto = Proto(DType::kInt8, {2});
  proto.add_int32_data(-128);
  proto.add_int32_data(127);
  EXPECT_THAT(BytesOf(DecodeTensor(proto, nullptr)), testing::ElementsAre(0x80, 0x7f));
  proto.set_int32_data(1, 128);
  EXPECT_THAT(ErrorOf(proto), HasSubstr("int32_data[1] is 128, which int8 does not hold"));

  TensorProto half = Proto(DType::kFloat16, {1});
  half.add_int32_data(0x3c00);
  EXPECT_THAT(BytesOf(DecodeTensor(half, nullptr)), testing::ElementsAre(0x00, 0x3c));

  TensorProto truth = Proto(DType::kBool, {3});
  for (const int value : {0, 1, 7}) truth.add_int32_data(value);
  EXPECT_THAT(BytesOf(DecodeTensor(truth, nullptr)), testing::ElementsAre(0, 1, 1));

  TensorProto nibbles = Proto(DType::kUint4, {3});
  nibbles.add_int32_data(0x21);
  nibbles.add_int32_data(0xf3);
  EXPECT_THAT(BytesOf(DecodeTensor(nibbles, nullptr)), testing::ElementsAre(0x21, 0x03));
  nibbles.add_int32_data(0);
  EXPECT_THAT(ErrorOf(nibbles), HasSubstr("int32_data has 3 entries where uint4[3] takes 2"));
}

TEST(TensorDecode, NarrowTypesTakeInt32DataDownToTheirLowestValueOnly) {
  struct Row {
    DType dtype;
    int lowest;
    const char* name;
  };
  for (const Row& row : {Row{DType::kInt8, -128, "int8"}, Row{DType::kUint8, 0, "uint8"},
                         Row{DType::kInt16, -32768, "int16"}, Row{DType::kUint16, 0, "uint16"}}) {
    TensorProto proto = Proto(row.dtype, {1});
    proto.add_int32_data(row.lowest);
    EXPECT_EQ(ErrorOf(proto), "no error") << row.name;
    proto.set_int32_data(0, row.lowest - 1);
    EXPECT_THAT(ErrorOf(proto), HasSubstr(fmt::format("int32_data[0] is {}, which {} does not hold",
                                                      row.lowest - 1, row.name)));
  }
}

TEST(TensorDecode, Uint32ComesFromUint64DataAndComplexFromPairs) {
  TensorProto proto = Proto(DType::kUint32, {1});
  proto.add_uint64_data(0xffffffffu);
  EXPECT_THAT(BytesOf(DecodeTensor(proto, nullptr)), testing::ElementsAre(255, 255, 255, 255));
  proto.set_uint64_data(0, uint64_t{1} << 32);
  EXPECT_THAT(ErrorOf(proto), HasSubstr("does not hold"));
  TensorProto complex = Proto(DType::kComplex64, {1});
  complex.add_float_data(1);
  EXPECT_THAT(ErrorOf(complex), HasSubstr("float_data has 1 entries where complex64[1] takes 2"));
  complex.add_float_data(2);
  EXPECT_EQ(BytesOf(DecodeTensor(complex, nullptr)).size(), 8u);
}

TEST(TensorDecode, CountsAreExactAndElementsComeFromOnePlace) {
  TensorProto proto = Proto(DType::kFloat, {4});
  for (int i = 0; i < 3; ++i) proto.add_float_data(1);
  EXPECT_THAT(ErrorOf(proto), HasSubstr("tensor 'w': float_data has 3 entries where float[4]"));
  proto.set_raw_data(std::string(16, '\0'));
  EXPECT_THAT(ErrorOf(proto), HasSubstr("both raw_data and float_data"));
  TensorProto missing = Proto(DType::kFloat, {1});
  EXPECT_THAT(ErrorOf(missing), HasSubstr("float_data has 0 entries"));
  TensorProto empty = Proto(DType::kFloat, {0, 3});
  EXPECT_EQ(ErrorOf(empty), "no error");
  TensorProto other = Proto(DType::kFloat, {1});
  other.add_double_data(1);
  EXPECT_THAT(ErrorOf(other), HasSubstr("double_data holds elements of float"));
  TensorProto text = Proto(DType::kString, {1});
  text.set_raw_data("x");
  EXPECT_THAT(ErrorOf(text), HasSubstr("belong in string_data"));
}

TEST(TensorDecode, ExtentsAreCheckedBeforeAnythingIsAllocated) {
  EXPECT_THAT(ErrorOf(Proto(DType::kFloat, {-1})), HasSubstr("cannot exist"));
  const int64_t big = int64_t{1} << 62;
  EXPECT_THAT(ErrorOf(Proto(DType::kFloat, {big})), HasSubstr("cannot exist"));
  EXPECT_THAT(ErrorOf(Proto(DType::kFloat, {big, 8})), HasSubstr("cannot exist"));
  EXPECT_THAT(ErrorOf(Proto(DType::kFloat, {int64_t{1} << 40})), HasSubstr("0 entries"));
  EXPECT_THAT(ErrorOf(Proto(DType::kFloat, std::vector<int64_t>(65, 1))), HasSubstr("65 axes"));
  EXPECT_THAT(ErrorOf(Proto(static_cast<DType>(99), {1})), HasSubstr("data type 99 is not known"));
}

::onnx::SparseTensorProto Sparse(std::vector<int64_t> indices, std::vector<int64_t> index_dims) {
  ::onnx::SparseTensorProto proto;
  *proto.mutable_values() = Proto(DType::kFloat, {2});
  proto.mutable_values()->add_float_data(5);
  proto.mutable_values()->add_float_data(6);
  *proto.mutable_indices() = Proto(DType::kInt64, index_dims);
  for (const int64_t index : indices) proto.mutable_indices()->add_int64_data(index);
  proto.add_dims(2);
  proto.add_dims(3);
  return proto;
}

TEST(SparseDecode, BothFormsOfIndicesGiveTheDenseTensor) {
  for (const auto& proto : {Sparse({1, 5}, {2}), Sparse({0, 1, 1, 2}, {2, 2})}) {
    const StatusOr<Tensor> dense = DecodeSparseTensor(proto, 1000);
    ASSERT_TRUE(dense.ok()) << dense.status();
    EXPECT_THAT(dense->span<float>(), testing::ElementsAre(0, 5, 0, 0, 0, 6));
  }
}

TEST(SparseDecode, BadIndicesAndSizesAreRefused) {
  EXPECT_FALSE(DecodeSparseTensor(Sparse({1, 6}, {2}), 1000).ok());
  EXPECT_FALSE(DecodeSparseTensor(Sparse({-1, 5}, {2}), 1000).ok());
  EXPECT_FALSE(DecodeSparseTensor(Sparse({5, 1}, {2}), 1000).ok());
  EXPECT_FALSE(DecodeSparseTensor(Sparse({1, 1}, {2}), 1000).ok());
  EXPECT_FALSE(DecodeSparseTensor(Sparse({0, 3, 1, 2}, {2, 2}), 1000).ok());
  EXPECT_FALSE(DecodeSparseTensor(Sparse({1, 5}, {1, 2}), 1000).ok());
  EXPECT_TRUE(DecodeSparseTensor(Sparse({1, 5}, {2}), 24).ok());
  EXPECT_FALSE(DecodeSparseTensor(Sparse({1, 5}, {2}), 23).ok());
}

TEST(TensorProtoBytes, SerializingAndParsingGivesTheSameTensor) {
  const Tensor numbers = Tensor::Of<float>({2, 1}, {1.5f, -2});
  const StatusOr<ParsedTensor> parsed = ParseNamedTensor(SerializeTensor(numbers, "n"));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->name, "n");
  EXPECT_EQ(parsed->tensor.shape(), Shape({2, 1}));
  EXPECT_THAT(parsed->tensor.span<float>(), testing::ElementsAre(1.5f, -2));
  const Tensor words = Tensor::Of<std::string>({2}, {"a", std::string("b\0c", 3)});
  const StatusOr<Tensor> text = ParseTensor(SerializeTensor(words, ""));
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(text->span<std::string>(), testing::ElementsAre("a", std::string("b\0c", 3)));
  EXPECT_FALSE(ParseTensor("not a tensor").ok());
}

TEST(DecodeTensor, RawDataElsewhereIsReadAndCheckedAsThatInTheMessage) {
  TensorProto proto = Proto(DType::kBool, {3});
  const RawData raw{3, [](std::span<std::byte> into) {
                      const std::array<uint8_t, 3> bytes = {0, 2, 1};
                      std::memcpy(into.data(), bytes.data(), into.size());
                      return absl::OkStatus();
                    }};
  EXPECT_THAT(BytesOf(DecodeTensor(proto, nullptr, &raw)), testing::ElementsAre(0, 1, 1));
  proto.add_dims(2);
  EXPECT_EQ(Message(DecodeTensor(proto, nullptr, &raw).status()),
            "tensor 'w': raw_data has 3 bytes where bool[3,2] takes 6");
  proto.add_int32_data(1);
  EXPECT_EQ(Message(DecodeTensor(proto, nullptr, &raw).status()),
            "tensor 'w': its elements are in both raw_data and int32_data");
  proto.set_data_location(TensorProto::EXTERNAL);
  EXPECT_EQ(Message(DecodeTensor(proto, nullptr, &raw).status()),
            "tensor 'w': it has external data and raw_data");
  const RawData unreadable{3, [](std::span<std::byte>) { return InvalidArgument("no disk"); }};
  EXPECT_EQ(Message(DecodeTensor(Proto(DType::kBool, {3}), nullptr, &unreadable).status()),
            "tensor 'w': no disk");
}

}  // namespace
}  // namespace tandem::onnx_import
