"""Slow, plain checks of problems, graphs and plans. Written apart: nothing here imports memplan.

Problems are columns of ints (size, first, last, alignment), lifetimes half-open; graphs are graph dicts whose tensors
give their bytes. Everything is a direct reading of the definitions, without any cleverness.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Columns = tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[int]]
GraphDict = Mapping[str, Any]
Violations = set[tuple[str, int, int]]

GIVEN = ("input", "weight")
NOWHERE = -1

Token = tuple[str, int]  # a byte of a value: of which tensor, and which
Region = str  # a place of its own for bytes: the arena, or what the caller keeps
ARENA = ""


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


def aligned_load(columns: Columns) -> int:
    """The least end of a stack of all buffers alive at a step, whichever lies highest; of one alignment for all."""
    size, first, last, alignment = columns
    common = math.gcd(*(a for n, a in zip(size, alignment, strict=True) if n > 0)) or 1
    least = load(columns)
    for step in first:
        alive = [n for n, f, e in zip(size, first, last, strict=True) if f <= step < e and n > 0]
        whole = [-(-n // common) * common for n in alive]
        least = max([least, *(sum(whole) - max(w - n for w, n in zip(whole, alive, strict=True)) for _ in alive[:1])])
    return least


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


class _Memory:
    """One token per byte of the arena and of every region outside it: which byte of which value was written last."""

    def __init__(self) -> None:
        self.tokens: dict[tuple[Region, int], Token] = {}

    def write(self, region: Region, offset: int, tokens: Sequence[Token]) -> None:
        if offset != NOWHERE:
            self.tokens.update(((region, offset + i), token) for i, token in enumerate(tokens))

    def at(self, region: Region, offset: int) -> Token | None:
        return self.tokens.get((region, offset))


class _Run:
    """A run of a graph with everything in its place, byte by byte; `faults` says what goes wrong."""

    def __init__(
        self,
        graph: GraphDict,
        offset: Mapping[str, int],
        workspace: Mapping[str, int],
        region: Mapping[str, Region],
        donated: Collection[str],
    ) -> None:
        self.graph, self.offset, self.workspace, self.region, self.donated = graph, offset, workspace, region, donated
        self.size = {t["name"]: t["bytes"] for t in graph["tensors"]}
        self.kind = {t["name"]: t.get("kind", "intermediate") for t in graph["tensors"]}
        self.value: dict[str, list[Token]] = {name: [(name, i) for i in range(n)] for name, n in self.size.items()}
        self.memory = _Memory()
        self.faults: list[str] = []
        for name in self.size:
            if self.kind[name] in GIVEN:
                self.write(name, range(self.size[name]))

    def place(self, name: str) -> tuple[Region, int]:
        return self.region.get(name, ARENA), self.offset[name]

    def write(self, name: str, which: Iterable[int]) -> None:
        region, offset = self.place(name)
        for i in which if offset != NOWHERE else ():
            self.memory.write(region, offset + i, [self.value[name][i]])

    def check(self, name: str, what: str, may_hold: Collection[str] = ()) -> None:
        """Every byte of a tensor holds what it shows, or a byte of the tensors named last."""
        region, offset = self.place(name)
        if offset == NOWHERE:
            return
        for i, token in enumerate(self.value[name]):
            found = self.memory.at(region, offset + i)
            if found != token and not (found is not None and found[0] in may_hold):
                self.faults.append(f"{what} {name}")
                return

    def lies_in(self, inside: str, whole: str, offset: int) -> bool:
        (region, at), (other, begin) = self.place(inside), self.place(whole)
        return region == other and at == (NOWHERE if begin == NOWHERE else begin + offset)

    def execute(self, op: Mapping[str, Any]) -> None:
        name, scratch = op["name"], [(f"{op['name']} workspace", i) for i in range(op.get("workspace", 0))]
        for tensor in op["inputs"]:
            self.check(tensor, f"{name} reads")
        own = {output: set(range(self.size[output])) for output in op["outputs"]}  # bytes that the op writes
        for relation in ("alias", "overwrite"):
            for view in op.get(relation, ()):
                if self.size[view["output"]] and not self.lies_in(view["output"], view["input"], view.get("offset", 0)):
                    self.faults.append(f"{name} puts {view['output']} outside {view['input']}")
        for relation in ("alias", "slice"):
            for view in op.get(relation, ()):
                whole, inside, at = view["input"], view["output"], view.get("offset", 0)
                if relation == "alias" or (self.size[inside] and self.lies_in(inside, whole, at)):
                    self.value[inside] = self.value[whole][at : at + self.size[inside]]
                    own[inside] = set()
        for view in op.get("concat", ()):
            whole, part, at = view["output"], view["input"], view.get("offset", 0)
            if self.size[part] and self.lies_in(part, whole, at):
                self.value[whole][at : at + self.size[part]] = self.value[part]
                own[whole] -= set(range(at, at + self.size[part]))
        for view in op.get("overwrite", ()):
            self.value[view["output"]] = [(view["output"], i) for i in range(self.size[view["output"]])]
            _replace(self.graph, self.value, view["output"])
        self.memory.write(ARENA, self.workspace[name], scratch)
        for output, bytes_ in own.items():
            self.write(output, bytes_)
        for tensor in op["inputs"]:
            self.check(tensor, f"{name} writes over", self.taken_in_place(op, tensor))
        for tensor in op["outputs"]:
            self.check(tensor, f"{name} writes over")
        at = self.workspace[name]
        if at != NOWHERE and any(self.memory.at(ARENA, at + i) != token for i, token in enumerate(scratch)):
            self.faults.append(f"{name} writes over its workspace")

    def taken_in_place(self, op: Mapping[str, Any], tensor: str) -> set[str]:
        """The outputs that may be written over an input while it is read by this name."""
        return {
            view["output"]
            for view in op.get("inplace", ())
            if view["input"] == tensor and self.lies_in(view["output"], tensor, view.get("offset", 0))
        }

    def finish(self) -> None:
        for tensor in graph_outputs(self.graph):
            self.check(tensor, "the caller gets")
        for tensor, kind in self.kind.items():
            outside = self.region.get(tensor, ARENA) != ARENA
            if kind == "weight":
                self.check(tensor, "the next run needs")
            if kind == "input" and outside and tensor not in self.donated:
                self.check(tensor, "the caller keeps")


def replay(
    graph: GraphDict,
    offset: Mapping[str, int],
    workspace: Mapping[str, int],
    *,
    region: Mapping[str, Region] | None = None,
    donated: Collection[str] = (),
    sequence: Sequence[int] | None = None,
) -> list[str]:
    """Run a graph, byte by byte; returns what goes wrong, nothing when every value is kept.

    `offset` is where each tensor lies in its region (the arena, where `region` does not name another), `workspace`
    where the scratch of each op lies in the arena, NOWHERE for what is not looked at; `sequence` the order of the ops.
    """
    run = _Run(graph, offset, workspace, region or {}, donated)
    for k in range(len(graph["ops"])) if sequence is None else sequence:
        run.execute(graph["ops"][k])
    run.finish()
    return run.faults


def waits(graph: GraphDict, extra: Iterable[tuple[str, str]] = (), *, streams: bool = True) -> list[set[int]]:
    """Per op, those that must have run before it: what it reads from, `after`, the op before it on its stream, and
    (before, after) pairs of names in `extra`."""
    position = {op["name"]: k for k, op in enumerate(graph["ops"])}
    producer = {output: k for k, op in enumerate(graph["ops"]) for output in op["outputs"]}
    before: list[set[int]] = []
    last: dict[int, int] = {}
    for k, op in enumerate(graph["ops"]):
        stream = op.get("stream", 0)
        needs = {producer[t] for t in op["inputs"] if t in producer} | {position[name] for name in op.get("after", ())}
        if streams and stream in last:
            needs.add(last[stream])
        last[stream] = k
        before.append(needs)
    for earlier, later in extra:
        before[position[later]].add(position[earlier])
    return before


def legal_orders(before: Sequence[set[int]]) -> Iterator[list[int]]:
    """Every order of the ops in which each comes after those that it waits for."""

    def extend(done: list[int]) -> Iterator[list[int]]:
        if len(done) == len(before):
            yield list(done)
        for k in range(len(before)):
            if k not in done and before[k] <= set(done):
                yield from extend([*done, k])

    yield from extend([])


def _replace(graph: GraphDict, value: dict[str, list[Token]], written: str) -> None:
    """After an overwrite every tensor of the same storage shows the new bytes where they are its own."""
    root, begin = root_of(graph, written)
    for name in value:
        other, at = root_of(graph, name)
        if other != root or name == written:
            continue
        for i, token in enumerate(value[written]):
            if 0 <= begin + i - at < len(value[name]):
                value[name][begin + i - at] = token
