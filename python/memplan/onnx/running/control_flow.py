"""If, Loop and Scan: their bodies run node by node, outside of the arena, as often as the values say.

onnx's reference stacks what a Loop collects along an existing axis, takes a missing condition for false, and scans
along axis 0 only; these do as the standard says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto
from onnx.helper import tensor_dtype_to_np_dtype

from ...errors import SourceError
from ..reading.bodies import attributes_of, bodies, label, reads
from ..reading.types import static_shape, types
from .values import Array

Inputs = Sequence[Array | None]


class Body:
    """A graph inside a node: its nodes, each with what runs it, and its own initializers by name."""

    def __init__(
        self, graph: GraphProto, nodes: Sequence[tuple[NodeProto, Callable[..., Any]]], constants: Mapping[str, Array]
    ) -> None:
        self._inputs = [value.name for value in graph.input]
        self._outputs = [value.name for value in graph.output]
        self._types = types(graph)
        self._nodes = [(node, run, [n for _, body in bodies(node) for n in reads(body)]) for node, run in nodes]
        self._constants = constants

    @property
    def arity(self) -> int:
        """How many inputs it has."""
        return len(self._inputs)

    def __call__(self, inputs: Inputs, scope: Mapping[str, Array]) -> list[Array]:
        """The values of its outputs, given those of its inputs and the outer values that it reads."""
        values: dict[str, Any] = {**scope, **self._constants, **dict(zip(self._inputs, inputs, strict=True)), "": None}
        for node, run, outer in self._nodes:
            found = run([values[name] for name in node.input], {name: values[name] for name in outer if name in values})
            values.update(zip([name for name in node.output if name], found, strict=True))
        return [values[name] for name in self._outputs]

    def nothing(self, output: int) -> Array:
        """What is collected of an output if the body never runs: no items of its dtype and shape."""
        value = self._types[self._outputs[output]]
        shape = [0, *(static_shape(value) or [])]
        return np.zeros(shape, tensor_dtype_to_np_dtype(value.tensor_type.elem_type))


class _ControlFlow:
    def __init__(self, node: NodeProto, inner: Mapping[str, Body]) -> None:
        self._node, self._bodies = node, inner
        self._attributes = attributes_of(node)

    def _stacked(self, items: list[Array], output: int) -> Array:
        """What was collected of an output of the body."""
        return np.stack(items) if items else self._bodies["body"].nothing(output)

    def _written(self, values: Sequence[Array]) -> list[Array]:
        """Those of all outputs that somebody asks for."""
        return [value for name, value in zip(self._node.output, values, strict=True) if name]


class If(_ControlFlow):
    """One of two bodies."""

    def __call__(self, inputs: Inputs, scope: Mapping[str, Array]) -> list[Array]:
        (condition,) = inputs
        assert condition is not None
        return self._written(self._bodies["then_branch" if condition.item() else "else_branch"]([], scope))


class Loop(_ControlFlow):
    """A body that runs up to a number of times, as long as a condition holds."""

    def __call__(self, inputs: Inputs, scope: Mapping[str, Array]) -> list[Array]:
        trips, condition, *states = inputs
        goes_on = condition is None or bool(condition.item())
        collected: list[list[Array]] = [[] for _ in self._node.output[len(states) :]]
        for iteration in count() if trips is None else range(int(trips.item())):
            if not goes_on:
                break
            found = self._bodies["body"]([np.array(iteration, np.int64), np.array(goes_on), *states], scope)
            goes_on, states = bool(found[0].item()), list(found[1 : len(states) + 1])
            for items, item in zip(collected, found[len(states) + 1 :], strict=True):
                items.append(item)
        stacked = [self._stacked(items, len(states) + 1 + k) for k, items in enumerate(collected)]
        return self._written([state for state in states if state is not None] + stacked)


class Scan(_ControlFlow):
    """A body that runs once for each slice of some inputs."""

    def __init__(self, node: NodeProto, inner: Mapping[str, Body]) -> None:
        super().__init__(node, inner)
        if "directions" in self._attributes or len(node.input) != inner["body"].arity:
            raise SourceError(f"{label(node)} is of opset 8, which scans a batch; Scan can be run from opset 9 on")

    def __call__(self, inputs: Inputs, scope: Mapping[str, Array]) -> list[Array]:
        given = [value for value in inputs if value is not None]
        count = self._attributes["num_scan_inputs"]
        states, scanned = given[: len(given) - count], given[len(given) - count :]
        scanned = [np.moveaxis(value, self._of("scan_input_axes", k), 0) for k, value in enumerate(scanned)]
        scanned = [value[::-1] if self._of("scan_input_directions", k) else value for k, value in enumerate(scanned)]
        collected: list[list[Array]] = [[] for _ in self._node.output[len(states) :]]
        for iteration in range(len(scanned[0])):
            found = self._bodies["body"]([*states, *(value[iteration] for value in scanned)], scope)
            states = found[: len(states)]
            for items, item in zip(collected, found[len(states) :], strict=True):
                items.append(item)
        whole = [self._stacked(items, len(states) + k) for k, items in enumerate(collected)]
        whole = [value[::-1] if self._of("scan_output_directions", k) else value for k, value in enumerate(whole)]
        moved = [np.moveaxis(value, 0, self._of("scan_output_axes", k)) for k, value in enumerate(whole)]
        return self._written([*states, *moved])

    def _of(self, attribute: str, k: int) -> int:
        values = self._attributes.get(attribute, [])
        return int(values[k]) if k < len(values) else 0
