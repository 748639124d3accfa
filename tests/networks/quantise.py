#!/usr/bin/python3
"""Quantises exported convolutional networks to 8 bits, in the QDQ form that exporters write.

Needs Debian's python3-torch and python3-onnx. usage: quantise.py FOLDER DEST [NAME...]
Reads NAME.onnx and NAME.in.npy, a batch of inputs, of FOLDER and writes
DEST/NAME_int8.onnx: batch normalisations folded; weights int8 with a scale for each output channel;
activations uint8 with one scale, from their range on the input; biases int32. Every float between
two operators passes QuantizeLinear and DequantizeLinear. NAMEs are resnet50 and mobilenet_v2 unless
given. It fails where an operator is not known, and where the quantised answers, computed by PyTorch
from the numbers that the file means, are not close to those of the floats.
"""
import pathlib
import sys

import numpy
import onnx
import torch
from onnx import helper, numpy_helper

KEEPS_RANGE = ("MaxPool", "Flatten")
ACTIVATIONS = ("Relu", "Clip")
FARTHEST = 0.3  # of the answers' scale: random weights leave answers far apart little room


def attributes(node):
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


class Network:
    """A graph in dataflow order with its constants as arrays."""

    def __init__(self, model):
        self.model = model
        self.constants = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
        self.nodes = []
        alias = {}
        for node in model.graph.node:
            names = [alias.get(name, name) for name in node.input]
            if node.op_type == "Constant":
                self.constants[node.output[0]] = numpy_helper.to_array(attributes(node)["value"])
            elif node.op_type == "Identity" or node.op_type == "Dropout":
                alias[node.output[0]] = names[0]
            else:
                del node.input[:]
                node.input.extend(names)
                self.nodes.append(node)
        self.fold_norms()

    def readers(self, name):
        return [node for node in self.nodes if name in node.input]

    def fold_norms(self):
        """Conv -> BatchNormalization becomes a Conv with a bias."""
        makers = {node.output[0]: node for node in self.nodes}
        kept = []
        for node in self.nodes:
            if node.op_type != "BatchNormalization":
                kept.append(node)
                continue
            conv = makers[node.input[0]]
            assert conv.op_type == "Conv" and len(self.readers(conv.output[0])) == 1
            scale, shift, mean, variance = (self.constants[name].astype(numpy.float64)
                                            for name in node.input[1:])
            factor = scale / numpy.sqrt(variance + attributes(node).get("epsilon", 1e-5))
            weights = self.constants[conv.input[1]].astype(numpy.float64)
            bias = self.constants[conv.input[2]] if len(conv.input) > 2 else 0
            names = [f"{conv.output[0]}.weights", f"{conv.output[0]}.bias"]
            self.constants[names[0]] = (weights * factor.reshape(-1, 1, 1, 1)).astype("float32")
            self.constants[names[1]] = ((bias - mean) * factor + shift).astype("float32")
            inputs = [conv.input[0], *names]
            del conv.input[:]
            conv.input.extend(inputs)
            conv.output[0] = node.output[0]
            makers[node.output[0]] = conv
        self.nodes = kept

    def run(self, x, change=lambda name, value: value, weights=None):
        """All values by name; `change` is applied to each as it is made."""
        constants = {name: torch.from_numpy(numpy.array(value))
                     for name, value in {**self.constants, **(weights or {})}.items()}
        source = self.model.graph.input[0].name
        values = {source: change(source, x)}
        for node in self.nodes:
            inputs = [values[name] if name in values else constants[name] for name in node.input]
            values[node.output[0]] = change(node.output[0], compute(node, inputs))
        return values


def compute(node, inputs):
    given = attributes(node)
    if node.op_type == "Conv":
        pads = given.get("pads", [0] * 4)
        assert pads[:2] == pads[2:]
        bias = inputs[2] if len(inputs) > 2 else None
        return torch.nn.functional.conv2d(inputs[0], inputs[1], bias, given.get("strides", [1, 1]),
                                          pads[:2], given.get("dilations", [1, 1]),
                                          given.get("group", 1))
    if node.op_type == "Gemm":
        assert given.get("transB") == 1 and given.get("alpha", 1) == given.get("beta", 1) == 1
        return torch.nn.functional.linear(*inputs)
    if node.op_type == "MaxPool":
        pads = given.get("pads", [0] * 4)
        assert pads[:2] == pads[2:] and not given.get("ceil_mode", 0)
        return torch.nn.functional.max_pool2d(inputs[0], given["kernel_shape"], given["strides"],
                                              pads[:2])
    if node.op_type == "Clip":
        return torch.clamp(inputs[0], float(inputs[1]), float(inputs[2]))
    simple = {"Relu": torch.relu, "Add": torch.add,
              "GlobalAveragePool": lambda x: x.mean((2, 3), keepdim=True),
              "ReduceMean": lambda x: x.mean(tuple(given.get("axes", ())),
                                             keepdim=bool(given.get("keepdims", 1))),
              "Flatten": lambda x: torch.flatten(x, given.get("axis", 1))}
    return simple[node.op_type](*inputs)


