"""Writes the models of this folder: `python tests/data/tflite/make.py`, with tflite-micro installed.

Each is a few operators with small weights, in float32, that TFLite Micro runs on any machine.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
from tflite_micro.tensorflow.lite.micro.python import schema_py_generated as schema

HERE = Path(__file__).parent


class Builder:
    """A model of one subgraph, operator by operator."""

    def __init__(self) -> None:
        self.model, self.graph = schema.ModelT(), schema.SubGraphT()
        self.model.version, self.model.description = 3, "of memplan's tests"
        self.model.subgraphs, self.model.operatorCodes, self.model.buffers = [self.graph], [], [schema.BufferT()]
        self.graph.tensors, self.graph.operators, self.graph.inputs, self.graph.outputs = [], [], [], []
        self.random = np.random.default_rng(0)

    def tensor(self, name: str, *shape: int, data: Any = None, kind: str = "FLOAT32") -> int:
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.type = name, list(shape), getattr(schema.TensorType, kind)
        if data is not None:
            tensor.buffer = len(self.model.buffers)
            self.model.buffers.append(schema.BufferT())
            self.model.buffers[-1].data = np.frombuffer(data.tobytes(), np.uint8)
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def weights(self, *shape: int) -> int:
        values = (self.random.integers(-8, 9, shape) / 16).astype(np.float32)
        return self.tensor(f"weights_{len(self.graph.tensors)}", *shape, data=values)

    def input(self, name: str, *shape: int) -> int:
        self.graph.inputs.append(self.tensor(name, *shape))
        return self.graph.inputs[-1]

    def op(self, kind: str, inputs: list[int], name: str, *shape: int, options: Any = None) -> int:
        code = schema.OperatorCodeT()
        code.builtinCode = getattr(schema.BuiltinOperator, kind)
        code.deprecatedBuiltinCode, code.version = code.builtinCode, 1
        operator = schema.OperatorT()
        operator.opcodeIndex, operator.inputs = len(self.model.operatorCodes), inputs
        operator.outputs = [self.tensor(name, *shape)]
        if options is not None:
            operator.builtinOptions = options
            operator.builtinOptionsType = getattr(schema.BuiltinOptions, type(options).__name__.removesuffix("T"))
        self.model.operatorCodes.append(code)
        self.graph.operators.append(operator)
        return int(operator.outputs[0])

    def dense(self, x: int, name: str, size: int) -> int:
        width = int(np.prod(self.graph.tensors[x].shape))
        inputs = [x, self.weights(size, width), -1]
        return self.op("FULLY_CONNECTED", inputs, name, 1, size, options=schema.FullyConnectedOptionsT())

    def reshape(self, x: int, name: str, *shape: int) -> int:
        wanted = self.tensor(f"{name}/shape", len(shape), data=np.array(shape, np.int32), kind="INT32")
        return self.op("RESHAPE", [x, wanted], name, *shape, options=schema.ReshapeOptionsT())

    def write(self, name: str, *outputs: int) -> None:
        self.graph.outputs = list(outputs)
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        (HERE / f"{name}.tflite").write_bytes(bytes(builder.Output()))


def perceptron() -> None:
    net = Builder()
    hidden = net.op("RELU", [net.dense(net.input("x", 1, 4), "hidden", 256)], "active", 1, 256)
    flat = net.reshape(hidden, "flat", 1, 256)
    net.write("perceptron", net.op("LOGISTIC", [net.dense(flat, "scores", 4)], "shares", 1, 4))


def elementwise() -> None:
    """A chain of operators, and a tensor that is read again at its end."""
    net = Builder()
    x = net.input("x", 1, 200)
    first = net.op("ABS", [x], "abs", 1, 200)
    second = net.op("NEG", [first], "neg", 1, 200)
    third = net.op("LOGISTIC", [second], "logistic", 1, 200)
    net.write("elementwise", net.op("ADD", [third, first], "sum", 1, 200, options=schema.AddOptionsT()))


def convolution() -> None:
    net = Builder()
    options = schema.Conv2DOptionsT()
    options.strideH = options.strideW = 1
    inputs = [net.input("x", 1, 8, 8, 2), net.weights(4, 3, 3, 2), net.weights(4)]
    wide = net.op("CONV_2D", inputs, "wide", 1, 8, 8, 4, options=options)
    active = net.op("RELU6", [wide], "active", 1, 8, 8, 4)
    pool = schema.Pool2DOptionsT()
    pool.strideH = pool.strideW = pool.filterHeight = pool.filterWidth = 2
    flat = net.reshape(net.op("MAX_POOL_2D", [active], "pool", 1, 4, 4, 4, options=pool), "flat", 1, 64)
    net.write("convolution", net.dense(flat, "scores", 3))


def residual() -> None:
    """Blocks whose input is added to what they make of it."""
    net = Builder()
    x = net.dense(net.input("x", 1, 4), "stem", 256)
    for k in range(2):
        inner = net.op("TANH", [net.dense(x, f"narrow_{k}", 4)], f"tanh_{k}", 1, 4)
        x = net.op("ADD", [net.dense(inner, f"wide_{k}", 256), x], f"sum_{k}", 1, 256, options=schema.AddOptionsT())
    net.write("residual", net.op("TANH", [x], "y", 1, 256))


def branches() -> None:
    """Two branches, one of which is an output too."""
    net = Builder()
    a = net.dense(net.input("x", 1, 4), "a", 4)
    b, c = net.dense(a, "b", 128), net.dense(a, "c", 192)
    d = net.op("TANH", [b], "d", 1, 128)
    e, f = net.dense(c, "e", 4), net.dense(d, "f", 24)
    g = net.dense(f, "g", 4)
    net.write("branches", net.op("ADD", [g, e], "sum", 1, 4, options=schema.AddOptionsT()), c)


if __name__ == "__main__":
    for make in (perceptron, elementwise, convolution, residual, branches):
        make()
