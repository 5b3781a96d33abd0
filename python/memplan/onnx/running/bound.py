"""The program of an ONNX model, and the model bound to the arena of a plan."""

from __future__ import annotations

import os
from collections import ChainMap
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import ModelProto, TensorProto

from ... import _core, kinds
from ...errors import SourceError
from ...importers.graph_dict import graph_of
from ...plans import usage
from ...running import matching, poison
from ...running.program import Run
from ..reading import Imported
from ..reading.bodies import small_constants
from ..reading.payload import array
from ..reading.types import types
from .feeds import checked_weights, named_inputs
from .memory import Memory
from .nodes import Builder
from .pieces import steps_in_pieces
from .reordered import reordered, write
from .steps import Step
from .values import Array, Bytes, from_bytes
from .weights import Weights

if TYPE_CHECKING:
    from ...plans.plan import Plan
    from ...running.program import Common


class Program:
    """The nodes of a model, which run in the arena of any plan of its graph.

    `whole` gives the model as it came, without what is in other files; those lie in `folder`, None for a model in
    memory. `engine` is what computes nodes first; see `program_of`.
    """

    def __init__(self, found: Imported, whole: Callable[[], ModelProto], folder: str | None, engine: str) -> None:
        self.graph = graph_of(found.graph, measured=True)
        self._whole, self._folder = whole, folder
        self._op_of: dict[str, str] = {}
        model = found.model
        weights = Weights(found.payload, folder)
        self.weights: dict[str, Array] = {t.name: weights.array(t) for t in model.graph.initializer}
        self.steering = {name for name, t in small_constants(model.graph).items() if t.data_type in _STEERING}
        self.steering |= found.deciding
        self.inputs = [value.name for value in model.graph.input]
        self.planned = {name: np.asarray(array(value)) for name, value in found.values.items()}  # inputs' only values
        self.steps: dict[str, Step] = {}
        self._build, known = Builder(model, weights, engine), ChainMap(types(model.graph))
        self._constants = {**small_constants(model.graph), **found.values}
        tensor_of = {tensor.name: tensor.name for tensor in self.graph.tensors}
        for op, node in zip(self.graph.ops, model.graph.node, strict=True):
            self.steps[op.name] = Step(op, node, self._build.runner(node, known), tensor_of)
            self._op_of.update(dict.fromkeys(node.output, op.name))
            tensor_of.update(zip([name for name in node.output if name], op.outputs, strict=True))

    def steps_of(self, plan: Plan) -> Mapping[str, Step]:
        """What computes each op of a plan, by name; copies of ops are not among them."""
        pieces = None if plan.fitting is None else plan.fitting.pieces
        return self.steps if pieces is None else steps_in_pieces(self.steps, pieces, self._build, self._constants)

    def bind(self, plan: Plan, common: Common | None = None) -> Bound:
        """Make the arena of a plan of `graph`, or take a common one, and check the bounds of every view."""
        return Bound(self, plan, common)

    def in_order(self, plan: Plan) -> ModelProto:
        """The whole model with its nodes in the order of a plan; see `Plan.program`."""
        assert plan.graph is not None
        matching.require_no_copies(plan, self.graph)
        step = {op.name: k for k, op in enumerate(plan.graph.ops)}
        return reordered(self._whole(), {output: step[op] for output, op in self._op_of.items()})

    def write(self, plan: Plan, path: str | os.PathLike[str]) -> None:
        """Write the model of `in_order`; see `Plan.to_onnx`."""
        write(self.in_order(plan), path, self._folder)


_BEFORE = -1  # any op
_STEERING = frozenset({TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL})  # small ones decide on shapes


