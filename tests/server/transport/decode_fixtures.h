// Models and requests of the tests of decoding.
#pragma once

#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "server/transport/decode.h"
#include "tests/server/transport/fake_backend.h"

namespace tandem::server {

using inference::ModelInferRequest;

inline constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

inline const graph::DimVector kRows16 = {graph::Dim::Symbol("N"), 16};

// Two inputs of 16 floats a row; batches of up to 8.
inline ServedModelRef TwoFloats() {
  return MakeServed("m", EchoInfo({{"a", DType::kFloat}, {"b", DType::kFloat}}, kRows16), 8);
}

inline ServedModelRef OneInput(DType dtype, const graph::DimVector& dims) {
  return MakeServed("m", EchoInfo({{"", dtype}}, dims), 0);
}

inline void AddInput(ModelInferRequest& request, const std::string& name,
                     const std::string& datatype, const std::vector<int64_t>& shape) {
  auto& input = *request.add_inputs();
  input.set_name(name);
  input.set_datatype(datatype);
  for (const int64_t extent : shape) input.add_shape(extent);
}

inline std::string Floats(size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0f);
  return {reinterpret_cast<const char*>(values.data()), count * sizeof(float)};
}

// A request that TwoFloats accepts.
inline ModelInferRequest GoodRequest() {
  ModelInferRequest request;
  AddInput(request, "xa", "FP32", {1, 16});
  AddInput(request, "xb", "FP32", {1, 16});
  request.add_raw_input_contents(Floats(16));
  request.add_raw_input_contents(Floats(16));
  return request;
}

inline ModelInferRequest RawRequest(const std::string& datatype, const std::vector<int64_t>& shape,
                                    const std::string& raw) {
  ModelInferRequest request;
  AddInput(request, "x", datatype, shape);
  request.add_raw_input_contents(raw);
  return request;
}

inline StatusOr<InferRequest> Decode(const ModelInferRequest& request, ServedModelRef model) {
  return DecodeInferRequest(std::make_shared<const ModelInferRequest>(request), std::move(model));
}

inline void SetParameter(ModelInferRequest& request, const std::string& name, int64_t value) {
  (*request.mutable_parameters())[name].set_int64_param(value);
}

}  // namespace tandem::server
