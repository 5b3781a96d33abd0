"""The graph of a plan as its steps see it: who writes and reads which bytes, and when."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING

from .. import _core

if TYPE_CHECKING:
    from .plan import Plan


class Dataflow:
    """Tensors are positions in the graph. Ops are steps: the first of those in which they run."""

    def __init__(self, plan: Plan) -> None:
        assert plan.graph is not None
        assert plan.buffers is not None
        self.graph, self.problem, self.storage = plan.graph, plan.problem, plan.storage
        self.ops: list[_core.Op] = plan.graph.ops
        self.tensors: list[_core.Tensor] = plan.graph.tensors
        self.steps = plan.steps
        self.end = max(self.steps.end, 1)
        self.index = {tensor.name: t for t, tensor in enumerate(self.tensors)}
        self.kept = {self.index[name] for name in plan.graph.outputs}  # for the caller
        self.kept |= {t for t, tensor in enumerate(self.tensors) if tensor.kind == "weight"}
        self.buffer: list[int] = plan.buffers.buffer_of_tensor.tolist()
        self.root: list[int] = plan.buffers.root_of_tensor.tolist()
        self.offset: list[int] = plan.buffers.offset_in_buffer.tolist()
        self.donated = set(plan.buffers.donated)
        workspaces = enumerate(plan.buffers.buffer_of_workspace.tolist())
        self.step_of_workspace = {b: self.steps.of(k)[0] for k, b in workspaces if b >= 0}
        self.shared = plan.buffers.shared
        self.maker = [-1] * len(self.tensors)  # the step that writes it; -1 for what is given
        self.uses: list[list[int]] = [[] for _ in self.tensors]  # steps that read or write it, ascending
        for k, op in enumerate(self.ops):
            step = self.steps.of(k)[0]
            for name in dict.fromkeys((*op.inputs, *op.outputs)):
                self.uses[self.index[name]].append(step)
            for name in op.outputs:
                self.maker[self.index[name]] = step

    @cached_property
    def lives(self) -> list[tuple[int, int]]:
        """The steps [first, last) of each tensor, from its write to its last read."""
        return self.steps.lives(_core.lives_of(self.graph))

    @cached_property
    def _order(self) -> _core.HappensBefore:
        return _core.HappensBefore(self.graph)

    @cached_property
    def _again(self) -> list[str]:
        return _core.again_of(self.graph)

    def op_at(self, step: int) -> _core.Op:
        """The op that runs at a step."""
        return self.ops[self.steps.op_at(step)]

    def before(self, one: int, other: int) -> bool:
        """Whether the op of one step has ended when that of another begins."""
        return self._order.before(self.steps.op_at(one), self.steps.op_at(other))

    def again_at(self, step: int) -> str:
        """What it does to run the op of a step again: "same", "changes" or "never"."""
        return self._again[self.steps.op_at(step)]

    @cached_property
    def mutated(self) -> dict[int, int]:
        """Per root, the last step at which an op may have changed what lies in its bytes."""
        changed = ((self.steps.of(k)[0], op) for k, op in enumerate(self.ops) if _mutates(op.type))
        return {self.root[self.index[name]]: step for step, op in changed for name in (*op.inputs, *op.outputs)}

    @cached_property
    def tensors_of_buffer(self) -> dict[int, list[int]]:
        """The tensors that lie in each buffer."""
        return _grouped(self.buffer)

    @cached_property
    def tensors_of_root(self) -> dict[int, list[int]]:
        """The tensors that lie in the storage of each root, wherever that is."""
        return _grouped(self.root)

    @cached_property
    def value(self) -> list[int]:
        """Per tensor, the one whose value it shows: what it is a view of in the end, or a slice that is not copied."""
        source = {out: self.index[name] for op in self.ops for out, name, _ in op.aliases if not _mutates(op.type)}
        source |= {self.tensors[out].name: inp for how, _, out, inp, _ in self.shared if how == "slice"}
        value = list(range(len(self.tensors)))
        for op in self.ops:
            for out in op.outputs:
                if out in source:
                    value[self.index[out]] = value[source[out]]
        return value

    def span(self, tensor: int) -> tuple[int, int]:
        """The bytes [begin, end) of its storage in which a tensor lies."""
        return self.offset[tensor], self.offset[tensor] + self.tensors[tensor].bytes

    def last_read(self, tensor: int) -> int:
        """The step that reads a tensor last; -1 where none does."""
        uses = self.uses[tensor]
        return uses[-1] if uses and uses[-1] > self.maker[tensor] else -1

    def type_of(self, tensor: int) -> str:
        """The type of the op that writes a tensor; "" where there is none."""
        return self.op_at(self.maker[tensor]).type if self.maker[tensor] >= 0 else ""

    def idle(self, buffer: int, step: int) -> tuple[int, int] | None:
        """The steps [first, last) around a step in which no op uses what lies in a buffer; None where one does.

        Only steps between two uses count, and those from the last use to the end for what is kept.
        """
        members = self.tensors_of_buffer.get(buffer, [])
        steps = sorted({use for t in members for use in self.uses[t]} | {-1} & {self.maker[t] for t in members})
        at = self.steps.of(self.steps.op_at(step))[0] if 0 <= step < self.steps.end else step
        before, after = bisect_right(steps, at), bisect_left(steps, at)
        if before != after or before == 0:
            return None
        last = steps[before - 1]
        used_until = self.steps.of(self.steps.op_at(last))[1] if last >= 0 else 0
        if after < len(steps):
            return used_until, steps[after]
        return (used_until, self.end) if any(t in self.kept for t in members) else None


def _mutates(type: str) -> bool:
    """Whether an op is one of torch's that change their input: "aten.relu_.default"."""
    return any(word.endswith("_") and not word.startswith("__") for word in type.split("."))


def _grouped(keys: list[int]) -> dict[int, list[int]]:
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for tensor, key in enumerate(keys):
        if key >= 0:
            groups[key].append(tensor)
    return groups
