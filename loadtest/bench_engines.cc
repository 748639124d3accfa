// Tandem beside ONNX Runtime: both run each model on the same inputs in turns, in one process, so
// that what the machine does meanwhile hits both. Prints medians of runs and of loads to the first
// answer, the most memory that a process takes which loads a model and answers once, their ratios,
// Tandem's share of the peak of the cores, and how far the answers are apart.
//
//   bench_engines [--threads 1] [--cpu amx] [--precision f32] [--batch 1] [--iterations 30]
//   MODEL...
#include <onnxruntime_cxx_api.h>
#include <sys/mman.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>

#include "cli/model_inputs.h"
#include "loadtest/measure.h"
#include "loadtest/peak.h"

namespace tandem::loadtest {
namespace {

constexpr int kLoads = 3;
// ONNX Runtime's threads go on spinning for 20 to 50 ms behind a run.
constexpr std::chrono::milliseconds kSpinning{60};

// Lets the other engine's threads go to sleep. This one keeps its CPU awake: where all CPUs of a
// virtual machine sleep, the next run pays for it.
void WaitForOtherThreads() {
  const auto end = std::chrono::steady_clock::now() + kSpinning;
  while (std::chrono::steady_clock::now() < end) {
  }
}

// Takes more memory than a load does and gives it back. A virtual machine's host may back memory
// only when it is touched first, and take it away again seconds after it was freed; then loads
// measure the host, some milliseconds for each MiB.
void BackMemory() {
  constexpr size_t kBytes = size_t{2} << 30;
  constexpr size_t kPage = 4096;
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  (void)madvise(memory, kBytes, MADV_HUGEPAGE);
  auto* bytes = static_cast<volatile char*>(memory);
  for (size_t i = 0; i < kBytes; i += kPage) bytes[i] = 1;
  (void)munmap(memory, kBytes);
}

// ONNX Runtime on one model with float inputs and outputs.
class Peer {
 public:
  Peer(Ort::Env& env, const std::string& path, int threads)
      : session_(env, path.c_str(), Options(threads)) {
    Ort::AllocatorWithDefaultOptions allocator;
    for (size_t i = 0; i < session_.GetOutputCount(); ++i) {
      outputs_.emplace_back(session_.GetOutputNameAllocated(i, allocator).get());
    }
    for (const std::string& output : outputs_) output_names_.push_back(output.c_str());
  }

  // Float inputs with `batch` items where the model leaves the first extent open.
  StatusOr<std::vector<NamedTensor>> MadeUpInputs(int batch) {
    Ort::AllocatorWithDefaultOptions allocator;
    std::vector<NamedTensor> inputs;
    for (size_t i = 0; i < session_.GetInputCount(); ++i) {
      std::vector<int64_t> dims =
          session_.GetInputTypeInfo(i).GetTensorTypeAndShapeInfo().GetShape();
      for (int64_t& extent : dims) {
        if (extent < 0) extent = &extent == dims.data() ? batch : 1;
      }
      ASSIGN_OR_RETURN(Tensor tensor, cli::MadeUp(DType::kFloat, Shape(std::span(dims))));
      inputs.push_back({session_.GetInputNameAllocated(i, allocator).get(), std::move(tensor)});
    }
    return inputs;
  }

  // What every run is to compute; borrowed.
  void SetInputs(const std::vector<NamedTensor>& inputs) {
    const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
    values_.clear();
    names_.clear();
    for (const auto& [name, tensor] : inputs) {
      const std::span<const int64_t> dims = tensor.shape().dims();
      values_.push_back(Ort::Value::CreateTensor<float>(
          memory, tensor.mutable_view().mutable_data<float>(),
          static_cast<size_t>(tensor.elements()), dims.data(), dims.size()));
      names_.push_back(name.c_str());
    }
  }

  std::vector<Ort::Value> Run() {
    return session_.Run(Ort::RunOptions(), names_.data(), values_.data(), values_.size(),
                        output_names_.data(), output_names_.size());
  }

 private:
  static Ort::SessionOptions Options(int threads) {
    Ort::SessionOptions options;
    options.SetIntraOpNumThreads(threads);
    options.SetInterOpNumThreads(1);
    options.SetGraphOptimizationLevel(ORT_ENABLE_ALL);
    return options;
  }

