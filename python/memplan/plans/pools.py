"""Pools of memory, what lies in which, and what is known of how good that is."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..sizes import byte_range, in_bytes

if TYPE_CHECKING:
    from .record import PlanRecord

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Pool:
    """A memory that tensors may lie in, such as SRAM.

    Parameters
    ----------
    name
        What `plan.pools` calls it.
    capacity
        Bytes, as an integer or text such as "512KiB". None: as many as are needed.
    alignment
        Bytes, >= 1: every offset in the pool is a multiple of it, besides what the buffers need.
    base
        The address at which the pool begins, a multiple of all alignments in it.
    cost
        Of a byte that is written or read in it: a number >= 0. By default, pools cost 0, 1, 2, … in the order in which
        they are given. Give it to all pools or to none.
    accepts
        What may lie in it; None: everything. For graphs, a collection of kinds such as "weight", of types of ops, whose
        outputs and workspaces may lie here, and of names of tensors. For problems, a collection of positions or names
        of buffers.
    reserved
        Ranges (begin, end) of the pool that nothing may use, or (begin, end, first, last) for the steps [first, last).
    """

    name: str
    capacity: int | str | None = None
    alignment: int | str = 1
    base: int | str = 0
    cost: float | None = None
    accepts: Collection[str] | Collection[int] | None = None
    reserved: Sequence[Sequence[int | str]] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise TypeError(f"name of a pool must be text, got {self.name!r}")
        where = f"pool {self.name!r}: "
        if self.capacity is not None:
            object.__setattr__(self, "capacity", in_bytes(self.capacity, f"{where}capacity"))
        object.__setattr__(self, "alignment", in_bytes(self.alignment, f"{where}alignment", 1))
        object.__setattr__(self, "base", in_bytes(self.base, f"{where}base"))
        if self.base % self.alignment:  # type: ignore[operator]
            raise ValueError(f"{where}base must be a multiple of its alignment {self.alignment}, got {self.base}")
        if self.cost is not None:
            object.__setattr__(self, "cost", _cost(self.cost, f"{where}cost"))
        if self.accepts is not None:
            object.__setattr__(self, "accepts", _accepted(self.accepts, f"{where}accepts"))
        if isinstance(self.reserved, str) or not isinstance(self.reserved, Sequence):
            raise TypeError(f"{where}reserved must be a list of ranges such as (0, 4096), got {self.reserved!r}")
        rows = (byte_range(row, f"{where}reserved[{k}]") for k, row in enumerate(self.reserved))
        object.__setattr__(self, "reserved", tuple(rows))


def _cost(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"{where} must be a number or None, got {value!r}")
    if not 0 <= value < math.inf:
        raise ValueError(f"{where} must be >= 0 and finite, got {value!r}")
    number: int | float = value.item() if isinstance(value, np.generic) else value
    return number


def _accepted(value: Any, where: str) -> tuple[Any, ...]:
    items = value.tolist() if isinstance(value, np.ndarray) else value
    if isinstance(items, (str, Mapping)) or not isinstance(items, Collection):
        raise TypeError(f"{where} must be a collection of names or positions, got {value!r}")
    items = tuple(item.item() if isinstance(item, np.integer) else item for item in items)
    if not all(isinstance(item, (str, int)) and not isinstance(item, bool) for item in items):
        raise TypeError(f"{where} must hold names or positions, got {value!r}")
    return items


def exact(cost: float) -> Fraction:
    """The number that was written: 0.1 is a tenth."""
    return Fraction(repr(cost))


@dataclass(frozen=True)
class PlannedPool:
    """A pool with what lies in it.

    Attributes
    ----------
    name, capacity, alignment, base : str, int or None, int, int
        As the `Pool` says.
    cost_per_byte : int or float
        Of a byte that is written or read in it.
    begin : int
        Where the pool begins in ``plan.offsets``, which count all pools as one arena, one behind the other.
    peak : int
        Bytes that are needed of it.
    lower_bound : int
        Bytes below which no plan can peak that places the same buffers in it.
    buffers : int
        How many lie in it.
    accessed : int
        Bytes that are written to it and read from it.
    """

    name: str
    capacity: int | None
    alignment: int
    base: int
    cost_per_byte: float
    begin: int
    peak: int
    lower_bound: int
    buffers: int
    accessed: int

    @property
    def optimal(self) -> bool:
        """Whether it is proven that these buffers need no fewer bytes."""
        return self.peak == self.lower_bound

    @property
    def gap(self) -> float:
        """How far the peak may be from the best possible for these buffers: peak / lower_bound - 1."""
        return self.peak / self.lower_bound - 1 if self.lower_bound else 0.0

    @property
    def cost(self) -> float:
        """Of all that is written to it and read from it."""
        return number(exact(self.cost_per_byte) * self.accessed)


def pools_from(pools: Any, names: list[str], cost_bound: Any, where: str) -> PlannedPools:
    """What the file of a plan says of pools, and the name of each buffer's; ValueError names what is wrong."""
    pools = [_memory(entry, f"{where}[{k}]") for k, entry in enumerate(pools)]
    position = {pool.name: k for k, pool in enumerate(pools)}
    if len(position) < len(pools):
        raise ValueError(f"{where} must have different names")
    for name in names:
        if name not in position:
            raise ValueError(f"pool of a buffer must be one of {', '.join(map(repr, position))}, got {name!r}")
    of_buffer = np.array([position[name] for name in names], dtype=np.int64)
    return PlannedPools(pools, of_buffer, _cost(cost_bound, "cost_bound"))


