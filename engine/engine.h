// Tandem's inference engine: the whole public interface.
//
//   Engine engine(EngineOptions{});
//   ASSIGN_OR_RETURN(std::shared_ptr<const Model> model, engine.Load("model.onnx"));
//   ASSIGN_OR_RETURN(RunResult result, model->Run({{"input", tensor}}));
//
// The engine opens no sockets, reads no environment variables and reports through returned values.
// Everything here is thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/cpu.h"
#include "engine/base/parallel.h"
#include "engine/base/precision.h"
#include "engine/base/status.h"
#include "engine/graph/dim.h"
#include "engine/report.h"
#include "engine/tensor/tensor.h"

namespace tandem {

struct EngineOptions {
  // Threads that compute, for all models together; 0 means AvailableCpus().
  int threads = 0;
  // Highest instruction-set level to use, of those the machine has; nothing: all.
  std::optional<Isa> isa;
  // Of products of float32 in models that do not ask for another.
  Precision precision = Precision::kF32;
  // false: reference kernels on native weights, nothing packed.
  bool prepack = true;
  // Independent branches of a plan run in parallel.
  bool towers = true;
  // Names of optimizer passes that are switched off.
  std::vector<std::string> disabled_passes;
  // One fold may make at most the bytes of the sources it frees, or this many.
  size_t fold_growth_bytes = size_t{4} << 20;
  // All folds of a model may grow it by this share of its initializers plus this many bytes.
  double model_growth_share = 0.10;
  size_t model_growth_bytes = size_t{16} << 20;
  // Bytes alive and elements computed while folding.
  size_t fold_live_bytes = size_t{64} << 20;
  int64_t fold_elements = 100'000'000;
  // Bytes that a model's constants that repeat a smaller one (ConstantOfShape, Expand) may take
  // once they are packed or read as they are. They are no folds and hold no bytes before.
  size_t view_bytes = size_t{4} << 30;
  // Shape signatures a model keeps a ShapePlan for.
  size_t shape_plans = 64;
  // Bytes one run may take for its arena, its outputs and what it allocates where sizes depend on
  // data; ResourceExhausted names both numbers beyond it. 0: no limit.
  size_t max_run_bytes = 0;
};

// What requests may do with inputs that have a default in the file.
enum class InputDefaults : uint8_t {
  kFixed,        // they are constants; a request that names one is refused
  kReplaceable,  // a request that names some runs on a second plan, in which none is a constant
};

struct LoadOptions {
  // Asked between nodes; true ends the load with Cancelled.
  std::function<bool()> stopped;
  // Inputs by name that requests hand over in this layout: kChannelsLast makes an input that the
  // file declares as N C H W one of N H W C. InvalidArgument where the model has no such image.
  std::map<std::string, Layout> input_layouts;
  // The second plan is built with the first and shares its packs and constants. The load fails
  // where an operator needs such an input at load.
  InputDefaults input_defaults = InputDefaults::kFixed;
  // Of products of float32; nothing: as EngineOptions has it.
  std::optional<Precision> precision;
};

// An input or output of a model.
struct Port {
  std::string name;
  DType dtype = DType::kUndefined;
  graph::DimVector dims;   // symbols and unknowns where the model leaves the extent open
  bool rank_known = true;  // false: any shape, and dims is empty
  bool optional = false;   // an input with a default
};

// What a loaded model says of itself; of batches and time for requests that replace no default.
struct ModelInfo {
  std::string producer;  // producer_name and producer_version of the file
  std::vector<Port> inputs;
  std::vector<Port> outputs;
  // True when items of different requests may ride together: axis 0 of every output and of every
  // input without a default is the batch and no operator mixes items. The reason says why not.
  bool joinable = false;
  std::string not_joinable_reason;
  // Set when the file fixes the batch at 1: any number of items is accepted all the same, and each
  // is a run of its own.
  bool batch_fixed_at_one = false;
  // Estimated for one item on one thread; nothing where the work depends on more of a request than
  // its number of items.
  std::optional<double> item_seconds;
  Precision precision = Precision::kF32;  // of products of float32, as the model was loaded
  size_t constant_bytes = 0;  // native constants that some step reads, and replaceable defaults
  size_t pack_bytes = 0;
};

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

struct NamedShape {
  std::string name;
  Shape shape;
};

struct RunOptions {
  // Names of the outputs to return, in that order; empty means all, in the model's order.
  std::vector<std::string> outputs;
  // Asked between tasks; true ends the run with Cancelled.
  std::function<bool()> stopped;
  // Measures every task.
  bool profile = false;
  // Is told every value of the plan when a task has computed it, by the name it has in the report,
  // in native layout. The run takes no forks and no parts: a batch of a model that fixes it at one
  // is InvalidArgument.
  std::function<void(const NamedTensor&)> observe;
};

struct RunResult {
  std::vector<NamedTensor> outputs;
  std::vector<TaskTime> profile;  // where asked for: every task, in the order of the report
};

// One request among several that run as one batch.
struct BatchItem {
  std::vector<NamedTensor> inputs;
  std::vector<std::string> outputs;  // as RunOptions::outputs
};

// Counters since the engine was made; bytes as they are now.
struct EngineStats {
  uint64_t packs_built = 0;
  uint64_t packs_shared = 0;  // requests for a pack that found one
  size_t constant_bytes = 0;
  size_t pack_bytes = 0;
  size_t arena_bytes = 0;
};

// A model as an ONNX file.
struct ExportedModel {
  std::string bytes;                 // a serialized ModelProto
  std::vector<Decline> written_out;  // for operators that its opset does not have
};

// A model compiled into an immutable plan.
class Model {
 public:
  virtual ~Model() = default;

