"""Where buffers and tensors lie: their slots, found by position or by name."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from .pools import PlannedPools
from .steps import Steps

_MOST_COMPARED = 20_000  # names that are looked through for one that is spelt alike


@dataclass(frozen=True)
class Slot:
    """Where a buffer or tensor lies: bytes [offset, offset + bytes) during the steps [first, last).

    A shaped buffer uses only parts of these, which `problem.parts` lists.

    In a plan in several pools, ``pool`` is the name of the pool, and ``address`` where it lies there: the base of the
    pool and an offset in it. ``offset`` counts all pools as one arena. In other plans, the address is the offset.
    """

    name: str
    offset: int
    bytes: int
    first: int
    last: int
    alignment: int
    pool: str = ""
    shift: int = field(default=0, repr=False)

    @property
    def address(self) -> int:
        """Where it lies in its pool."""
        return self.offset + self.shift

    @property
    def end(self) -> int:
        """The byte after the last."""
        return self.offset + self.bytes


@dataclass(frozen=True)
class Coalescing:
    """Two tensors of an op that share bytes by choice.

    ``how`` is "inplace": the output takes these bytes of the input over; "slice": the output is these bytes of the
    input; or "concat": the input lives in these bytes of the output. ``op``, ``output`` and ``input`` are names;
    ``offset`` is where, in bytes, the inner tensor begins inside the outer one.
    """

    how: str
    op: str
    output: str
    input: str
    offset: int

    @property
    def inner(self) -> str:
        """The tensor that lies in the other's bytes."""
        return self.input if self.how == "concat" else self.output

    @property
    def outer(self) -> str:
        """The tensor in whose bytes the other lies."""
        return self.output if self.how == "concat" else self.input


@dataclass(frozen=True)
class Overlap:
    """An output that lies over an input of its op, which is still being read when the output is written.

    ``op``, ``output`` and ``input`` are names; ``bytes`` are those that both use, one after the other. The op's kernel
    has to run its loops in the order that the graph says.
    """

    op: str
    output: str
    input: str
    bytes: int


