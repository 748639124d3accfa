// A step: a kernel bound to a node, ready to run. Made once at load, shared by every run.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "engine/tensor/tensor.h"

namespace tandem::ops {

// Concrete shapes of one execution, by port; ports that are omitted have no meaning.
struct StepShapes {
  std::span<const Shape> inputs;
  std::span<const Shape> outputs;
  int threads = 1;
};

// One execution of a step. Views of omitted ports have dtype kUndefined.
class StepContext {
 public:
  virtual ~StepContext() = default;

  virtual const TensorView& input(int port) const = 0;
  // Memory of the shape that Infer gave. Not for outputs whose shape depends on data.
  virtual const MutableTensorView& output(int port) const = 0;
  // Memory for an output whose shape depends on data (Infer left an extent unknown even though
  // every input's shape and known content was given). ResourceExhausted when it passes the run's
  // limit.
  virtual StatusOr<MutableTensorView> AllocateOutput(int port, const Shape& shape) = 0;
  // Makes `tensor` an output whose shape depends on data, with its memory; nothing for an omitted
  // output. Copies where a context has no better way.
  virtual Status HandOver(int port, const Tensor& tensor);
  // Counts bytes that a step is about to allocate by itself, as it goes. ResourceExhausted when
  // they pass the run's limit.
  virtual Status TakeBytes(size_t) { return absl::OkStatus(); }
  // Runs body `index` of the node (graph::BodiesOf) with these formal inputs; what it captures is
  // added. Results by output of the body; one that fits the dtype and shape of its tensor in
  // `memory` is written there. Cancelled when the run is stopped. Internal error where a step has
  // no bodies.
  virtual StatusOr<std::vector<Tensor>> RunBody(int index, std::span<const TensorView> formal,
                                                std::vector<Tensor> memory);
  // At least ScratchBytes(shapes) bytes, aligned to kBufferAlignment, contents undefined.
  virtual std::span<std::byte> scratch() const = 0;
  virtual const Parallel& parallel() const = 0;

  bool has_input(int port) const { return input(port).dtype() != DType::kUndefined; }
};

// Immutable; Run may be called from several threads at once with different contexts. Errors are
// only those that depend on data (an index out of range) or on memory for data-dependent outputs.
class Step {
 public:
  virtual ~Step() = default;

  // The kernel and its variant, for explain and the profile: "conv.igemm avx512 12x32".
  virtual std::string kernel() const = 0;
  virtual size_t ScratchBytes(const StepShapes&) const { return 0; }
  virtual Status Run(StepContext& context) const = 0;
};

}  // namespace tandem::ops