  virtual const ModelInfo& info() const = 0;

  // InvalidArgument names the input: unknown, missing, given twice, a default that is fixed, or
  // with another dtype, rank or extent than the model's; it says what came and what was expected.
  // Run does the same check.
  virtual Status Validate(std::span<const NamedTensor> inputs) const = 0;

  virtual StatusOr<RunResult> Run(std::span<const NamedTensor> inputs,
                                  const RunOptions& options = {}) const = 0;

  // Runs requests with equal shapes but for axis 0 as one batch; results by item, with the bits of
  // single runs. An item that replaces a default is a run of its own: all items of a run share its
  // defaults. Only for joinable models; the items must have passed Validate. `stopped` ends the
  // whole batch.
  virtual StatusOr<std::vector<RunResult>> RunBatch(std::span<const BatchItem> items,
                                                    const std::function<bool()>& stopped) const = 0;

  // The plan as text for people: tasks, kernels, layouts, folds, declines. The plan for requests
  // that replace defaults follows where there is one.
  virtual std::string Explain() const = 0;

  // The plan that runs inputs of these shapes, with its sizes: every input that has no default is
  // named. InvalidArgument as Validate.
  virtual StatusOr<PlanReport> Report(std::span<const NamedShape> inputs) const = 0;
};

class Engine {
 public:
  explicit Engine(EngineOptions options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Loads an ONNX file; external data is read from its directory only. Errors name node, operator,
  // attribute and what is supported; all reasons are listed.
  StatusOr<std::shared_ptr<const Model>> Load(const std::string& path,
                                              const LoadOptions& options = {}) const;
  // Loads a serialized ModelProto without external data.
  StatusOr<std::shared_ptr<const Model>> LoadBytes(std::string_view bytes,
                                                   const LoadOptions& options = {}) const;

  // The model of an ONNX file after all passes, in the opset that the file imports. Unimplemented
  // names the nodes that ONNX has no form for.
  StatusOr<ExportedModel> Export(const std::string& path) const;

  int threads() const;
  Isa isa() const;
  EngineStats stats() const;
  // The pool that all models compute in.
  const Parallel& parallel() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  // models hold it, too, and may outlive the engine
};

}  // namespace tandem
