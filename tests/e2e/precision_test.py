"""A model's own precision, in its config.pbtxt: it decides how that model is computed and no other, and
the daemon shows it. What is wrong in the file keeps that model from being loaded and no other.
"""

import pathlib
import re
import shutil
import tempfile
import unittest

import grpc
import numpy as np
from onnx import TensorProto, helper, numpy_helper

import grpc_service_pb2 as pb
import grpc_service_pb2_grpc
from make_models import write
from support import BINARY, DEADLINE_SECONDS
from tandem_process import TandemProcess

PRECISIONS = ("f32_plain", "f32", "f32_strict", "bf16")
CHANNELS, SIDE = 64, 12
X = np.random.default_rng(1).uniform(-1, 1, (2, CHANNELS, SIDE, SIDE)).astype(np.float32)


def write_model(path):
    """Filters of 3 x 3, which some precisions allow to be filtered minimally."""
    random = np.random.default_rng(2)
    filters = random.uniform(-1, 1, (CHANNELS, CHANNELS, 3, 3)).astype(np.float32)
    write(
        path,
        [helper.make_node("Conv", ["x", "filters"], ["y"], pads=[1, 1, 1, 1])],
        [("x", TensorProto.FLOAT, ["N", *X.shape[1:]])],
        [("y", TensorProto.FLOAT, ["N", *X.shape[1:]])],
        [numpy_helper.from_array(filters, "filters")],
    )


def parameter(precision):
    return f'parameters {{ key: "precision" value: {{ string_value: "{precision}" }} }}\n'


class PrecisionTest(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)

    def add(self, name, config=None):
        """A model of the one file that all share, with this text as its config.pbtxt."""
        if not (self.root / "shared").exists():
            write_model(self.root / "shared" / "1")
        if name != "shared":
            (self.root / name / "1").mkdir(parents=True)
            (self.root / name / "1" / "model.onnx").symlink_to("../../shared/1/model.onnx")
        if config is not None:
            (self.root / name / "config.pbtxt").write_text(config, encoding="utf-8")

    def serve(self, *flags):
        server = TandemProcess([BINARY], self.root, "--threads=2", *flags)
        self.addCleanup(server.__exit__)
        channel = grpc.insecure_channel(server.address())
        self.addCleanup(channel.close)
        return server, grpc_service_pb2_grpc.GRPCInferenceServiceStub(channel)

    def answer(self, stub, model):
        request = pb.ModelInferRequest(model_name=model)
        request.inputs.add(name="x", datatype="FP32", shape=X.shape)
        request.raw_input_contents.append(X.tobytes())
        return stub.ModelInfer(request, timeout=DEADLINE_SECONDS).raw_output_contents[0]

    def shown(self, server, stub, model):
        """The model's precision as ModelConfig and as the log have it, which must agree."""
        request = pb.ModelConfigRequest(name=model)
        config = stub.ModelConfig(request, timeout=DEADLINE_SECONDS).config
        logged = re.search(r" precision=(\S+)", server.await_line(f"model loaded model={model} "))[1]
        self.assertEqual(config.parameters["precision"].string_value, logged)
        return logged

    def test_each_model_is_computed_at_its_own(self):
        self.add("shared")
        alone = {}
        for precision in PRECISIONS:
            server, stub = self.serve(f"--precision={precision}")
            server.await_ready()
            self.assertEqual(self.shown(server, stub, "shared"), precision)
            alone[precision] = self.answer(stub, "shared")
            self.assertEqual(server.stop(), 0)
        # Every CPU with kernels of its own computes these two in different ways.
        self.assertNotEqual(alone["f32_plain"], alone["bf16"])
        for precision in PRECISIONS:
            self.add(f"own_{precision}", parameter(precision))
        for daemons in ("f32", "f32_plain"):
            server, stub = self.serve(f"--precision={daemons}")
            server.await_ready()
            for model, precision in [("shared", daemons)] + [(f"own_{p}", p) for p in PRECISIONS]:
                with self.subTest(model=model, daemons=daemons):
                    self.assertEqual(self.shown(server, stub, model), precision)
                    self.assertEqual(self.answer(stub, model), alone[precision])
            self.assertEqual(server.stop(), 0)

    def test_what_the_daemon_shows_is_a_configuration(self):
        self.add("shared", parameter("f32_strict"))
        server, stub = self.serve()
        server.await_ready()
        request = pb.ModelConfigRequest(name="shared")
        text = str(stub.ModelConfig(request, timeout=DEADLINE_SECONDS).config)
        self.assertEqual(server.stop(), 0)
        self.add("shared", text)
        server, stub = self.serve()
        server.await_ready()
        self.assertEqual(self.shown(server, stub, "shared"), "f32_strict")
        self.assertIn("max_batch_size", server.await_line("settings without effect model=shared"))
        self.assertEqual(server.stop(), 0)

    def test_what_is_wrong_in_the_file_keeps_that_model_from_being_loaded(self):
        expected = "f32_plain, f32, f32_strict or bf16 was expected"
        prefix = "parameter 'precision': string_value "
        wrong = {
            "unknown": (parameter("fp16"), f"{prefix}'fp16' came; {expected}"),
            "empty": (parameter(""), f"{prefix}'' came; {expected}"),
            "number": (
                'parameters { key: "precision" value: { int64_value: 16 } }',
                "line 1, column 51: 'Message type \"inference.ModelParameter\" has no field named "
                "\"int64_value\".'",
            ),
            "twice": (
                parameter("bf16") + parameter("f32"),
                "2 parameters with 1 different keys came; each key was expected once",
            ),
            "unclosed": ("\nparameters {", "line 2, column 13: 'Expected }, got: the end'"),
        }
        self.add("shared")
        for name, (config, _) in wrong.items():
            self.add(name, config)
        server, stub = self.serve()
        server.await_line("not ready")
        index = {m.name: m for m in stub.RepositoryIndex(pb.RepositoryIndexRequest()).models}
        self.assertEqual(index["shared"].state, "READY")
        self.answer(stub, "shared")
        for name, (_, reason) in wrong.items():
            with self.subTest(name):
                text = f"model '{name}' version 1: {name}/config.pbtxt: {reason}"
                self.assertEqual((index[name].state, index[name].reason), ("UNAVAILABLE", text))
                with self.assertRaises(grpc.RpcError) as caught:
                    self.answer(stub, name)
                self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAVAILABLE)
                self.assertEqual(caught.exception.details(), text)
        self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main()
