// What threads bring: each model runs in turns on one thread, on several without forks of its
// branches, and on several with them. Batches run as parts in both of the latter. Prints medians
// and what they gain.
//
//   bench_parallel [--threads 2] [--batch 1] [--iterations 30] MODEL...
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "cli/model_inputs.h"
#include "loadtest/measure.h"

namespace tandem::loadtest {
namespace {

// One way of running a model, with the times it took.
struct Way {
  Engine engine;
  std::shared_ptr<const Model> model;
  Stopwatch watch;

  explicit Way(const EngineOptions& options) : engine(options) {}
};

Status Compare(const std::string& path, const Arguments& arguments) {
  Way single(EngineOptions{.threads = 1});
  Way whole(EngineOptions{.threads = arguments.threads, .towers = false});
  Way forked(EngineOptions{.threads = arguments.threads});
  for (Way* way : {&single, &whole, &forked}) {
    ASSIGN_OR_RETURN(way->model, cli::Load(way->engine, path));
  }
  ASSIGN_OR_RETURN(const std::vector<NamedTensor> inputs,
                   MakeInputs(*single.model, arguments.batch));
  for (int i = -1; i < arguments.iterations; ++i) {
    for (Way* way : {&single, &whole, &forked}) {
      Status ran;
      const auto run = [&] { ran = way->model->Run(inputs).status(); };
      i < 0 ? run() : way->watch.Time(run);  // the first warms up
      RETURN_IF_ERROR(ran);
    }
  }
  fmt::print("{:24} {:10.3f} {:10.3f} {:10.3f} {:8.2f} {:8.2f}\n",
             std::filesystem::path(path).stem().string(), single.watch.median(),
             whole.watch.median(), forked.watch.median(),
             single.watch.median() / forked.watch.median(),
             whole.watch.median() / forked.watch.median());
  std::fflush(stdout);
  return absl::OkStatus();
}

// The number of models that could not be measured.
int Run(const Arguments& arguments) {
  fmt::print("{} threads, batch {}, medians of {} runs in ms\n", arguments.threads, arguments.batch,
             arguments.iterations);
  fmt::print("{:24} {:>10} {:>10} {:>10} {:>8} {:>8}\n", "model", "1 thread", "no forks", "forks",
             "gain", "of forks");
  return MeasureAll(arguments.models,
                    [&](const std::string& path) { return Compare(path, arguments); });
}

}  // namespace
}  // namespace tandem::loadtest

int main(int argc, char** argv) {
  CLI::App app("What threads and forks bring to models");
  tandem::loadtest::Arguments arguments;
  tandem::loadtest::AddOptions(app, arguments);
  CLI11_PARSE(app, argc, argv);
  return tandem::loadtest::Run(arguments) == 0 ? 0 : 1;
}
