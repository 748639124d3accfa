"""make.py writes again what lies in tests/data/networks: the same graphs, weights and answers.

usage: zoo_test.py [unittest arguments]; needs Debian's python3-torch and python3-onnx.
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy
import onnx
from onnx import numpy_helper

import make
import zoo
from zoo.seeding import WEIGHT_STEP

SHARE_OF_SCALE = 1e-3  # another processor's statistics may be rounded to the next step


def array(path):
    return numpy_helper.to_array(onnx.TensorProto.FromString(path.read_bytes()))


def files(folder):
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


def take_weights(model):
    """The weights by name; `model` keeps their types and shapes only."""
    weights = {}
    for proto in model.graph.initializer:
        weights[proto.name] = numpy_helper.to_array(proto)
        for field in ("raw_data", "float_data", "int64_data", "int32_data"):
            proto.ClearField(field)
    return weights


class ZooTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.directory.cleanup)
        cls.made = pathlib.Path(cls.directory.name)
        subprocess.run([sys.executable, make.__file__, str(cls.made)], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def test_the_same_files_are_there(self):
        self.assertEqual(sorted(zoo.NAMES), sorted(path.name for path in make.DATA.iterdir()))
        self.assertEqual(files(make.DATA), files(self.made))

    def test_graphs_and_weights_are_the_same(self):
        for name in zoo.NAMES:
            with self.subTest(name):
                models = [onnx.load(str(folder / name / "model.onnx"))
                          for folder in (make.DATA, self.made)]
                committed, made = (take_weights(model) for model in models)
                self.assertEqual(*models)
                for key, weight in committed.items():
                    numpy.testing.assert_allclose(made[key], weight, rtol=0, atol=WEIGHT_STEP)

    def test_inputs_and_answers_are_the_same(self):
        for path in (path for path in files(make.DATA) if path.suffix == ".pb"):
            with self.subTest(str(path)):
                committed, made = array(make.DATA / path), array(self.made / path)
                self.assertEqual((committed.dtype, committed.shape), (made.dtype, made.shape))
                if path.name.startswith("input"):
                    numpy.testing.assert_array_equal(committed, made)
                else:
                    difference = numpy.abs(committed - made).max()
                    self.assertLessEqual(difference, SHARE_OF_SCALE * numpy.abs(committed).max())


if __name__ == "__main__":
    unittest.main()