class Slots:
    """The slots of a plan, which is offsets for the buffers of a problem, and of the tensors of its graph if any."""

    def __init__(
        self,
        problem: _core.Problem,
        offsets: npt.NDArray[np.int64],
        graph: _core.Graph | None,
        buffers: _core.Buffers | None,
        pools: PlannedPools | None = None,
    ) -> None:
        self._problem, self._offsets, self._graph, self._buffers = problem, offsets, graph, buffers
        self._pools = pools

    def __iter__(self) -> Iterator[Slot]:
        """The buffers' slots, in the problem's order."""
        p = self._problem
        columns = (self._offsets, p.size, p.first, p.last, p.alignment)
        for b, row in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
            yield Slot(p.name(b), *row, **self._memory(b))

    def at(self, position: int) -> Slot:
        """The slot of a buffer; from the end where the position is below 0."""
        b, count = operator.index(position), len(self._problem)
        if not -count <= b < count:
            raise IndexError(f"buffer {b} is out of range: the plan has {count} buffers")
        p, b = self._problem, b % count
        columns = (self._offsets, p.size, p.first, p.last, p.alignment)
        offset, size, first, last, alignment = (int(column[b]) for column in columns)
        return Slot(p.name(b), offset, size, first, last, alignment, **self._memory(b))

    def _memory(self, buffer: int) -> dict[str, Any]:
        """The pool of a buffer, and what leads from offsets to addresses in it."""
        if self._pools is None:
            return {}
        pool = self._pools.of(buffer)
        return {"pool": pool.name, "shift": pool.base - pool.begin}

    def named(self, name: str) -> Slot:
        """The slot of a tensor, or of a buffer; the end of its name after a dot does, if no other ends so."""
        name = self._full(name)
        tensor = self._tensor(name)
        if tensor is None or self._graph is None or self._buffers is None:
            return self.at(self.buffer_named(name))
        buffer = int(self._buffers.buffer_of_tensor[tensor])
        if buffer < 0:
            raise KeyError(
                f"{self._label(self._graph, self._buffers, tensor)} is not placed in the arena; see the options "
                "`place` and `exclude`"
            )
        whole = self.at(buffer)
        offset = whole.offset + int(self._buffers.offset_in_buffer[tensor])
        return Slot(
            name,
            offset,
            self._graph.tensor(tensor).bytes,
            *self._lifetimes[name],
            whole.alignment,
            whole.pool,
            whole.shift,
        )

    def buffer_named(self, name: str) -> int:
        """The position of the buffer of this name, or in which the tensor of this name lies; -1 where in none."""
        name = self._full(name)
        tensor = self._tensor(name)
        if tensor is not None and self._buffers is not None:
            return int(self._buffers.buffer_of_tensor[tensor])
        return self._positions[name]

    def _full(self, name: str) -> str:
        """The name of a tensor or buffer that a caller means; KeyError offers what is near."""
        if self._tensor(name) is not None or name in self._positions:
            return name
        ends = self._by_end.get(name, [])
        if len(ends) == 1:
            return ends[0]
        inside = [placed for placed in self._placed if f".{name}." in f".{placed}"]
        near = ends or inside or self._like(name)
        offer = f"; there is {', '.join(map(repr, near[:3]))}" if near else ""
        more = f" and {len(near) - 3} more" if len(near) > 3 else ""
        raise KeyError(f"the plan has no tensor or buffer named {name!r}{offer}{more}")

    def _like(self, name: str) -> list[str]:
        """Placed names that are spelt much alike, in whole or after a dot."""
        if len(self._placed) > _MOST_COMPARED:
            return []
        whole = difflib.get_close_matches(name, self._placed, n=1)
        return whole or [self._by_end[end][0] for end in difflib.get_close_matches(name, self._by_end, n=1)]

    @cached_property
    def _placed(self) -> list[str]:
        """The names of the tensors that lie in the arena, and of buffers, in order."""
        names = dict.fromkeys(self._positions)
        if self._graph is not None and self._buffers is not None:
            placed = self._buffers.buffer_of_tensor.tolist()
            names |= {t.name: None for t, buffer in zip(self._graph.tensors, placed, strict=True) if buffer >= 0}
        return list(names)

    @cached_property
    def _by_end(self) -> dict[str, list[str]]:
        """Placed names by their ends: "a.b.c" under "b.c" and "c"."""
        found: dict[str, list[str]] = {}
        for name in self._placed:
            place = name.find(".")
            while place >= 0:
                found.setdefault(name[place + 1 :], []).append(name)
                place = name.find(".", place + 1)
        return found

    def _tensor(self, name: str) -> int | None:
        return self._graph.index(name) if self._graph is not None else None

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {self._problem.name(b): b for b in range(len(self._problem))}

    @cached_property
    def _lifetimes(self) -> dict[str, tuple[int, int]]:
        return tensor_lifetimes(self._graph, self._buffers) if self._graph is not None else {}

    @staticmethod
    def _label(graph: _core.Graph, buffers: _core.Buffers, tensor: int) -> str:
        root = int(buffers.root_of_tensor[tensor])
        name, owner = graph.tensor(tensor).name, graph.tensor(root)
        return f"{name!r} ({owner.kind})" if root == tensor else f"{name!r}, a view of {owner.name!r} ({owner.kind}),"


def tensor_lifetimes(graph: _core.Graph, buffers: _core.Buffers | None) -> dict[str, tuple[int, int]]:
    """Per tensor, the half-open steps from its write to its last read.

    Inputs and weights live from 0; outputs and weights to the end.
    """
    steps = Steps(len(graph.ops), None if buffers is None else buffers.begin_of_op)
    lives = steps.lives(_core.lives_of(graph))
    return {tensor.name: life for tensor, life in zip(graph.tensors, lives, strict=True)}
