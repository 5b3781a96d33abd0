"""What is asked of where things lie, in a graph or problem: names are looked up, and bytes are read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from ..ops import changed
from ..sizes import byte_range, in_bytes
from ..text import offer
from .records import Layout


def with_layout(source: _core.Graph | _core.Problem, asked: Layout) -> _core.Graph | _core.Problem:
    """The graph or problem of which this is asked besides what is asked of it already.

    Raises
    ------
    TypeError, ValueError
        An option is none, or names what is not there.
    """
    if asks_nothing(asked):
        return source
    return on_graph(source, asked) if isinstance(source, _core.Graph) else _on_problem(source, asked)


def asks_nothing(asked: Layout) -> bool:
    """Whether nothing is asked of where things lie."""
    return not any(asked.given().values())


def on_graph(graph: _core.Graph, asked: Layout) -> _core.Graph:
    sizes = {tensor.name: tensor.bytes for tensor in graph.tensors}
    sizes |= _workspaces(graph, set(sizes))
    new, old = layout_of(asked, sizes, "tensors"), graph.layout
    pinned = {name for name, _ in new.pins} | {name for name, *_ in new.pool_pins}
    layout = _core.Layout(
        [pin for pin in old.pins if pin[0] not in pinned] + new.pins,
        old.reserved + new.reserved,
        old.together + new.together,
        old.apart + new.apart,
        list(dict.fromkeys(old.exclude + new.exclude)),
        [pin for pin in old.pool_pins if pin[0] not in pinned] + new.pool_pins,
        old.pool_reserved + new.pool_reserved,
    )
    ops = graph.ops
    if asked.exclusive:
        branch = _branches(asked.exclusive, {op.name: op.branch for op in ops}, "ops")
        ops = [changed(op, branch=branch[op.name]) for op in ops]
    return _core.Graph(graph.tensors, ops, graph.outputs, layout)


def _workspaces(graph: _core.Graph, taken: set[str]) -> dict[str, int]:
    """Bytes of the ops' workspaces, by the names that their buffers have."""
    return {workspace_name(op, taken): op.workspace for op in graph.ops if op.workspace > 0}


def workspace_name(op: _core.Op, taken: Collection[str]) -> str:
    """What the buffer of an op's workspace is called, in a graph whose tensors have these names."""
    name = f"{op.name}.workspace"
    while name in taken:
        name += "_"
    return name


def _on_problem(problem: _core.Problem, asked: Layout) -> _core.Problem:
    problem, asked = left_of(problem, asked)
    layout = layout_of_problem(problem, asked)
    for name, pool, _ in layout.pool_pins:
        raise ValueError(f"pin[{name!r}] names pool {pool!r}, and this plan is in one arena, without pools")
    for pool, *_ in layout.pool_reserved:
        raise ValueError(f"reserved names pool {pool!r}, and this plan is in one arena, without pools")
    return problem_with(problem, layout)


def layout_of_problem(problem: _core.Problem, asked: Layout) -> _core.Layout:
    """What is asked of the buffers of a problem, by name."""
    if not asked.given():
        return _core.Layout()
    names = [problem.name(b) for b in range(len(problem))]
    return layout_of(asked, dict(zip(names, problem.size.tolist(), strict=True)), "buffers")


def problem_with(problem: _core.Problem, layout: _core.Layout) -> _core.Problem:
    """The problem of which this is asked besides, but for what names pools."""
    by_name = layout.pins or layout.apart or layout.together
    position = {problem.name(b): b for b in range(len(problem))} if by_name else {}
    pins = np.full(len(problem), -1, dtype=np.int64) if problem.pins is None else problem.pins.copy()
    for name, offset in layout.pins:
        pins[position[name]] = offset
    rows = [] if problem.reserved is None else problem.reserved.tolist()
    if layout.pins or layout.reserved:
        problem = problem.with_pins(pins, rows + layout.reserved)
    if layout.apart:
        pairs = [] if problem.conflicts is None else problem.conflicts.tolist()
        problem = problem.with_conflicts(pairs + [(position[a], position[b]) for a, b in layout.apart])
    if layout.together:
        rows = [] if problem.together is None else problem.together.tolist()
        problem = problem.with_together(rows + [(position[a], position[b], by) for a, b, by in layout.together])
    return problem


def left_of(problem: _core.Problem, asked: Layout) -> tuple[_core.Problem, Layout]:
    """The problem without those of its buffers that are excluded, with its branches, and what else is asked of it."""
    if asked.exclude:
        position = {problem.name(b): b for b in range(len(problem))}
        gone = {position[name] for name in _excluded(asked.exclude, _Known(dict.fromkeys(position, 0), "buffers"))}
        left = [b for b in range(len(problem)) if b not in gone]
        problem = problem.subset(left).replace(names=[problem.name(b) for b in left])
    if asked.exclusive:
        names = [problem.name(b) for b in range(len(problem))]
        known = problem.branches or [""] * len(problem)
        branch = _branches(asked.exclusive, dict(zip(names, known, strict=True)), "buffers")
        problem = problem.with_branches(list(branch.values()))
    return problem, replace(asked, exclude=(), exclusive=())


