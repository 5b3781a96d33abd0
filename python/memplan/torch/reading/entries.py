"""What a GraphRecorder holds, and how that is written down in a graph dict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import torch

from ... import dtypes
from .geometry import Geometry
from .loops import Rows, Written
from .relations import NOTHING, Offers


@dataclass(eq=False)
class Value:
    name: str
    kind: str
    nbytes: int
    shape: list[int]
    dtype: str
    serial: int
    is_view: bool = False
    permuted: bool = False  # its axes lie in memory in another order


@dataclass(eq=False)
class Storage:
    handle: torch.UntypedStorage  # held, so that no later storage can get its address
    root: Value
    names: dict[Geometry, Value]  # the newest name of every range of bytes that was handed out
    written: Value | None = None  # the newest name that a mutation gave
    written_at: int = 0  # and where it begins
    mutated_at: int = 0  # and how many ops there were by then
    readers: list[Op] = field(default_factory=list)  # ops that have read the bytes since


@dataclass(eq=False)
class Link:
    """An op's output and input that may share bytes: one lies in the other, from an offset in bytes on."""

    output: Value
    input: Value
    offset: int
    storages: tuple[Storage, Storage]


@dataclass(eq=False)
class OpLoop:
    """A loop of an op, by the names of its inputs and outputs."""

    extent: int
    reads: dict[Value, Rows]
    writes: dict[Value, Written]
    sums: list[Value]
    early: dict[Value, list[Value]]
    statistics: tuple[list[Value], int] | None  # of these inputs, and their bytes
    workspace: int = 0
    copied: list[Value] = field(default_factory=list)


@dataclass(eq=False)
class Op:
    name: str
    type: str
    inputs: dict[Value, None]
    workspace: int = 0
    outputs: list[Value] = field(default_factory=list)
    alias: list[tuple[Value, Value, int]] = field(default_factory=list)
    offers: Offers = NOTHING
    inplace: list[Link] = field(default_factory=list)
    slices: list[Link] = field(default_factory=list)
    concats: list[Link] = field(default_factory=list)
    after: dict[Op, None] = field(default_factory=dict)
    draws: bool = False  # random numbers
    flops: float | None = None  # None: nothing is known
    loops: list[OpLoop] = field(default_factory=list)
    pieces_copied: bool = False


def tensor_entry(value: Value, outside: bool) -> dict[str, Any]:
    """A tensor of the graph dict; one whose storage is counted elsewhere has no bytes.

    A shape that takes more bytes than the tensor has, as of an expanded one, which shows the same bytes again, is left
    out: in a graph dict a shape says what lies in memory.
    """
    size = 0 if outside else value.nbytes
    entry: dict[str, Any] = {"name": value.name, "bytes": size, "kind": value.kind, "dtype": value.dtype}
    if not dtypes.is_known(value.dtype) or dtypes.nbytes(value.dtype, value.shape) <= size:
        entry["shape"] = value.shape
    if value.permuted:
        entry["permuted"] = True
    return entry


def op_entry(op: Op, outside: set[Value]) -> dict[str, Any]:
    """An op of the graph dict, without what it may share, and without loops."""
    entry: dict[str, Any] = {
        "name": op.name,
        "type": op.type,
        "inputs": [value.name for value in op.inputs],
        "outputs": [value.name for value in op.outputs],
    }
    if op.workspace:
        entry["workspace"] = op.workspace
    if op.alias:
        entry["alias"] = [
            {"output": view.name, "input": root.name, "offset": 0 if view in outside else offset}
            for view, root, offset in op.alias
        ]
    if op.after:
        entry["after"] = [before.name for before in op.after]
    if op.draws:
        entry["recompute"] = False
    if op.flops is not None:
        entry["flops"] = op.flops
    if op.pieces_copied:
        entry["pieces_copied"] = True
    return entry


def loop_entry(loop: OpLoop) -> dict[str, Any]:
    """A loop of the graph dict, without what is empty. Inputs whose rows are not known are read whole."""
    entry: dict[str, Any] = {"extent": loop.extent}
    reads = {
        value.name: [_axes(rows.axes), *map(_number, (rows.step, rows.window, rows.before))]
        for value, rows in loop.reads.items()
        if has_rows(value)
    }
    writes = {value.name: [_axes(rows.axes), rows.step] for value, rows in loop.writes.items()}
    early = {value.name: [given.name for given in inputs] for value, inputs in loop.early.items()}
    rest: dict[str, Any] = {
        "reads": reads,
        "writes": writes,
        "sums": [value.name for value in loop.sums],
        "early": early,
    }
    if loop.statistics is not None:
        counted, size = loop.statistics
        rest["statistics"] = {"inputs": [value.name for value in counted], "bytes": size}
    if loop.workspace:
        rest["workspace"] = loop.workspace
    if loop.copied:
        rest["copied"] = [value.name for value in loop.copied]
    return entry | {key: part for key, part in rest.items() if part}


def _counted(loop: OpLoop) -> Iterator[Value]:
    """The inputs by rows that are counted in statistics."""
    return (value for value in (loop.statistics or ((), 0))[0] if value in loop.reads)


def has_rows(value: Value) -> bool:
    """Whether the shape of a tensor says what lies in memory: it has the bytes, and no others but those between."""
    if not dtypes.is_known(value.dtype):
        return False
    needed = dtypes.nbytes(value.dtype, value.shape)
    return needed == value.nbytes or (value.is_view and needed < value.nbytes)


def _axes(axes: tuple[int, int]) -> int | list[int]:
    return axes[0] if axes[0] == axes[1] else list(axes)


def _number(number: int | Fraction) -> int | str:
    return int(number) if number.denominator == 1 else str(number)


def optional_entries(op: Op, position: int) -> dict[str, Any]:
    """What the op at a position may share, and its loops.

    Nothing that has been resized is shared, and no copies that come to differ.
    """
    inplace = [link for link in op.inplace if link.output.nbytes == link.input.nbytes]
    found = {"inplace": inplace, "slice": _unmutated(op.slices, position), "concat": _unmutated(op.concats, position)}
    entries: dict[str, Any] = {
        relation: [{"output": k.output.name, "input": k.input.name, "offset": k.offset} for k in links]
        for relation, links in found.items()
        if links
    }
    loops = [loop_entry(loop) for loop in op.loops if all(map(has_rows, (*loop.writes, *_counted(loop))))]
    return entries | ({"loops": loops} if loops else {})


def _unmutated(links: list[Link], position: int) -> list[Link]:
    return [link for link in links if all(storage.mutated_at <= position for storage in link.storages)]