class Quantiser:
    def __init__(self, network, x):
        self.network = network
        self.nodes = []
        self.initializers = []
        with torch.no_grad():
            self.values = network.run(x)
        self.scales = {}  # by value: scale and zero point
        self.weights = {}  # what the integers mean, by the name of the float constant

    def constant(self, name, array):
        self.initializers.append(numpy_helper.from_array(numpy.asarray(array), name))
        return name

    def range_of(self, value):
        """The scale and zero point of an activation."""
        low = min(0.0, float(self.values[value].min()))
        high = max(0.0, float(self.values[value].max()))
        scale = numpy.float32((high - low) / 255 or 1)
        return scale, int(numpy.clip(numpy.rint(-low / scale), 0, 255))

    def activation(self, value, output=None):
        """Q and DQ behind `value`; the name of what readers read."""
        scale, zero = self.scales[value]
        parameters = [self.constant(f"{value}.scale", scale),
                      self.constant(f"{value}.zero", numpy.uint8(zero))]
        output = output or f"{value}.dequantised"
        self.nodes.append(helper.make_node("QuantizeLinear", [value, *parameters],
                                           [f"{value}.quantised"]))
        self.nodes.append(helper.make_node("DequantizeLinear", [f"{value}.quantised", *parameters],
                                           [output]))
        return output

    def weight(self, name, unique):
        array = self.network.constants[name]
        rows = numpy.abs(array.reshape(array.shape[0], -1)).max(axis=1)
        scales = (numpy.maximum(rows, 1e-6) / 127).astype("float32")
        shape = (-1,) + (1,) * (array.ndim - 1)
        integers = numpy.clip(numpy.rint(array / scales.reshape(shape)), -127, 127).astype("int8")
        self.weights[name] = integers.astype("float32") * scales.reshape(shape)
        self.dequantise(unique, integers, scales, numpy.zeros(len(scales), "int8"))
        return scales

    def bias(self, name, unique, scales):
        integers = numpy.rint(self.network.constants[name] / scales.astype("float64"))
        self.weights[name] = (integers * scales).astype("float32")
        self.dequantise(unique, integers.astype("int32"), scales, numpy.zeros(len(scales), "int32"))

    def dequantise(self, unique, integers, scales, zeros):
        names = [self.constant(f"{unique}.integers", integers),
                 self.constant(f"{unique}.scales", scales), self.constant(f"{unique}.zeros", zeros)]
        self.nodes.append(helper.make_node("DequantizeLinear", names, [unique], axis=0))

    def run(self):
        graph = self.network.model.graph
        source = graph.input[0].name
        answer = graph.output[0].name
        self.scales[source] = self.range_of(source)
        read = {source: self.activation(source)}
        for node in self.network.nodes:
            value = node.output[0]
            floats = list(node.input)
            inputs = [read.get(name, name) for name in floats]
            if node.op_type in ("Conv", "Gemm"):
                inputs[1] = f"{value}.w"
                scales = self.weight(floats[1], inputs[1])
                if len(inputs) > 2:
                    inputs[2] = f"{value}.b"
                    self.bias(floats[2], inputs[2], self.scales[floats[0]][0] * scales)
            del node.input[:]
            node.input.extend(inputs)
            for name in inputs:
                if name in self.network.constants:
                    self.constant(f"{value}.{name}", self.network.constants[name])
                    node.input[inputs.index(name)] = f"{value}.{name}"
            self.nodes.append(node)
            readers = [n for n in self.network.nodes if value in n.input]
            if len(readers) == 1 and readers[0].op_type in ACTIVATIONS:
                continue
            kept = node.op_type in KEEPS_RANGE
            self.scales[value] = self.scales[floats[0]] if kept else self.range_of(value)
            if value == answer:
                node.output[0] = f"{value}.float"
                self.scales[f"{value}.float"] = self.scales[value]
                self.activation(f"{value}.float", answer)
            else:
                read[value] = self.activation(value)
        model = onnx.ModelProto()
        model.CopyFrom(self.network.model)
        for field in (model.graph.node, model.graph.initializer, model.graph.value_info):
            del field[:]
        model.graph.node.extend(self.nodes)
        model.graph.initializer.extend(self.initializers)
        onnx.checker.check_model(model)
        return model

    def rounded(self, name, value):
        """What the integers of an activation mean."""
        if name not in self.scales:
            return value
        scale, zero = self.scales[name]
        steps = torch.clamp(torch.round(value / float(scale)) + zero, 0, 255) - zero
        return steps * float(scale)


def main():
    folder, dest = map(pathlib.Path, sys.argv[1:3])
    dest.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[3:] or ["resnet50", "mobilenet_v2"]:
        path = folder / f"{name}.onnx"
        x = torch.from_numpy(numpy.load(folder / f"{name}.in.npy"))
        quantiser = Quantiser(Network(onnx.load(path)), x)
        onnx.save(quantiser.run(), dest / f"{name}_int8.onnx")
        answer = quantiser.network.model.graph.output[0].name
        again = Network(onnx.load(path))
        with torch.no_grad():
            floats = again.run(x)[answer]
            rounded = again.run(x, quantiser.rounded, quantiser.weights)[answer]
        apart = float((rounded - floats).abs().max() / floats.abs().max())
        assert apart < FARTHEST, f"{name}: the quantised answers are {apart:.2f} of scale away"
        print(f"{name}: {(dest / f'{name}_int8.onnx').stat().st_size} bytes, {apart:.3f} of scale away")


if __name__ == "__main__":
    main()
