"""A repository of models with equal weights holds them once: what the second one adds to the daemon is
less than a twentieth of its weights, whatever their names, order and form in the file.
"""

import pathlib
import re
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

WIDE, NARROW, ROWS = 2048, 1536, 3
WEIGHT_BYTES = 4 * (2 * WIDE * NARROW + 256 * 256 * 9)
MOST_BYTES = WEIGHT_BYTES // 20
PORTS = [("x", TensorProto.FLOAT, ["N", WIDE]), ("image", TensorProto.FLOAT, ["N", 256, 5, 5])]
RESULTS = [("y", TensorProto.FLOAT, ["N", WIDE]), ("features", TensorProto.FLOAT, ["N", 256, 3, 3])]


def weights():
    """Of y = Relu(x up) down and of the filters of the image."""
    random = np.random.default_rng(5)
    shapes = {"up": (WIDE, NARROW), "down": (NARROW, WIDE), "filters": (256, 256, 3, 3)}
    return {name: random.uniform(-0.02, 0.02, shape).astype(np.float32)
            for name, shape in shapes.items()}


def product_nodes(up, down, filters):
    return [
        helper.make_node("MatMul", ["x", up], ["h"]),
        helper.make_node("Relu", ["h"], ["a"]),
        helper.make_node("MatMul", ["a", down], ["y"]),
        helper.make_node("Conv", ["image", filters], ["features"]),
    ]


def write_plain(path):
    constants = [numpy_helper.from_array(array, name) for name, array in weights().items()]
    write(path, product_nodes("up", "down", "filters"), PORTS, RESULTS, constants)


def write_disguised(path):
    """The same weights: under other names, in another order, one transposed, one behind an Identity."""
    arrays = weights()
    constants = [
        numpy_helper.from_array(arrays["filters"], "kernel"),
        numpy_helper.from_array(arrays["down"], "second"),
        numpy_helper.from_array(np.ascontiguousarray(arrays["up"].T), "first"),
    ]
    nodes = [
        helper.make_node("Identity", ["kernel"], ["same"]),
        helper.make_node("Transpose", ["first"], ["turned"], perm=[1, 0]),
    ]
    write(path, nodes + product_nodes("turned", "second", "same"), PORTS, RESULTS, constants)


def write_other(path):
    """Weights that differ in all elements."""
    constants = [numpy_helper.from_array(-array, name) for name, array in weights().items()]
    write(path, product_nodes("up", "down", "filters"), PORTS, RESULTS, constants)


def held_bytes(server):
    """Constants and packs, as the daemon accounts for them."""
    text = server.get("metrics", "/metrics")
    return sum(int(float(re.search(rf"^tandem_{kind}_bytes (\S+)", text, re.MULTILINE)[1]))
               for kind in ("constant", "pack"))


def resident_bytes(server):
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text(encoding="ascii")
    return 1024 * int(re.search(r"VmRSS:\s+(\d+) kB", status)[1])


def answers(server, model):
    request = pb.ModelInferRequest(model_name=model)
    random = np.random.default_rng(6)
    for name, _, dims in PORTS:
        array = random.standard_normal((ROWS, *dims[1:]), np.float32)
        request.inputs.add(name=name, datatype="FP32", shape=array.shape)
        request.raw_input_contents.append(array.tobytes())
    with grpc.insecure_channel(server.address()) as channel:
        stub = grpc_service_pb2_grpc.GRPCInferenceServiceStub(channel)
        response = stub.ModelInfer(request, timeout=DEADLINE_SECONDS)
    return {output.name: raw for output, raw in zip(response.outputs, response.raw_output_contents)}


class SecondLoadTest(unittest.TestCase):
    def serve(self, **writers):
        """What a daemon that serves these models holds, what it has resident, and their answers."""
        with tempfile.TemporaryDirectory() as directory:
            for name, writer in writers.items():
                writer(pathlib.Path(directory) / name / "1")
            with TandemProcess([BINARY], directory, "--threads=1") as server:
                given = [answers(server, name) for name in writers]
                held, resident = held_bytes(server), resident_bytes(server)
        print(f"{'+'.join(writers)}: {held / 1e6:.1f} MB held, {resident / 1e6:.1f} MB resident")
        return held, resident, given

    def test_models_with_equal_weights_hold_them_once(self):
        held, resident, (alone,) = self.serve(plain=write_plain)
        self.assertGreaterEqual(held, WEIGHT_BYTES)
        for second in (write_plain, write_disguised):
            with self.subTest(second.__name__):
                more_held, more_resident, both = self.serve(plain=write_plain, second=second)
                self.assertLess(more_held - held, MOST_BYTES)
                self.assertLess(more_resident - resident, 2 * MOST_BYTES)
                self.assertEqual([alone, alone], both)

    def test_either_may_be_the_first(self):
        held, _, _ = self.serve(disguised=write_disguised)
        more_held, _, (one, other) = self.serve(disguised=write_disguised, plain=write_plain)
        self.assertLess(more_held - held, MOST_BYTES)
        self.assertEqual(one, other)

    def test_other_weights_are_held_beside_them(self):
        held, _, _ = self.serve(plain=write_plain)
        more_held, _, (one, other) = self.serve(plain=write_plain, other=write_other)
        self.assertGreaterEqual(more_held - held, WEIGHT_BYTES)
        self.assertNotEqual(one, other)

    def test_of_versions_with_equal_weights_one_is_held(self):
        with tempfile.TemporaryDirectory() as directory:
            write_plain(pathlib.Path(directory) / "model" / "1")
            write_disguised(pathlib.Path(directory) / "model" / "2")
            with TandemProcess([BINARY], directory, "--threads=1") as server:
                latest, held = answers(server, "model"), held_bytes(server)
        alone_held, _, (alone,) = self.serve(plain=write_plain)
        self.assertLess(held - alone_held, MOST_BYTES)
        self.assertEqual(alone, latest)


if __name__ == "__main__":
    unittest.main()
