"""The tensors of a plan as a table: where each lies, and when."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..files import write_rows
from ..kinds import kind_of
from .slots import Slot, tensor_lifetimes

if TYPE_CHECKING:
    from .record import PlanRecord

Ints = npt.NDArray[np.int64]

_LISTED = 20  # rows of the table on a screen


class Tensors(Mapping[str, Slot]):
    """Every placed tensor of a plan, by name: a mapping to slots, and columns of equal length.

    Of a graph, these are the tensors that have bytes in the arena, in the graph's order, then the workspaces of its
    ops. Tensors that share bytes have a row each. Of a plan without a graph, as of one that was read from a file, these
    are its buffers.

    Attributes
    ----------
    names, kinds : tuple of str
        The kind is that of the tensor: "intermediate", "input", "weight", "workspace", or "output" for what the graph
        returns. It is empty without a graph.
    offset, bytes, first, last : (n,) int64
        Bytes [offset, offset + bytes) of the arena in the steps [first, last), as in a `Slot`; read-only.
    buffer : (n,) int64
        The position in ``plan.problem`` of the buffer that the tensor lies in; read-only.
    pool : tuple of str
        The pool of each, for a plan in several pools; else ().
    address : (n,) int64
        The address in that pool; else the offset. Read-only.
    """

    COLUMNS = ("name", "offset", "bytes", "first", "last", "buffer", "kind")

    def __init__(self, plan: PlanRecord) -> None:
        problem = plan.problem
        buffer, inside, names, kinds, size, lives = _of_graph(plan) if plan.graph is not None else _of_problem(plan)
        self.names, self.kinds = tuple(names), tuple(kinds)
        self.buffer: Ints = np.array(buffer, dtype=np.int64)
        self.offset: Ints = plan.offsets[self.buffer] + np.array(inside, dtype=np.int64)
        self.bytes: Ints = np.array(size, dtype=np.int64)
        first, last = np.array(lives, dtype=np.int64).reshape(-1, 2).T
        self.first, self.last = np.ascontiguousarray(first), np.ascontiguousarray(last)
        self.pool: tuple[str, ...] = ()
        self._shift: Ints = np.zeros(len(self.names), dtype=np.int64)
        if plan.pools is not None:
            pools = [plan.pools.of(b) for b in self.buffer.tolist()]
            self.pool = tuple(pool.name for pool in pools)
            self._shift = np.array([pool.base - pool.begin for pool in pools], dtype=np.int64)
        self.address: Ints = self.offset + self._shift
        self._alignment = problem.alignment[self.buffer]
        for column in (self.buffer, self.offset, self.bytes, self.first, self.last, self.address):
            column.flags.writeable = False
        self._named = plan._slots.named
        self._position = {name: k for k, name in enumerate(self.names)}

    @property
    def columns(self) -> dict[str, Any]:
        """All columns by name, in the order of a row: ``pandas.DataFrame(plan.tensors.columns)``."""
        values = (self.names, self.offset, self.bytes, self.first, self.last, self.buffer, self.kinds)
        in_pools = (self.pool, self.address) if self.pool else ()
        return dict(zip(self.header, (*values, *in_pools), strict=True))

    @property
    def header(self) -> tuple[str, ...]:
        """The names of the columns: `COLUMNS`, and for a plan in several pools the pool and the address in it."""
        return (*self.COLUMNS, "pool", "address") if self.pool else self.COLUMNS

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __getitem__(self, name: str) -> Slot:
        """The slot of a tensor, as ``plan[name]``: the end of its name after a dot does, if no other ends so."""
        k = self._position.get(name)
        if k is None:
            return self._named(name)
        columns = (self.offset, self.bytes, self.first, self.last, self._alignment)
        offset, size, first, last, alignment = (int(column[k]) for column in columns)
        pool = self.pool[k] if self.pool else ""
        return Slot(name, offset, size, first, last, alignment, pool, int(self._shift[k]))

    def __contains__(self, name: object) -> bool:
        """Whether `tensors[name]` gives a slot."""
        try:
            return isinstance(name, str) and bool(self[name])
        except KeyError:
            return False

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """A tuple per tensor, in the order of `header`."""
        numbers = (self.offset, self.bytes, self.first, self.last, self.buffer)
        in_pools: tuple[Any, ...] = (self.pool, self.address.tolist()) if self.pool else ()
        return zip(self.names, *(column.tolist() for column in numbers), self.kinds, *in_pools, strict=True)

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write a line a tensor: name, offset, bytes, first, last (half-open), buffer, kind, then pool and address."""
        write_rows(path, self.header, self.rows())

    def __str__(self) -> str:
        from ..printing.tables import text
        from .tensors_text import tensors_table

        return text(tensors_table(self, _LISTED))

    def __repr__(self) -> str:
        return f"<memplan.plans.Tensors: {len(self)} tensors>"

    def _repr_html_(self) -> str:
        from ..printing.tables import html
        from .tensors_text import tensors_table

        return html(tensors_table(self, _LISTED))


_Columns = tuple[list[int], list[int], list[str], list[str], list[int], list[tuple[int, int]]]


def _of_problem(plan: PlanRecord) -> _Columns:
    problem, count = plan.problem, len(plan)
    names = [problem.name(b) for b in range(count)]
    lives = list(zip(problem.first.tolist(), problem.last.tolist(), strict=True))
    return list(range(count)), [0] * count, names, [""] * count, problem.size.tolist(), lives


def _of_graph(plan: PlanRecord) -> _Columns:
    assert plan.graph is not None
    assert plan.buffers is not None
    lifetimes, returned = tensor_lifetimes(plan.graph, plan.buffers), set(plan.graph.outputs)
    columns = (plan.graph.tensors, plan.buffers.buffer_of_tensor.tolist(), plan.buffers.offset_in_buffer.tolist())
    placed = [(t, b, inside) for t, b, inside in zip(*columns, strict=True) if b >= 0]
    workspaces = [b for b in plan.buffers.buffer_of_workspace.tolist() if b >= 0]
    problem, steps = plan.problem, list(zip(plan.problem.first.tolist(), plan.problem.last.tolist(), strict=True))
    size = problem.size.tolist()
    return (
        [b for _, b, _ in placed] + workspaces,
        [inside for _, _, inside in placed] + [0] * len(workspaces),
        [t.name for t, _, _ in placed] + [problem.name(b) for b in workspaces],
        [kind_of(t, returned) for t, _, _ in placed] + ["workspace"] * len(workspaces),
        [t.bytes for t, _, _ in placed] + [size[b] for b in workspaces],
        [lifetimes.get(t.name, (0, 0)) for t, _, _ in placed] + [steps[b] for b in workspaces],
    )
