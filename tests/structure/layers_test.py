"""Checks the include directions of the design: which folder may include which, and which folder alone
may include a third-party library. docs/architecture.md explains the table.

usage: layers_test.py SOURCE_ROOT [unittest arguments]
"""
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 else pathlib.Path(".")

# Folder -> what it may include besides itself. Order is the order of layers, lowest first.
BASE = {"engine/base"}
TENSOR = BASE | {"engine/tensor"}
OPS = TENSOR | {"engine/graph", "engine/kernels"}
MIDDLE = OPS - {"engine/kernels"} | {"engine/ops"}
PLAN = OPS | {"engine/ops", "engine/onnx", "engine/optimizer"}
RUNTIME = PLAN | {"engine/plan"}
PUBLIC = TENSOR | {"engine/engine.h", "engine/graph/dim.h", "engine/report.h", "engine/work.h"}
LEAVES = {"server/config", "server/metrics"}
MODELS = PUBLIC | LEAVES
BATCHING = MODELS | {"server/models"}
TRANSPORT = BATCHING | {"server/batching", "proto"}
# Benchmarks are users of the engine. They make a model's inputs as `tandem bench` does, so that both
# measure the same thing.
LOADTEST = {"proto", "engine/engine.h", "loadtest", "cli/model_inputs.h"}
# But for those of whole models they measure families of kernels, which no public header shows
# (docs/adr/0018).
KERNEL_BENCHMARK = re.compile(r"loadtest/(?!(bench_engines|bench_parallel|measure)\.)\w+\.(h|cc)$")
ALLOWED = {
    "engine/base": set(),
    "engine/tensor": BASE,
    "engine/graph": TENSOR,
    "engine/kernels": BASE | {"engine/tensor/dtype.h", "engine/tensor/shape.h"},
    "engine/ops": OPS,
    "engine/onnx": MIDDLE,
    "engine/report.h": TENSOR,
    "engine/work.h": {"engine/report.h"},
    "engine/optimizer": MIDDLE | {"engine/report.h"},
    "engine/plan": PLAN | {"engine/report.h", "engine/work.h"},
    "engine/runtime": RUNTIME | {"engine/engine.h"},
    "engine/engine.h": TENSOR | {"engine/graph/dim.h", "engine/report.h"},
    "engine/engine.cc": RUNTIME | {"engine/runtime", "engine/engine.h", "engine/model.h"},
    "engine/model.cc": RUNTIME | {"engine/runtime", "engine/engine.h", "engine/model.h"},
    "engine/model.h": RUNTIME | {"engine/runtime", "engine/engine.h"},
    "cli": PUBLIC | {"engine/onnx/tensor_proto.h", "server/config/flags.h"},
    "server/config": BASE,
    "server/metrics": BASE,
    "server/models": MODELS,
    "server/batching": BATCHING,
    "server/transport": TRANSPORT,
    "loadtest": LOADTEST,
    "kernel benchmarks": LOADTEST | {"engine/base", "engine/kernels"},
}
# What stands beside server/main.cc belongs to the daemon itself.
DAEMON = [f"server/{name}" for name in
          ("logging.h", "logging.cc", "stop_signals.h", "stop_signals.cc", "main.cc")]
ALLOWED |= {path: TRANSPORT | {"server/transport", *DAEMON} for path in DAEMON}
ALLOWED["server/main.cc"] |= {"cli/cli.h"}

# Headers of a library -> the only folders or files that may include them.
SINGLE_INCLUDERS = {
    r"onnx/": {"engine/onnx"},
    r"(grpc|grpcpp|google/protobuf)/|.*\.pb\.h$": {"server/transport", "engine/onnx"},
    r"(grpc|grpcpp)/": {"server/transport"},
    r"prometheus/": {"server/metrics"},
    r"(tbb|oneapi)/": {"engine/runtime/parallel_tbb.cc"},
    r"hwy/": {"engine/kernels"},
    r"xxhash\.h$": {"engine/base/hash.cc"},
    r"boost/": {"server/transport"},
    r"CLI/": {"server/config", "cli", "loadtest"},
    r"benchmark/|onnxruntime": {"loadtest"},
    r"spdlog/": {"server"},
}

# What the engine never does, whatever it includes.
ENGINE_NEVER = {
    r"\bgetenv\s*\(": "reads an environment variable",
    r"#include <sys/socket\.h>": "opens sockets",
    r"\bstd::(cout|cerr|clog)\b": "prints",
}
# A failed CHECK says why on standard error before it aborts.
ENGINE_MAY = {"engine/base/check.cc"}

OWN = re.compile(r"^(engine|cli|server|proto|loadtest|tests|deploy)/")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def within(path, folders):
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


def layer_of(path):
    """The key of ALLOWED that `path` stands under, or None."""
    if path in ALLOWED:
        return path
    if KERNEL_BENCHMARK.match(path):
        return "kernel benchmarks"
    return next((key for key in ALLOWED if path.startswith(key + "/")), None)


