"""Writes the model repositories of the end-to-end tests.

  make_models.py DIRECTORY

good/echo/1    every element type of the protocol: input xTYPE [N,3] comes back as yTYPE; batches
good/pair/1, 2 a [N,4] times a constant matrix as `product`, b [N,2] as `copy`; batches
good/fixed/1   x FP32 [2,3] as y; does not batch
good/shift/1   x FP32 [N,2] plus `offset` [2], an input whose default is 1 and 2, as y; batches
good/typed/1   as echo, of the types that have typed contents; batches
slow/count/1   counts from 0 to `turns` INT64 [] one by one, as `count`; does not batch
mixed/         pair, and `broken`, which is no ONNX file
"""

import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TYPES = {
    "BOOL": TensorProto.BOOL,
    "UINT8": TensorProto.UINT8,
    "UINT16": TensorProto.UINT16,
    "UINT32": TensorProto.UINT32,
    "UINT64": TensorProto.UINT64,
    "INT8": TensorProto.INT8,
    "INT16": TensorProto.INT16,
    "INT32": TensorProto.INT32,
    "INT64": TensorProto.INT64,
    "FP16": TensorProto.FLOAT16,
    "FP32": TensorProto.FLOAT,
    "FP64": TensorProto.DOUBLE,
    "BYTES": TensorProto.STRING,
    "BF16": TensorProto.BFLOAT16,
}
HALF = ("FP16", "BF16")  # have no typed contents


def write(path, nodes, inputs, outputs, constants=()):
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(*port) for port in inputs],
        [helper.make_tensor_value_info(*port) for port in outputs],
        list(constants),
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.mkdir(parents=True, exist_ok=True)
    (path / "model.onnx").write_bytes(model.SerializeToString())


def write_echo(path, types):
    write(
        path,
        [helper.make_node("Identity", ["x" + name], ["y" + name]) for name in types],
        [("x" + name, TYPES[name], ["N", 3]) for name in types],
        [("y" + name, TYPES[name], ["N", 3]) for name in types],
    )


def write_pair(path):
    # product[i] = a[0] + 10 a[1] + 100 a[2] + 1000 a[3] + i
    column = np.array([1, 10, 100, 1000], np.float32)
    weights = np.stack([column, column + 1], axis=1)
    write(
        path,
        [
            helper.make_node("MatMul", ["a", "weights"], ["product"]),
            helper.make_node("Identity", ["b"], ["copy"]),
        ],
        [("a", TensorProto.FLOAT, ["N", 4]), ("b", TensorProto.INT64, ["N", 2])],
        [("product", TensorProto.FLOAT, ["N", 2]), ("copy", TensorProto.INT64, ["N", 2])],
        [numpy_helper.from_array(weights, "weights")],
    )


def write_fixed(path):
    write(
        path,
        [helper.make_node("Identity", ["x"], ["y"])],
        [("x", TensorProto.FLOAT, [2, 3])],
        [("y", TensorProto.FLOAT, [2, 3])],
    )


def write_count(path):
    body = helper.make_graph(
        [
            helper.make_node("Add", ["before", "one"], ["after"]),
            helper.make_node("Identity", ["go"], ["go_on"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("turn", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("before", TensorProto.INT64, []),
        ],
        [
            helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("after", TensorProto.INT64, []),
        ],
        [numpy_helper.from_array(np.array(1, np.int64), "one")],
    )
    write(
        path,
        [helper.make_node("Loop", ["turns", "", "zero"], ["count"], body=body)],
        [("turns", TensorProto.INT64, [])],
        [("count", TensorProto.INT64, [])],
        [numpy_helper.from_array(np.array(0, np.int64), "zero")],
    )


def write_shift(path):
    write(
        path,
        [helper.make_node("Add", ["x", "offset"], ["y"])],
        [("x", TensorProto.FLOAT, ["N", 2]), ("offset", TensorProto.FLOAT, [2])],
        [("y", TensorProto.FLOAT, ["N", 2])],
        [numpy_helper.from_array(np.array([1, 2], np.float32), "offset")],
    )


def main():
    root = pathlib.Path(sys.argv[1])
    write_echo(root / "good" / "echo" / "1", TYPES)
    write_echo(root / "good" / "typed" / "1", [name for name in TYPES if name not in HALF])
    write_pair(root / "good" / "pair" / "1")
    write_pair(root / "good" / "pair" / "2")
    write_fixed(root / "good" / "fixed" / "1")
    write_shift(root / "good" / "shift" / "1")
    write_count(root / "slow" / "count" / "1")
    write_pair(root / "mixed" / "pair" / "1")
    broken = root / "mixed" / "broken" / "1"
    broken.mkdir(parents=True, exist_ok=True)
    (broken / "model.onnx").write_bytes(b"this is no model")


if __name__ == "__main__":
    main()
