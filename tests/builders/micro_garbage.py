"""A network of TFLite Micro, and the same with operators between the others that fill dead bytes with garbage."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

import memplan
from builders.micro_files import make, placed, quantize

FIRST = -1  # before all operators


class Fill(NamedTuple):
    """Bytes [begin, end) that are filled after an operator, by its position."""

    after: int
    begin: int
    end: int

    @property
    def name(self) -> str:
        return f"garbage_{self.after}_{self.begin}"


def model(fills: Iterable[Fill] = (), offsets: Mapping[str, int] | None = None) -> bytes:
    """Convolutions, poolings and a residual in int8, and tensors at these offsets, by name."""
    net = _Network(fills)
    x = net.conv(net.input(1, 12, 12, 4), "wide", 8)
    x = net.op("MAX_POOL_2D", [net.conv(x, "mixed", 12, stride=2)], "pooled", 1, 6, 6, 12, size=3)
    a = net.conv(x, "narrow", 6, size=1)
    b = net.op("ADD", [x, net.conv(a, "again", 12)], "sum", 1, 6, 6, 12)
    net.outputs(net.conv(b, "y", 5, stride=2))
    names = {tensor.name: t for t, tensor in enumerate(net.built.graph.tensors)}
    return placed(net.built, {names[name]: offset for name, offset in (offsets or {}).items()})


def dead(plan: memplan.Plan) -> list[Fill]:
    """The bytes of the arena that no tensor needs between two operators, or before the first."""
    inputs = {tensor.name for tensor in plan.graph.tensors if tensor.kind == "input"}
    found = []
    for after in range(FIRST, len(plan.graph.ops) - 1):
        live = [
            (slot.offset, slot.offset + slot.bytes)
            for name, slot in plan.tensors.items()
            if (FIRST if name in inputs else plan.steps.op_at(slot.first)) <= after < plan.steps.op_at(slot.last - 1)
        ]
        edges = [(0, 0), *sorted(live), (plan.peak, plan.peak)]
        found += [Fill(after, a[1], b[0]) for a, b in pairwise(edges) if a[1] < b[0]]
    return found


def results(model: bytes, runs: int) -> list[bytes]:
    """What TFLite Micro makes of random inputs."""
    from tflite_micro import runtime

    interpreter = runtime.Interpreter.from_bytes(model, arena_size=1 << 17)
    chance, found = np.random.default_rng(0), []
    for _ in range(runs):
        interpreter.set_input(chance.integers(-128, 128, (1, 12, 12, 4)).astype(np.int8), 0)
        interpreter.invoke()
        found.append(interpreter.get_output(0).tobytes())
    return found


class _Network:
    def __init__(self, fills: Iterable[Fill]) -> None:
        self.built = make()["Builder"]()
        self._schema, self._fills, self._made = make()["schema"], list(fills), 0
        self._weights, self._garbage = np.random.default_rng(1), np.random.default_rng(2)

    def input(self, *shape: int) -> int:
        x = int(self.built.tensor("x", *shape, kind="INT8"))
        quantize(self.built, x, "int8", [1.0])
        self.built.graph.inputs = [x]
        self._fill(FIRST)
        return x

    def outputs(self, *tensors: int) -> None:
        self.built.graph.outputs = list(tensors)

    def conv(self, x: int, name: str, channels: int, size: int = 3, stride: int = 1) -> int:
        """Scaled so that its numbers are about as large as those of its input."""
        _, rows, columns, given = self._shape(x)
        w = self._constant(f"{name}/weights", [channels, size, size, given], self._weights)
        quantize(self.built, w, "int8", [1 / (64 * size * math.sqrt(given))] * channels)
        return self.op(
            "CONV_2D", [x, w, -1], name, 1, -(-rows // stride), -(-columns // stride), channels, stride=stride
        )

    def op(self, kind: str, inputs: list[int], name: str, *shape: int, size: int = 1, stride: int = 1) -> int:
        """With the padding that keeps rows and columns."""
        table = {"CONV_2D": "Conv2D", "MAX_POOL_2D": "Pool2D", "ADD": "Add"}[kind]
        options = getattr(self._schema, f"{table}OptionsT")()
        given = {"strideH": stride, "strideW": stride, "filterHeight": size, "filterWidth": size}
        for option in vars(options).keys() & given:
            setattr(options, option, given[option])
        y = self._written(kind, inputs, name, shape, options)
        quantize(self.built, y, "int8", [1.0])
        self._made += 1
        self._fill(self._made - 1)
        return y

    def _fill(self, after: int) -> None:
        """By a copy of random numbers."""
        for fill in self._fills:
            if fill.after == after:
                length = fill.end - fill.begin
                source = self._constant(f"{fill.name}/source", [length], self._garbage)
                ends = [
                    self.built.tensor(f"{fill.name}/{end}", 1, data=np.array([value], np.int32), kind="INT32")
                    for end, value in (("begin", 0), ("size", length))
                ]
                self._written("SLICE", [source, *ends], fill.name, [length], None)

    def _constant(self, name: str, shape: Sequence[int], chance: Any) -> int:
        return int(self.built.tensor(name, *shape, data=chance.integers(-100, 100, shape).astype(np.int8), kind="INT8"))

    def _written(self, kind: str, inputs: list[int], name: str, shape: Sequence[int], options: Any) -> int:
        y = int(self.built.op(kind, inputs, name, *shape, options=options))
        self.built.graph.tensors[y].type = self._schema.TensorType.INT8
        return y

    def _shape(self, tensor: int) -> list[int]:
        return list(self.built.graph.tensors[tensor].shape)
