// A model that computes y = 2 x on the spot and does as the test says: waits at a gate, fails,
// throws.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "server/models/served_model.h"

namespace tandem::server::test {

// Holds runs until the test lets them go.
class Gate {
 public:
  // Waits while the gate is closed.
  void Pass() {
    std::unique_lock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_ || passes_ > 0; });
    if (!open_) --passes_;
  }
  void Close() {
    const std::scoped_lock lock(mutex_);
    open_ = false;
  }
  void Open() {
    const std::scoped_lock lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  // Lets one run through a closed gate.
  void LetOnePass() {
    const std::scoped_lock lock(mutex_);
    ++passes_;
    changed_.notify_all();
  }
  // Returns when `n` runs have come to the gate since it was made.
  void WaitForArrivals(int n) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return arrived_ >= n; });
  }
  int arrived() {
    const std::scoped_lock lock(mutex_);
    return arrived_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
  int passes_ = 0;
  int arrived_ = 0;
};

// Elements of x that make a run fail: alone, and with all that share the run.
inline constexpr float kPoison = 666;
inline constexpr float kThrow = 667;
// Makes a run go on until it is stopped.
inline constexpr float kEndless = 668;

// Takes `x` float [N, ...] or [] and gives `y` of the same shape. Thread-safe.
class FakeModel final : public Model {
 public:
  explicit FakeModel(ModelInfo info = {}) : info_(std::move(info)) {}

  const ModelInfo& info() const override { return info_; }

  Status Validate(std::span<const NamedTensor> inputs) const override {
    if (throw_in_validate) throw std::runtime_error("validation broke");
    for (const NamedTensor& input : inputs) {
      if (input.name != "x" && input.name != "z") {
        return InvalidArgument("input '{}' is unknown; 'x' is expected", input.name);
      }
    }
    return absl::OkStatus();
  }

  StatusOr<RunResult> Run(std::span<const NamedTensor> inputs,
                          const RunOptions& options) const override {
    BatchItem item{{inputs.begin(), inputs.end()}, options.outputs};
    ASSIGN_OR_RETURN(std::vector<RunResult> results, Compute(std::span(&item, 1), options.stopped));
    return std::move(results.front());
  }

  StatusOr<std::vector<RunResult>> RunBatch(std::span<const BatchItem> items,
                                            const std::function<bool()>& stopped) const override {
    return Compute(items, stopped);
  }

  std::string Explain() const override { return "fake"; }
  StatusOr<PlanReport> Report(std::span<const NamedShape>) const override { return PlanReport(); }

  // Shapes of x, by item, of each run so far, those that failed included.
  std::vector<std::vector<Shape>> runs() const {
    const std::scoped_lock lock(mutex_);
    return runs_;
  }
  int stopped_runs() const {
    const std::scoped_lock lock(mutex_);
    return stopped_runs_;
  }
  // Runs under way now.
  int active() const {
    const std::scoped_lock lock(mutex_);
    return active_;
  }
  // Largest number of runs under way at the same time.
  int most_active() const {
    const std::scoped_lock lock(mutex_);
    return most_active_;
  }

  mutable Gate gate;
  bool throw_in_validate = false;

 private:
  StatusOr<std::vector<RunResult>> Compute(std::span<const BatchItem> items,
                                           const std::function<bool()>& stopped) const {
    Enter(items);
    gate.Pass();
    struct Leave {
      const FakeModel& model;
      ~Leave() {
        const std::scoped_lock lock(model.mutex_);
        --model.active_;
      }
    } leave{*this};
    std::vector<RunResult> results;
    for (const BatchItem& item : items) {
      ASSIGN_OR_RETURN(Tensor y, Twice(item.inputs.front().tensor, stopped));
      results.push_back({{{"y", std::move(y)}}});
    }
    return results;
  }

  void Enter(std::span<const BatchItem> items) const {
    const std::scoped_lock lock(mutex_);
    std::vector<Shape>& run = runs_.emplace_back();
    for (const BatchItem& item : items) run.push_back(item.inputs.front().tensor.shape());
    most_active_ = std::max(most_active_, ++active_);
  }

  StatusOr<Tensor> Twice(const Tensor& x, const std::function<bool()>& stopped) const {
    if (stopped && stopped()) return Stopped();
    ASSIGN_OR_RETURN(Tensor y, Tensor::Allocate(DType::kFloat, x.shape()));
    for (int64_t i = 0; i < x.elements(); ++i) {
      const float value = x.data<float>()[i];
      if (value == kPoison) return InvalidArgument("element {} is poison", i);
      if (value == kThrow) throw std::runtime_error("the kernel broke");
      if (value == kEndless) {
        while (!stopped()) std::this_thread::yield();
        return Stopped();
      }
      y.mutable_data<float>()[i] = 2 * value;
    }
    return y;
  }

  Status Stopped() const {
    const std::scoped_lock lock(mutex_);
    ++stopped_runs_;
    return Cancelled("the run was stopped");
  }

  const ModelInfo info_;
  mutable std::mutex mutex_;
  mutable std::vector<std::vector<Shape>> runs_;
  mutable int stopped_runs_ = 0;
  mutable int active_ = 0;
  mutable int most_active_ = 0;
};

// A fake model as the repository would serve it.
struct FakeServed {
  explicit FakeServed(int64_t max_batch_size, ModelInfo info = {}, std::string name = "fake")
      : model(std::make_shared<FakeModel>(std::move(info))),
        served(std::make_shared<ServedModel>()) {
    served->name = std::move(name);
    served->version = 1;
    served->model = model;
    served->max_batch_size = max_batch_size;
    served->metrics = std::make_shared<ModelMetrics>(served->name, 1);
  }
  ModelMetrics& metrics() const { return *served->metrics; }

  std::shared_ptr<FakeModel> model;
  std::shared_ptr<ServedModel> served;
};

}  // namespace tandem::server::test
