"""What a runtime holds that runs a graph with regions in pieces, and how much it does more than for the whole graph.

The order is that of ONNX Runtime: depth first from the outputs, what was written last first. A value is there from its
step to the last one that reads it. Views, and ops that may overwrite an input that nothing reads any more, take its
bytes. A buffer that nothing reads any more is given to the next value of its shape, and is not free until then. Weights
of products of matrices are packed for each node anew, so they count again for each piece.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from .regions import Network, Region
from .walk import Held, Part, walk

_PRODUCTS = ("MatMul", "Gemm", "FusedMatMul", "FusedGemm", "MatMulInteger", "QGemm")
_COPY = 24.0  # operations in the time in which a byte is copied, with changes of layout before and after
_CALL = 500_000.0  # operations in the time that calling a kernel takes


class Estimate(NamedTuple):
    """Bytes that are there at the step of each op, at most; weights that are there more than once; all operations."""

    needs: Sequence[int]
    packed: int
    cost: float

    @property
    def load(self) -> int:
        return max(self.needs, default=0) + self.packed

    def above(self, target: int) -> int:
        """Bytes above the target, summed over ops."""
        return sum(max(0, need + self.packed - target) for need in self.needs)


def estimate(graph: Network, costs: Sequence[float], regions: Sequence[Region]) -> Estimate:
    """What it takes to run the graph with these regions; `costs` are operations of each op."""
    steps = _Steps(graph, costs)
    walk(graph, regions, steps)
    return Estimate(steps.needs(), steps.packed, steps.cost)


class _Step(NamedTuple):
    op: int
    reads: Sequence[str]
    makes: Sequence[str]
    over: Sequence[tuple[str, str, bool]]  # (made, read): the bytes that may be taken, and whether always


class _Steps:
    """Records steps, as a Maker of `walk`."""

    def __init__(self, graph: Network, costs: Sequence[float]) -> None:
        self._graph, self._costs = graph, costs
        self._bytes = {name: graph.bytes[name] for name in graph.maker}
        self._shape = {name: tuple(graph.shapes[name]) for name in graph.maker}
        self._seen = set[tuple[int, str]]()
        self._steps = list[_Step]()
        self.packed, self.cost = 0, 0.0

    def whole(self, op: int) -> None:
        self._add(op, {}, {}, self._costs[op])

    def part(self, part: Part) -> None:
        op = self._graph.ops[part.op]
        extent, _, writes, sums = op.loops[part.loop]
        iterations = part.end - part.first
        for position, axis, _, step in writes:
            name = op.outputs[position]
            self._value(part.makes[name], name, axis, iterations * step)
        for position in sums:
            self._value(part.makes[op.outputs[position]], op.outputs[position])
        if op.type in _PRODUCTS:
            weights = self._graph.weights.intersection(op.inputs).difference(part.reads)
            self.packed += sum(self._graph.bytes[name] for name in weights if (part.op, name) in self._seen)
            self._seen.update((part.op, name) for name in weights)
        self._add(
            part.op,
            {name: held.value for name, held in part.reads.items()},
            part.makes,
            self._costs[part.op] * iterations / extent,
        )

    def slice(self, tensor: str, of: Held, new: Held) -> None:
        self._copy(tensor, [of], new)

    def join(self, tensor: str, parts: Sequence[Held], new: Held) -> None:
        self._copy(tensor, parts, new)

    def add(self, tensor: str, before: str | None, value: str, total: str) -> None:
        reads = [value] if before is None else [before, value]
        self._value(total, tensor)
        self._steps.append(_Step(self._graph.maker[tensor], reads, [total], [(total, reads[0], False)]))

    def _value(self, value: str, tensor: str, axis: int = 0, rows: int | None = None) -> None:
        """A value of some rows of a tensor; by default of all."""
        shape = self._graph.shapes[tensor]
        whole = shape[axis] if shape else 1
        rows = whole if rows is None else rows
        self._bytes[value] = self._graph.bytes[tensor] * rows // max(whole, 1)
        self._shape[value] = (*shape[:axis], rows, *shape[axis + 1 :])

    def _copy(self, tensor: str, parts: Sequence[Held], new: Held) -> None:
        self._value(new.value, tensor, new.rows.axis, new.rows.end - new.rows.begin)
        self.cost += _CALL + _COPY * self._bytes[new.value]
        op = self._graph.maker.get(tensor, self._steps[-1].op if self._steps else 0)
        self._steps.append(_Step(op, [part.value for part in parts], [new.value], []))

    def _add(self, k: int, reads: Mapping[str, str], makes: Mapping[str, str], cost: float) -> None:
        op = self._graph.ops[k]
        self.cost += cost + (0 if op.aliases else _CALL)
        over = [
            (makes.get(made, made), reads.get(of, of), always)
            for always, relations in ((True, op.aliases), (False, op.inplace))
            for made, of, _ in relations
        ]
        read = [reads.get(name, name) for name in op.inputs]
        self._steps.append(_Step(k, read, [makes.get(name, name) for name in op.outputs], over))

    def _in_order(self) -> list[_Step]:
        """The steps in the order in which ONNX Runtime runs them."""
        maker = {name: k for k, step in enumerate(self._steps) for name in step.makes}
        before = [sorted({maker[name] for name in step.reads if name in maker}) for step in self._steps]
        read = {k for some in before for k in some}
        stack = [(k, False) for k in range(len(self._steps)) if k not in read]
        seen, found = set[int](), list[_Step]()
        while stack:
            k, is_left = stack.pop()
            if is_left:
                found.append(self._steps[k])
            elif k not in seen:
                seen.add(k)
                stack.append((k, True))
                stack.extend((one, False) for one in before[k] if one not in seen)
        return found

    def needs(self) -> list[int]:
        """The bytes that are there at the steps of each op, at most."""
        steps = self._in_order()
        last = {name: k for k, step in enumerate(steps) for name in (*step.makes, *step.reads)}
        last.update(dict.fromkeys(self._graph.outputs, len(steps)))
        root, users = dict[str, str](), dict[str, int]()  # in whose bytes values lie, and how many lie there
        dead = dict[tuple[int, ...], list[str]]()  # by their shape: buffers that may be given again
        spans = dict[str, tuple[int, int]]()  # of buffers
        for k, step in enumerate(steps):
            free = {name for name in step.reads if name in root and last[name] == k and users[root[name]] == 1}
            for name in step.makes:
                of = self._taken(step, name, free, root)
                if of == name and dead.get(self._shape[name]):
                    of = dead[self._shape[name]].pop()
                root[name] = of
                users[of] = users.get(of, 0) + 1
                spans.setdefault(of, (k, k))
            for name in dict.fromkeys((*step.makes, *step.reads)):
                if name in root and last[name] == k:
                    of = root[name]
                    users[of] -= 1
                    spans[of] = spans[of][0], k
                    if not users[of]:
                        dead.setdefault(self._shape[of], []).append(of)
        change = [0] * (len(steps) + 1)
        for name, (begin, end) in spans.items():
            change[begin] += self._bytes[name]
            change[len(steps) if users[name] else end + 1] -= self._bytes[name]
        found = [0] * len(self._graph.ops)
        for step, now in zip(steps, accumulate(change), strict=False):
            found[step.op] = max(found[step.op], now)
        return found

    def _taken(self, step: _Step, name: str, free: Collection[str], root: Mapping[str, str]) -> str:
        """The value whose bytes a value takes; itself if none."""
        for made, of, always in step.over:
            if made == name and of in root and (always or of in free) and self._bytes[of] == self._bytes[name]:
                return root[of]
        return name
