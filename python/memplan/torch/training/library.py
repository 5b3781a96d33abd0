"""The allocators by device, and their C functions, as `csrc/exports.hpp` has them."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import MissingDependencyError, UnsupportedError
from ...importers.tape import COLUMNS, Tape
from .build import built

FIGURES = (
    *("steps", "served", "moved", "outside", "missed", "missed_bytes", "used", "peak", "live"),
    *("outside_bytes", "outside_peak"),
    *("reason", "step", "track", "thread", "number", "expected", "got"),
)
_Callback = ctypes.CFUNCTYPE(None, ctypes.c_int64)
_Column = npt.NDArray[np.int64]


class BusyError(RuntimeError):
    """A step is recorded or served already."""


class Library:
    """An allocator that records and serves. Only one step is recorded or served at a time."""

    def __init__(self, path: Path) -> None:
        self._c = ctypes.CDLL(str(path))
        self._c.memplan_error.restype = ctypes.c_char_p
        for name in ("recorded", "ticks", "recording", "arena", "arenas", "watched"):
            getattr(self._c, f"memplan_{name}").restype = ctypes.c_int64
        self._tell: Any = None  # what C may call as long as it is here
        self.busy = ""  # what it is doing
        self._lock = threading.Lock()

    def begin(self, what: str) -> None:
        """Take torch's place, to record or to serve; BusyError if it does one of both already."""
        with self._lock:
            if self.busy:
                raise BusyError(f"{what} cannot begin: {self.busy} has not ended")
            if not self._c.memplan_install():
                raise RuntimeError(f"{what} cannot begin: another allocator of a higher priority is in torch's place")
            self.busy = what

    def end(self) -> None:
        self._c.memplan_uninstall()
        self.busy = ""

    def install(self) -> bool:
        """Into torch's place, beside whatever else goes on, until `uninstall`; False if another allocator stays."""
        return bool(self._c.memplan_install())

    def uninstall(self) -> None:
        self._c.memplan_uninstall()

    @contextmanager
    def installed(self) -> Iterator[bool]:
        """In torch's place, beside whatever else goes on; False if another allocator stays there."""
        there = self.install()
        try:
            yield there
        finally:
            if there:
                self.uninstall()

    def record(self, tell: Callable[[int], object] | None) -> None:
        self._c.memplan_record(self._callback(tell))

    def ticks(self) -> int:
        """Births and deaths of the recording so far."""
        return int(self._c.memplan_ticks())

    def recorded(self, tape: Tape) -> None:
        """End the recording, and fill the tape."""
        count = self._c.memplan_recorded()
        columns = {name: np.zeros(count, dtype=np.int64) for name in COLUMNS}
        tape.ticks = self._c.memplan_recording(*(_pointer(column) for column in columns.values()))
        for name, column in columns.items():
            setattr(tape, name, column)

    def arena(self, bytes: int, alignment: int, tracks: Sequence[tuple[_Column, ...]]) -> int:
        """A handle of a new arena. A track is the columns size, offset (-1: outside), thread and until, as a Slot."""
        lengths = np.array([len(track[0]) for track in tracks], dtype=np.int64)
        columns = [np.ascontiguousarray(np.concatenate(column), dtype=np.int64) for column in zip(*tracks, strict=True)]
        handle = self._c.memplan_arena(
            *(ctypes.c_int64(value) for value in (bytes, alignment, len(tracks))),
            *(_pointer(column) for column in (lengths, *columns)),
        )
        if handle <= 0:
            reason = self._c.memplan_error().decode(errors="replace").partition("\n")[0]
            raise (MemoryError if handle else ValueError)(f"an arena of {bytes} bytes cannot be made: {reason}")
        return int(handle)

    def step(self, arena: int, track: int, tell: Callable[[int], object] | None) -> None:
        self._c.memplan_begin(ctypes.c_int64(arena), ctypes.c_int64(track), self._callback(tell))

    def stop(self) -> None:
        self._c.memplan_end()

    def release(self, arena: int) -> None:
        self._c.memplan_release(ctypes.c_int64(arena))

    def figures(self, arena: int) -> dict[str, int]:
        out = np.zeros(len(FIGURES), dtype=np.int64)
        self._c.memplan_report(ctypes.c_int64(arena), _pointer(out))
        return dict(zip(FIGURES, out.tolist(), strict=True))

    def arenas(self) -> int:
        """How many arenas have memory."""
        return int(self._c.memplan_arenas())

    def watch(self) -> None:
        """Begin to look at what the process holds; not on GPUs."""
        self._c.memplan_watch()

    def watched(self) -> int:
        """End it: bytes of anonymous memory that were seen at most; 0 where it is not known."""
        return int(self._c.memplan_watched())

    def _callback(self, tell: Callable[[int], object] | None) -> Any:
        self._tell = None if tell is None else _Callback(tell)
        return self._tell


