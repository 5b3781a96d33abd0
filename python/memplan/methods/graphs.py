"""A method's graph as it is planned: what stays has a place in it, from the first step to the last.

A weight does so already. So for planning, whatever owns the bytes of what stays becomes a weight:

    input, weight      is called a weight, and weights are placed
    made by an op      is written over a weight that is there before
    read and written   the second is written over the first, through ops that may write in place

Weights that do not stay are called inputs meanwhile, where neither have a place of their own; otherwise they are
excluded. The plan then speaks of the method's own graph again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .. import _core
from ..errors import GraphError
from ..ops import changed
from ..plans.record import PlanRecord
from .sharing import Asked

View = tuple[str, str, int]  # output, input, and the first byte of the one in the other


@dataclass(frozen=True)
class Prepared:
    """A method's own graph, the one to plan, and how they differ."""

    own: _core.Graph  # of the same tensors in the same order; `graph` has some more, and ops that write over them
    graph: _core.Graph
    place: list[str]  # the kinds that are placed in `graph`
    before: Mapping[str, str]  # tensors that only `graph` has, and what is written over each
    taken: Sequence[View]  # what is written over what in `graph` alone

    def plan(self, planned: PlanRecord, storage: _core.StorageOptions) -> PlanRecord:
        """The plan of the method's own graph, from that of `graph`."""
        assert planned.graph is not None
        assert planned.buffers is not None
        position = {op.name: k for k, op in enumerate(self.own.ops)}
        graph = _core.reordered(self.own, [position[op.name] for op in planned.graph.ops])
        buffers = self._buffers(graph, planned.buffers)
        return replace(planned, graph=graph, buffers=buffers, problem=buffers.problem, storage=storage)

    def _buffers(self, graph: _core.Graph, planned: _core.Buffers) -> _core.Buffers:
        problem, lies, inside, root, workspaces, shared, donated, unshared = planned.__getstate__()
        tensors, count = graph.tensors, len(graph.tensors)
        index = {tensor.name: t for t, tensor in enumerate(tensors)}
        root_of = {count + k: index[after] for k, after in enumerate(self.before.values())}
        step = {output: k for k, op in enumerate(graph.ops) for output in op.outputs}
        chosen = [("inplace", step[out], index[out], index[into], at) for out, into, at in self.taken]
        given = [index[into] for _, into, _ in self.taken if tensors[index[into]].kind == "input"]
        state = (
            _renamed(problem, self.before),
            lies[:count],
            inside[:count],
            [root_of.get(r, r) for r in root[:count]],
            workspaces,
            sorted([*shared, *chosen], key=lambda row: row[1]),
            [*donated, *given],
            unshared,
        )
        buffers = _core.Buffers.__new__(_core.Buffers)
        buffers.__setstate__(state)
        return buffers


def prepared(graph: _core.Graph, shared: Collection[Asked], method: str, place: Sequence[str]) -> Prepared:
    """The graph in which the tensors stay that `shared` says of a method.

    ValueError: A tensor cannot stay. The message names it, the method and the reason.
    """
    change = _Change(graph, method)
    for asked in shared:
        if method in asked.tensors:
            change.keep(asked.name, asked.tensors[method])
    return change.done(list(place))


