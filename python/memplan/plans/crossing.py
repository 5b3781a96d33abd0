"""What stays between methods, and a check that nothing else ever uses its bytes. It shares nothing with planners."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .. import _core

if TYPE_CHECKING:
    from .record import PlanRecord


@dataclass(frozen=True)
class Staying:
    """A tensor that stays where it is between methods.

    Attributes
    ----------
    name : str
        What `memplan.plan_many` was given.
    bytes, offset : int
        Its size, and where it begins in the common arena.
    tensors : mapping of str to tuple of str
        Per method that has it, its names there: one; or two, if the method writes the second over the first.
    """

    name: str
    bytes: int
    offset: int
    tensors: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Crossing:
    """What is wrong between methods."""

    message: str


@dataclass(frozen=True)
class _Region:
    """Bytes of the arena that something of a method uses at some time."""

    what: str
    name: str
    begin: int
    end: int


def crossings(methods: Mapping[str, PlanRecord], shared: Sequence[Staying], peak: int) -> list[Crossing]:
    """What is wrong: shared tensors that are elsewhere, or whose bytes something else uses, in any method.

    O(shared x tensors).
    """
    faults: list[str] = []
    for method, plan in methods.items():
        regions = list(_regions(plan))
        faults += [
            f"method {method!r}: {r.what} {r.name!r} ends at {r.end}, beyond the arena of {peak} bytes"
            for r in regions
            if r.end > peak
        ]
        by_name = {region.name: region for region in regions if region.what != "workspace"}
        for stays in shared:
            names = stays.tensors.get(method, ())
            faults += _elsewhere(method, stays, names, by_name)
            faults += _intruders(method, stays, regions, _belonging(plan.graph, names))
    return [Crossing(fault) for fault in faults]


def _elsewhere(method: str, stays: Staying, names: Sequence[str], regions: Mapping[str, _Region]) -> Iterator[str]:
    for name in names:
        found = regions.get(name)
        expected = f"must be at [{stays.offset}, {stays.offset + stays.bytes})"
        if found is None:
            yield f"method {method!r}: {name!r}, which is shared as {stays.name!r}, has no place; it {expected}"
        elif (found.begin, found.end) != (stays.offset, stays.offset + stays.bytes):
            where = f"[{found.begin}, {found.end})"
            yield f"method {method!r}: {name!r}, which is shared as {stays.name!r}, is at {where}; it {expected}"


def _intruders(method: str, stays: Staying, regions: Sequence[_Region], own: set[str]) -> Iterator[str]:
    begin, end = stays.offset, stays.offset + stays.bytes
    for region in regions:
        if max(region.begin, begin) < min(region.end, end) and not (region.what != "workspace" and region.name in own):
            yield (
                f"method {method!r}: {region.what} {region.name!r} uses the bytes [{region.begin}, {region.end}), but "
                f"[{begin}, {end}) are those of {stays.name!r}, which stays"
            )


def _regions(plan: PlanRecord) -> Iterator[_Region]:
    """The bytes that each tensor and workspace of a graph uses; of a problem, each rectangle of its buffers."""
    offsets = plan.offsets.tolist()
    if plan.graph is None or plan.buffers is None:
        size, parts = plan.problem.size.tolist(), plan.problem.parts
        shaped: dict[int, list[tuple[int, int]]] = {}
        for b, begin, end, _, _ in [] if parts is None else parts.tolist():
            shaped.setdefault(b, []).append((begin, end))
        for b, offset in enumerate(offsets):
            for begin, end in shaped.get(b, [(0, size[b])]):
                yield _Region("buffer", plan.problem.name(b), offset + begin, offset + end)
        return
    lies = zip(plan.buffers.buffer_of_tensor.tolist(), plan.buffers.offset_in_buffer.tolist(), strict=True)
    for tensor, (b, inside) in zip(plan.graph.tensors, lies, strict=True):
        if b >= 0:
            yield _Region("tensor", tensor.name, offsets[b] + inside, offsets[b] + inside + tensor.bytes)
    for op, b in zip(plan.graph.ops, plan.buffers.buffer_of_workspace.tolist(), strict=True):
        if b >= 0:
            yield _Region("workspace", op.name, offsets[b], offsets[b] + op.workspace)


def _belonging(graph: _core.Graph | None, names: Sequence[str]) -> set[str]:
    """What may use the bytes of a shared tensor: whatever the graph says must lie in them.

    These are views and overwrites of its tensors, and what lies on the way where one is written over the other. Then
    slices that show its bytes as they are, and their views; but nothing that is written over a slice.
    """
    own = set(names)
    if graph is None or not names:
        return own
    near: dict[str, set[str]] = {}
    before: dict[str, set[str]] = {}
    for op in graph.ops:
        for output, source, _ in (*op.aliases, *op.overwrites):
            near.setdefault(output, set()).add(source)
            near.setdefault(source, set()).add(output)
        for output, source, _ in (*op.aliases, *op.overwrites, *op.inplace):
            before.setdefault(output, set()).add(source)
    if len(names) > 1:
        after: dict[str, set[str]] = {}
        for output, sources in before.items():
            for source in sources:
                after.setdefault(source, set()).add(output)
        own |= _reached(before, own) & _reached(after, own)
    shown: dict[str, set[str]] = {}
    for op in graph.ops:
        for output, source, _ in (*op.aliases, *op.slices):
            shown.setdefault(source, set()).add(output)
    return _reached(shown, _reached(near, own))


def _reached(edges: Mapping[str, set[str]], start: set[str]) -> set[str]:
    seen, waiting = set(start), list(start)
    while waiting:
        for name in edges.get(waiting.pop(), ()):
            if name not in seen:
                seen.add(name)
                waiting.append(name)
    return seen
