"""What a memory snapshot holds: blocks with their lives, by device, stream and pool."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import numpy.typing as npt

from ... import _core
from ...errors import SourceError
from ...plans import fragmentation
from ...plans.plan import Plan
from .names import Namer
from .trace import Pool, Walked

GRANULE = 512  # torch's CUDA allocator rounds up to it, and its addresses are multiples of it
_MOST_PAIRS = 10**7

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Snapshot:
    """What torch's CUDA allocator recorded. ``memplan.torch.read_snapshot`` gives it, and ``print`` shows it.

    Attributes
    ----------
    pools : tuple of PoolUse
        What each pool of the allocator reserved and used: those of a device, a stream and a private pool.
    reserved, allocated, requested : int
        The most bytes at one time, summed over devices: held in segments, in use in blocks as rounded, and in use as
        asked for.
    notes : tuple of str
        What the snapshot leaves out, and how that was read.
    """

    source: str
    notes: tuple[str, ...]
    _traced: frozenset[int] = field(repr=False)  # devices with events of blocks
    _keys: tuple[tuple[int, Pool], ...] = field(repr=False)  # of the pools: device, (stream, id)
    _pool: Ints = field(repr=False)
    _size: Ints = field(repr=False)
    _first: Ints = field(repr=False)
    _last: Ints = field(repr=False)
    _names: list[str] = field(repr=False)
    _reserved: Ints = field(repr=False)  # rows (pool, change in bytes)
    _held: Ints = field(repr=False)  # by pool, in the end

    @staticmethod
    def of(source: str, devices: Sequence[Walked]) -> Snapshot:
        """The blocks of all devices, named; with those that lived before the trace first, in each device."""
        keys: list[tuple[int, Pool]] = []
        columns: list[Ints] = []
        reserved: list[Ints] = []
        held: list[int] = []
        names: list[str] = []
        namer = Namer()
        for walked in devices:
            base = len(keys)
            keys += [(walked.device, pool) for pool in walked.pools]
            held += [walked.held.get(number, 0) for number in walked.pools.values()]
            reserved.append(np.array(walked.reserved, dtype=np.int64).reshape(-1, 2))
            reserved[-1][:, 0] += base
            made = np.array([walked.pool, walked.size, walked.first, walked.last], dtype=np.int64).reshape(4, -1)
            made[0] += base
            made[2:] -= made[2].min(initial=1)
            columns.append(made)
            names += [
                namer.name(frames, "block" if first else "before")
                for frames, first in zip(walked.frames, walked.first, strict=True)
            ]
        pool, size, first, last = np.concatenate([np.zeros((4, 0), np.int64), *columns], axis=1)
        return Snapshot(
            source,
            tuple(note for walked in devices for note in walked.notes),
            frozenset(walked.device for walked in devices if walked.traced),
            tuple(keys),
            pool,
            size,
            first,
            last,
            names,
            np.concatenate([np.zeros((0, 2), np.int64), *reserved]),
            np.array(held, dtype=np.int64),
        )

    @property
    def devices(self) -> tuple[int, ...]:
        """The devices that have segments or blocks."""
        return tuple(dict.fromkeys(device for device, _ in self._keys))

    @property
    def pools(self) -> tuple[fragmentation.PoolUse, ...]:
        return tuple(self._use(number) for number in range(len(self._keys)))

    @property
    def reserved(self) -> int:
        return self._use_of(range(len(self._keys))).reserved

    @property
    def allocated(self) -> int:
        return self._use_of(range(len(self._keys))).allocated

    @property
    def requested(self) -> int:
        return self._use_of(range(len(self._keys))).requested

    def problem(
        self,
        device: int | None = None,
        stream: int | None = None,
        pool: tuple[int, int] | None = None,
        *,
        alignment: int = GRANULE,
    ) -> _core.Problem:
        """The blocks as buffers: from the allocation to the end of the free, a step for each allocation.

        Buffers of different streams or pools conflict: no bytes pass from one to another, as in torch's allocator.

        Parameters
        ----------
        device
            By default the only one that has blocks.
        stream, pool
            Only the blocks of this stream, or of the private pool with this id; (0, 0) is the pool that is not private.
        alignment
            Sizes are rounded up to a multiple of it, and offsets are multiples of it.

        Raises
        ------
        SourceError
            There are no such blocks, there are several devices, or so many blocks of several streams or pools that
            their conflicts do not fit in memory. The message says what there is.
        """
        numbers = self._chosen(device, stream, pool)
        rows = np.flatnonzero(np.isin(self._pool, numbers))
        first, last = self._first[rows], self._last[rows]
        return _core.Problem(
            _rounded(self._size[rows], alignment),
            first,
            last,
            alignment,
            [self._names[row] for row in rows.tolist()],
            None,
            self._apart(self._pool[rows], numbers),
        )

    def report(self, plan: Plan | None = None) -> fragmentation.Fragmentation:
        """What was reserved, what was allocated at most, what a plan needs, and hence what fragmentation costs.

        Parameters
        ----------
        plan
            A plan of `problem`, which may be of one stream or pool: the report is of what it has. By default the report
            is of all, and says nothing of a plan.

        Raises
        ------
        ValueError
            The plan is of something else.
        """
        if plan is None:
            return self._use_of(range(len(self._keys)))
        row = {name: i for i, name in enumerate(self._names)}
        names = plan.problem.names
        strange = next((name for name in names if name not in row), None)
        if strange is not None or not names:
            what = "has no names" if strange is None else f"has the buffer {strange!r}, which is not in it"
            raise ValueError(f"report takes a plan of {self.source}; this one {what}")
        owner = self._pool[[row[name] for name in names]]
        ends = plan.offsets + plan.problem.size
        numbers = np.unique(owner).tolist()
        covered = {n: _covered(plan.offsets[owner == n], ends[owner == n]) for n in numbers}
        return self._use_of(numbers, plan.peak, covered)

    def __str__(self) -> str:
        return str(self.report())

    def _chosen(self, device: int | None, stream: int | None, pool: tuple[int, int] | None) -> list[int]:
        """The pools asked for that have blocks."""
        filled = [n for n in np.unique(self._pool).tolist() if self._keys[n][0] in self._traced]
        if not filled:
            raise SourceError(
                f"{self.source}: expected a trace of allocations, which "
                "torch.cuda.memory._record_memory_history(enabled='all') records; got segments without events"
            )
        chosen = [
            n
            for n in filled
            for of, (on, private) in [self._keys[n]]
            if device in (None, of) and stream in (None, on) and (pool is None or tuple(pool) == private)
        ]
        there = "; ".join(self._use(n).name for n in filled)
        if not chosen:
            wanted = f"device {device}, stream {stream}, pool {pool}"
            raise SourceError(f"{self.source}: has no blocks of {wanted}; it has {there}")
        if len({self._keys[n][0] for n in chosen}) > 1:
            raise SourceError(
                f"{self.source}: has blocks of several devices; choose with blocks={{'device': N}} (--blocks device=N) "
                f"or read_snapshot(...).problem(device=...); it has {there}"
            )
        return chosen

    def _apart(self, owner: Ints, numbers: Sequence[int]) -> Ints | None:
        """All pairs of buffers of different pools."""
        groups = [np.flatnonzero(owner == n) for n in numbers]
        pairs = sum(len(a) * len(b) for a, b in combinations(groups, 2))
        if pairs > _MOST_PAIRS:
            there = "; ".join(self._use(n).name for n in numbers)
            raise SourceError(
                f"{self.source}: {len(owner):,} blocks of several streams or pools are too many for one plan; choose "
                f"with blocks={{'stream': N}} (--blocks stream=N, pool=N:M) or read_snapshot(...).problem(stream=..., "
                f"pool=...); it has {there}"
            )
        if not pairs:
            return None
        made = [np.stack(np.meshgrid(a, b), axis=-1).reshape(-1, 2) for a, b in combinations(groups, 2)]
        return np.concatenate(made).astype(np.int64)

    # Figures

    def _use_of(
        self, numbers: Iterable[int], planned: int | None = None, covered: dict[int, int] | None = None
    ) -> fragmentation.Fragmentation:
        """The figures of some pools together, summed over devices."""
        chosen = list(numbers)
        by_device: dict[int, list[int]] = {}
        for n in chosen:
            by_device.setdefault(self._keys[n][0], []).append(n)
        groups = list(by_device.values())
        return fragmentation.Fragmentation(
            sum(map(self._most_reserved, groups)),
            sum(self._load(group, GRANULE) for group in groups),
            sum(self._load(group, 1) for group in groups),
            planned,
            tuple(self._use(n, (covered or {}).get(n)) for n in chosen),
            self.notes,
        )

    def _use(self, number: int, planned: int | None = None) -> fragmentation.PoolUse:
        device, (stream, private) = self._keys[number]
        blocks = int((self._pool == number).sum())
        return fragmentation.PoolUse(
            device, stream, private, blocks, self._most_reserved([number]), self._load([number], GRANULE), planned
        )

    def _load(self, numbers: Sequence[int], granule: int) -> int:
        rows = np.isin(self._pool, numbers)
        return _core.Problem(_rounded(self._size[rows], granule), self._first[rows], self._last[rows]).load

    def _most_reserved(self, numbers: Sequence[int]) -> int:
        """What is held in the end is known; what was held before follows from the changes."""
        changes = self._reserved[np.isin(self._reserved[:, 0], numbers), 1]
        after = np.concatenate([[0], np.cumsum(changes)])
        return int(self._held[list(numbers)].sum() - after[-1] + after.max())


def _rounded(size: Ints, granule: int) -> Ints:
    return -(-size // granule) * granule


def _covered(begin: Ints, end: Ints) -> int:
    """Bytes in at least one of some ranges."""
    order = np.argsort(begin, kind="stable")
    begin, end = begin[order], end[order]
    before = np.concatenate([[0], np.maximum.accumulate(end)])[:-1]
    return int(np.maximum(end - np.maximum(begin, before), 0).sum())
