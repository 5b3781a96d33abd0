"""Refutation: the proof that no plan fits a capacity, to be kept, and checked by code that is not the search's."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import SourceError
from ..files import read_json, replacing
from ..text import counted
from . import checker
from .checker import Node
from .items import Columns, items_of
from .proven import Proven

FORMAT = "memplan.refutation"
VERSION = 1


@dataclass(frozen=True)
class Refutation:
    """A proof that no plan of a problem peaks at `capacity` bytes or less: a tree of nodes, as many as its length.

    It speaks of pairs of buffers, by their position in the problem: `buffers` alone have no plan, and of each pair in
    `ordered` the second lies no lower than the first, because they can be exchanged. Buffers at fixed distances are
    one, named by the first of them. All that is pinned and reserved is one too, named by the number of buffers. It
    holds nothing else of the problem. `check` says whether it proves anything; until then it is a claim.
    """

    capacity: int
    buffers: Sequence[int]
    ordered: Sequence[tuple[int, int]]
    nodes: Sequence[Node]

    def check(self, problem: _core.Problem) -> Proven:
        """What this proves, if it proves that no plan of the problem fits; `memplan.proofs.checker` says how.

        Raises
        ------
        RefutationError
            It does not; names the node.
        """
        if not isinstance(problem, _core.Problem):
            raise TypeError(f"a refutation is checked against a Problem, got {type(problem).__name__}")
        items = items_of(_plain(problem), self.capacity)
        checker.check(items, self.capacity, self.buffers, self.ordered, self.nodes)
        return Proven(f"No plan of {counted(len(problem), 'buffers')} fits", self.capacity, self._kind())

    def _kind(self) -> str:
        return f"a tree of {counted(len(self), 'nodes')}, by which of two buffers is above the other"

    def __len__(self) -> int:
        return len(self.nodes)

    def __repr__(self) -> str:
        return f"<memplan.Refutation: no plan within {self.capacity} bytes, {len(self)} nodes>"

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write it as versioned JSON; a node is [parent, lower, upper, difference, clique]."""
        spec = {"format": FORMAT, "version": VERSION, "memplan": _core.__version__, "capacity": self.capacity}
        rows = {"buffers": self.buffers, "ordered": self.ordered, "nodes": self.nodes}
        with replacing(path) as beside, open(beside, "w", encoding="utf-8", newline="\n") as file:
            json.dump({**spec, **rows}, file)
            file.write("\n")

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> Refutation:
        """Read what `to_json` wrote; SourceError names what is not as expected. Nothing is checked yet."""
        spec = _read(path)
        buffers = _integers(spec["buffers"], f"{path}: buffers")
        ordered = []
        for k, row in enumerate(spec["ordered"]):
            where = f"{path}: ordered[{k}]"
            i, j = _integers(row, where, "[buffer, buffer]", 2)
            ordered.append((i, j))
        nodes = tuple(_node(row, f"{path}: nodes[{k}]") for k, row in enumerate(spec["nodes"]))
        return cls(spec["capacity"], tuple(buffers), tuple(ordered), nodes)


def _plain(problem: _core.Problem) -> Columns:
    """In plain lists."""
    size = problem.size.tolist()
    parts: list[list[tuple[int, int, int, int]]] = [[] for _ in size]
    for buffer, begin, end, first, last in _rows(problem.parts):
        parts[buffer].append((begin, end, first, last))
    lives = zip(problem.first.tolist(), problem.last.tolist(), strict=True)
    whole = [own or [(0, bytes_, *life)] for own, bytes_, life in zip(parts, size, lives, strict=True)]
    return Columns(
        size,
        problem.alignment.tolist(),
        whole,
        [(a, b) for a, b in _rows(problem.conflicts)],
        [-1] * len(size) if problem.pins is None else problem.pins.tolist(),
        [(begin, end, first, last) for begin, end, first, last in _rows(problem.reserved)],
        [(a, b, distance) for a, b, distance in _rows(problem.together)],
    )


def _rows(table: npt.NDArray[np.int64] | None) -> list[list[int]]:
    return [] if table is None else table.tolist()


def _read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """A JSON object of this format and version, with a capacity and its lists."""
    spec = read_json(path, "a proof that memplan wrote")
    if (spec.get("format"), spec.get("version")) != (FORMAT, VERSION):
        raise SourceError(f"{path}: expected format {FORMAT!r} version {VERSION}")
    if not _is_integer(spec.get("capacity")):
        raise SourceError(f"{path}: capacity must be an integer, got {spec.get('capacity')!r}")
    for name in ("buffers", "ordered", "nodes"):
        if not isinstance(spec.get(name), list):
            raise SourceError(f"{path}: {name} must be a list, got {spec.get(name)!r}")
    return dict(spec)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _integers(row: Any, where: str, what: str = "a list of integers", count: int | None = None) -> list[int]:
    if not isinstance(row, list) or not all(map(_is_integer, row)) or count not in (None, len(row)):
        raise SourceError(f"{where} must be {what}, got {row!r}")
    return row


def _node(row: Any, where: str) -> Node:
    if not isinstance(row, list) or len(row) != 5 or not isinstance(row[4], list):
        raise SourceError(f"{where} must be [parent, lower, upper, difference, clique], got {row!r}")
    if not all(_is_integer(value) or (value is None and k < 3) for k, value in enumerate(row[:4])):
        raise SourceError(f"{where} must hold integers, or null for parent, lower and upper, got {row!r}")
    clique = []
    for member in row[4]:
        buffer, begin, end = _integers(member, f"{where}: a member of its clique", "[buffer, begin, end]", 3)
        clique.append((buffer, begin, end))
    parent, lower, upper, difference, _ = row
    return Node(parent, lower, upper, difference, tuple(clique))


def refuted(problem: _core.Problem, capacity: int, work: int) -> Refutation | None:
    """A proof that no plan fits; None: a plan fits, or the work is spent."""
    found = _core.refute(problem, capacity, work)
    if found is None:
        return None
    buffers, ordered, rows = found
    nodes = tuple(
        Node(_known(parent), _known(lower), _known(upper), difference, tuple(clique))
        for parent, lower, upper, difference, clique in rows
    )
    return Refutation(capacity, tuple(buffers), tuple(ordered), nodes)


def _known(position: int) -> int | None:
    return None if position < 0 else position
