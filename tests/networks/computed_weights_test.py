"""A weight that the graph computes costs nothing once the model is loaded: wav2vec 2.0's positional
convolution, 1024 channels in 16 groups under a kernel of 128 places, over 499 frames, exported with
its weight normalization and with the weight written out.

usage: computed_weights_test.py TANDEM [unittest arguments]; needs Debian's python3-torch.
"""
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import unittest
import warnings

import numpy
import onnx
import torch

import make
from zoo.seeding import Seeder
from zoo.wav2vec2 import PositionalConv

TANDEM = sys.argv.pop(1)
WIDTH, KERNEL, GROUPS, FRAMES = 1024, 128, 16, 499
FORMULA = "ReduceL2 Div Mul Conv"
MOST_RATIO = 1.05
TURNS = 9
SHARE_OF_SCALE = 1e-5  # both weights are rounded, one by PyTorch and one by the engine


def tandem(*arguments):
    done = subprocess.run([TANDEM, *arguments], capture_output=True, text=True, check=True)
    return done.stdout


class ComputedWeightsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        warnings.filterwarnings("ignore")
        cls.directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.directory.cleanup)
        cls.root = pathlib.Path(cls.directory.name)
        seeder = Seeder("positional_conv")
        module = seeder.weights(PositionalConv(WIDTH, KERNEL, GROUPS))
        cls.x = seeder.signal(WIDTH, FRAMES)[:1]
        cls.computed = cls.export(module, "computed")
        torch.nn.utils.remove_weight_norm(module.conv)
        cls.folded = cls.export(module, "folded")

    @classmethod
    def export(cls, module, name):
        path = cls.root / f"{name}.onnx"
        torch.onnx.export(
            module, (cls.x,), str(path), opset_version=13, input_names=["x"], output_names=["y"],
            dynamic_axes={"x": {0: "N"}, "y": {0: "N"}}, do_constant_folding=False,
            training=torch.onnx.TrainingMode.PRESERVE)
        return path

    def median_ms(self, path):
        text = tandem("bench", str(path), "--iterations=9", "--warmup=2")
        return float(re.search(r"^median +([0-9.]+) ms$", text, re.MULTILINE).group(1))

    def answer(self, path):
        numpy.save(self.root / "x.npy", self.x.numpy())
        tandem("run", str(path), f"--input=x={self.root}/x.npy", f"--output-dir={self.root}")
        return numpy.load(self.root / "y.npy")

    def test_one_export_computes_its_weight_and_the_other_does_not(self):
        graphs = [onnx.load(str(path)).graph for path in (self.computed, self.folded)]
        self.assertEqual([True, False], [make.has_chain(graph, FORMULA) for graph in graphs])

    def test_the_plans_have_the_same_kernels(self):
        computed, folded = (json.loads(tandem("explain", str(path), "--format=json"))
                            for path in (self.computed, self.folded))
        # A kernel's name has the hash of its weight, and the weights' last bits differ.
        kernels = [[re.sub(r"[0-9a-f]{32}", "", task["kernel"]) for task in report["tasks"]]
                   for report in (computed, folded)]
        self.assertEqual(*kernels)
        folds = len(FORMULA.split()) - 1
        self.assertGreaterEqual(computed["folded_nodes"], folded["folded_nodes"] + folds)

    def test_answers_are_equal(self):
        computed, folded = self.answer(self.computed), self.answer(self.folded)
        difference = numpy.abs(computed - folded).max()
        self.assertLessEqual(difference, SHARE_OF_SCALE * numpy.abs(folded).max())

    def test_a_run_takes_as_long(self):
        turns = [(self.median_ms(self.computed), self.median_ms(self.folded)) for _ in range(TURNS)]
        computed, folded = (statistics.median(times) for times in zip(*turns))
        self.assertLessEqual(computed / folded, MOST_RATIO, f"medians in ms, in turns: {turns}")


if __name__ == "__main__":
    unittest.main()
