// `tandem bench`: how long a model takes, as a whole and task by task.
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "cli/commands.h"
#include "cli/model_inputs.h"

namespace tandem::cli {
namespace {

using Nanoseconds = std::chrono::nanoseconds;

double Milliseconds(Nanoseconds time) { return static_cast<double>(time.count()) * 1e-6; }

Nanoseconds Now() { return std::chrono::steady_clock::now().time_since_epoch(); }

struct Measurement {
  std::vector<Nanoseconds> times;  // of whole runs, ascending
  Nanoseconds total{0};
  std::vector<TaskTime> tasks;  // summed over all runs

  // The time that a share of the runs did not pass.
  Nanoseconds Quantile(double share) const {
    const auto rank = static_cast<size_t>(share * static_cast<double>(times.size()));
    return times[std::min(rank, times.size() - 1)];
  }
};

void AddTimes(const std::vector<TaskTime>& run, std::vector<TaskTime>& sum) {
  if (sum.empty()) {
    sum = run;
    return;
  }
  for (size_t task = 0; task < run.size(); ++task) {
    sum[task].time += run[task].time;
    std::set<int> threads(sum[task].threads.begin(), sum[task].threads.end());
    threads.insert(run[task].threads.begin(), run[task].threads.end());
    sum[task].threads.assign(threads.begin(), threads.end());
  }
}

StatusOr<Measurement> Measure(const Model& model, const std::vector<NamedTensor>& inputs,
                              const BenchConfig& config) {
  RunOptions options;
  options.profile = config.profile;
  for (int i = 0; i < config.warmup; ++i) {
    RETURN_IF_ERROR(model.Run(inputs, options).status());
  }
  Measurement measured;
  for (int i = 0; i < config.iterations; ++i) {
    const Nanoseconds start = Now();
    ASSIGN_OR_RETURN(const RunResult result, model.Run(inputs, options));
    measured.times.push_back(Now() - start);
    measured.total += measured.times.back();
    AddTimes(result.profile, measured.tasks);
  }
  std::ranges::sort(measured.times);
  return measured;
}

// The longest first, with the threads that ran it, numbered within a run. All threads' times are
// added, so the sum passes the run's where several ran.
std::string ProfileText(const Measurement& measured) {
  std::vector<TaskTime> tasks = measured.tasks;
  std::ranges::stable_sort(tasks, std::greater<>(), &TaskTime::time);
  Nanoseconds sum{0};
  for (const TaskTime& task : tasks) sum += task.time;
  const auto runs = static_cast<double>(measured.times.size());
  std::string text = fmt::format("\n{:>10}  {:>6}  {:>7}  task\n", "mean ms", "share", "threads");
  const auto line = [&](Nanoseconds time, const std::string& threads, std::string_view name) {
    text += fmt::format("{:10.4f}  {:5.1f}%  {:>7}  {}\n", Milliseconds(time) / runs,
                        100 * Milliseconds(time) / Milliseconds(measured.total), threads, name);
  };
  for (const TaskTime& task : tasks) {
    if (task.time.count() == 0) continue;
    line(task.time, fmt::format("{}", fmt::join(task.threads, ",")),
         fmt::format("{}: {}", task.task, task.kernel));
  }
  line(sum, "", "all tasks");
  line(measured.total, "", "the run");
  return text;
}

std::string InputsText(const std::vector<NamedTensor>& inputs) {
  std::string text;
  for (const auto& [name, tensor] : inputs) {
    text += fmt::format("{}'{}' {}{}", text.empty() ? "" : ", ", name, DTypeName(tensor.dtype()),
                        ToString(tensor.shape()));
  }
  return text;
}

}  // namespace

StatusOr<std::string> Execute(const BenchConfig& config) {
  const Engine engine(config.model.engine);
  const Nanoseconds start = Now();
  ASSIGN_OR_RETURN(const auto model, Load(engine, config.model.path));
  const Nanoseconds loading = Now() - start;
  ASSIGN_OR_RETURN(const std::vector<NamedTensor> inputs,
                   MakeInputs(model->info(), config.inputs, config.shapes));
  RETURN_IF_ERROR(model->Validate(inputs));
  ASSIGN_OR_RETURN(const Measurement measured, Measure(*model, inputs, config));
  std::string text = fmt::format("model       {}\n", config.model.path);
  text += fmt::format("threads     {} ({})\n", engine.threads(), IsaName(engine.isa()));
  text += fmt::format("precision   {}\n", PrecisionName(config.model.engine.precision));
  text += fmt::format("inputs      {}\n", InputsText(inputs));
  text += fmt::format("loading     {:.1f} ms\n", Milliseconds(loading));
  text += fmt::format("runs        {} after {} to warm up\n", config.iterations, config.warmup);
  text += fmt::format("min         {:.4f} ms\n", Milliseconds(measured.times.front()));
  text += fmt::format("median      {:.4f} ms\n", Milliseconds(measured.Quantile(0.5)));
  text += fmt::format("p90         {:.4f} ms\n", Milliseconds(measured.Quantile(0.9)));
  if (config.profile) text += ProfileText(measured);
  return text;
}

}  // namespace tandem::cli