def layout_of(asked: Layout, sizes: Mapping[str, int], what: str) -> _core.Layout:
    """What is asked of things that have these sizes, by name."""
    known = _Known(sizes, what)
    if asked.pin is not None and not isinstance(asked.pin, Mapping):
        raise TypeError(f"pin must be a mapping from names of {what} to offsets, got {type(asked.pin).__name__}")
    pins: list[tuple[str, int]] = []
    pool_pins: list[tuple[str, str, int]] = []
    for name, pin in (asked.pin or {}).items():
        where = f"pin[{name!r}]"
        if isinstance(pin, Sequence) and not isinstance(pin, str):
            pool_pins.append((known(name, "pin"), *in_pool(pin, where)))
        else:
            pins.append((known(name, "pin"), in_bytes(pin, where)))
    reserved: list[tuple[int, int, int, int]] = []
    pool_reserved: list[tuple[str, int, int, int, int]] = []
    for row, where in _rows(asked.reserved, "reserved", "a list of ranges such as (0, 4096)"):
        if isinstance(row, Sequence) and not isinstance(row, str) and len(row) in (3, 5) and isinstance(row[0], str):
            pool_reserved.append((row[0], *byte_range(row[1:], where)))
        else:
            reserved.append(byte_range(row, where))
    together = [_together(row, where, known) for row, where in _rows(asked.together, "together", 'rows ("a", "b", 64)')]
    for row, where in _rows(asked.contiguous, "contiguous", 'lists of names such as ("a", "b", "c")'):
        together += [(a, b, sizes[a]) for a, b in pairwise(_names(row, where, known))]
    apart: list[tuple[str, str]] = []
    for row, where in _rows(asked.apart, "apart", 'lists of names such as ("a", "b")'):
        apart += combinations(_names(row, where, known), 2)
    excluded = _excluded(asked.exclude, known)
    return _core.Layout(pins, reserved, together, apart, excluded, pool_pins, pool_reserved)


class _Known(NamedTuple):
    """Names that may be given, and what they are names of."""

    sizes: Mapping[str, int]
    what: str

    def __call__(self, name: Any, option: str) -> str:
        if not isinstance(name, str) or name not in self.sizes:
            near = offer(str(name), list(self.sizes), self.what)
            raise ValueError(f"{option} must name {self.what}, got {name!r}; {near}")
        return name


def _excluded(value: Any, known: _Known) -> list[str]:
    if isinstance(value, (str, Mapping)) or not isinstance(value, Collection):
        raise TypeError(f"exclude must be a collection of names, got {value!r}")
    return [known(name, "exclude") for name in value]


def _branches(value: Any, branch: Mapping[str, str], what: str) -> dict[str, str]:
    """The branches of all, of which some are in one already, with these besides."""
    found, known = dict(branch), _Known(dict.fromkeys(branch, 0), what)
    for row, where in _rows(value, "exclusive", 'rows of branches such as (["a"], ["b", "c"])'):
        if isinstance(row, str) or not isinstance(row, Sequence) or len(row) < 2:
            raise TypeError(f"{where} must be two branches or more, each a list of names, got {row!r}")
        outside, seen = None, set[str]()
        for k, names in enumerate(row):
            if isinstance(names, str) or not isinstance(names, Sequence):
                raise TypeError(f"{where}[{k}] must be a list of names, got {names!r}")
            for name in names:
                if known(name, where) in seen:
                    raise ValueError(f"{where} names {name!r} twice; it is in one branch")
                seen.add(name)
                outside = found[name] if outside is None else outside
                if found[name] != outside:
                    raise ValueError(
                        f"{where}: {name!r} is in branch {found[name]!r}, and others are in {outside!r}; branches of a "
                        "row lie in one branch of the rows before it, or in none"
                    )
        switch = where
        while any(switch in path.split("/") for path in branch.values()):
            switch += "_"
        for k, names in enumerate(row):
            for name in names:
                found[name] = f"{outside}/{switch}/{k}".removeprefix("/")
    return found


def _rows(value: Any, option: str, example: str) -> Iterator[tuple[Any, str]]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise TypeError(f"{option} must be {example}, got {value!r}")
    return ((row, f"{option}[{k}]") for k, row in enumerate(value))


def _names(row: Any, where: str, known: _Known) -> list[str]:
    if isinstance(row, str) or not isinstance(row, Sequence) or len(row) < 2:
        raise TypeError(f"{where} must be two names or more, got {row!r}")
    names = [known(name, where) for name in row]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{where} names {name!r} {names.count(name)} times")
    return names


def in_pool(value: Any, where: str) -> tuple[str, int]:
    """The name of a pool and an offset there."""
    if len(value) != 2 or not isinstance(value[0], str):
        raise TypeError(f"{where} must be an offset, or the name of a pool and an offset there, got {value!r}")
    return value[0], in_bytes(value[1], where)


def _together(row: Any, where: str, known: _Known) -> tuple[str, str, int]:
    if isinstance(row, str) or not isinstance(row, Sequence) or len(row) not in (2, 3):
        raise TypeError(f"{where} must be (a, b, distance), or (a, b) for one address, got {row!r}")
    a, b = _names(row[:2], where, known)
    return a, b, _distance(row[2], where) if len(row) == 3 else 0


def _distance(value: Any, where: str) -> int:
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value < 0:
        return -in_bytes(-int(value), f"{where} distance")
    return in_bytes(value, f"{where} distance")
