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

// What `executions` of a task did.
struct TaskLine {
  TaskTime time;
  std::string gflops;  // empty where the task computes nothing or its cost is unknown
  std::string gigabytes;

  TaskLine(const TaskTime& measured, const TaskReport& task, int64_t executions) : time(measured) {
    const auto rate = [&](std::optional<double> each, double factor) -> std::string {
      if (!each || *each == 0 || time.time.count() == 0) return "";
      const auto nanoseconds = static_cast<double>(time.time.count());
      return fmt::format("{:.1f}", factor * *each * static_cast<double>(executions) / nanoseconds);
    };
    gflops = rate(task.multiply_adds, 2);
    gigabytes = rate(task.moved_bytes, 1);
  }
};

// The longest first, with the threads that ran it, numbered within a run. All threads' times are
// added, so the sum passes the run's where several ran; rates are per time of a thread that started
// the task.
std::string ProfileText(const Measurement& measured, const PlanReport& report) {
  std::vector<TaskLine> tasks;
  Nanoseconds sum{0};
  const auto executions = static_cast<int64_t>(measured.times.size()) * TimesOf(report);
  for (size_t i = 0; i < measured.tasks.size(); ++i) {
    tasks.emplace_back(measured.tasks[i], report.tasks[i], executions);
    sum += measured.tasks[i].time;
  }
  std::ranges::stable_sort(tasks, std::greater<>(),
                           [](const auto& line) { return line.time.time; });
  const auto runs = static_cast<double>(measured.times.size());
  std::string text = fmt::format("\n{:>10}  {:>6}  {:>7}  {:>7}  {:>6}  task\n", "mean ms", "share",
                                 "threads", "GFLOP/s", "GB/s");
  const auto begin = [&](Nanoseconds time) {
    text += fmt::format("{:10.4f}  {:5.1f}%", Milliseconds(time) / runs,
                        100 * Milliseconds(time) / Milliseconds(measured.total));
  };
  for (const auto& [time, gflops, gigabytes] : tasks) {
    if (time.time.count() == 0) continue;
    begin(time.time);
    text += fmt::format("  {:>7}  {:>7}  {:>6}  {}: {}\n",
                        fmt::format("{}", fmt::join(time.threads, ",")), gflops, gigabytes,
                        time.task, time.kernel);
  }
  for (const auto& [time, name] : {std::pair(sum, "all tasks"), {measured.total, "the run"}}) {
    begin(time);
    text += fmt::format("{:27}{}\n", "", name);
  }
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
  if (config.profile) {
    ASSIGN_OR_RETURN(const PlanReport report, ReportFor(*model, inputs));
    text += ProfileText(measured, report);
  }
  return text;
}

}  // namespace tandem::cli
