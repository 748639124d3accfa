#!/usr/bin/python3
"""Exports the networks of zoo/ with seeded weights, inputs and PyTorch's answers.

Needs Debian's python3-torch and python3-onnx. usage: make.py [FOLDER [NAME...]]
FOLDER is tests/data/networks unless given. For each network it writes, in the layout of ONNX's
backend tests:
  NAME/model.onnx                           with an open batch axis, nothing folded
  NAME/test_data_set_K/{input,output}_I.pb  eight items and PyTorch's answers
It fails where an export lacks the patterns that its network was chosen for, where a layer or an
input makes no difference to the answers, and where the answers to two items are alike.
"""
import copy
import importlib
import itertools
import pathlib
import sys
import warnings

import onnx
import torch
from onnx import numpy_helper

import zoo
from zoo.network import ITEMS

DATA = pathlib.Path(__file__).resolve().parent.parent / "data" / "networks"
ITEMS_APART = 0.02  # of the answers' scale
LAYERS_MATTER = 1e-3
MOST_BYTES = 640_000


def scale(tensor):
    return float(tensor.abs().max())


def difference(answers, others):
    """The largest difference of any output, as a share of that output's scale."""
    return max(scale(answers[name] - others[name]) / scale(answers[name]) for name in answers)


def check_items(answers):
    """Every output of every item differs from that of every other item."""
    for name, output in answers.items():
        for one, other in itertools.combinations(range(ITEMS), 2):
            apart = scale(output[one] - output[other]) / scale(output)
            assert apart >= ITEMS_APART, f"{name}: items {one} and {other} are {apart:.1e} apart"


def check_layers(network):
    """Each layer's parameters and statistics make a difference."""
    inputs = network.data[0]
    answers = network.answers(inputs)
    generator = torch.Generator().manual_seed(1)
    for layer, owner in network.module.named_modules():
        if not own_numbers(owner):
            continue
        changed = copy.deepcopy(network.module)
        for tensor in own_numbers(changed.get_submodule(layer)):
            noise = torch.rand(tensor.shape, generator=generator)
            tensor.data.mul_(1 + 0.5 * noise).add_(0.1 * noise)
        made = difference(answers, with_module(network, changed).answers(inputs))
        assert made >= LAYERS_MATTER, f"layer {layer} changes the answers by {made:.1e} only"


def own_numbers(module):
    """Parameters and statistics of `module` itself."""
    own = (*module.parameters(recurse=False), *module.buffers(recurse=False))
    return [tensor for tensor in own if tensor.is_floating_point()]


def with_module(network, module):
    changed = copy.copy(network)
    changed.module = module
    return changed


def check_inputs(network):
    """Each input makes a difference."""
    inputs = network.data[0]
    answers = network.answers(inputs)
    for name, tensor in inputs.items():
        other = tensor.flip(-1)
        made = difference(answers, network.answers({**inputs, name: other}))
        assert made >= LAYERS_MATTER, f"input {name} changes the answers by {made:.1e} only"


def has_chain(graph, chain):
    """Whether operators of these types, "Conv Relu", follow each other along the dataflow."""
    first, *others = chain.split()
    readers = {}
    for node in graph.node:
        for value in node.input:
            readers.setdefault(value, []).append(node)
    ends = [node for node in graph.node if node.op_type == first]
    for op_type in others:
        following = {id(reader): reader for node in ends for value in node.output
                     for reader in readers.get(value, []) if reader.op_type == op_type}
        ends = list(following.values())
    return bool(ends)


def check_export(model, network):
    """The file is what it was written for."""
    onnx.checker.check_model(model)
    for chain in network.chains:
        assert has_chain(model.graph, chain), f"no {chain}"
    for node in model.graph.node:
        modes = [attribute.i for attribute in node.attribute if attribute.name == "training_mode"]
        assert not any(modes), f"{node.name} is in training mode"
        assert not node.doc_string, f"{node.name} says where it was made"


def export(network, path):
    axes = {name: dict(extra) for name, extra in network.open_axes.items()}
    inputs = network.data[0]
    if network.one_by_one:
        inputs = {name: tensor[:1] for name, tensor in inputs.items()}
    else:
        for name in (*inputs, *network.outputs):
            if name not in network.shared:
                axes.setdefault(name, {})[0] = "N"
    torch.onnx.export(
        network.module, tuple(inputs.values()), str(path), opset_version=network.opset,
        input_names=list(inputs), output_names=list(network.outputs), dynamic_axes=axes,
        training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False)
    check_export(onnx.load(str(path)), network)


def write_data(network, folder):
    for index, inputs in enumerate(network.data):
        data = folder / f"test_data_set_{index}"
        data.mkdir(exist_ok=True)
        answers = network.answers(inputs)
        check_items(answers)
        for kind, tensors in (("input", inputs), ("output", answers)):
            for port, (name, tensor) in enumerate(tensors.items()):
                proto = numpy_helper.from_array(tensor.contiguous().numpy(), name)
                (data / f"{kind}_{port}.pb").write_bytes(proto.SerializeToString())


def make(name, folder):
    network = importlib.import_module(f"zoo.{name}").network()
    folder.mkdir(parents=True, exist_ok=True)
    export(network, folder / "model.onnx")
    write_data(network, folder)
    check_layers(network)
    check_inputs(network)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert size <= MOST_BYTES, f"{size} bytes"
    return size


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else DATA
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    for name in sys.argv[2:] or zoo.NAMES:
        try:
            print(f"{name}: {make(name, folder / name)} bytes", flush=True)
        except AssertionError as error:
            raise SystemExit(f"{name}: {error}") from error


if __name__ == "__main__":
    main()
