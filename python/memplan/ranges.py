"""One plan for sizes in a range: offsets that hold for all of them, and what each size needs alone.

The source is captured at some sizes. All of these graphs have the same ops and tensors; the tensors have other bytes.
Only what may share bytes at all sizes does. So all have the same buffers with the same lifetimes, and one plan says of
any two that meet which one is below the other. That has two uses:

    fixed offsets   those of the largest sizes; they hold wherever no buffer is larger
    pushed down     at one size, each buffer begins where the highest of those below it ends; if that leaves a gap,
                    the plan of that size says what is below what, there and wherever that is lower

Both are verified at each size that is looked at, on its own problem and by a replay of its own graph.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, cast

import numpy as np

from . import _core
from .api import HAVE_PROGRAMS, capture, plan
from .errors import InfeasibleError, UnsupportedError
from .facts.later import does
from .facts.plan import Plan
from .facts.ranged import AtSize, Ranged
from .facts.source import Source
from .facts.usage import Ints, rectangles
from .importers import kind_of
from .ops import changed
from .planning.registry import solve_problem

_MOST_POINTS = 32
_CAPTURED = (
    *("source", "args", "kwargs", "train", "inclusive", "inplace_ops", "trust", "device", "optimizer"),
    "keep_gradients",
)
_REFUSED = ("pools", "accesses", "keep", "hint", "start", "price", "on_improvement")

Sizes = dict[str, int]
Relation = tuple[str, str, str, str]  # how, op, output, input


@does("plan_range")
def plan_range(options: dict[str, Any]) -> Plan:
    """What `memplan.plan` gives for `dims` with ranges; `options` are all its arguments."""
    begin = time.perf_counter()
    for option in _REFUSED:
        if options.get(option):
            raise TypeError(f"option {option} does not go with dims in a range")
    dims = options.pop("dims")
    ranges = {name: _checked(name, size) for name, size in dims.items() if isinstance(size, (tuple, list))}
    fixed = {name: size for name, size in dims.items() if name not in ranges}
    captured = {key: options.pop(key) for key in _CAPTURED if key in options}
    points, every = _points(ranges)

    def captured_at(sizes: Sizes) -> _core.Graph:
        found = capture(**captured, dims={**fixed, **sizes})
        if not isinstance(found, _core.Graph):
            raise TypeError("dims in a range are for graphs; a problem has sizes already")
        return found

    largest = points[-1]
    graphs = {_key(sizes): captured_at(sizes) for sizes in points}
    for sizes in points:
        _require_alike(graphs[_key(largest)], graphs[_key(sizes)], largest, sizes)
    found = _Range(graphs, _key(largest), options).found()
    for key in reversed(list(graphs)):
        found = _with_order_of(found, key, graphs[key], options)
    known = {key: _at(found, graphs[key]) for key in graphs}

    def at(sizes: Sizes) -> Plan:
        graph = graphs.get(_key(sizes))
        if graph is None:
            graph = captured_at(sizes)
            _require_alike(found.graph, graph, largest, sizes)
        try:
            there = known[_key(sizes)] if _key(sizes) in known else _at(found, graph)
        except UnsupportedError as error:
            raise UnsupportedError(
                f"the plan does not hold at {_text(sizes)}, which was not looked at: {error}"
            ) from error
        return _with_source(there.plan, captured, {**fixed, **sizes})

    rows = {
        key: AtSize(dict(zip(ranges, key, strict=True)), it.plan.peak, it.fixed, it.plan.lower_bound, it.like)
        for key, it in known.items()
    }
    ranged = Ranged(ranges, rows, every, _growing(graphs), at)
    whole = replace(found.plan, graph=_in_order(found.graph, found.plan))
    whole.verify()
    result = _with_source(whole, captured, {**fixed, **largest})
    return replace(result, ranged=ranged, seconds=time.perf_counter() - begin)


def _checked(name: str, value: Any) -> tuple[int, int]:
    sizes = list(value)
    whole = all(isinstance(size, (int, np.integer)) and not isinstance(size, bool) for size in sizes)
    if len(sizes) != 2 or not whole or not 0 <= sizes[0] <= sizes[1]:
        raise ValueError(f"dims[{name!r}] must be a size, or the least and the largest as (1, 64), got {value!r}")
    return int(sizes[0]), int(sizes[1])


def _key(sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(sizes.values())


def _points(ranges: Mapping[str, tuple[int, int]]) -> tuple[list[Sizes], bool]:
    """The sizes to look at, the largest last, and whether these are all. Otherwise powers of two, and the ends."""
    axes = [list(range(least, most + 1)) if most - least < _MOST_POINTS else None for least, most in ranges.values()]
    count = 1
    for axis in axes:
        count *= _MOST_POINTS + 1 if axis is None else len(axis)
    every = count <= _MOST_POINTS
    if not every:
        axes = [_doubling(least, most) for least, most in ranges.values()]
        while (total := int(np.prod([len(cast(Any, axis)) for axis in axes]))) > _MOST_POINTS and total > 2 ** len(
            axes
        ):
            longest = max(axes, key=lambda axis: len(cast(Any, axis)))
            assert longest is not None
            del longest[len(longest) // 2]
    return [dict(zip(ranges, sizes, strict=True)) for sizes in product(*cast(Any, axes))], every


def _doubling(least: int, most: int) -> list[int]:
    powers = [2**k for k in range(most.bit_length()) if least < 2**k < most]
    return sorted({least, *powers, most})


def _growing(graphs: Mapping[tuple[int, ...], _core.Graph]) -> bool:
    """Whether no tensor is larger at smaller sizes."""
    bytes_ = {key: np.array([tensor.bytes for tensor in graph.tensors]) for key, graph in graphs.items()}
    return all(
        bool(np.all(bytes_[a] <= bytes_[b]))
        for a in bytes_
        for b in bytes_
        if all(x <= y for x, y in zip(a, b, strict=True))
    )


def _require_alike(one: _core.Graph, other: _core.Graph, at: Sizes, there: Sizes) -> None:
    """That two sizes give the same ops and tensors, and the same views."""
    for what, a, b in (
        ("tensors", _names(one.tensors), _names(other.tensors)),
        ("ops", sorted(op.name for op in one.ops), sorted(op.name for op in other.ops)),
        ("views", _views(one), _views(other)),
    ):
        if a != b:
            differ = sorted({str(x) for x in a} ^ {str(x) for x in b})
            raise UnsupportedError(
                f"the network has other {what} at {_text(there)} than at {_text(at)}, such as "
                f"{', '.join(differ[:3])}: one plan cannot hold for both; plan parts of the range"
            )


def _names(tensors: Sequence[_core.Tensor]) -> list[str]:
    return [tensor.name for tensor in tensors]


def _views(graph: _core.Graph) -> list[tuple[str, str, str, bool]]:
    found = [(op.name, out, into, over) for op in graph.ops for out, into, over in _must(op)]
    return sorted([*found, *((op.name, name, "", False) for op in graph.ops for name in (*op.inputs, *op.outputs))])


def _must(op: _core.Op) -> Iterator[tuple[str, str, bool]]:
    yield from ((out, into, False) for out, into, _ in op.aliases)
    yield from ((out, into, True) for out, into, _ in op.overwrites)


def _text(sizes: Sizes) -> str:
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


# What shares bytes by choice


def _relations(graph: _core.Graph) -> set[Relation]:
    return {
        (how, op.name, out, into)
        for op in graph.ops
        for how, views in (("inplace", op.inplace), ("slice", op.slices), ("concat", op.concats))
        for out, into, _ in views
    }


def _only(graph: _core.Graph, allowed: set[Relation]) -> _core.Graph:
    """The graph in which no more may share bytes than this."""

    def kept(how: str, op: _core.Op, views: Sequence[tuple[str, str, int]]) -> list[tuple[str, str, int]]:
        return [view for view in views if (how, op.name, view[0], view[1]) in allowed]

    ops = [
        changed(
            op,
            inplace=kept("inplace", op, op.inplace),
            slices=kept("slice", op, op.slices),
            concats=kept("concat", op, op.concats),
        )
        for op in graph.ops
    ]
    return _core.Graph(graph.tensors, ops, graph.outputs, graph.layout)


def _shared(graph: _core.Graph, buffers: _core.Buffers) -> set[Relation]:
    ops, tensors = graph.ops, graph.tensors
    return {(how, ops[op].name, tensors[out].name, tensors[into].name) for how, op, out, into, _ in buffers.shared}


@dataclass(frozen=True)
class _Found:
    """A plan for a whole range.

    Attributes
    ----------
    plan : Plan
        At the largest sizes, with offsets that hold for all.
    graph : Graph
        Of the largest sizes, as it was captured.
    shared : set of Relation
        What shares bytes by choice, at all sizes.
    orders : tuple of (sizes, offsets)
        Which buffers are below which, by offsets that are good at some sizes.
    """

    plan: Plan
    graph: _core.Graph
    shared: set[Relation]
    orders: tuple[tuple[tuple[int, ...], Ints], ...] = ()

    def buffers(self, graph: _core.Graph) -> tuple[_core.Graph, _core.Buffers]:
        """The graph of another size in the order of the plan, and its buffers."""
        assert self.plan.storage is not None
        ordered = _only(_in_order(graph, self.plan), self.shared)
        return ordered, _core.buffers_of(ordered, self.plan.storage)


def _in_order(graph: _core.Graph, plan: Plan) -> _core.Graph:
    """The graph in the order of a plan, with what was asked of where things lie."""
    assert plan.graph is not None
    position = {op.name: k for k, op in enumerate(graph.ops)}
    ordered = _core.reordered(graph, [position[name] for name in plan.order])
    ops = [changed(op, branch=as_planned.branch) for op, as_planned in zip(ordered.ops, plan.graph.ops, strict=True)]
    return _core.Graph(ordered.tensors, ops, ordered.outputs, plan.graph.layout)


class _Range:
    """Looks for one plan of graphs that differ in sizes alone."""

    def __init__(
        self, graphs: Mapping[tuple[int, ...], _core.Graph], largest: tuple[int, ...], options: Mapping[str, Any]
    ) -> None:
        self._graphs, self._largest, self._key = graphs, graphs[largest], largest
        self._options = dict(options)

    def found(self) -> _Found:
        """The plan, once all sizes share bytes alike."""
        allowed = set.intersection(*(_relations(graph) for graph in self._graphs.values()))
        while True:
            made = plan(_only(self._largest, allowed), **self._options)
            assert made.graph is not None
            assert made.buffers is not None
            found = _Found(made, self._largest, _shared(made.graph, made.buffers))
            there = [self._shared_at(found, graph) for graph in self._graphs.values()]
            if all(kept == found.shared for kept in there):
                found = self._for_all(found)
                return replace(found, orders=((self._key, found.plan.offsets),))
            if not allowed:
                raise UnsupportedError("the network has other buffers at some sizes of the range; plan parts of it")
            common = set.intersection(found.shared, *(kept or set() for kept in there))
            allowed = common if common != allowed else set()

    def _shared_at(self, found: _Found, graph: _core.Graph) -> set[Relation] | None:
        """What shares bytes by choice at another size; None if the buffers are others."""
        assert found.plan.buffers is not None
        ordered, buffers = found.buffers(graph)
        same = np.array_equal(buffers.buffer_of_tensor, found.plan.buffers.buffer_of_tensor)
        lives = [(p.first.tolist(), p.last.tolist()) for p in (buffers.problem, found.plan.problem)]
        return _shared(ordered, buffers) if same and lives[0] == lives[1] else None

    def _for_all(self, found: _Found) -> _Found:
        """The plan with offsets that hold at all sizes: its own, or those of buffers that are as large as anywhere."""
        problems = [found.buffers(graph)[1].problem for graph in self._graphs.values()]
        if all(_holds(found.plan, problem) for problem in problems):
            return found
        widest = np.max([problem.size for problem in problems], axis=0)
        own = found.plan.problem
        cover = _core.Problem(widest, own.first, own.last, own.alignment, own.names or None, None, own.conflicts)
        cover = cover.with_branches(own.branches).with_pins(own.pins, own.reserved).with_together(own.together)
        solution = solve_problem(cover, self._options["planner"], self._options["time_limit"])
        bound = found.plan.lower_bound
        wider = replace(
            found.plan,
            offsets=solution.offsets,
            peak=solution.peak,
            optimal=solution.peak == bound,
            winner=solution.winner,
        )
        return replace(found, plan=wider)


# At one size


@dataclass(frozen=True)
class _There:
    """The plan at one size, the sizes whose order it has, and the bytes used with the offsets of the whole range."""

    plan: Plan
    like: tuple[int, ...]
    fixed: int


def _with_order_of(found: _Found, key: tuple[int, ...], graph: _core.Graph, options: Mapping[str, Any]) -> _Found:
    """With the order of a plan for one size, if those that are known need more there."""
    there = _at(found, graph).plan
    if there.optimal:
        return found
    try:
        own = solve_problem(there.problem, options["planner"], options["time_limit"], capacity=there.lower_bound)
    except InfeasibleError as error:
        if error.plan is None:
            return found
        own = cast(Any, error.plan)
    return replace(found, orders=(*found.orders, (key, own.offsets))) if own.peak < there.peak else found


def _at(found: _Found, graph: _core.Graph) -> _There:
    """The plan of one size, in the order in which it needs least."""
    assert found.plan.storage is not None
    _, buffers = found.buffers(graph)
    problem, offsets = buffers.problem, found.plan.offsets
    ends = int((offsets + problem.size).max(initial=0))
    if len(problem) != len(found.plan.problem) or not _holds(found.plan, problem):
        raise UnsupportedError("buffers are larger or others than its offsets have room for; plan parts of the range")
    peak, pushed, like = ends, offsets, found.orders[0][0]
    for sizes, order in found.orders:
        lower = _pushed_down(order, problem)
        top = int((lower + problem.size).max(initial=0))
        if top < peak and not _core.verify(problem, lower, limit=1):
            peak, pushed, like = top, lower, sizes
    whole = _in_order(graph, found.plan)
    bound = int(_core.sharing_bound(whole, found.plan.storage))
    made = replace(
        found.plan,
        problem=problem,
        offsets=pushed,
        peak=peak,
        lower_bound=bound,
        placement_bound=max(bound, problem.load),
        optimal=peak == bound,
        graph=whole,
        buffers=buffers,
        unshared=buffers.unshared,
        proven_of_orders=0,
    )
    made.verify()
    return _There(made, like, ends)


def _holds(plan: Plan, problem: _core.Problem) -> bool:
    """Whether the offsets of a plan are valid for the buffers of another size, in the arena of the plan."""
    return not _core.verify(problem, plan.offsets, capacity=plan.peak, limit=1)


def _pushed_down(order: Ints, problem: _core.Problem) -> Ints:
    """Each buffer as low as those below it let it be, which is where `order` has them; O(buffers x rectangles)."""
    if problem.pins is not None or problem.reserved is not None or problem.together is not None:
        return order
    rows = rectangles(problem)
    buffer, low, high, first, last = rows.T
    conflicts: dict[int, set[int]] = {}
    for a, b in [] if problem.conflicts is None else problem.conflicts.tolist():
        conflicts.setdefault(a, set()).add(b)
        conflicts.setdefault(b, set()).add(a)
    branches = problem.branches or [""] * len(problem)
    offsets, done = np.zeros(len(problem), dtype=np.int64), np.zeros(len(problem), dtype=bool)
    alignment = problem.alignment
    for b in np.lexsort((np.arange(len(problem)), order)).tolist():
        least = 0
        below = done[buffer]
        if problem.branches is not None:
            below &= np.array([not _exclusive(branches[b], each) for each in branches])[buffer]
        always = np.isin(buffer, list(conflicts.get(b, ())))
        for r in np.flatnonzero(buffer == b).tolist():
            meets = below & (always | ((first < last[r]) & (first[r] < last)))
            if problem.parts is not None:
                meets &= order[buffer] + low <= order[b] + low[r]
            tops = offsets[buffer[meets]] + high[meets] - low[r]
            least = max(least, int(tops.max(initial=0)))
        offsets[b] = -(-least // int(alignment[b])) * int(alignment[b])
        done[b] = True
    offsets.flags.writeable = False
    return offsets


def _exclusive(one: str, other: str) -> bool:
    """Whether no run takes both branches, as "if1/then" and "if1/else": the first that differs is of one switch."""
    if one == other:
        return False
    names, others = one.split("/"), other.split("/")
    differ = [k for k, (a, b) in enumerate(zip(names, others, strict=False)) if a != b]
    return bool(differ) and differ[0] % 2 == 1


def _with_source(plan: Plan, captured: Mapping[str, Any], dims: Sizes) -> Plan:
    """The plan with the network at these sizes, which `Plan.run` runs."""
    kind = kind_of(captured["source"])
    if kind not in HAVE_PROGRAMS or captured.get("device") is not None:
        return plan
    given: dict[str, Any] = {key: captured[key] for key in ("train", "trust", "optimizer", "keep_gradients")}
    source = Source(
        captured["source"],
        kind,
        tuple(captured["args"]),
        dict(captured["kwargs"] or {}),
        dims=dims,
        inplace_ops=tuple(captured["inplace_ops"]),
        **given,
    )
    return replace(plan, source=source)
