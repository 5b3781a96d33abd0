"""Slow, plain checks of problems, graphs and plans. Written apart: nothing here imports memplan.

Problems are columns of ints (size, first, last, alignment), lifetimes half-open; graphs are graph dicts whose tensors
give their bytes. Everything is a direct reading of the definitions, without any cleverness.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Columns = tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[int]]
GraphDict = Mapping[str, Any]
Violations = set[tuple[str, int, int]]

GIVEN = ("input", "weight")
NOWHERE = -1


# Problems and plans


def violations(columns: Columns, offsets: Sequence[int], capacity: int = 2**63 - 1) -> Violations:
    """All violations as (kind, buffer, other): every pair is looked at; other is -1 where there is none."""
    size, first, last, alignment = columns
    found: Violations = set()
    for i, offset in enumerate(offsets):
        if offset < 0 or offset + size[i] > capacity:
            found.add(("outside", i, -1))
        if offset % alignment[i] != 0:
            found.add(("misaligned", i, -1))
        for j in range(i):
            alive_together = first[i] < last[j] and first[j] < last[i]
            share_bytes = offset < offsets[j] + size[j] and offsets[j] < offset + size[i]
            if size[i] > 0 and size[j] > 0 and alive_together and share_bytes:
                found.add(("overlap", j, i))
    return found


def is_valid(columns: Columns, offsets: npt.NDArray[np.int64]) -> bool:
    """Whether a plan holds: the same reading as `violations`, a row of pairs at a time, for thousands of buffers."""
    size, first, last, alignment = (np.asarray(column) for column in columns)
    if (offsets < 0).any() or (offsets % alignment).any():
        return False
    end = offsets + size
    for i in np.flatnonzero(size > 0).tolist():
        together = (first[:i] < last[i]) & (first[i] < last[:i]) & (size[:i] > 0)
        if (together & (offsets[:i] < end[i]) & (offsets[i] < end[:i])).any():
            return False
    return True


# Problems of shapes and conflicts: every byte of every step is looked at, so numbers must be small.


def cells(columns: Columns, parts: Iterable[Sequence[int]], buffer: int) -> set[tuple[int, int]]:
    """The (byte, step) pairs that a buffer uses: of its parts, or where it has none, all of its bytes and life."""
    size, first, last, _ = columns
    own = [part[1:] for part in parts if part[0] == buffer] or [(0, size[buffer], first[buffer], last[buffer])]
    return {
        (byte, step) for begin, end, birth, death in own for byte in range(begin, end) for step in range(birth, death)
    }


def violations_of_shapes(
    columns: Columns,
    parts: Iterable[Sequence[int]],
    conflicts: Iterable[Sequence[int]],
    offsets: Sequence[int],
    capacity: int = 2**63 - 1,
) -> Violations:
    """As `violations`, where only what a buffer uses counts, and those that conflict are apart with all their bytes."""
    size = columns[0]
    pairs = {tuple(sorted(pair)) for pair in conflicts}
    found = {v for v in violations(columns, offsets, capacity) if v[0] != "overlap"}
    used = [{(offsets[i] + byte, step) for byte, step in cells(columns, parts, i)} for i in range(len(size))]
    for i in range(len(size)):
        for j in range(i):
            share_bytes = max(offsets[i], offsets[j]) < min(offsets[i] + size[i], offsets[j] + size[j])
            if used[i] & used[j] or ((j, i) in pairs and share_bytes):
                found.add(("overlap", j, i))
    return found


def load_at(columns: Columns, parts: Iterable[Sequence[int]], step: int) -> int:
    """The bytes in use at a step."""
    return sum(s == step for i in range(len(columns[0])) for _, s in cells(columns, parts, i))


def load(columns: Columns) -> int:
    """The largest sum of bytes alive at one step; it only grows where something is born."""
    size, first, last, _ = columns
    return max((sum(s for s, f, m in zip(size, first, last, strict=True) if f <= t < m) for t in set(first)), default=0)


def peak(columns: Columns, offsets: Iterable[int]) -> int:
    """The highest end of a buffer that has bytes."""
    return max((offset + size for offset, size in zip(offsets, columns[0], strict=True) if size > 0), default=0)


# Graphs


class Buffer(NamedTuple):
    name: str
    size: int
    first: int
    last: int


def views(graph: GraphDict) -> dict[str, tuple[str, int]]:
    """Per view, what it looks at and its offset from there: aliases and overwrites alike."""
    return {
        view["output"]: (view["input"], view.get("offset", 0))
        for op in graph["ops"]
        for view in (*op.get("alias", ()), *op.get("overwrite", ()))
    }


def root_of(graph: GraphDict, name: str) -> tuple[str, int]:
    """The tensor that owns the bytes of `name`, and where in them it begins."""
    offset, looks_at = 0, views(graph)
    while name in looks_at:
        name, inside = looks_at[name]
        offset += inside
    return name, offset


def graph_outputs(graph: GraphDict) -> set[str]:
    """What the caller gets: everything listed, and every tensor of kind output."""
    return set(graph["outputs"]) | {t["name"] for t in graph["tensors"] if t.get("kind") == "output"}


def buffers_of(graph: GraphDict, place: Collection[str]) -> list[Buffer]:
    """The buffers of a graph: storages by their root's position, then workspaces by op."""
    roots = {t["name"]: root_of(graph, t["name"])[0] for t in graph["tensors"]}
    outputs, end = graph_outputs(graph), max(len(graph["ops"]), 1)
    buffers = []
    for tensor in graph["tensors"]:
        if roots[tensor["name"]] != tensor["name"]:
            continue
        members = {name for name, root in roots.items() if root == tensor["name"]}
        kind = tensor.get("kind", "intermediate")
        steps = [k for k, op in enumerate(graph["ops"]) if members & {*op["inputs"], *op["outputs"]}]
        if kind in GIVEN:
            steps.append(0)
        if kind == "weight" or members & outputs:
            steps.append(end - 1)
        if kind == "intermediate" and members & outputs:
            kind = "output"
        if kind in place:
            buffers.append(Buffer(tensor["name"], tensor["bytes"], min(steps), max(steps) + 1))
    if "workspace" in place:
        for k, op in enumerate(graph["ops"]):
            if op.get("workspace", 0) > 0:
                buffers.append(Buffer(f"{op['name']}.workspace", op["workspace"], k, k + 1))
    return buffers