class _Change:
    """What has to change in a graph so that some of its tensors stay."""

    def __init__(self, graph: _core.Graph, method: str) -> None:
        self._graph, self._method = graph, method
        self._tensor = {tensor.name: tensor for tensor in graph.tensors}
        self._ops = {output: op for op in graph.ops for output in op.outputs}
        self._inside: dict[str, tuple[str, int]] = {}  # what a tensor must lie in, and where
        for op in graph.ops:
            for output, source, at in (*op.aliases, *op.overwrites):
                self._inside[output] = (source, at)
        self._roots: dict[str, None] = {}  # of what stays
        self._taken: list[View] = []
        self._stays: list[tuple[str, str, int, int]] = []  # name, root, its bytes [begin, end) there

    def keep(self, name: str, tensors: Sequence[str]) -> None:
        """Let the tensors of one name stay."""
        root, at = self._root(tensors[0])
        if len(tensors) == 2 and self._root(tensors[1]) != (root, at):
            self._take(name, *tensors)
        kind = self._tensor[root].kind
        if kind not in ("input", "weight") and not any(self._root(out)[0] == root for out in self._graph.outputs):
            raise self._refused(
                name, f"{tensors[0]!r} is an {kind}: what stays must be an input, a weight, or an output of the graph"
            )
        for excluded in self._graph.layout.exclude:
            if self._root(excluded)[0] == root:
                raise self._refused(name, f"{excluded!r} is excluded from the arena")
        self._roots[root] = None
        self._stays.append((name, root, at, at + self._tensor[tensors[0]].bytes))

    def done(self, place: list[str]) -> Prepared:
        self._require_apart()
        graph = self._graph
        if not self._roots:
            return Prepared(graph, graph, place, {}, ())
        layout, weights = graph.layout, [tensor.name for tensor in graph.tensors if tensor.kind == "weight"]
        given = "weight" not in place and "input" not in place
        if "weight" not in place and not given:
            others = [name for name in weights if name not in self._roots]
            exclude = list(dict.fromkeys([*layout.exclude, *others]))
            layout = _core.Layout(layout.pins, layout.reserved, layout.together, layout.apart, exclude)
        names, before = set(self._tensor), dict[str, str]()
        tensors: list[_core.Tensor] = []
        for tensor in graph.tensors:
            kind = tensor.kind
            if tensor.name in self._roots and kind in ("input", "weight"):
                kind = "weight"
            elif given and kind == "weight":
                kind = "input"
            tensors.append(_core.Tensor(tensor.name, tensor.bytes, kind, tensor.shape, tensor.dtype))
        for root in self._roots:
            if self._tensor[root].kind not in ("input", "weight"):
                name = f"{root}.before"
                while name in names:
                    name += "_"
                names.add(name)
                before[name] = root
                tensors.append(_core.Tensor(name, self._tensor[root].bytes, "weight"))
        over = {root: name for name, root in before.items()}
        ops = [self._changed(op, over) for op in graph.ops]
        try:
            made = _core.Graph(tensors, ops, graph.outputs, layout)
        except GraphError as error:
            names_ = ", ".join(repr(name) for name, *_ in self._stays)
            raise GraphError(f"method {self._method!r}: {names_} cannot stay where it is: {error}") from error
        return Prepared(graph, made, list(dict.fromkeys([*place, "weight"])), before, self._taken)

    def _require_apart(self) -> None:
        for k, (name, root, begin, end) in enumerate(self._stays):
            for other, its_root, its_begin, its_end in self._stays[:k]:
                if root == its_root and begin < its_end and its_begin < end:
                    raise self._refused(name, f"its bytes are those of {other!r}, which is shared too")

    def _changed(self, op: _core.Op, over: Mapping[str, str]) -> _core.Op:
        """An op that writes over what was there before, and has no other choice."""
        taken = [view for view in self._taken if view[0] in op.outputs]
        first = [(root, over[root], 0) for root in op.outputs if root in over]
        if not taken and not first:
            return op
        fixed = {view[0] for view in (*taken, *first)}

        def chosen(views: Sequence[View]) -> list[View]:
            return [view for view in views if view[0] not in fixed]

        return changed(
            op,
            inputs=[*op.inputs, *(source for _, source, _ in first)],
            inplace=chosen(op.inplace),
            overwrites=[*op.overwrites, *taken, *first],
            slices=chosen(op.slices),
            concats=chosen(op.concats),
        )

    def _root(self, name: str) -> tuple[str, int]:
        at = 0
        while name in self._inside:
            name, inside = self._inside[name]
            at += inside
        return name, at

    def _take(self, name: str, read: str, written: str) -> None:
        """Write one tensor over another, through ops that may write in place."""
        (target, at), way = self._root(read), list[View]()
        if self._tensor[target].kind != "input" or at or self._tensor[target].bytes != self._tensor[read].bytes:
            raise self._refused(name, f"{read!r} must be a whole input to be written over by {written!r}")
        here = self._root(written)[0]
        while here != target:
            op = self._ops.get(here)
            views = [] if op is None else [view for view in op.inplace if view[0] == here and view[2] == 0]
            next_ = [view for view in views if self._leads(self._root(view[1])[0], target)]
            if not next_:
                type_ = "no op" if op is None else f"op {op.name!r} ({op.type})"
                raise self._refused(name, f"{written!r} must be written over {read!r} in place, but {type_} may not")
            way.append(next_[0])
            here = self._root(next_[0][1])[0]
        for output, source, inside in way:
            self._inside[output] = (source, inside)
        self._taken += way[::-1]

    def _leads(self, name: str, target: str) -> bool:
        """Whether a tensor may lie in the bytes of another, through ops that may write in place."""
        seen, waiting = {name}, [name]
        while waiting:
            here = waiting.pop()
            if here == target:
                return True
            op = self._ops.get(here)
            for output, source, at in () if op is None else op.inplace:
                root, inside = self._root(source)
                if output == here and at == inside == 0 and root not in seen:
                    seen.add(root)
                    waiting.append(root)
        return False

    def _refused(self, name: str, why: str) -> GraphError:
        return GraphError(f"shared {name!r} in method {self._method!r}: {why}")


def _renamed(problem: _core.Problem, before: Mapping[str, str]) -> _core.Problem:
    """The problem in which buffers have the names of the method's own tensors."""
    state: list[Any] = list(problem.__getstate__())
    state[4] = [before.get(name, name) for name in problem.names]
    return with_state(state)


def with_state(state: Sequence[Any]) -> _core.Problem:
    """The problem of which this is the state."""
    problem = _core.Problem.__new__(_core.Problem)
    problem.__setstate__(tuple(state))
    return problem
