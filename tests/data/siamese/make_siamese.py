#!/usr/bin/python3
"""Makes the Siamese test graph: two towers of twelve nodes that share all weights, then a join.

Needs Debian's python3-torch and python3-onnx. Writes, beside this file:
  model.onnx                           inputs `left`, `right` FP32 [N,3,15,17]; outputs `same` [N,2],
                                       `left_code`, `right_code` [N,24]
  test_data_set_0/{input,output}_K.pb  a batch of three random pairs and PyTorch's answers
"""
import collections
import pathlib

import onnx
import torch
from onnx import numpy_helper
from torch import nn

SEED = 7
OPSET = 13
TOWER = ["Conv", "BatchNormalization", "Relu", "Conv", "BatchNormalization", "Add", "Relu", "MaxPool",
         "Conv", "Relu", "Flatten", "Gemm"]
JOIN = ["Sub", "Mul", "Gemm", "Softmax"]
HERE = pathlib.Path(__file__).resolve().parent


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 16, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(16)
        self.conv3 = nn.Conv2d(16, 24, (3, 3), stride=2, padding=1)
        self.pool = nn.MaxPool2d(3)
        self.code = nn.Linear(24 * 3 * 3, 24)

    def forward(self, x):
        x = torch.relu(self.norm1(self.conv1(x)))
        x = torch.relu(self.norm2(self.conv2(x)) + x)
        x = torch.relu(self.conv3(self.pool(x)))
        return self.code(torch.flatten(x, 1))


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.tower = Tower()
        self.join = nn.Linear(24, 2)

    def forward(self, left, right):
        left_code, right_code = self.tower(left), self.tower(right)
        difference = left_code - right_code
        same = torch.softmax(self.join(difference * difference), dim=1)
        return same, left_code, right_code


def make_model():
    torch.manual_seed(SEED)
    model = Siamese()
    # Statistics and scales as training leaves them: different for each channel.
    for norm in (model.tower.norm1, model.tower.norm2):
        for values, low, high in ((norm.running_mean, -0.5, 0.5), (norm.running_var, 0.5, 2.0),
                                  (norm.weight.data, 0.5, 1.5), (norm.bias.data, -0.5, 0.5)):
            values.uniform_(low, high)
    return model.eval()


def check(path):
    """The file has the nodes that its readers count on, and no weight twice."""
    graph = onnx.load(str(path)).graph
    expected = collections.Counter(TOWER * 2 + JOIN)
    found = collections.Counter(node.op_type for node in graph.node)
    assert found == expected, f"expected {expected}, found {found}"
    contents = [numpy_helper.to_array(weight).tobytes() for weight in graph.initializer]
    assert len(contents) == len(set(contents)), "a weight is there twice"
    assert path.stat().st_size < 200_000


def write_tensor(path, tensor, name):
    path.write_bytes(numpy_helper.from_array(tensor.numpy(), name).SerializeToString())


def main():
    torch.set_num_threads(1)
    model = make_model()
    inputs = {"left": torch.randn(3, 3, 15, 17), "right": torch.randn(3, 3, 15, 17)}
    with torch.no_grad():
        outputs = dict(zip(("same", "left_code", "right_code"), model(*inputs.values())))
    path = HERE / "model.onnx"
    torch.onnx.export(
        model, tuple(inputs.values()), str(path), opset_version=OPSET,
        input_names=list(inputs), output_names=list(outputs),
        dynamic_axes={name: {0: "N"} for name in (*inputs, *outputs)},
        training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False)
    check(path)
    data = HERE / "test_data_set_0"
    data.mkdir(exist_ok=True)
    for kind, tensors in (("input", inputs), ("output", outputs)):
        for index, (name, tensor) in enumerate(tensors.items()):
            write_tensor(data / f"{kind}_{index}.pb", tensor, name)


if __name__ == "__main__":
    main()