class _Arena:
    """One token per byte: which byte of which value was written there last."""

    def __init__(self) -> None:
        self.tokens: dict[int, object] = {}

    def write(self, offset: int, tokens: Sequence[object]) -> None:
        if offset != NOWHERE:
            self.tokens.update((offset + i, token) for i, token in enumerate(tokens))

    def holds(self, offset: int, tokens: Sequence[object]) -> bool:
        return offset == NOWHERE or all(self.tokens.get(offset + i) == token for i, token in enumerate(tokens))


def replay(graph: GraphDict, offset: Mapping[str, int], workspace: Mapping[str, int]) -> list[str]:
    """Run a graph over an arena, byte by byte; returns what goes wrong, nothing when every value is kept.

    `offset` is where each tensor lies and `workspace` where the scratch of each op lies, NOWHERE for outside.
    """
    size = {t["name"]: t["bytes"] for t in graph["tensors"]}
    kind = {t["name"]: t.get("kind", "intermediate") for t in graph["tensors"]}
    value = {name: [(name, i) for i in range(size[name])] for name in size}  # the bytes that a tensor should show
    arena, faults = _Arena(), []

    def check(name: str, tokens: Sequence[object], what: str) -> None:
        if not arena.holds(offset[name], tokens):
            faults.append(f"{what} {name}")

    for name in size:
        if kind[name] in GIVEN:
            arena.write(offset[name], value[name])
    for op in graph["ops"]:
        name = op["name"]
        for tensor in op["inputs"]:
            check(tensor, value[tensor], f"{name} reads")
        aliases, overwrites = op.get("alias", ()), op.get("overwrite", ())
        for view in aliases:
            begin = view.get("offset", 0)
            value[view["output"]] = value[view["input"]][begin : begin + size[view["output"]]]
        for view in (*aliases, *overwrites):
            at = offset[view["input"]]
            expected = NOWHERE if at == NOWHERE else at + view.get("offset", 0)
            if size[view["output"]] > 0 and offset[view["output"]] != expected:
                faults.append(f"{name} puts {view['output']} outside {view['input']}")
        for view in overwrites:
            _replace(graph, value, view["output"])
        scratch = [(name, "workspace", i) for i in range(op.get("workspace", 0))]
        arena.write(workspace[name], scratch)
        for tensor in op["outputs"]:
            if tensor not in {view["output"] for view in aliases}:
                arena.write(offset[tensor], value[tensor])
        for tensor in (*op["inputs"], *op["outputs"]):
            check(tensor, value[tensor], f"{name} writes over")
        if not arena.holds(workspace[name], scratch):
            faults.append(f"{name} writes over its workspace")
    for tensor in graph_outputs(graph):
        check(tensor, value[tensor], "the caller gets")
    for tensor in size:
        if kind[tensor] == "weight":
            check(tensor, value[tensor], "the next run needs")
    return faults


def _replace(graph: GraphDict, value: dict[str, list[tuple[str, int]]], written: str) -> None:
    """After an overwrite every tensor of the same storage shows the new bytes where they are its own."""
    root, begin = root_of(graph, written)
    for name in value:
        other, at = root_of(graph, name)
        if other != root or name == written:
            continue
        for i, token in enumerate(value[written]):
            if 0 <= begin + i - at < len(value[name]):
                value[name][begin + i - at] = token
