"""The allocators by device, and their C functions, as `csrc/exports.hpp` has them."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

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

    @contextmanager
    def installed(self) -> Iterator[bool]:
        """In torch's place, beside whatever else goes on; False if another allocator stays there."""
        there = bool(self._c.memplan_install())
        try:
            yield there
        finally:
            if there:
                self._c.memplan_uninstall()

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

    def offering(self) -> tuple[Callable[[int], None], Callable[[int], int], Callable[[int], None]]:
        """memplan_offer, memplan_number_of and memplan_offered, as csrc/cpu.cpp has them, with addresses as numbers."""
        offer, number_of, offered = self._c.memplan_offer, self._c.memplan_number_of, self._c.memplan_offered
        for function in (offer, offered):
            function.argtypes, function.restype = [ctypes.c_void_p], None
        number_of.argtypes, number_of.restype = [ctypes.c_int64], ctypes.c_int64
        return offer, number_of, offered

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


@cache
def cpu() -> Library:
    """The allocator of the CPU."""
    return Library(built())


installed: dict[str, Library] = {}  # by other packages, for other devices


def library_of(device: str) -> Library:
    """The allocator of "cpu", or of a device for which one was installed."""
    if device != "cpu" and device not in installed:
        raise RuntimeError(
            "this needs memplan's allocator on the GPU: call memplan.run.cuda_unproven.install() at the beginning"
        )
    return cpu() if device == "cpu" else installed[device]
