"""Kernels get memory from the arena of a plan: results are made in their places, and scratch where bytes are free."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ... import _core
from ...errors import UnsupportedError
from ...plans import usage
from ..malloc import trim
from ..training.library import cpu_if_built
from .kernels import Instruction
from .memory import Memory
from .pages import LEAST, Move, emptied, moved, page_down, page_up

if TYPE_CHECKING:
    from ...plans.plan import Plan
    from ..training.library import CpuLibrary

_ALIGNMENT = 64  # as kernels are used to: at other addresses, last bits may differ
_ANYWHERE = -1  # no arena, for the allocator: places are addresses
_RUNS = 4  # of a kernel, in which it may allocate otherwise than before
_MOST = 256  # allocations of a kernel that get places
_Ints = npt.NDArray[np.int64]
_Result = tuple[int, int, int]  # address, bytes, and the birth among the births and deaths of a call


class Offering:
    """What kernels of a bound program may allocate in its arena.

    Attributes
    ----------
    outside : int or None
        Bytes that kernels took from elsewhere in the last run, at most at one time, and bytes behind the arena that
        were kept for them, without those whose pages came from the arena. None if nothing was offered.
    active : bool
        Whether kernels are offered anything: in a run, unless another allocator is in torch's place.
    """

    def __init__(self, plan: Plan, memory: Memory, has_scratch: bool) -> None:
        self._library = cpu_if_built() if memory.arena.device.type == "cpu" else None
        self._plan, self._memory, self._has_scratch = plan, memory, has_scratch
        self._used: _Ints | None = None
        self._behind = 0
        self._needed = dict[object, int]()  # by each call, behind the arena
        self._learned = True  # in a run: later ones allocate less
        self.outside: int | None = None
        self.active = False

    @contextmanager
    def installed(self) -> Iterator[None]:
        """In torch's place, for one run."""
        if self._library is None:
            yield
            return
        with self._library.installed() as self.active:
            self.outside = self._behind if self.active else None
            try:
                yield
            finally:
                self.active = False
        if self._learned:
            self._learned = False
            trim()
            self._give_back()

    def _give_back(self) -> None:
        """Pages behind the arena that calls had until it was known what they allocate."""
        most, self._behind = self._behind, max(self._needed.values(), default=0)
        end = self._memory.arena.data_ptr() + self._plan.peak
        if most > self._behind:
            emptied(page_up(end + self._behind), page_up(end + most))

    def around(self, step: int, done: Instruction) -> Callable[[], object]:
        """A call that is offered memory."""
        if self._library is None or done.keeps:
            return done.run
        return _Offered(self, step, done, self._library)

    def took(self, elsewhere: int) -> None:
        """A call took bytes from elsewhere."""
        self.outside = max(self.outside or 0, self._behind + elsewhere)

    def name_of(self, step: int) -> str:
        """The op of a step."""
        assert self._plan.graph is not None
        return str(self._plan.graph.ops[step].name)

    def places(
        self, call: object, step: int, scratch: _Ints, results: Sequence[_Result]
    ) -> tuple[dict[int, int], list[Move]]:
        """Addresses of what a call at a step allocates besides its results, by row; what is left out does not fit.

        The rows of `scratch` are bytes, birth and death. Until a result is born, its place is free. What has no room in
        the arena lies behind it, if that may be. The largest come first: what lies elsewhere is as little as can be.
        Free bytes of the arena that do not lie side by side are no room, but their pages can lie behind the arena
        meanwhile: the moves say which.
        """
        self._learned = True
        self._needed[call] = 0
        if not self._has_scratch or not len(scratch):
            return {}, []
        reserved = self._in_use(step, results)

        def placed(rows: _Ints) -> _core.Solution:
            size, born, died = scratch[rows].T
            problem = _core.Problem(size, born, died, _ALIGNMENT, reserved=reserved)
            return _core.solve_problem(problem, _core.PlanOptions("greedy_by_size"))

        rows = np.argsort(-scratch[:, 0], kind="stable")[:_MOST]
        best = placed(rows)
        most = self._plan.peak + self._memory.behind
        if best.peak > most:
            chosen: list[int] = []
            for row in rows.tolist():
                tried = placed(np.array([*chosen, row]))
                if tried.peak <= most:
                    chosen.append(row)
                    best = tried
            rows = np.array(chosen, dtype=np.int64)
        offsets = best.offsets[: len(rows)]
        used = np.concatenate([reserved[:, :2], np.column_stack([offsets, offsets + scratch[rows, 0]])])
        moves = self._moves(used, best.peak)
        self._needed[call] = max(0, best.peak - self._plan.peak - sum(move.nbytes for move in moves))
        self._behind = max(self._behind, self._needed[call])
        address = self._memory.arena.data_ptr()
        return {row: address + offset for row, offset in zip(rows.tolist(), offsets.tolist(), strict=True)}, moves

    def _moves(self, used: _Ints, peak: int) -> list[Move]:
        """Pages of the arena that no bytes in use lie in, to behind the arena, as far as a peak needs pages there."""
        address = self._memory.arena.data_ptr()
        begin, end = page_up(address + self._plan.peak), page_up(address + peak)
        moves = []
        for offset, room in usage.free_ranges(used[:, 0], used[:, 1], self._plan.peak, 1, LEAST):
            origin = page_up(address + offset)
            nbytes = min(page_down(address + offset + room) - origin, end - begin)
            if nbytes >= LEAST:
                end -= nbytes
                moves.append(Move(origin, end, nbytes))
        return moves

    def _in_use(self, step: int, results: Sequence[_Result]) -> _Ints:
        """Bytes of the arena that are in use at a step, or reserved, as `Problem` takes them."""
        if self._used is None:
            rows = usage.rectangles(self._plan.problem)
            if self._plan.buffers is not None:  # the workspace of a step is what its kernel gets
                rows = rows[~np.isin(rows[:, usage.BUFFER], self._plan.buffers.buffer_of_workspace)]
            base = self._plan.offsets[rows[:, usage.BUFFER]]
            placed = np.column_stack([base + rows[:, usage.BEGIN], base + rows[:, usage.END], rows[:, usage.FIRST :]])
            reserved = self._plan.problem.reserved
            self._used = placed if reserved is None else np.concatenate([placed, reserved])
        now = self._used[(self._used[:, 2] <= step) & (step < self._used[:, 3])]
        address, always = self._memory.arena.data_ptr(), np.iinfo(np.int64)
        places = [(at - address, at - address + size, born) for at, size, born in results]
        spans = usage.joined([(begin, end) for begin, end, *_ in now.tolist()])
        for begin, end, _ in places:
            spans = usage.cut(spans, (begin, end))
        used = [(*span, always.min, always.max) for span in spans] + [(*place, always.max) for place in places]
        return np.array(used, dtype=np.int64).reshape(-1, 4)


