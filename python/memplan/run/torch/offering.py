"""Kernels get memory from the arena of a plan: results are made in their places, and scratch where bytes are free."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ...errors import UnsupportedError
from ...plans.usage import free_ranges, rectangles
from ..eager.library import cpu_if_built
from .kernels import Instruction
from .memory import Memory

if TYPE_CHECKING:
    from ...plans.record import PlanRecord
    from ..eager.library import CpuLibrary

_ALIGNMENT = 64  # as kernels are used to: at other addresses, last bits may differ
_LEAST = 4096  # bytes of a free range that is worth offering


class Offering:
    """What kernels of a bound program may allocate in its arena.

    Attributes
    ----------
    outside : int or None
        Bytes that kernels took from elsewhere in the last run, at most at one time. None if nothing was offered.
    active : bool
        Whether kernels are offered anything: in a run, unless another allocator is in torch's place.
    """

    def __init__(self, plan: PlanRecord, memory: Memory, has_scratch: bool) -> None:
        self._library = cpu_if_built() if memory.arena.device.type == "cpu" else None
        self._plan, self._memory, self._has_scratch = plan, memory, has_scratch
        self._used: npt.NDArray[np.int64] | None = None
        self.outside: int | None = None
        self.active = False

    @contextmanager
    def installed(self) -> Iterator[None]:
        """In torch's place, for one run."""
        if self._library is None:
            yield
            return
        with self._library.installed() as self.active:
            self.outside = 0 if self.active else None
            try:
                yield
            finally:
                self.active = False

    def around(self, step: int, done: Instruction) -> Callable[[], object]:
        """A call that is offered memory."""
        if self._library is None or done.keeps:
            return done.run
        return _Offered(self, step, done, self._library)

    def name_of(self, step: int) -> str:
        """The op of a step."""
        assert self._plan.graph is not None
        return str(self._plan.graph.ops[step].name)

    def free_at(self, step: int) -> list[tuple[int, int]]:
        """Ranges of the arena, as addresses and bytes, neither in use at a step nor reserved: the largest."""
        if not self._has_scratch:
            return []
        if self._used is None:
            rows = rectangles(self._plan.problem)
            base = self._plan.offsets[rows[:, 0]]
            placed = np.column_stack([base + rows[:, 1], base + rows[:, 2], rows[:, 3], rows[:, 4]])
            reserved = self._plan.problem.reserved
            self._used = placed if reserved is None else np.concatenate([placed, reserved])
        used = self._used
        now = used[(used[:, 2] <= step) & (step < used[:, 3])]
        ranges = free_ranges(now[:, 0], now[:, 1], self._plan.peak, _ALIGNMENT, _LEAST)
        address = self._memory.arena.data_ptr()
        return [(address + begin, size) for begin, size in ranges]


class _Offered:
    """A call of a kernel. The first run says what it allocates: its results, and whether it needs scratch."""

    def __init__(self, offering: Offering, step: int, done: Instruction, library: CpuLibrary) -> None:
        self._offering, self._step, self._run, self._library = offering, step, done.run, library
        places = [(tensor.data_ptr(), tensor.numel() * tensor.element_size(), -1) for tensor in done.results]
        self._results = places if all(at % _ALIGNMENT == 0 for at, _, _ in places) else []
        self._learns = bool(self._results)
        self._asks = True
        self._scratch: list[tuple[int, int]] | None = None
        self._write()

    def __call__(self) -> Any:
        if not (self._asks and self._offering.active):
            return self._run()
        self._library.offer(self._row)
        try:
            result = self._run(self._see) if self._learns else self._run()
        finally:
            asked, kept, elsewhere = self._library.offered()
        self._asks = asked > 0
        self._offering.outside = max(self._offering.outside or 0, elsewhere)
        if kept:
            self._asks = False  # from now on
            name = self._offering.name_of(self._step)
            raise UnsupportedError(f"{name}: its kernel keeps memory past its call, so it cannot be served")
        if elsewhere >= _LEAST and self._scratch is None:
            self._scratch = self._offering.free_at(self._step)
            self._write()
        return result

    def _see(self, addresses: list[int]) -> None:
        """Which allocations are the results, where something else of the same size came before them."""
        self._learns = False
        if len(addresses) == len(self._results):  # its fake kernel may give more
            numbers = map(self._library.number_of, addresses)
            self._results = [(at, size, number) for (at, size, _), number in zip(self._results, numbers, strict=True)]
            self._write()

    def _write(self) -> None:
        scratch = self._scratch or []
        numbers = [len(self._results), len(scratch)]
        for row in (*self._results, *scratch):
            numbers += row
        self._row = np.array(numbers, dtype=np.int64)
