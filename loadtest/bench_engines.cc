// Tandem beside ONNX Runtime: both run each model on the same inputs in turns, in one process, so
// that what the machine does meanwhile hits both. Prints medians of runs and of loads to the first
// answer, their ratios, and how far the answers are apart.
//
//   bench_engines [--threads 1] [--cpu amx] [--precision f32] [--batch 1] [--iterations 30]
//   MODEL...
#include <onnxruntime_cxx_api.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "cli/model_inputs.h"
#include "loadtest/measure.h"

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

// ONNX Runtime on one model with float inputs and outputs.
class Peer {
 public:
  Peer(Ort::Env& env, const std::string& path, int threads)
      : session_(env, path.c_str(), Options(threads)) {
    Ort::AllocatorWithDefaultOptions allocator;
    for (size_t i = 0; i < session_.GetOutputCount(); ++i) {
      outputs_.emplace_back(session_.GetOutputNameAllocated(i, allocator).get());
    }
  }

  // The elements of the first output.
  std::vector<float> Run(const std::vector<NamedTensor>& inputs) {
    const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
    std::vector<Ort::Value> values;
    std::vector<const char*> names;
    for (const auto& [name, tensor] : inputs) {
      const std::span<const int64_t> dims = tensor.shape().dims();
      values.push_back(Ort::Value::CreateTensor<float>(
          memory, tensor.mutable_view().mutable_data<float>(),
          static_cast<size_t>(tensor.elements()), dims.data(), dims.size()));
      names.push_back(name.c_str());
    }
    std::vector<const char*> outputs;
    for (const std::string& output : outputs_) outputs.push_back(output.c_str());
    const std::vector<Ort::Value> results =
        session_.Run(Ort::RunOptions(), names.data(), values.data(), values.size(), outputs.data(),
                     outputs.size());
    const float* data = results[0].GetTensorData<float>();
    return {data, data + results[0].GetTensorTypeAndShapeInfo().GetElementCount()};
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
};

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

Status Compare(const Engine& engine, Ort::Env& env, const std::string& path,
               const Arguments& arguments) {
  ASSIGN_OR_RETURN(std::shared_ptr<const Model> model, cli::Load(engine, path));
  std::optional<Peer> peer;
  ASSIGN_OR_RETURN(const std::vector<NamedTensor> inputs, MakeInputs(*model, arguments.batch));
  StatusOr<RunResult> ours;
  std::vector<float> theirs;
  Stopwatch tandem_load;
  Stopwatch runtime_load;
  for (int i = 0; i < kLoads; ++i) {
    model.reset();  // what it holds in the engine's stores goes, too
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
    runtime_load.Time([&] {
      peer.emplace(env, path, arguments.threads);
      theirs = peer->Run(inputs);
    });
  }
  Stopwatch tandem;
  Stopwatch runtime;
  for (int i = 0; i < arguments.iterations; ++i) {
    WaitForOtherThreads();
    tandem.Time([&] { ours = model->Run(inputs); });
    WaitForOtherThreads();
    runtime.Time([&] { peer->Run(inputs); });
  }
  const std::string name = std::filesystem::path(path).stem();
  fmt::print("{:24} {:10.3f} {:10.3f} {:8.2f} {:10.1f} {:10.1f} {:8.2f} {:10.1e}\n", name,
             tandem.median(), runtime.median(), runtime.median() / tandem.median(),
             tandem_load.median(), runtime_load.median(),
             runtime_load.median() / tandem_load.median(),
             Difference(ours->outputs[0].tensor.span<float>(), theirs));
  std::fflush(stdout);
  return absl::OkStatus();
}

// The number of models that could not be compared.
int Run(const Arguments& arguments, EngineOptions options) {
  options.threads = arguments.threads;
  const Engine engine(options);
  Ort::Env env(ORT_LOGGING_LEVEL_ERROR, "bench_engines");
  fmt::print(
      "{} threads, batch {}, medians of {} runs and {} loads in ms; ratios above 1: Tandem is "
      "faster\n",
      arguments.threads, arguments.batch, arguments.iterations, kLoads);
  fmt::print("{:24} {:>10} {:>10} {:>8} {:>10} {:>10} {:>8} {:>10}\n", "model", "Tandem", "ONNX R.",
             "ratio", "load", "ONNX R.", "ratio", "apart");
  return MeasureAll(arguments.models,
                    [&](const std::string& path) { return Compare(engine, env, path, arguments); });
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
  CLI11_PARSE(app, argc, argv);
  const auto options = level.Options();
  if (!options.ok()) {
    fmt::print(stderr, "bench_engines: {}\n", tandem::Message(options.status()));
    return 1;
  }
  return tandem::loadtest::Run(arguments, *options) == 0 ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "bench_engines: %s\n", e.what());
  return 1;
}
