// Operators: everything the engine knows about one ONNX operator stands behind this interface, in
// one file per operator. A node is parsed once (registry.h); the Operator then answers the
// questions of shape inference, lowering, binding, layout, fusion and batching. Pure and
// thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "engine/base/precision.h"
#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/graph/patch.h"
#include "engine/ops/facts.h"
#include "engine/ops/step.h"

namespace tandem::ops {

// Shape inference of one node: facts of the inputs in, facts of the outputs out.
class InferContext {
 public:
  // Omitted inputs are null.
  InferContext(const graph::Node& node, std::vector<const ValueFacts*> inputs);

  const graph::Node& node() const { return node_; }
  int inputs() const { return static_cast<int>(inputs_.size()); }
  int outputs() const { return static_cast<int>(results_.size()); }
  bool has_input(int port) const;
  bool has_output(int port) const;
  const ValueFacts& input(int port) const;
  // The dims of an input whose rank is known; nothing when it is omitted or its rank is unknown.
  const graph::DimVector* dims(int port) const;
  // Known elements of an integer scalar or vector: as numbers, or with symbols.
  std::optional<std::vector<int64_t>> Integers(int port) const;
  std::optional<graph::DimVector> Content(int port) const;

  // Setting an omitted output does nothing.
  void SetOutput(int port, DType dtype, std::optional<graph::DimVector> dims);
  void SetContent(int port, graph::DimVector content);
  void SetValue(int port, const Tensor& value);
  std::vector<ValueFacts>& results() { return results_; }

 private:
  const graph::Node& node_;
  std::vector<const ValueFacts*> inputs_;
  std::vector<ValueFacts> results_;
};

// Weights in a kernel's own format, packed once per (content, kernel, layout parameters).
struct Pack {
  std::string key;  // for people
  Buffer buffer;
};
using PackRef = std::shared_ptr<const Pack>;

struct PackSpec {
  std::string kernel;  // "gemm.f32"
  // Everything the format depends on: ISA, tile width, transposition, group.
  std::string parameters;
  size_t bytes = 0;
  // Writes the packed form of `native` to exactly `bytes` bytes.
  std::function<void(const TensorView& native, std::span<std::byte> packed)> fill;
  // The same from a view in strides of its own, of the dtype of what it holds. Where this is not
  // set, views are written out for `fill`, which takes the weight's size while it runs.
  std::function<void(const StridedTensor& view, std::span<std::byte> packed)> fill_strided;
  // `fill` wants the integers of a quantised weight (StridedTensor::Integers), not its numbers.
  bool of_integers = false;
};

// What an operator may ask while it chooses its kernel.
class BindContext {
 public:
  virtual ~BindContext() = default;

  virtual const graph::Node& node() const = 0;
  virtual Isa isa() const = 0;
  virtual Precision precision() const { return Precision::kF32Plain; }
  // Facts at load: extents may be symbols or unknown. Omitted ports have dtype kUndefined.
  virtual const ValueFacts& input(int port) const = 0;
  virtual const ValueFacts& output(int port) const = 0;
  virtual Layout input_layout(int port) const = 0;
  virtual Layout output_layout(int port) const = 0;
  // The constant at an input, or null. The step must not keep its address: it may be released when
  // nothing but packs were made of it.
  virtual graph::ConstantRef constant(int port) const = 0;
  // The packed form of the constant at `port`, from the process-wide store. After this call the
  // step finds no native tensor at that port when it runs.
  virtual StatusOr<PackRef> MakePack(int port, const PackSpec& spec) = 0;

  Arithmetic arithmetic() const { return {isa(), precision()}; }
  bool has_input(int port) const { return input(port).dtype != DType::kUndefined; }
  bool has_output(int port) const { return output(port).dtype != DType::kUndefined; }
};

// How an operator treats the layout of image-like values (rank >= 3, axis 1 = channels).
enum class LayoutRule : uint8_t {
  kNative,        // all inputs and outputs native
  kChannelsLast,  // input 0 and output 0 channels-last where the planner can give it; others native
  kFollow,  // input 0 decides: output 0 and every input of the same rank have its layout; constants
            // of rank 2 and more may be brought to it, ones put in front of their extents; all
            // other inputs of lower rank stay native, whatever they broadcast to
  kAny,     // input and output layouts do not matter (only shapes are read)
  kFromChannelsLast,  // moves axis 1 to the end: a channels-last input is the output's memory
  kToChannelsLast,    // moves the last axis to 1: the input is a channels-last output's memory
};

struct Traits {
  bool deterministic = true;
  // One output element per element, of inputs at the same (broadcast) index.
  bool elementwise = false;
  // Output 0 may lie in the memory of input 0 when both have equal bytes and input 0 dies here.
  bool in_place = false;
  // Output 0 is input 0's memory under another shape: no step is bound (Reshape, Flatten,
  // Identity).
  bool view = false;
  // Output depends on shapes of its inputs only (Shape, Size).
  bool reads_shapes_only = false;
  LayoutRule layout = LayoutRule::kNative;
};

// Estimated work of one execution, for the cost gate and for explain.
struct Cost {
  double multiply_adds = 0;
  double bytes = 0;  // read and written
};

// May stage `op` become part of this node's kernel? Plain data; asked by the optimizer.
struct EpilogueRequest {
  std::string op;                           // "Add", "Relu", ...
  const graph::NodeOp* resolved = nullptr;  // the operator of that node
  const graph::Attributes* attributes = nullptr;
  DType dtype = DType::kUndefined;
  const graph::DimVector* result = nullptr;   // extents of the node's output
  const graph::DimVector* operand = nullptr;  // extents of the second operand, if any
  bool operand_is_constant = false;
  bool operand_is_first = false;                 // the node's result is the second input of `op`
  int readers = 0;                               // nodes that read the node's output
  bool is_output = false;                        // the node's output is a graph output
  std::span<const graph::EpilogueStage> stages;  // already fused
  // Extents of the node's inputs, by port: null where omitted or of unknown rank.
  std::span<const graph::DimVector* const> inputs;
};

// May these stages be applied to input 0 of this node as its kernel reads it?
struct PrologueRequest {
  std::span<const graph::EpilogueStage> stages;
  DType dtype = DType::kUndefined;
  // Extents of the node's inputs, by port: null where omitted or of unknown rank.
  std::span<const graph::DimVector* const> inputs;
  // Extents of the stages' operands, in their order: null where there is none.
  std::span<const graph::DimVector* const> operands;
};

// A rule's answer. Declined answers carry what explain shows; an empty rule means that the question
// does not arise and is not recorded.
struct Decision {
  bool accepted = false;
  std::string rule;     // "result has 2 readers"
  std::string numbers;  // "readers=2"

