// The step behind Conv and ConvTranspose: conversions of layouts, packed weights, bias and fused
// stages around a kernel over channels-last activations.
#pragma once

#include <memory>
#include <string>

#include "engine/kernels/conv/conv.h"
#include "engine/ops/operator.h"

namespace tandem::ops {

// Inputs of both operators; operands of fused stages follow.
inline constexpr int kConvX = 0;
inline constexpr int kConvW = 1;
inline constexpr int kConvBias = 2;
inline constexpr int kConvInputs = 3;

// What the two operators do differently. Shapes are those that Infer has accepted. Immutable and
// thread-safe.
class ConvForm {
 public:
  virtual ~ConvForm() = default;

  virtual kernels::ConvGeometry Geometry(const Shape& x, const Shape& w) const = 0;

  // Packed weights: the name of the format, what it depends on besides the weights, and its size.
  struct Format {
    std::string kernel;
    std::string parameters;
    int64_t floats = 0;
  };
  virtual Format FormatOf(Arithmetic arithmetic, const Shape& w) const = 0;
  virtual void Pack(Arithmetic arithmetic, const TensorView& weights, float* packed) const = 0;
  // Whether Pack is given the integers of a quantised weight.
  virtual bool packs_integers() const { return false; }

  // One run on channels-last activations.
  struct Work {
    Arithmetic arithmetic;
    const kernels::ConvGeometry& geometry;
    const float* weights = nullptr;  // packed; for the reference as they come
    const kernels::ConvData& data;
    float* scratch = nullptr;  // ScratchFloats of them
    StepContext& context;
  };
  virtual int64_t ScratchFloats(Arithmetic, const kernels::ConvGeometry&, int /*threads*/) const {
    return 0;
  }
  virtual void Run(const Work& work) const = 0;
  virtual void RunReference(const Work& work) const = 0;
  // On weights as they come.
  virtual void RunReference(const kernels::ConvGeometry& geometry, const double* weights,
                            const double* x, double* y) const = 0;
};

// float and double; Unimplemented names any other type, or too many spatial axes.
StatusOr<std::unique_ptr<Step>> BindConv(std::shared_ptr<const ConvForm> form,
                                         BindContext& context);

// What packs weights of the shape `w` in the form's format.
PackSpec PackSpecOf(std::shared_ptr<const ConvForm> form, Arithmetic arithmetic, const Shape& w);

// float32 weights are packed.
inline ConstantUse UseOfConvConstant(int port, DType dtype) {
  return port == kConvW && dtype == DType::kFloat ? ConstantUse::kPacked : ConstantUse::kNative;
}

}  // namespace tandem::ops
