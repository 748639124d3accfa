#include "cli/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/compare.h"

namespace tandem::cli {
namespace {

using testing::HasSubstr;

// A file of version 1 with this header.
std::string File(std::string_view header, std::string_view data) {
  std::string bytes = "\x93NUMPY\x01";
  bytes += '\0';
  bytes += static_cast<char>(header.size());
  bytes += '\0';
  return bytes.append(header).append(data);
}

std::string ErrorOf(std::string_view bytes) {
  const StatusOr<Tensor> tensor = ParseNpy(bytes);
  return tensor.ok() ? "no error" : std::string(Message(tensor.status()));
}

TEST(Npy, EveryElementTypeComesBackAsItWas) {
  for (const DType dtype :
       {DType::kFloat, DType::kDouble, DType::kFloat16, DType::kInt8, DType::kInt16, DType::kInt32,
        DType::kInt64, DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64, DType::kBool,
        DType::kComplex64, DType::kComplex128}) {
    for (const Shape& shape : {Shape(), Shape({0}), Shape({3}), Shape({2, 1, 5})}) {
      const Tensor tensor = *Tensor::Allocate(dtype, shape);
      const auto bytes = tensor.mutable_view().mutable_bytes();
      for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(i % 2);
      const auto file = SerializeNpy(tensor);
      ASSERT_TRUE(file.ok()) << file.status();
      EXPECT_EQ((file->size() - bytes.size()) % 64, 0u);
      const auto back = ParseNpy(*file);
      ASSERT_TRUE(back.ok()) << back.status();
      EXPECT_TRUE(test::Close(*back, tensor, test::Exact())) << DTypeName(dtype);
    }
  }
}

TEST(Npy, HeadersOfOtherWritersAreRead) {
  const auto spaced =
      ParseNpy(File("{'shape': (2,), 'fortran_order': True, 'descr': '|u1'}\n", "\x05\x06"));
  ASSERT_TRUE(spaced.ok()) << spaced.status();
  EXPECT_TRUE(test::Close(*spaced, Tensor::Of<uint8_t>({2}, {5, 6}), test::Exact()));
  std::string second = File("{'descr': '|u1', 'fortran_order': False, 'shape': (), }", "\x07");
  second[6] = 2;  // a header length of four bytes
  second.insert(10, 2, '\0');
  EXPECT_TRUE(ParseNpy(second).ok()) << ErrorOf(second);
}

TEST(Npy, WhatIsNotReadIsNamed) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("no .npy file"));
  EXPECT_THAT(ErrorOf("PK\x03\x04 an archive of arrays"), HasSubstr("no .npy file"));
  const auto error = [](const std::string& header, std::string_view data = "") {
    return ErrorOf(File(header, data));
  };
  EXPECT_THAT(error("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }"),
              HasSubstr("NumPy's type '>f4'"));
  EXPECT_THAT(error("{'descr': '<U5', 'fortran_order': False, 'shape': (1,), }"),
              HasSubstr("strings as .pb"));
  EXPECT_THAT(error("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1), }", "abcd"),
              HasSubstr("Fortran order"));
  EXPECT_THAT(error("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "abcd"),
              HasSubstr("4 bytes of elements, which is not what float[2] takes"));
  for (const char* header :
       {"", "{}", "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1", "{'descr': '<f4"}) {
    EXPECT_THAT(error(header), HasSubstr("header is damaged")) << header;
  }
  const std::string whole = File("{'descr': '<f4', 'fortran_order': False, 'shape': (), }", "abcd");
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(ParseNpy(std::string_view(whole).substr(0, size)).ok()) << size;
  }
}

TEST(Npy, ElementsThatNumPyDoesNotHaveAreRefused) {
  for (const DType dtype : {DType::kBfloat16, DType::kInt4, DType::kString}) {
    const auto file = SerializeNpy(*Tensor::Allocate(dtype, {2}));
    EXPECT_EQ(file.status().code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(Message(file.status()), HasSubstr(DTypeName(dtype)));
  }
}

}  // namespace
}  // namespace tandem::cli
