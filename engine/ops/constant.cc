// Constant (ai.onnx, opset 1): a tensor that stands in the node.
#include "engine/ops/movement.h"
#include "engine/ops/registry.h"

namespace tandem::ops {
namespace {

class ConstantOp final : public Operator {
 public:
  static std::shared_ptr<const Operator> Parse(NodeReader& reader) {
    auto op = std::make_shared<ConstantOp>();
    int values = 0;
    if (const graph::ConstantRef value = reader.Constant("value")) {
      op->value_ = value->tensor();
      ++values;
    } else if (reader.has("value")) {
      return op;  // Of another type, which the reader has recorded.
    }
    if (reader.opset() >= 11 && reader.has("sparse_value")) {
      reader.Ignore("sparse_value");
      reader.Fail(Unimplemented("attribute 'sparse_value' is not supported"));
    }
    if (reader.opset() >= 12) values += ReadPlain(reader, op->value_);
    if (values != 1) {
      reader.Fail(
          InvalidArgument("{} of the value attributes are set where 1 is expected", values));
    }
    return op;
  }

  Status Infer(InferContext& context) const override {
    context.SetValue(0, value_);
    return absl::OkStatus();
  }

  StatusOr<std::unique_ptr<Step>> Bind(BindContext&) const override {
    const Tensor value = value_;
    return MakeDataStep("move.constant", [value](StepContext& run) {
      if (DTypeBits(value.dtype()) % 8 != 0) {
        std::ranges::copy(value.view().bytes(), run.output(0).mutable_bytes().begin());
        return absl::OkStatus();
      }
      CopyRegion({.axes = {{value.elements(), 1, 1}}}, value.view(), run.output(0), run.parallel());
      return absl::OkStatus();
    });
  }

 private:
  // Reads the attributes that are no tensors; returns how many there are.
  static int ReadPlain(NodeReader& reader, Tensor& value) {
    int values = 0;
    if (reader.has("value_float") && ++values > 0) {
      value = Tensor::Scalar<float>(reader.Float("value_float", 0));
    }
    if (reader.has("value_int") && ++values > 0) {
      value = Tensor::Scalar<int64_t>(reader.Int("value_int", 0));
    }
    if (reader.has("value_string") && ++values > 0) {
      value = Tensor::Scalar<std::string>(reader.String("value_string", ""));
    }
    if (reader.has("value_floats") && ++values > 0) value = Vector(reader.Floats("value_floats"));
    if (reader.has("value_ints") && ++values > 0) value = Vector(reader.Ints("value_ints"));
    if (reader.has("value_strings") && ++values > 0) {
      value = Vector(reader.Strings("value_strings"));
    }
    return values;
  }

  template <typename T>
  static Tensor Vector(const std::vector<T>& values) {
    return Tensor::Of<T>({static_cast<int64_t>(values.size())}, std::span<const T>(values));
  }

  Tensor value_;
};

}  // namespace

void RegisterConstant(OpRegistry& registry) {
  registry.Add({.op_type = "Constant",
                .versions = {1, 9, 11, 12, 13, 19, 21},
                .min_inputs = 0,
                .max_inputs = 0,
                .parse = ConstantOp::Parse,
                .doc = "A tensor that stands in the node; sparse tensors are refused."});
}

}  // namespace tandem::ops