class _Offered:
    """A call of a kernel. Its first runs say what it allocates: its results, and scratch, which gets places too."""

    __slots__ = (
        *("_asks", "_learns", "_library", "_made", "_moves", "_offering"),
        *("_results", "_row", "_run", "_sees", "_step"),
    )

    def __init__(self, offering: Offering, step: int, done: Instruction, library: CpuLibrary) -> None:
        self._offering, self._step, self._run, self._library = offering, step, done.run, library
        places = [(tensor.data_ptr(), tensor.numel() * tensor.element_size(), -1) for tensor in done.results]
        self._results = places if all(at % _ALIGNMENT == 0 for at, _, _ in places) else []
        self._sees = bool(self._results)
        self._asks = True
        self._learns = _RUNS
        self._made: _Ints | None = None  # bytes, births and deaths of the last run
        self._moves: list[Move] = []  # of pages, while it runs
        self._write({})

    def __call__(self) -> Any:
        if not (self._asks and self._offering.active):
            return self._run()
        there = [move for move in self._moves if moved(move)]
        self._library.offer(self._row)
        try:
            result = self._run(self._see) if self._sees else self._run()
            made = self._library.made() if self._learns else None
        finally:
            asked, kept, elsewhere = self._library.offered()
            for move in there:
                moved(move.back)
        self._asks = asked > 0
        self._offering.took(elsewhere)
        if kept:
            self._asks = False  # from now on
            name = self._offering.name_of(self._step)
            raise UnsupportedError(f"{name}: its kernel keeps memory past its call, so it cannot be served")
        if made is not None:
            self._learn(made)
        return result

    def _see(self, addresses: list[int]) -> None:
        """Which allocations are the results, where something else of the same size came before them."""
        self._sees = False
        if len(addresses) == len(self._results):  # its fake kernel may give more
            numbers = map(self._library.number_of, addresses)
            self._results = [(at, size, number) for (at, size, _), number in zip(self._results, numbers, strict=True)]
            self._write({})

    def _learn(self, made: _Ints) -> None:
        """Scratch gets places by what a run has allocated, until two runs allocate the same."""
        self._learns -= 1
        if self._made is not None and np.array_equal(self._made, made[:, 1:]):
            self._learns, self._made = 0, None
            return
        self._made = made[:, 1:]
        own: dict[int, _Result] = {}
        for at, size, number in self._results:
            known = [number] if number >= 0 else np.flatnonzero(made[:, 0] == at).tolist()[-1:]
            own |= {row: (at, size, int(made[row, 2])) for row in known if size and row < len(made)}
        scratch = [row for row in np.flatnonzero(made[:, 3] >= 0).tolist() if row not in own]
        places, self._moves = self._offering.places(self, self._step, made[scratch, 1:], [*own.values()])
        self._write({scratch[row]: (at, int(made[scratch[row], 1])) for row, at in places.items()})

    def _write(self, scratch: dict[int, tuple[int, int]]) -> None:
        numbers = [len(self._results) + len(scratch), 0]
        for row in (*((at, size, number) for number, (at, size) in scratch.items()), *self._results):
            numbers += (_ANYWHERE, *row)
        self._row = np.array(numbers, dtype=np.int64)
