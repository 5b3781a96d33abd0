"""Refutation: the proof that no plan fits a capacity, to be kept, and checked by code that is not the search's."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .. import _core
from ..errors import SourceError, UnsupportedError
from ..files import replacing
from ..text import counted
from . import checker
from .checker import Node
from .proven import Proven
from .reading import is_integer, read_proof

FORMAT = "memplan.refutation"
VERSION = 1


@dataclass(frozen=True)
class Refutation:
    """A proof that no plan of a problem peaks at `capacity` bytes or less: a tree of nodes, as many as its length.

    It names buffers by their position in the problem, and holds nothing else of it. `check` says whether it proves
    anything; until then it is a claim.
    """

    capacity: int
    nodes: Sequence[Node]

    def check(self, problem: _core.Problem) -> Proven:
        """What this proves, if it proves that no plan of the problem fits; `memplan.proofs.checker` says how.

        Raises
        ------
        RefutationError
            It does not; names the node.
        UnsupportedError
            The problem has shapes, or conflicts beyond lifetimes.
        """
        if not isinstance(problem, _core.Problem):
            raise TypeError(f"a refutation is checked against a Problem, got {type(problem).__name__}")
        if problem.parts is not None or problem.conflicts is not None:
            raise UnsupportedError(
                "this refutation speaks of plain buffers, and the problem has shapes or conflicts; "
                "memplan.refute proves by pairs there, a PairRefutation"
            )
        columns = (problem.size, problem.first, problem.last, problem.alignment)
        checker.check(checker.Problem(*(column.tolist() for column in columns)), self.capacity, self.nodes)
        return Proven(f"No plan of {counted(len(problem), 'buffers')} fits", self.capacity, self._kind())

    def _kind(self) -> str:
        return f"a tree of {counted(len(self), 'nodes')}, from step to step"

    def __len__(self) -> int:
        return len(self.nodes)

    def __repr__(self) -> str:
        return f"<memplan.Refutation: no plan within {self.capacity} bytes, {len(self)} nodes>"

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write it as versioned JSON; a node is [parent, buffer, height, step]."""
        spec = {"format": FORMAT, "version": VERSION, "memplan": _core.__version__, "capacity": self.capacity}
        with replacing(path) as beside, open(beside, "w", encoding="utf-8", newline="\n") as file:
            json.dump({**spec, "nodes": self.nodes}, file)
            file.write("\n")

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> Refutation:
        """Read what `to_json` wrote; SourceError names what is not as expected. Nothing is checked yet."""
        spec = read_proof(path, FORMAT, VERSION, ("nodes",))
        nodes = tuple(_node(row, f"{path}: nodes[{k}]") for k, row in enumerate(spec["nodes"]))
        return cls(spec["capacity"], nodes)


def _node(row: Any, where: str) -> Node:
    if not isinstance(row, list) or len(row) != 4:
        raise SourceError(f"{where} must be [parent, buffer, height, step], got {row!r}")
    if not all(is_integer(value) or (value is None and k < 2) for k, value in enumerate(row)):
        raise SourceError(f"{where} must hold integers, or null for parent and buffer, got {row!r}")
    return Node(*row)


def refutation_of(capacity: int, rows: list[tuple[int, int, int, int]]) -> Refutation:
    """From the core's rows, in which -1 stands for none."""
    return Refutation(
        capacity,
        tuple(
            Node(None if parent < 0 else parent, None if buffer < 0 else buffer, height, step)
            for parent, buffer, height, step in rows
        ),
    )
