"""What a node is told besides its tensors' values: attributes, and constants among its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnx import NodeProto, TensorProto

from .bodies import attributes_of
from .payload import array


class Parameters:
    """The parameters of a node of a model of this opset, whose constants with known payload are given."""

    def __init__(self, node: NodeProto, constants: Mapping[str, TensorProto], opset: int) -> None:
        self._node, self._constants, self.opset = node, constants, opset
        self.attributes = attributes_of(node)

    def text(self, name: str, otherwise: str) -> str:
        value = self.attributes.get(name)
        return otherwise if value is None else str(value.decode())

    def has(self, position: int) -> bool:
        """Whether the node has an input there."""
        return position < len(self._node.input) and bool(self._node.input[position])

    def constant(self, position: int) -> Any:
        """The array of an input; None if there is no such input, or it is no constant."""
        name = self._node.input[position] if self.has(position) else ""
        return array(self._constants[name]) if name in self._constants else None

    def integers(self, position: int) -> list[int] | None:
        """The integers of a constant input; None if it is none."""
        value = self.constant(position)
        return None if value is None or value.dtype.kind not in "iu" else [int(n) for n in value.ravel()]

    def drops(self) -> bool:
        """Whether a node is a Dropout that may be in training; else it passes its input on."""
        if self._node.op_type != "Dropout":
            return False
        if self.opset < 7:
            return not self.attributes.get("is_test", 0)
        training = self.constant(2)
        return self.has(2) and (training is None or bool(training.any()))

    def slices(self, shape: Sequence[int]) -> list[tuple[int, int]] | None:
        """Where a Slice begins along each axis, and its steps; None if that is not constant."""
        if self.opset < 10:
            given = self.attributes
            starts, ends, axes, steps = given["starts"], given["ends"], given.get("axes"), None
        else:
            if any(self.has(k) and self.integers(k) is None for k in range(1, 5)):
                return None
            starts, ends, axes, steps = map(self.integers, range(1, 5))
            if starts is None or ends is None:
                return None
        found = [(0, 1)] * len(shape)
        for position, axis in enumerate(range(len(starts)) if axes is None else axes):
            size, step = shape[axis], 1 if steps is None else steps[position]
            if step == 0:
                return None
            found[axis % len(shape)] = slice(starts[position], ends[position], step).indices(size)[0], step
        return found