def _pointer(column: _Column) -> Any:
    return column.ctypes.data_as(ctypes.POINTER(ctypes.c_int64))


class CpuLibrary(Library):
    """The allocator of the CPU, which also offers memory to single calls of kernels: see `csrc/offers.hpp`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._offer, self._offered, self._number_of = (
            getattr(self._c, f"memplan_{name}") for name in ("offer", "offered", "number_of")
        )
        self._offer.argtypes, self._offer.restype = [ctypes.c_void_p, ctypes.c_char_p], None
        self._offered.argtypes, self._offered.restype = [ctypes.c_void_p], None
        self._number_of.argtypes, self._number_of.restype = [ctypes.c_int64], ctypes.c_int64
        self._pages = self._c.memplan_pages
        self._pages.argtypes, self._pages.restype = [ctypes.c_int], None
        self._paged = self._c.memplan_paged
        self._paged.argtypes, self._paged.restype = [ctypes.c_void_p], None
        self._made = self._c.memplan_made
        self._made.argtypes, self._made.restype = [ctypes.c_void_p], ctypes.c_int64

    def want_pages(self, more: int) -> None:
        """From 1 until -1, whatever is large, and allocated on this thread, has pages of its own: see `csrc/pages.hpp`.

        Both may be said several times. The library has to be installed, and to stay so: torch frees some memory by the
        allocator that it has then.
        """
        self._pages(more)

    def give_back(self) -> None:
        """Pages that are kept for what comes go back to the system."""
        self._c.memplan_give_back()

    def paged(self) -> tuple[int, int, int]:
        """Bytes in pages of their own: alive, kept for what comes, and alive at most."""
        told = np.zeros(3, dtype=np.int64)
        self._paged(told.ctypes.data)
        alive, kept, most = told.tolist()
        return alive, kept, most

    def offer(self, row: _Column) -> None:
        """Begin to offer the call that follows on this thread what a row says, as csrc/cpu.cpp has it: no arenas."""
        self._offer(row.ctypes.data, None)

    def addresses(self, *names: str) -> list[int]:
        """Where functions of the library are, by their names without `memplan_`: for others in C++."""
        return [ctypes.cast(getattr(self._c, f"memplan_{name}"), ctypes.c_void_p).value or 0 for name in names]

    def number_of(self, address: int) -> int:
        """Which allocation of the call gave an address last; -1 if none did."""
        return int(self._number_of(address))

    def made(self) -> _Column:
        """The allocations of the call so far, (n, 4): address, bytes, birth, death, which is -1 of what is alive."""
        rows = np.zeros((self._made(None), 4), dtype=np.int64)
        self._made(rows.ctypes.data)
        return rows

    def offered(self) -> tuple[int, int, int]:
        """End it: allocations of the call, how many of them still hold what was offered, and bytes from elsewhere."""
        told = np.zeros(3, dtype=np.int64)
        self._offered(told.ctypes.data)
        asked, kept, elsewhere = told.tolist()
        return asked, kept, elsewhere


@cache
def cpu() -> CpuLibrary:
    """The allocator of the CPU."""
    return CpuLibrary(built())


@cache
def cpu_if_built() -> CpuLibrary | None:
    """The allocator of the CPU; None where it cannot be built, and on systems where kernels are not served."""
    if sys.platform != "linux":
        return None
    try:
        return cpu()
    except (MissingDependencyError, UnsupportedError, RuntimeError):
        return None
