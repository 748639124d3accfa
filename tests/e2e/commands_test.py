"""The subcommands that need no server, as a shell sees them: exit codes, output, files of other tools."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import numpy
import onnx
import onnx.numpy_helper

BINARY = os.environ["TANDEM_BINARY"]
MODEL = pathlib.Path(os.environ["TANDEM_E2E_MODELS"]) / "good/pair/1/model.onnx"
A = numpy.array([[1, 2, 3, 4], [0, 0, 0, 1]], numpy.float32)
B = numpy.array([[5, 6], [7, 8]], numpy.int64)
PRODUCT = [[4321, 4331], [1000, 1001]]


class CommandsTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)

    def tandem(self, *arguments, code=0):
        """Standard output of the binary, which must end with `code`; of an error, standard error."""
        done = subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, check=False)
        self.assertEqual(code, done.returncode, done.stderr)
        self.assertEqual("", done.stderr if code == 0 else done.stdout)
        return done.stdout if code == 0 else done.stderr

    def test_explain_is_text_or_json(self):
        self.assertIn("requests join along axis 0", self.tandem("explain", MODEL))
        plan = json.loads(self.tandem("explain", MODEL, "--format=json", "--batch=3"))
        task = next(task for task in plan["tasks"] if "MatMul" in task["name"])
        self.assertEqual([3, 2], plan["values"][task["outputs"][0]]["shape"])
        self.assertEqual([False, True], task["packed"])
        self.assertEqual(plan["pack_bytes"], sum(pack["bytes"] for pack in plan["packs"]))
        self.assertTrue(plan["joinable"])

    def test_bench_measures(self):
        text = self.tandem("bench", MODEL, "--iterations=3", "--threads=1", "--cpu=baseline", "--profile")
        for part in ("1 (baseline)", "median", "p90", "'a' float[1,4]", "all tasks"):
            self.assertIn(part, text)

    def run_pair(self, model):
        numpy.save(self.root / "a.npy", A)
        tensor = onnx.numpy_helper.from_array(B, "b")
        (self.root / "b.pb").write_bytes(tensor.SerializeToString())
        self.tandem("run", model, f"--input=a={self.root}/a.npy", f"--input=b={self.root}/b.pb",
                    f"--output-dir={self.root}")
        return numpy.load(self.root / "product.npy"), numpy.load(self.root / "copy.npy")

    def test_run_reads_and_writes_what_numpy_and_onnx_do(self):
        product, copy = self.run_pair(MODEL)
        numpy.testing.assert_array_equal(product, PRODUCT)
        numpy.testing.assert_array_equal(copy, B)

    def test_export_writes_a_model_that_onnx_accepts(self):
        out = self.root / "out.onnx"
        self.tandem("export", MODEL, out)
        onnx.checker.check_model(str(out), full_check=True)
        product, copy = self.run_pair(out)
        numpy.testing.assert_array_equal(product, PRODUCT)
        numpy.testing.assert_array_equal(copy, B)

    def test_a_refused_model_or_file_ends_with_1(self):
        self.assertIn("no input file.npy", self.tandem(
            "run", MODEL, "--input=a=no input file.npy", "--input=b=b.npy", code=1))
        self.assertIn("no --input NAME=FILE for 'a' (float[N,4]), 'b' (int64[N,2])",
                      self.tandem("run", MODEL, code=1))
        self.assertIn("absent.onnx", self.tandem("explain", "absent.onnx", code=1))
        self.assertIn("not a serialized ModelProto", self.tandem("bench", __file__, code=1))

    def test_a_command_line_that_cannot_be_used_ends_with_2(self):
        self.assertIn("tandem explain: MODEL is required", self.tandem("explain", code=2))
        self.assertIn("--nonsense", self.tandem("bench", MODEL, "--nonsense", code=2))
        self.assertIn("explain, bench, run and export", self.tandem("explode", code=2))

    def test_help_names_every_command(self):
        text = self.tandem("--help")
        for command in ("serve", "health", "explain", "bench", "run", "export"):
            self.assertIn(f"\n  {command} ", text)
            if command != "serve":
                self.assertIn(f"tandem {command}", self.tandem(command, "--help"))


if __name__ == "__main__":
    unittest.main()