  Ort::Session session_;
  std::vector<std::string> outputs_;
  std::vector<const char*> output_names_;
  std::vector<Ort::Value> values_;
  std::vector<const char*> names_;
};

std::vector<float> Elements(const Ort::Value& value) {
  const float* data = value.GetTensorData<float>();
  return {data, data + value.GetTensorTypeAndShapeInfo().GetElementCount()};
}

double Difference(std::span<const float> ours, std::span<const float> theirs) {
  if (ours.size() != theirs.size()) return INFINITY;
  double scale = 0;
  double difference = 0;
  for (size_t i = 0; i < ours.size(); ++i) {
    scale = std::max(scale, std::abs(double{theirs[i]}));
    difference = std::max(difference, std::abs(double{ours[i]} - theirs[i]));
  }
  return scale > 0 ? difference / scale : difference;
}

// What only Tandem is told.
struct Level {
  std::string cpu = "amx";
  std::string precision = "f32";

  StatusOr<EngineOptions> Options() const {
    EngineOptions options;
    ASSIGN_OR_RETURN(options.isa, ParseIsa(cpu));
    ASSIGN_OR_RETURN(options.precision, ParsePrecision(precision));
    return options;
  }
};

// A figure of /proc/self/status, "VmRSS:" or "VmHWM:", in MiB.
double OwnMemory(std::string_view figure) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(figure)) return std::stod(line.substr(figure.size() + 1)) / 1024;
  }
  return 0;
}

// This program again, which prints its peak of memory (see PrintMemory).
constexpr const char* kTandem = "tandem";
constexpr const char* kRuntime = "onnxruntime";

StatusOr<double> PeakMemory(std::string_view engine, const std::string& path,
                            const Arguments& arguments, const Level& level) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command =
      fmt::format("'{}' --memory-of {} --threads {} --batch {} --cpu {} --precision {} '{}'", self,
                  engine, arguments.threads, arguments.batch, level.cpu, level.precision, path);
  const std::unique_ptr<FILE, int (*)(FILE*)> child(popen(command.c_str(), "r"), pclose);
  double mebibytes = 0;
  if (child == nullptr || std::fscanf(child.get(), "%lf", &mebibytes) != 1) {
    return Internal("no figure came from {}", command);
  }
  return mebibytes;
}

// Loads the model with one engine, answers once, and prints the peak of memory beyond what the
// program had before.
Status PrintMemory(std::string_view engine, const std::string& path, const Arguments& arguments,
                   EngineOptions options) {
  const double before = OwnMemory("VmRSS:");
  if (engine == kTandem) {
    options.threads = arguments.threads;
    const Engine tandem(options);
    ASSIGN_OR_RETURN(const std::shared_ptr<const Model> model, cli::Load(tandem, path));
    ASSIGN_OR_RETURN(const std::vector<NamedTensor> inputs, MakeInputs(*model, arguments.batch));
    RETURN_IF_ERROR(model->Run(inputs).status());
  } else {
    Ort::Env env(ORT_LOGGING_LEVEL_ERROR, "bench_engines");
    Peer peer(env, path, arguments.threads);
    ASSIGN_OR_RETURN(const std::vector<NamedTensor> inputs, peer.MadeUpInputs(arguments.batch));
    peer.SetInputs(inputs);
    peer.Run();
  }
  fmt::print("{}\n", OwnMemory("VmHWM:") - before);
  return absl::OkStatus();
}

// Multiply-adds of a run; those of convolutions as if they were computed directly.
StatusOr<double> ProductsOf(const Model& model, const std::vector<NamedTensor>& inputs) {
  ASSIGN_OR_RETURN(const PlanReport report, cli::ReportFor(model, inputs));
  double products = 0;
  for (const TaskReport& task : report.tasks) products += task.multiply_adds.value_or(0);
  return products * static_cast<double>(cli::TimesOf(report));
}

