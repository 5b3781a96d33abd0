"""Networks as graph dicts, layer by layer: int8, NHWC, batch 1, as TFLite Micro runs them.

Batch norms are folded into the convolution before them, and activations into the op before them, as converters do.
Weights take no arena: they are counted, and left out of the graph.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from memplan.tflite.reading import loops as tflite_loops
from memplan.tflite.reading import micro as tflite_micro

Size = int | tuple[int, int]
_IN_PLACE = frozenset({"ADD", "MUL", "RELU"})  # kernels that may write over an input of as many bytes


class Layers:
    """A network in the making: each layer takes names of tensors, and returns that of its output.

    With `grain="rows"`, windows run in order along their outermost loop alone; with "pixels", as the table of TFLite
    Micro says; with "whole", no op runs in order, and elementwise ones run in place. `weights` counts the numbers in
    kernels and biases, and `normalised` the channels of batch norms.
    """

    def __init__(self, rows: int, channels: int = 3, grain: str = "pixels") -> None:
        self.weights = self.normalised = 0
        self._grain = grain
        self._shapes: dict[str, list[int]] = {}
        self._tensors: list[dict[str, Any]] = []
        self._ops: list[dict[str, Any]] = []
        self._made: dict[Any, str] = {}
        self.x = self._tensor("x", [1, rows, rows, channels], "input")

    def shape(self, x: str) -> tuple[int, int, int]:
        """Rows, columns, channels."""
        _, rows, columns, channels = self._shapes[x]
        return rows, columns, channels

    def graph(self, output: str) -> dict[str, Any]:
        return {"tensors": self._tensors, "ops": self._ops, "outputs": [output]}

    def conv(self, x: str, channels: int, kernel: Size = 1, stride: int = 1, valid: bool = False, norm: int = 1) -> str:
        """Without a norm, it has a bias that counts among the weights; `norm=0` has neither."""
        size, given = _pair(kernel), self._shapes[x][3]
        self._weigh(math.prod(size) * given * channels, channels, norm)
        weight = [channels, *size, given]
        return self._windows("CONV_2D", x, size, stride, valid, channels, [weight, [channels]])

    def depthwise(self, x: str, kernel: Size = 3, stride: int = 1, norm: int = 1) -> str:
        size, channels = _pair(kernel), self._shapes[x][3]
        self._weigh(math.prod(size) * channels, channels, norm)
        return self._windows("DEPTHWISE_CONV_2D", x, size, stride, False, channels, [[1, *size, channels], [channels]])

    def pool(self, kind: str, x: str, kernel: int, stride: int = 1, valid: bool = False) -> str:
        """`kind` is "MAX" or "AVERAGE". The same pooling twice is done once, as converters see to it."""
        same = (kind, x, kernel, stride)
        if same not in self._made:
            size = (kernel, kernel)
            self._made[same] = self._windows(f"{kind}_POOL_2D", x, size, stride, valid, self._shapes[x][3], [])
        return self._made[same]

    def add(self, a: str, b: str) -> str:
        return self._op("ADD", [a, b], self._shapes[a])

    def relu(self, x: str) -> str:
        """One on its own, which is done once however many read it."""
        if ("RELU", x) not in self._made:
            self._made["RELU", x] = self._op("RELU", [x], self._shapes[x])
        return self._made["RELU", x]

    def norm(self, x: str) -> str:
        """One that has no convolution before it: a product and a sum of each channel."""
        channels = self._shapes[x][3]
        self.normalised += channels
        for kind in ("MUL", "ADD"):
            x = self._op(kind, [x], self._shapes[x], constants=[[channels]])
        return x

    def concat(self, *parts: str) -> str:
        """Of channels, which the kernel copies."""
        shape = [*self._shapes[parts[0]][:3], sum(self._shapes[part][3] for part in parts)]
        return self._op("CONCATENATION", parts, shape, {"Axis": 3})

    def pad(self, x: str, before: int, after: int) -> str:
        """So many rows and columns of padding."""
        _, rows, columns, channels = self._shapes[x]
        shape = [1, before + rows + after, before + columns + after, channels]
        amounts = np.array([[0, 0], [before, after], [before, after], [0, 0]])
        return self._op("PAD", [x], shape, constants=[[4, 2]], values={1: amounts}, dtypes=["int8", "int32"])

    def cut(self, x: str, before: int) -> str:
        """Without so many of the first rows and columns."""
        _, rows, columns, channels = self._shapes[x]
        values = {1: np.array([0, before, before, 0]), 2: np.array(self._shapes[x]), 3: np.array([1] * 4)}
        shape, dtypes = [1, rows - before, columns - before, channels], ["int8", *["int32"] * 3]
        return self._op("STRIDED_SLICE", [x], shape, constants=[[4]] * 3, values=values, dtypes=dtypes)

    def classify(self, x: str, classes: int = 1000) -> dict[str, Any]:
        """The network whose last pixels are averaged and classified."""
        channels = self._shapes[x][3]
        self._weigh(channels * classes, classes, 0)
        self.weights += classes
        pooled = self._op("MEAN", [x], [1, channels], constants=[[2]], dtypes=["int8", "int32"])
        scores = self._op("FULLY_CONNECTED", [pooled], [1, classes], constants=[[classes, channels], [classes]])
        return self.graph(self._op("SOFTMAX", [scores], [1, classes]))

    def biased(self, x: str, channels: int, kernel: Size = 1, stride: int = 1, valid: bool = False) -> str:
        """A convolution with a bias, and no norm."""
        self.weights += channels
        return self.conv(x, channels, kernel, stride, valid, norm=0)

    def _weigh(self, weights: int, channels: int, norm: int) -> None:
        self.weights += weights
        self.normalised += channels * norm

    def _windows(
        self, kind: str, x: str, size: tuple[int, int], stride: int, valid: bool, channels: int, constants: list[Any]
    ) -> str:
        made = [-(-(n - (k - 1) * valid) // stride) for n, k in zip(self._shapes[x][1:3], size, strict=True)]
        options = {"StrideH": stride, "StrideW": stride, "Padding": int(valid)}
        options |= {"FilterHeight": size[0], "FilterWidth": size[1]}
        return self._op(kind, [x], [1, *made, channels], options, constants)

    def _op(
        self,
        kind: str,
        inputs: Sequence[str],
        made: Sequence[int],
        options: dict[str, int] | None = None,
        constants: Sequence[Sequence[int]] = (),
        values: dict[int, Any] | None = None,
        dtypes: Sequence[str] = (),
    ) -> str:
        """`constants` are the shapes of inputs that take no arena, and `values` what they are, by position."""
        y = self._tensor(f"{kind.lower()}_{len(self._ops)}", made)
        shapes = [*(self._shapes[x] for x in inputs), *constants]
        every = [*dtypes, *["int8"] * (len(shapes) - len(dtypes))]
        given = options or {}
        operator = tflite_loops.Operator(
            shapes, [list(made)], every, kind, given.get, lambda position: (values or {})[position], "int8"
        )
        names = [*inputs, *(f"{y}/{k}" for k in range(len(constants)))]
        read = list(dict.fromkeys(inputs))
        op: dict[str, Any] = {"name": f"{y}:op", "type": kind, "inputs": read, "outputs": [y]}
        op |= self._ordered(operator, names, y)
        if kind in _IN_PLACE:
            op["inplace"] = [{"output": y, "input": x} for x in read]
        self._ops.append(op)
        return y

    def _ordered(self, operator: tflite_loops.Operator, names: list[str], y: str) -> dict[str, Any]:
        known = tflite_micro.ordered(operator, names, [y])
        if known is None or self._grain == "whole":
            return {}
        loops = [
            {**loop, "reads": {x: row for x, row in loop["reads"].items() if x in self._shapes}}
            for loop in known.loops[: 1 if self._grain == "rows" and not known.reads_first else None]
        ]
        return tflite_micro.in_order([], known._replace(loops=loops))

    def _tensor(self, name: str, shape: Sequence[int], kind: str = "intermediate") -> str:
        self._shapes[name] = list(shape)
        self._tensors.append({"name": name, "shape": list(shape), "dtype": "int8", "kind": kind})
        return name


def _pair(size: Size) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else size
