"""What the Python tests share: the daemon, its stubs, and requests."""

import os
import pathlib
import struct
import unittest

import grpc

import grpc_service_pb2 as pb
import grpc_service_pb2_grpc
import health_pb2
import health_pb2_grpc
from tandem_process import TandemProcess

BINARY = os.environ["TANDEM_BINARY"]
MODELS = pathlib.Path(os.environ["TANDEM_E2E_MODELS"])
DEADLINE_SECONDS = 20


def add_input(request, name, datatype, shape, raw=None):
    tensor = request.inputs.add(name=name, datatype=datatype, shape=shape)
    if raw is not None:
        request.raw_input_contents.append(raw)
    return tensor


def pair_request(rows=1):
    """A request that the model `pair` accepts."""
    request = pb.ModelInferRequest(model_name="pair", id="an id")
    values = [float(i % 5) for i in range(4 * rows)]
    add_input(request, "a", "FP32", [rows, 4], struct.pack(f"<{4 * rows}f", *values))
    add_input(request, "b", "INT64", [rows, 2], struct.pack(f"<{2 * rows}q", *range(2 * rows)))
    return request


def pair_product(rows=1):
    """The bytes of `product` for pair_request(rows)."""
    out = []
    for row in range(rows):
        a = [float((4 * row + i) % 5) for i in range(4)]
        for shift in range(2):
            out.append(sum(v * (10.0**i + shift) for i, v in enumerate(a)))
    return struct.pack(f"<{2 * rows}f", *out)


def await_serving(channel):
    watch = health_pb2_grpc.HealthStub(channel).Watch(
        health_pb2.HealthCheckRequest(), timeout=DEADLINE_SECONDS
    )
    for response in watch:
        if response.status == health_pb2.HealthCheckResponse.SERVING:
            watch.cancel()
            return


class ServedTest(unittest.TestCase):
    """One daemon on the good repository for all tests of a class; it must end with exit code 0."""

    @classmethod
    def setUpClass(cls):
        cls.server = TandemProcess([BINARY], MODELS / "good")
        cls.channel = grpc.insecure_channel(cls.server.address())
        cls.stub = grpc_service_pb2_grpc.GRPCInferenceServiceStub(cls.channel)
        cls.health = health_pb2_grpc.HealthStub(cls.channel)
        await_serving(cls.channel)

    @classmethod
    def tearDownClass(cls):
        cls.channel.close()
        code = cls.server.stop()
        assert code == 0, f"exit code {code}:\n" + "\n".join(cls.server.lines)

    def call(self, rpc, **fields):
        request = getattr(pb, rpc + "Request")(**fields)
        return getattr(self.stub, rpc)(request, timeout=DEADLINE_SECONDS)

    def infer(self, request):
        return self.stub.ModelInfer(request, timeout=DEADLINE_SECONDS)

    def assert_refused(self, code, part, act):
        with self.assertRaises(grpc.RpcError) as caught:
            act()
        self.assertEqual(caught.exception.code(), code, caught.exception.details())
        self.assertIn(part, caught.exception.details())
