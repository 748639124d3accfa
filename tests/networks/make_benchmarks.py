#!/usr/bin/python3
"""Makes networks that only benchmarks need, with seeded random weights and float inputs.

Needs Debian's python3-torch and python3-onnx. usage: make_benchmarks.py FOLDER
  bert_base.onnx  the encoder of BERT-base behind its embeddings: 12 layers of width 768, 12 heads,
                  hidden layers of 3072, for 128 words, with an open batch axis
  mlp.onnx        four layers of width 256, ten nodes: MatMul, Add, Relu, ..., MatMul
  lstm_step.onnx  one step of speech detection on a stream: an LSTM of width 128 whose state comes
                  and goes with the request, and a sigmoid of one linear layer
"""
import pathlib
import sys

import numpy
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from zoo.bert import Layer


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Layer(768, 12, 3072) for _ in range(12)])

    def forward(self, hidden, mask):
        for layer in self.layers:
            hidden = layer(hidden, mask)
        return hidden


def bert_base(path):
    torch.manual_seed(1)
    inputs = (torch.rand(1, 128, 768), torch.zeros(1, 1, 1, 128))
    names = ("hidden_states", "mask", "last_hidden_state")
    torch.onnx.export(
        Encoder().eval(), inputs, str(path), opset_version=17, input_names=names[:2],
        output_names=names[2:], dynamic_axes={name: {0: "batch"} for name in names})


def save(path, nodes, inputs, outputs, weights):
    def values(shapes):
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
                for name, shape in shapes.items()]

    graph = helper.make_graph(
        nodes, path.stem, values(inputs), values(outputs),
        [numpy_helper.from_array(array.astype(numpy.float32), name)
         for name, array in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, str(path))


def mlp(path, random, width=256, layers=4):
    nodes, weights, value = [], {}, "x"
    for layer in range(layers):
        weights[f"w{layer}"] = random.standard_normal((width, width)) / width**0.5
        last = layer == layers - 1
        product = "y" if last else f"product{layer}"
        nodes.append(helper.make_node("MatMul", [value, f"w{layer}"], [product]))
        if last:
            break
        weights[f"b{layer}"] = random.standard_normal(width)
        nodes.append(helper.make_node("Add", [product, f"b{layer}"], [f"sum{layer}"]))
        value = f"hidden{layer}"
        nodes.append(helper.make_node("Relu", [f"sum{layer}"], [value]))
    assert len(nodes) == 10
    save(path, nodes, {"x": ["batch", width]}, {"y": ["batch", width]}, weights)


def lstm_step(path, random, width=128):
    weights = {
        "w": random.standard_normal((1, 4 * width, width)) / width**0.5,
        "r": random.standard_normal((1, 4 * width, width)) / width**0.5,
        "b": random.standard_normal((1, 8 * width)) * 0.1,
        "head": random.standard_normal((width, 1)) / width**0.5,
        "offset": random.standard_normal(1),
    }
    state = [1, 1, width]
    nodes = [
        helper.make_node("LSTM", ["x", "w", "r", "b", "", "h", "c"], ["", "h_out", "c_out"],
                         hidden_size=width),
        helper.make_node("Squeeze", ["h_out"], ["last"]),
        helper.make_node("Relu", ["last"], ["rectified"]),
        helper.make_node("MatMul", ["rectified", "head"], ["product"]),
        helper.make_node("Add", ["product", "offset"], ["sum"]),
        helper.make_node("Sigmoid", ["sum"], ["probability"]),
    ]
    save(path, nodes, {"x": state, "h": state, "c": state},
         {"probability": [1], "h_out": state, "c_out": state}, weights)


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    random = numpy.random.default_rng(1)
    bert_base(folder / "bert_base.onnx")
    mlp(folder / "mlp.onnx", random)
    lstm_step(folder / "lstm_step.onnx", random)


if __name__ == "__main__":
    main()
