"""The demo model's client: reads the committed digits and asks a server what they are.

Needs the stubs that the target tandem_python_stubs generates, on PYTHONPATH, and numpy.
"""
import pathlib

import grpc
import grpc_service_pb2 as pb
import grpc_service_pb2_grpc as pb_grpc
import numpy as np

FOLDER = pathlib.Path(__file__).resolve().parent
DIGITS = FOLDER / "digits.csv"
REPOSITORY = FOLDER / "repository"
MODEL = "digits"


def load(path=DIGITS):
    """(images FP32 [N,1,8,8] with ink from 0 to 16, labels [N])."""
    rows = np.loadtxt(path, delimiter=",", dtype=np.float32, comments="#")
    return rows[:, 1:].reshape(-1, 1, 8, 8), rows[:, 0].astype(int)


def draw(image):
    """The digit as text, two characters a pixel."""
    shades = " .:-=+*#%@"
    levels = (image.reshape(8, 8) / 16 * (len(shades) - 1)).round().astype(int)
    return "\n".join("".join(shades[level] * 2 for level in row) for row in levels)


def connect(address):
    return pb_grpc.GRPCInferenceServiceStub(grpc.insecure_channel(address))


def infer(stub, images, output="probabilities", timeout=30):
    """One request with `images` as its batch; returns the output as FP32 [N,10]."""
    request = pb.ModelInferRequest(model_name=MODEL)
    tensor = request.inputs.add(name="image", datatype="FP32")
    tensor.shape.extend(images.shape)
    request.outputs.add(name=output)
    request.raw_input_contents.append(np.ascontiguousarray(images, "<f4").tobytes())
    reply = stub.ModelInfer(request, timeout=timeout)
    assert [found.name for found in reply.outputs] == [output], reply.outputs
    return np.frombuffer(reply.raw_output_contents[0], "<f4").reshape(tuple(reply.outputs[0].shape))
