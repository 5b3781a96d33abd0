"""Refutation: the proof that no plan fits a capacity, to be kept, and checked by code that is not the search's."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_type_hints

import numpy as np
import numpy.typing as npt

from .. import _core
from ..files import read_form, write_json
from ..text import counted
from . import checker
from .checker import Node
from .items import Columns, items_of
from .proven import Proven
from .reading import read_as

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
        nodes = f"a tree of {counted(len(self), 'nodes')}"
        return nodes if len(self) == 1 else f"{nodes} that branches on which of two buffers is above the other"

    def __len__(self) -> int:
        return len(self.nodes)

    def __repr__(self) -> str:
        return f"<memplan.proofs.Refutation: no plan within {self.capacity} bytes, {len(self)} nodes>"

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write it as versioned JSON; a node is [parent, lower, upper, difference, clique]."""
        spec = {"format": FORMAT, "version": VERSION, "memplan": _core.__version__, "capacity": self.capacity}
        rows = {"buffers": self.buffers, "ordered": self.ordered, "nodes": self.nodes}
        write_json(path, {**spec, **rows}, indent=None)

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> Refutation:
        """Read what `to_json` wrote; SourceError names what is not as expected. Nothing is checked yet."""
        spec = read_form(path, "a proof that memplan wrote", FORMAT, VERSION)
        return cls(
            **{name: read_as(kind, spec.get(name), f"{path}: {name}") for name, kind in get_type_hints(cls).items()}
        )


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