def _memory(entry: Any, where: str) -> PlannedPool:
    if not isinstance(entry, dict):
        raise ValueError(f"{where} must be a mapping, got {type(entry).__name__}")
    if not isinstance(entry.get("name"), str):
        raise ValueError(f"{where}.name must be text, got {entry.get('name')!r}")
    wanted = ("alignment", "base", "begin", "peak", "lower_bound", "buffers", "accessed")
    values: dict[str, Any] = {key: entry.get(key) for key in wanted}
    if entry.get("capacity") is not None:
        values["capacity"] = entry["capacity"]
    for key, value in values.items():
        least = 1 if key == "alignment" else 0
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{where}.{key} must be an integer >= {least}, got {value!r}")
    values.setdefault("capacity", None)
    return PlannedPool(
        name=entry["name"], cost_per_byte=_cost(entry.get("cost_per_byte"), f"{where}.cost_per_byte"), **values
    )


def number(value: Fraction) -> float:
    """An int where it is whole."""
    return int(value) if value.denominator == 1 else float(value)


class PlannedPools(Mapping[str, PlannedPool]):
    """The pools of a plan by name, in their order.

    Attributes
    ----------
    cost : int or float
        The cost of all bytes that are written and read, each in its pool.
    cost_bound : int or float
        No plan of ``plan.problem`` in these pools costs less.
    of_buffer : (n,) int64
        Per buffer the position of its pool; read-only.
    accessed : tuple of int
        Per buffer the bytes that are written to it and read from it; () for a plan from a file.
    asked, accesses, fixed
        What `memplan.plan` was given as `pools` and `accesses`, and what was asked as `pin` and `reserved`; (), None
        and {} for a plan from a file.
    """

    def __init__(
        self,
        pools: Collection[PlannedPool],
        of_buffer: Ints,
        cost_bound: float,
        takes: npt.NDArray[np.bool_] | None = None,
        asked: tuple[Pool, ...] = (),
        accesses: Any = None,
        accessed: Collection[int] = (),
        fixed: Mapping[str, Any] | None = None,
    ) -> None:
        self._pools, self.of_buffer, self.cost_bound = tuple(pools), of_buffer, cost_bound
        self.asked, self.accesses, self.accessed, self.fixed = asked, accesses, tuple(accessed), dict(fixed or {})
        self.of_buffer.flags.writeable = False
        self.cost = number(sum((exact(pool.cost_per_byte) * pool.accessed for pool in self._pools), Fraction(0)))
        self._takes = takes

    @property
    def cost_optimal(self) -> bool:
        """Whether it is proven that no plan costs less."""
        return self.cost == self.cost_bound

    def __len__(self) -> int:
        return len(self._pools)

    def __iter__(self) -> Iterator[str]:
        return (pool.name for pool in self._pools)

    def __getitem__(self, name: str) -> PlannedPool:
        for pool in self._pools:
            if pool.name == name:
                return pool
        raise KeyError(f"the plan has no pool named {name!r}; it has {', '.join(map(repr, self))}")

    def of(self, buffer: int) -> PlannedPool:
        """The pool of a buffer, by its position."""
        return self._pools[int(self.of_buffer[buffer])]

    def costs(self) -> dict[int, float]:
        """Per buffer that costs something, the cost of all that is written to it and read from it, the most first."""
        found = {b: number(exact(self.of(b).cost_per_byte) * bytes_) for b, bytes_ in enumerate(self.accessed)}
        return {b: cost for b, cost in sorted(found.items(), key=lambda pair: (-pair[1], pair[0])) if cost}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PlannedPools):
            return NotImplemented
        same = self._pools == other._pools and self.cost_bound == other.cost_bound
        return same and bool(np.array_equal(self.of_buffer, other.of_buffer))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        pools = ", ".join(f"{pool.name} {pool.peak} bytes" for pool in self._pools)
        return f"<memplan.plans.PlannedPools: {pools}; cost {self.cost}, at least {self.cost_bound}>"

    def _repr_html_(self) -> str:
        from ..printing.tables import html
        from .pools_text import pools_table

        return html(pools_table(self))

    def __str__(self) -> str:
        from ..printing.tables import text
        from .pools_text import pools_table

        return text(pools_table(self))

    def faults(self, plan: PlanRecord) -> list[_core.PoolFault]:
        """What is wrong with where the buffers of a plan lie; nothing of planners is used to find it.

        Each lies in a pool that takes it, inside of its capacity, at an address that is aligned, and pools are apart.
        That buffers of a pool do not overlap is checked with all others: pools are ranges of one arena.
        """
        rows = [(pool.name, pool.capacity, pool.alignment, pool.base, pool.begin, pool.peak) for pool in self._pools]
        return _core.pool_faults(plan.problem, plan.offsets, rows, self.of_buffer, self._takes)
