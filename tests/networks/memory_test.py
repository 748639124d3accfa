"""What the daemon says it holds is what it holds: constants, packs and arenas are the memory that a
loaded network adds to the process, within a tenth.

usage: memory_test.py TANDEM FOLDER [unittest arguments]
FOLDER holds NAME.onnx and NAME.in.npy for each network.
"""
import pathlib
import re
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
NETWORKS = ["resnet50", "vit_b_32"]
SLACK = 0.1
DEADLINE_SECONDS = 120


def resident_bytes(server):
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text(encoding="ascii")
    return 1024 * int(re.search(r"VmRSS:\s+(\d+) kB", status)[1])


def accounted_bytes(server):
    text = server.get("metrics", "/metrics")
    return sum(float(re.search(rf"^tandem_{kind}_bytes (\S+)", text, re.MULTILINE)[1])
               for kind in ("constant", "pack", "arena"))


def serve(name):
    """What a daemon that serves this network alone (or none) has resident, and what it accounts for."""
    with tempfile.TemporaryDirectory() as repository:
        if name:
            add_model(repository, name, FOLDER / f"{name}.onnx")
        with TandemProcess([TANDEM], repository, "--threads=1") as server:
            if name:
                infer(server, name)
            return resident_bytes(server), accounted_bytes(server)


def infer(server, name):
    x = numpy.load(FOLDER / f"{name}.in.npy")[:1]
    request = pb.ModelInferRequest(model_name=name)
    request.inputs.add(name="input", datatype="FP32", shape=x.shape)
    request.raw_input_contents.append(x.tobytes())
    with grpc.insecure_channel(server.address()) as channel:
        stub = grpc_service_pb2_grpc.GRPCInferenceServiceStub(channel)
        stub.ModelInfer(request, timeout=DEADLINE_SECONDS)


class MemoryTest(unittest.TestCase):
    def test_what_is_accounted_is_what_is_resident(self):
        empty, _ = serve(None)
        for name in NETWORKS:
            with self.subTest(name):
                resident, accounted = serve(name)
                added = resident - empty
                print(f"{name}: {added / 1e6:.1f} MB resident, {accounted / 1e6:.1f} MB accounted")
                self.assertLessEqual(added, (1 + SLACK) * accounted)
                self.assertGreaterEqual(added, (1 - SLACK) * accounted)


if __name__ == "__main__":
    unittest.main()
