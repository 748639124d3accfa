// Tandem beside ONNX Runtime: both run each model on the same inputs in turns, in one process, so
// that what the machine does meanwhile hits both. Prints medians and their ratio, and how far the
// answers are apart.
//
//   bench_engines [--threads=1] [--batch=1] [--iterations=30] MODEL...
#include <onnxruntime_cxx_api.h>

#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "cli/model_inputs.h"
#include "engine/engine.h"

namespace tandem::loadtest {
namespace {

struct Arguments {
  int threads = 1;
  int batch = 1;
  int iterations = 30;
  std::vector<std::string> models;
};

StatusOr<Arguments> ParseArguments(std::span<char* const> given) {
  Arguments arguments;
  const std::pair<std::string_view, int*> flags[] = {{"--threads=", &arguments.threads},
                                                     {"--batch=", &arguments.batch},
                                                     {"--iterations=", &arguments.iterations}};
  for (const std::string_view text : given) {
    const auto flag = std::ranges::find_if(
        flags, [&](const auto& candidate) { return text.starts_with(candidate.first); });
    if (flag == std::end(flags)) {
      arguments.models.emplace_back(text);
      continue;
    }
    const std::string_view number = text.substr(flag->first.size());
    const auto [end, error] =
        std::from_chars(number.data(), number.data() + number.size(), *flag->second);
    if (error != std::errc() || end != number.data() + number.size() || *flag->second < 1) {
      return InvalidArgument("{} is not a number above 0", text);
    }
  }
  if (arguments.models.empty()) return InvalidArgument("no model is given");
  return arguments;
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

StatusOr<std::vector<NamedTensor>> MakeInputs(const Model& model, int batch) {
  ASSIGN_OR_RETURN(const std::vector<NamedShape> shapes,
                   cli::InputShapes(model.info(), {.batch = batch}));
  std::vector<NamedTensor> inputs;
  for (const auto& [name, shape] : shapes) {
    ASSIGN_OR_RETURN(Tensor tensor, cli::MadeUp(DType::kFloat, shape));
    inputs.push_back({name, std::move(tensor)});
  }
  RETURN_IF_ERROR(model.Validate(inputs));
  return inputs;
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

class Stopwatch {
 public:
  template <typename Body>
  void Time(const Body& body) {
    const auto start = std::chrono::steady_clock::now();
    body();
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    times_.push_back(time.count());
  }
  double median() {
    std::ranges::sort(times_);
    return times_[times_.size() / 2];
  }

 private:
  std::vector<double> times_;
};

Status Compare(const Engine& engine, Ort::Env& env, const std::string& path,
               const Arguments& arguments) {
  ASSIGN_OR_RETURN(const auto model, cli::Load(engine, path));
  Peer peer(env, path, arguments.threads);
  ASSIGN_OR_RETURN(const std::vector<NamedTensor> inputs, MakeInputs(*model, arguments.batch));
  StatusOr<RunResult> ours = model->Run(inputs);
  RETURN_IF_ERROR(ours.status());
  const std::vector<float> theirs = peer.Run(inputs);
  Stopwatch tandem;
  Stopwatch runtime;
  for (int i = 0; i < arguments.iterations; ++i) {
    tandem.Time([&] { ours = model->Run(inputs); });
    runtime.Time([&] { peer.Run(inputs); });
  }
  const std::string name = std::filesystem::path(path).stem();
  fmt::print("{:24} {:10.3f} {:10.3f} {:8.2f} {:10.1e}\n", name, tandem.median(), runtime.median(),
             tandem.median() / runtime.median(),
             Difference(ours->outputs[0].tensor.span<float>(), theirs));
  std::fflush(stdout);
  return absl::OkStatus();
}

Status Run(std::span<char* const> given) {
  ASSIGN_OR_RETURN(const Arguments arguments, ParseArguments(given));
  EngineOptions options;
  options.threads = arguments.threads;
  const Engine engine(options);
  Ort::Env env(ORT_LOGGING_LEVEL_ERROR, "bench_engines");
  fmt::print("{} threads, batch {}, medians of {} runs in ms; ratio below 1: Tandem is faster\n",
             arguments.threads, arguments.batch, arguments.iterations);
  fmt::print("{:24} {:>10} {:>10} {:>8} {:>10}\n", "model", "Tandem", "ONNX R.", "ratio", "apart");
  for (const std::string& path : arguments.models) {
    const Status compared = Compare(engine, env, path, arguments);
    if (!compared.ok()) fmt::print("{:24} {}\n", path, Message(compared));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace tandem::loadtest

int main(int argc, char** argv) {
  try {
    const tandem::Status status = tandem::loadtest::Run({argv + 1, argv + argc});
    if (status.ok()) return 0;
    fmt::print(stderr, "bench_engines: {}\n", tandem::Message(status));
  } catch (const std::exception& e) {
    fmt::print(stderr, "bench_engines: {}\n", e.what());
  }
  return 1;
}