def faults_of(path, text):
    """What `text`, the source at `path`, does against the table, as sentences."""
    faults = []
    layer = layer_of(path)
    if layer is None:
        return [f"{path}: stands in no layer of the table"]
    for _, header in INCLUDE.findall(text):
        if OWN.match(header):
            own_layer = header == layer or header.startswith(layer + "/")
            if not own_layer and not within(header, ALLOWED[layer]):
                faults.append(f"{path}: {layer} must not include {header}")
            continue
        for pattern, includers in SINGLE_INCLUDERS.items():
            if re.match(pattern, header) and not within(path, includers):
                faults.append(f"{path}: only {', '.join(sorted(includers))} may include {header}")
    if path.startswith("engine/") and path not in ENGINE_MAY:
        faults += [f"{path}: the engine never {what}" for pattern, what in ENGINE_NEVER.items()
                   if re.search(pattern, text)]
    return faults


def sources(root):
    for folder in ("engine", "cli", "server", "loadtest"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".h", ".cc"):
                yield path.relative_to(root).as_posix(), path.read_text()


class TableTest(unittest.TestCase):
    def test_every_source_keeps_to_the_table(self):
        files = list(sources(ROOT))
        self.assertGreater(len(files), 50, f"too few sources below {ROOT}")
        faults = [fault for path, text in files for fault in faults_of(path, text)]
        self.assertEqual([], faults, "\n" + "\n".join(faults))


class CheckerTest(unittest.TestCase):
    """The check itself finds each kind of fault."""

    def assert_fault(self, path, text):
        self.assertEqual(1, len(faults_of(path, text)), faults_of(path, text))

    def assert_clean(self, path, text):
        self.assertEqual([], faults_of(path, text))

    def test_kernels_see_no_tensor_and_no_graph(self):
        self.assert_fault("engine/kernels/gemm/a.cc", '#include "engine/tensor/tensor.h"')
        self.assert_fault("engine/kernels/a.h", '#include "engine/graph/graph.h"')
        self.assert_clean("engine/kernels/a.h", '#include "engine/tensor/dtype.h"')

    def test_the_optimizer_knows_no_kernel_and_no_importer(self):
        self.assert_fault("engine/optimizer/a.cc", '#include "engine/kernels/epilogue.h"')
        self.assert_fault("engine/optimizer/a.cc", '#include "engine/onnx/import.h"')

    def test_lower_layers_include_no_higher_ones(self):
        self.assert_fault("engine/base/a.h", '#include "engine/tensor/shape.h"')
        self.assert_fault("engine/ops/a.cc", '#include "engine/plan/plan.h"')
        self.assert_fault("server/models/a.cc", '#include "server/batching/batcher.h"')

    def test_the_server_uses_the_engine_through_its_public_header(self):
        self.assert_clean("server/models/a.cc", '#include "engine/engine.h"')
        self.assert_fault("server/models/a.cc", '#include "engine/plan/plan.h"')

    def test_commands_use_the_engine_and_not_the_server(self):
        self.assert_clean("cli/a.cc", '#include "engine/engine.h"')
        self.assert_fault("cli/a.cc", '#include "engine/plan/plan.h"')
        self.assert_fault("cli/a.cc", '#include "server/models/repository.h"')
        self.assert_fault("server/models/a.cc", '#include "cli/cli.h"')
        self.assert_clean("server/main.cc", '#include "cli/cli.h"')

    def test_only_benchmarks_of_kernels_see_kernels(self):
        kernel = '#include "engine/kernels/conv/conv.h"'
        for path in ("loadtest/bench_conv.cc", "loadtest/bench_gemm.cc", "loadtest/kernel_bench.h"):
            self.assert_clean(path, kernel)
            self.assert_fault(path, '#include "engine/plan/plan.h"')
        for path in ("loadtest/bench_engines.cc", "loadtest/bench_parallel.cc", "loadtest/measure.h"):
            self.assert_fault(path, kernel)
            self.assert_clean(path, '#include "engine/engine.h"\n#include "cli/model_inputs.h"')
        self.assert_fault("loadtest/measure.cc", '#include "cli/json.h"')
        self.assert_fault("cli/a.cc", '#include "loadtest/measure.h"')
        self.assert_fault("engine/kernels/a.cc", "#include <benchmark/benchmark.h>")

    def test_leaves_include_no_other_server_folder(self):
        self.assert_fault("server/metrics/a.cc", '#include "server/config/config.h"')

    def test_libraries_stop_at_their_folder(self):
        self.assert_fault("engine/plan/a.cc", "#include <onnx/onnx-ml.pb.h>".replace(".pb", ""))
        self.assert_fault("server/batching/a.cc", "#include <prometheus/counter.h>")
        self.assert_fault("engine/runtime/session.cc", "#include <tbb/task_arena.h>")
        self.assert_clean("engine/runtime/parallel_tbb.cc", "#include <tbb/task_arena.h>")
        self.assert_fault("engine/ops/a.cc", '#include "hwy/highway.h"')
        self.assertNotEqual([], faults_of("server/main.cc", "#include <grpcpp/grpcpp.h>"))

    def test_the_engine_reads_no_environment(self):
        self.assert_fault("engine/base/a.cc", 'auto* home = std::getenv("HOME");')

    def test_a_folder_outside_the_table_is_a_fault(self):
        self.assert_fault("engine/helpers/a.cc", "")


if __name__ == "__main__":
    unittest.main()
