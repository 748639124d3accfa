// What a step sees of the run it is part of.
#pragma once

#include "engine/ops/step.h"
#include "engine/runtime/tensor_env.h"

namespace tandem::runtime {

class TaskContext final : public ops::StepContext {
 public:
  TaskContext(RunValues& values, const plan::Task& task, std::span<std::byte> scratch,
              const RunScope& scope)
      : values_(values), task_(task), scratch_(scratch), scope_(scope) {}

  const TensorView& input(int port) const override {
    static const TensorView omitted;
    const auto i = static_cast<size_t>(port);
    if (i >= task_.inputs.size() || task_.inputs[i] == plan::kOmitted || task_.packed[i]) {
      return omitted;
    }
    return values_.view(task_.inputs[i]);
  }

  const MutableTensorView& output(int port) const override {
    static const MutableTensorView omitted;
    const auto i = static_cast<size_t>(port);
    if (i >= task_.outputs.size() || task_.outputs[i] == plan::kOmitted) return omitted;
    return values_.mutable_view(task_.outputs[i]);
  }

  StatusOr<MutableTensorView> AllocateOutput(int port, const Shape& shape) override {
    return values_.Allocate(task_.outputs[static_cast<size_t>(port)], shape);
  }

  Status HandOver(int port, const Tensor& tensor) override {
    const plan::ValueIndex value = task_.outputs[static_cast<size_t>(port)];
    if (value != plan::kOmitted) values_.TakeDynamic(value, tensor);
    return absl::OkStatus();
  }

  Status TakeBytes(size_t bytes) override { return values_.budget().Take(bytes); }

  StatusOr<std::vector<Tensor>> RunBody(int index, std::span<const TensorView> formal,
                                        std::vector<Tensor> memory) override;

  std::span<std::byte> scratch() const override { return scratch_; }
  const Parallel& parallel() const override { return scope_.parallel; }

 private:
  size_t CapturesOf(int body) const;

  RunValues& values_;
  const plan::Task& task_;
  std::span<std::byte> scratch_;
  const RunScope& scope_;
};

}  // namespace tandem::runtime