class Bound:
    """A program and the arena of a plan of its graph."""

    def __init__(self, program: Program, plan: Plan, common: Common | None = None) -> None:
        assert plan.graph is not None
        assert plan.buffers is not None
        self._program, self._plan = program, plan
        self._ops = plan.graph.ops
        known = program.steps_of(plan)
        self._steps = [
            None
            if op.type in kinds.MOVES
            else known[op.name if op.name in known else op.name.rsplit("~", 1)[0]].moved(op)
            for op in self._ops
        ]
        self._outside: dict[str, Bytes] = {}  # what was moved out of the arena
        tensors = plan.graph.tensors
        self._tensors = {tensor.name: tensor for tensor in tensors}
        self._donated = frozenset(tensors[t].name for t in plan.buffers.donated)
        self._workspace = self._workspaces()
        self._memory = Memory(plan, None if common is None else common.data)
        self._free = [(0, plan.peak)] if common is None else common.free

    def run(
        self,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        weights: Mapping[str, Any] | None = None,
        check: bool = False,
        views: bool = False,
        order: Sequence[int] | None = None,
        there: Collection[str] = (),
    ) -> Run:
        """Run the model once in the arena, with inputs by name or in the model's order; see `Plan.run`.

        The arena holds the weights `there` already. `order` has positions of all ops, as `HappensBefore` and
        `plan.reuse_edges()` allow; by default it is that of the graph.
        """
        program, memory = self._program, self._memory
        given = named_inputs(args, kwargs or {}, program.inputs, self._tensors, program.planned)
        given |= checked_weights(weights or {}, program.weights, self._tensors, program.steering)
        given = {name: value.copy() if memory.shows(value) else value for name, value in given.items()}
        poisoned = self._poisoned(order) if check else {}
        memory.poison(poisoned.get(_BEFORE, []))
        memory.give(given, self._donated, there)
        stored = []
        with np.errstate(all="ignore"):
            for place, k in enumerate(range(len(self._steps)) if order is None else order):
                memory.poison(poisoned.get(place, []))
                step = self._steps[k]
                stored.append(self._move(self._ops[k]) if step is None else self._step(step, check))
        ran = [outputs for outputs in stored if outputs is not None]
        outputs = {name: self._result(name, views) for name in self._outputs}
        return Run(outputs=outputs, arena_bytes=self._plan.peak, ops=len(ran), copied=sum(map(bool, ran)))

    def _poisoned(self, order: Sequence[int] | None) -> dict[int, list[usage.Span]]:
        """The bytes that are poisoned before a run, and before the op at each place: the dead, and its workspace."""
        dead = poison.deaths(self._plan) if order is None else poison.deaths_in_order(self._plan, order)
        for place, k in enumerate(range(len(self._steps)) if order is None else order):
            dead[place] = dead.get(place, []) + self._workspace.get(k, [])
        return {**dead, _BEFORE: self._free}

    @property
    def _outputs(self) -> list[str]:
        assert self._plan.graph is not None
        moved = [name for op in self._ops if op.type == kinds.MOVE_OUT for name in op.inputs]
        returned = {*self._plan.graph.outputs, *moved}  # what is handed over, too
        return [name for name in self._program.graph.outputs if name in returned]

    def _result(self, name: str, views: bool) -> Array:
        place = self._memory.places[name]
        if name in self._outside:
            return from_bytes(self._outside[name], place.dtype, place.shape).copy()
        return place.view() if views else place.view().copy()

    def _step(self, step: Step, check: bool) -> int | None:
        """Run one op; how many outputs were stored, None if all lie where their bytes are already."""
        there = self._there(step.op)
        if len(there) == len(step.outputs) and not check:
            return None
        places = self._memory.places
        values = dict(zip(step.outputs, step.values(places), strict=True))
        for name, value in values.items():
            self._require(step, name, value)
            if name in there and not step.target(name, places).holds(value):
                raise SourceError(
                    f"op {step.op.name!r} ({step.op.type}) computes another value of {name!r} than lies in the bytes "
                    "that the plan lets it share: they were overwritten, or may not be shared"
                )
        stored = {name: value for name, value in values.items() if name not in there}
        if len(stored) > 1:  # one may be made of the bytes that another is about to overwrite
            stored = {name: value.copy() if self._memory.shows(value) else value for name, value in stored.items()}
        for name, value in stored.items():
            step.target(name, places).write(value)
        return len(stored) if len(there) < len(step.outputs) else None

    def _move(self, op: _core.Op) -> int:
        """Keep the bytes of a tensor outside of the arena, or bring them back."""
        places = self._memory.places
        if op.type == kinds.MOVE_OUT:
            self._outside[op.inputs[0]] = places[op.inputs[0]].data.copy()
            return 0
        places[op.outputs[0]].data[:] = self._outside[op.outputs[0].rsplit("~", 1)[0]]
        return 1

    def _there(self, op: _core.Op) -> set[str]:
        """The outputs of an op that lie in bytes that hold them already: views, slices, and wholes of parts."""
        places = self._memory.places
        shown = (*op.aliases, *op.slices)
        found = {out for out, of, begin in shown if places[out].address == places[of].address + begin}
        parts: dict[str, int] = {}
        for whole, part, begin in op.concats:
            if places[part].address == places[whole].address + begin:
                parts[whole] = parts.get(whole, 0) + self._tensors[part].bytes
        return found | {whole for whole, size in parts.items() if size == self._tensors[whole].bytes}

    def _require(self, step: Step, name: str, value: Array) -> None:
        fault = step.target(name, self._memory.places).fault(value)
        if fault is not None:
            raise SourceError(f"op {step.op.name!r} ({step.op.type}) must give {name!r} as {fault}")

    def _workspaces(self) -> dict[int, list[usage.Span]]:
        """The bytes of the arena that are the workspace of an op."""
        assert self._plan.buffers is not None
        placed = enumerate(self._plan.buffers.buffer_of_workspace.tolist())
        begin, size = self._plan.offsets, self._plan.problem.size
        return {k: [(int(begin[b]), int(begin[b] + size[b]))] for k, b in placed if b >= 0}