Status Compare(const Engine& engine, Ort::Env& env, const std::string& path,
               const Arguments& arguments, const Level& level) {
  ASSIGN_OR_RETURN(std::shared_ptr<const Model> model, cli::Load(engine, path));
  std::optional<Peer> peer;
  ASSIGN_OR_RETURN(const std::vector<NamedTensor> inputs, MakeInputs(*model, arguments.batch));
  StatusOr<RunResult> ours;
  std::vector<Ort::Value> theirs;
  Stopwatch tandem_load;
  Stopwatch runtime_load;
  for (int i = 0; i < kLoads; ++i) {
    model.reset();  // what it holds in the engine's stores goes, too
    BackMemory();
    Status loaded;
    tandem_load.Time([&] {
      StatusOr<std::shared_ptr<const Model>> again = cli::Load(engine, path);
      loaded = again.status();
      if (!loaded.ok()) return;
      model = *std::move(again);
      ours = model->Run(inputs);
    });
    RETURN_IF_ERROR(loaded);
    RETURN_IF_ERROR(ours.status());
    peer.reset();
    BackMemory();
    runtime_load.Time([&] {
      peer.emplace(env, path, arguments.threads);
      peer->SetInputs(inputs);
      theirs = peer->Run();
    });
  }
  ASSIGN_OR_RETURN(const double tandem_memory, PeakMemory(kTandem, path, arguments, level));
  ASSIGN_OR_RETURN(const double runtime_memory, PeakMemory(kRuntime, path, arguments, level));
  ASSIGN_OR_RETURN(const double products, ProductsOf(*model, inputs));
  const double peak = PeakGflops(engine.isa()) * arguments.threads;
  const int runs = RunsOfSample([&] { ours = model->Run(inputs); });
  Stopwatch tandem;
  Stopwatch runtime;
  for (int i = 0; i < arguments.iterations; ++i) {
    WaitForOtherThreads();
    tandem.Time([&] { ours = model->Run(inputs); }, runs);
    WaitForOtherThreads();
    runtime.Time([&] { theirs = peer->Run(); }, runs);
  }
  const std::string name = std::filesystem::path(path).stem();
  const double gflops = 2 * products / tandem.median() * 1e-6;
  fmt::print(
      "{:24} {:10.3f} {:10.3f} {:8.2f} {:7.0f}% {:10.1f} {:10.1f} {:8.2f} {:8.1f} {:8.1f} {:8.2f} "
      "{:10.1e}\n",
      name, tandem.median(), runtime.median(), runtime.median() / tandem.median(),
      100 * gflops / peak, tandem_load.median(), runtime_load.median(),
      runtime_load.median() / tandem_load.median(), tandem_memory, runtime_memory,
      runtime_memory / tandem_memory,
      Difference(ours->outputs[0].tensor.span<float>(), Elements(theirs[0])));
  std::fflush(stdout);
  return absl::OkStatus();
}

// The number of models that could not be compared.
int Run(const Arguments& arguments, const Level& level, EngineOptions options) {
  options.threads = arguments.threads;
  const Engine engine(options);
  Ort::Env env(ORT_LOGGING_LEVEL_ERROR, "bench_engines");
  fmt::print(
      "{} threads, batch {}, medians of {} runs and {} loads in ms, peaks of memory in MiB; ratios "
      "above 1: Tandem is better\n",
      arguments.threads, arguments.batch, arguments.iterations, kLoads);
  fmt::print("{:24} {:>10} {:>10} {:>8} {:>8} {:>10} {:>10} {:>8} {:>8} {:>8} {:>8} {:>10}\n",
             "model", "Tandem", "ONNX R.", "ratio", "of peak", "load", "ONNX R.", "ratio", "memory",
             "ONNX R.", "ratio", "apart");
  return MeasureAll(arguments.models, [&](const std::string& path) {
    return Compare(engine, env, path, arguments, level);
  });
}

}  // namespace
}  // namespace tandem::loadtest

int main(int argc, char** argv) try {
  CLI::App app("Tandem beside ONNX Runtime");
  tandem::loadtest::Arguments arguments;
  tandem::loadtest::AddOptions(app, arguments);
  tandem::loadtest::Level level;
  app.add_option("--cpu", level.cpu, "Tandem's highest instruction set")->capture_default_str();
  app.add_option("--precision", level.precision, "Tandem's precision")->capture_default_str();
  std::string memory_of;
  app.add_option("--memory-of", memory_of, "only print what this engine takes, in MiB")
      ->check(CLI::IsMember({tandem::loadtest::kTandem, tandem::loadtest::kRuntime}));
  CLI11_PARSE(app, argc, argv);
  const auto options = level.Options();
  if (!options.ok()) {
    fmt::print(stderr, "bench_engines: {}\n", tandem::Message(options.status()));
    return 1;
  }
  if (memory_of.empty()) return tandem::loadtest::Run(arguments, level, *options) == 0 ? 0 : 1;
  const tandem::Status printed =
      tandem::loadtest::PrintMemory(memory_of, arguments.models.front(), arguments, *options);
  if (!printed.ok()) fmt::print(stderr, "bench_engines: {}\n", tandem::Message(printed));
  return printed.ok() ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "bench_engines: %s\n", e.what());
  return 1;
}
