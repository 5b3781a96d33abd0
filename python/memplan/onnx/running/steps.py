"""An op of a graph, and what computes it: a node, on tensors that lie in an arena."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy

from onnx import NodeProto

from ... import _core
from ..reading.bodies import bodies, reads
from .memory import Place, PlaceOfRows
from .nodes import Runner
from .values import Array


class Step:
    """An op of the graph, and what computes it. Names are those of the graph's tensors."""

    def __init__(self, op: _core.Op, node: NodeProto, run: Runner, tensor_of: Mapping[str, str]) -> None:
        self.op, self.node, self.run = op, node, run
        self.inputs = [tensor_of[name] if name else None for name in node.input]
        outer = [name for _, body in bodies(node) for name in reads(body)]
        self.outer = {name: tensor_of[name] for name in outer if name in tensor_of}
        self.outputs = op.outputs

    def values(self, places: Mapping[str, Place]) -> Sequence[Array]:
        """What the op makes of what lies in these places."""
        inputs = [None if name is None else places[name].read() for name in self.inputs]
        return self.run(inputs, {name: places[tensor].read() for name, tensor in self.outer.items()})

    def target(self, name: str, places: Mapping[str, Place]) -> Place | PlaceOfRows:
        """Where a value of the op is written."""
        return places[name]

    def moved(self, op: _core.Op) -> Step:
        """The step for an op of a plan, which may read other tensors than this, and be a copy: see `memplan.fit`."""
        if (op.inputs, op.outputs) == (self.op.inputs, self.op.outputs):
            return self
        names = self._new_names(op)
        step = copy(self)
        step.op, step.outputs = op, op.outputs
        step.inputs = [None if name is None else names.get(name, name) for name in self.inputs]
        step.outer = {name: names.get(tensor, tensor) for name, tensor in self.outer.items()}
        return step

    def _new_names(self, op: _core.Op) -> dict[str, str]:
        """The tensors that an op reads in place of those that this one reads."""
        if len(self.op.inputs) == len(op.inputs):
            return dict(zip(self.op.inputs, op.inputs, strict=True))
        # a view that was made again reads what it shows alone
        return {old: new for (_, old, _), (_, new, _) in zip(self.op.aliases, op.aliases, strict=True)}
