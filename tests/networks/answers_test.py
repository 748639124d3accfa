"""Whole networks: `tandem run` and the daemon give the answers of the framework that made them, with
the same bits at any number of threads and in any batch.

usage: answers_test.py TANDEM FOLDER LEAST [unittest arguments]
FOLDER holds NAME.onnx, NAME.in.npy (a batch of 2) and NAME.out.npy for each of at least LEAST networks.
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

import grpc
import numpy

import grpc_service_pb2 as pb
import grpc_service_pb2_grpc
from model_repository import add_model
from tandem_process import TandemProcess

TANDEM = sys.argv.pop(1)
FOLDER = pathlib.Path(sys.argv.pop(1))
LEAST = int(sys.argv.pop(1))
NETWORKS = sorted(path.stem for path in FOLDER.glob("*.onnx"))
# Largest difference by precision. Weights are random, which makes more of what a product loses than
# training leaves: plain products come to 2.3e-5, sums of bfloat16 parts to 2.7e-4, both in resnet50.
SHARE_OF_SCALE = {"f32_plain": 1e-4, "f32_strict": 1e-4, "f32": 5e-4}
DEADLINE_SECONDS = 120


def data(name):
    return numpy.load(FOLDER / f"{name}.in.npy"), numpy.load(FOLDER / f"{name}.out.npy")


class NetworksTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)

    def run_model(self, name, x, threads, precision="f32"):
        numpy.save(self.root / "x.npy", x)
        done = subprocess.run(
            [TANDEM, "run", str(FOLDER / f"{name}.onnx"), f"--input=input={self.root}/x.npy",
             f"--output-dir={self.root}", f"--threads={threads}",
             f"--precision={precision}"],
            capture_output=True, text=True, check=False)
        self.assertEqual(0, done.returncode, done.stderr)
        return numpy.load(self.root / "output.npy")

    def assert_close(self, y, expected, precision="f32"):
        self.assertEqual(y.shape, expected.shape)
        difference = numpy.abs(y - expected).max() / numpy.abs(expected).max()
        self.assertLessEqual(difference, SHARE_OF_SCALE[precision])

    def test_there_are_networks(self):
        self.assertGreaterEqual(len(NETWORKS), LEAST, f"in {FOLDER} are {NETWORKS}")

    def test_answers_are_the_frameworks_at_any_thread_count_and_batch(self):
        for name in NETWORKS:
            with self.subTest(name):
                x, expected = data(name)
                one, two = (self.run_model(name, x, threads) for threads in (1, 2))
                self.assert_close(one, expected)
                numpy.testing.assert_array_equal(one, two)
                for precision in ("f32_plain", "f32_strict"):
                    self.assert_close(self.run_model(name, x, 2, precision), expected, precision)
                for item in range(len(x)):
                    alone = self.run_model(name, x[item : item + 1], 1)
                    numpy.testing.assert_array_equal(alone, one[item : item + 1])

    def test_the_daemon_gives_the_same_bits(self):
        for name in NETWORKS:
            add_model(self.root / "models", name, FOLDER / f"{name}.onnx")
        server = TandemProcess([TANDEM], self.root / "models", "--threads=2")
        self.addCleanup(server.stop)
        server.await_line("ready", DEADLINE_SECONDS)
        options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        with grpc.insecure_channel(server.address(), options) as channel:
            stub = grpc_service_pb2_grpc.GRPCInferenceServiceStub(channel)
            for name in NETWORKS:
                with self.subTest(name):
                    x, expected = data(name)
                    request = pb.ModelInferRequest(model_name=name)
                    request.inputs.add(name="input", datatype="FP32", shape=x.shape)
                    request.raw_input_contents.append(x.tobytes())
                    response = stub.ModelInfer(request, timeout=DEADLINE_SECONDS)
                    y = numpy.frombuffer(response.raw_output_contents[0], "<f4")
                    y = y.reshape(response.outputs[0].shape)
                    self.assert_close(y, expected)
                    numpy.testing.assert_array_equal(y, self.run_model(name, x, 1))


if __name__ == "__main__":
    unittest.main()
