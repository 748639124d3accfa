// A model and a backend whose answers the test decides.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/models/retry_hint.h"
#include "server/transport/backend.h"

namespace tandem::server {

// Answers each request with the inputs of its outputs' names behind the first letter: output "yabc"
// is input "xabc".
class EchoModel final : public Model {
 public:
  explicit EchoModel(ModelInfo info) : info_(std::move(info)) {}

  const ModelInfo& info() const override { return info_; }
  Status Validate(std::span<const NamedTensor>) const override { return absl::OkStatus(); }
  StatusOr<RunResult> Run(std::span<const NamedTensor> inputs,
                          const RunOptions& options) const override {
    std::vector<std::string> names = options.outputs;
    if (names.empty()) {
      for (const Port& port : info_.outputs) names.push_back(port.name);
    }
    RunResult result;
    for (const std::string& name : names) {
      for (const NamedTensor& input : inputs) {
        if (input.name.substr(1) == name.substr(1)) result.outputs.push_back({name, input.tensor});
      }
    }
    return result;
  }
  StatusOr<std::vector<RunResult>> RunBatch(std::span<const BatchItem>,
                                            const std::function<bool()>&) const override {
    return Unimplemented("no batches");
  }
  std::string Explain() const override { return "echo"; }
  StatusOr<PlanReport> Report(std::span<const NamedShape>) const override { return PlanReport(); }

 private:
  const ModelInfo info_;
};

inline ServedModelRef MakeServed(std::string name, ModelInfo info, int64_t max_batch_size) {
  ServedModel served{.name = name, .version = 3};
  served.model = std::make_shared<EchoModel>(std::move(info));
  served.max_batch_size = max_batch_size;
  served.metrics = std::make_shared<ModelMetrics>(name, 3);
  return std::make_shared<const ServedModel>(std::move(served));
}

// A port of each type that the wire knows: input "xFP32", output "yFP32", ... of shape `dims`.
inline ModelInfo EchoInfo(const std::vector<std::pair<std::string, DType>>& types,
                          const graph::DimVector& dims) {
  ModelInfo info;
  for (const auto& [name, dtype] : types) {
    info.inputs.push_back({.name = "x" + name, .dtype = dtype, .dims = dims});
    info.outputs.push_back({.name = "y" + name, .dtype = dtype, .dims = dims});
  }
  return info;
}

class FakeBackend final : public Backend {
 public:
  enum class Mode {
    kRun,     // runs requests at once
    kHold,    // keeps them until they are cancelled or Release is called
    kInside,  // computes them inside Submit, without end, until they say that they are cancelled
    kRefuse,  // answers `refusal`
    kThrow,
  };

  // A request that is held. Answers once.
  class Held final : public InferCall {
   public:
    explicit Held(Batcher::Done done) : done_(std::move(done)) {}
    void Cancel() override { Answer(Cancelled("the call was cancelled")); }
    void Answer(StatusOr<InferReply> reply) {
      Batcher::Done done;
      {
        const std::lock_guard lock(mutex_);
        done.swap(done_);
      }
      if (done) done(std::move(reply));
    }

   private:
    std::mutex mutex_;
    Batcher::Done done_;
  };

  void Add(ServedModelRef model) { models_[model->name] = std::move(model); }

  ServerState state() const override { return state_; }
  bool Ready() const override { return state_ == ServerState::kServing; }
  StatusOr<ServedModelRef> Find(std::string_view name, std::string_view version) const override {
    if (name == "broken") return Unavailable("model 'broken' could not be loaded");
    if (name == "loading") {
      return WithRetryAfter(Unavailable("model 'loading' is being loaded"),
                            std::chrono::milliseconds(1000));
    }
    const auto model = models_.find(std::string(name));
    if (model == models_.end()) return NotFound("model '{}' is not found", name);
    if (version == "abc") return InvalidArgument("version 'abc' is no number");
    if (!version.empty() && version != "3") return NotFound("model '{}' has no such version", name);
    return model->second;
  }
  StatusOr<std::vector<int64_t>> ReadyVersions(std::string_view) const override {
    return std::vector<int64_t>{3};
  }
  std::vector<ModelStatus> Index() const override {
    std::vector<ModelStatus> index;
    for (const auto& [name, model] : models_) {
      index.push_back({.name = name, .version = 3, .state = ModelState::kReady});
    }
    index.push_back({.name = "loading", .version = 1, .state = ModelState::kLoading});
    return index;
  }
  int runners() const override { return 4; }
  void CountUnserved(UnservedReason reason) override { ++unserved[static_cast<size_t>(reason)]; }

  std::shared_ptr<InferCall> Submit(InferRequest request, Batcher::Done done) override {
    const std::lock_guard lock(mutex_);
    last_deadline = request.deadline;
    auto held = std::make_shared<Held>(std::move(done));
    switch (mode) {
      case Mode::kRun:
        held->Answer(Run(request));
        break;
      case Mode::kRefuse:
        held->Answer(refusal);
        break;
      case Mode::kThrow:
        throw std::runtime_error("secret of the host");
      case Mode::kHold:
        held_.push_back(held);
        break;
      case Mode::kInside:
        inside = true;
        while (!request.cancelled()) std::this_thread::yield();
        held->Answer(Cancelled("the run was stopped"));
        inside = false;
        break;
    }
    return held;
  }

  size_t held() {
    const std::lock_guard lock(mutex_);
    return held_.size();
  }
  // Answers what is held.
  void Release(const StatusOr<InferReply>& reply) {
    std::deque<std::shared_ptr<Held>> held;
    {
      const std::lock_guard lock(mutex_);
      held.swap(held_);
    }
    for (const auto& call : held) call->Answer(reply);
  }

  Mode mode = Mode::kRun;
  Status refusal;
  std::array<std::atomic<int>, kUnservedReasons> unserved{};
  std::atomic<ServerState> state_{ServerState::kServing};
  Clock::TimePoint last_deadline;
  std::atomic<bool> inside{false};  // Submit computes

 private:
  static StatusOr<InferReply> Run(const InferRequest& request) {
    ASSIGN_OR_RETURN(RunResult result,
                     request.model->model->Run(request.inputs, {.outputs = request.outputs}));
    return InferReply{.outputs = std::move(result.outputs)};
  }

  std::map<std::string, ServedModelRef> models_;
  std::mutex mutex_;
  std::deque<std::shared_ptr<Held>> held_;
};

}  // namespace tandem::server
