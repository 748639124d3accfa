// What threads bring: each model runs in turns on one thread, on several without forks of its
// branches, and on several with them. Batches run as parts in both of the latter. Prints medians
// and what they gain.
//
//   bench_parallel [--threads 2] [--batch 1] [--iterations 30] MODEL...
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <random>

#include "cli/model_inputs.h"
#include "loadtest/measure.h"

namespace tandem::loadtest {
namespace {

// One way of running a model.
struct Way {
  EngineOptions options;
  Stopwatch watch = {};
};

// A model as one of the ways runs it.
struct Loaded {
  Way& way;
  Engine engine;
  std::shared_ptr<const Model> model = nullptr;

  explicit Loaded(Way& of) : way(of), engine(of.options) {}
};

Status Compare(const std::string& path, const Arguments& arguments) {
  Way single{{.threads = 1}};
  Way whole{{.threads = arguments.threads, .towers = false}};
  Way forked{{.threads = arguments.threads}};
  // Where a model lies in memory counts, so each is there twice, and the order of the first is that
  // of the second turned round. Who runs after whom changes from round to round: threads that have
  // just computed are awake.
  std::vector<std::unique_ptr<Loaded>> turns;
  for (Way* way : {&single, &whole, &forked, &forked, &whole, &single}) {
    turns.push_back(std::make_unique<Loaded>(*way));
    ASSIGN_OR_RETURN(turns.back()->model, cli::Load(turns.back()->engine, path));
  }
  ASSIGN_OR_RETURN(const std::vector<NamedTensor> inputs,
                   MakeInputs(*turns[0]->model, arguments.batch));
  std::minstd_rand random(1);
  for (int i = -1; i < arguments.iterations; ++i) {
    std::ranges::shuffle(turns, random);
    for (const auto& turn : turns) {
      Status ran;
      const auto run = [&] { ran = turn->model->Run(inputs).status(); };
      i < 0 ? run() : turn->way.watch.Time(run);  // the first warms up
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

int main(int argc, char** argv) try {
  CLI::App app("What threads and forks bring to models");
  tandem::loadtest::Arguments arguments;
  tandem::loadtest::AddOptions(app, arguments);
  CLI11_PARSE(app, argc, argv);
  return tandem::loadtest::Run(arguments) == 0 ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "bench_parallel: %s\n", e.what());
  return 1;
}