  static Decision Accept() { return {true, {}, {}}; }
  static Decision Decline(std::string rule, std::string numbers = {}) {
    return {false, std::move(rule), std::move(numbers)};
  }
};

// Batch axes of a node (design: "Batch-axis legality"): per input the axis that carries the batch,
// or nothing for a value shared by all items. Its extent is rounds * N * n for N items: the items
// stand on it one behind the other, each as n elements, and that again for each round. All inputs
// that carry the batch agree on these numbers.
struct BatchQuery {
  const graph::Node& node;
  const graph::Dim& items;  // the extent of the batch at the model's inputs
  std::span<const std::optional<int>> axes;
  std::span<const ValueFacts* const> inputs;   // null where omitted
  std::span<const ValueFacts* const> outputs;  // null where omitted
  int64_t rounds = 1;
};
struct BatchAnswer {
  std::optional<std::string> declined;      // the reason
  std::vector<std::optional<int>> outputs;  // by output port
  int64_t rounds = 1;                       // of all outputs

  static BatchAnswer Decline(std::string reason) { return {std::move(reason), {}}; }
  // Every output carries the batch on `axis`, with the rounds of the inputs.
  static BatchAnswer All(const BatchQuery& query, std::optional<int> axis);
};

enum class ConstantUse : uint8_t {
  kNative,  // as it lies in memory
  kPacked,  // by packing only: a view of a weight serves as well as a copy
  kViewed,  // output 0 is a view of it (Operator::ViewOf)
};

class Operator : public graph::NodeOp {
 public:
  // Output dtypes and extents. InvalidArgument says what came and what is expected; the caller adds
  // the node.
  virtual Status Infer(InferContext& context) const = 0;

  // Facts of all inputs of body `index` (graph::BodiesOf): its formal inputs, whatever iteration
  // they are of, then its captures. Only asked of operators with bodies.
  virtual StatusOr<std::vector<ValueFacts>> BodyInputs(const InferContext& context,
                                                       int index) const;

  // Replaces the node by simpler ones; nothing when the node stays.
  virtual std::optional<graph::Patch> Lower(const graph::Graph&, graph::NodeId) const {
    return std::nullopt;
  }

  // For a node whose inputs are all constant: the memory of which output 0, of this shape, is a
  // view. Nothing for operators that compute. Omitted inputs are null.
  virtual std::optional<StridedTensor> ViewOf(std::span<const graph::ConstantRef> inputs,
                                              const Shape& shape) const;

  // How a constant of this dtype at input `port` is read.
  virtual ConstantUse UseOfConstant(int /*port*/, DType) const { return ConstantUse::kNative; }

  // Chooses a kernel. Unimplemented says which dtype or form has none. Operators that always lower
  // and those that are views are never bound.
  virtual StatusOr<std::unique_ptr<Step>> Bind(BindContext& context) const;

  virtual Traits traits() const { return {}; }

  virtual Cost EstimateCost(const StepShapes&, DType) const { return {}; }

  virtual Decision TryFuseEpilogue(const EpilogueRequest& request) const;
  virtual Decision TryFusePrologue(const PrologueRequest& request) const;

  // Only asked when at least one axis is set, or when an input that ReadsShape depends on the
  // number of items.
  virtual BatchAnswer Batch(const BatchQuery& query) const;

  // True when input `port` is a shape that Batch follows through the extents of the output: it may
  // be computed from the number of items, which no other input next to the batch may be.
  virtual bool ReadsShape(int) const { return false; }
};

// The operator of a resolved node.
const Operator& OpOf(const graph::Node& node);

}  // namespace tandem::ops
