"""An arena of pages of its own, on Linux: they move to where they are needed, and nothing is copied.

What a run returns takes its pages along. Scratch behind the arena has pages of the arena that are free meanwhile.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from functools import cache
from typing import Any, NamedTuple
from weakref import WeakSet

import torch
from torch import Tensor

LEAST = 1 << 14  # bytes of a result whose pages are moved
_MOST = 5000  # of them that live: each is up to three mappings, and a process may have 65,530
_PAGE = mmap.PAGESIZE
_NORESERVE = 0x4000
_MAYMOVE, _FIXED, _DONTUNMAP = 1, 2, 4
_FAILED = ctypes.c_void_p(-1).value
_alive: WeakSet[mmap.mmap] = WeakSet()


class Move(NamedTuple):
    """Whole pages from an address to another."""

    origin: int
    target: int
    nbytes: int

    @property
    def back(self) -> Move:
        return Move(self.target, self.origin, self.nbytes)


def mapped(nbytes: int) -> Tensor | None:
    """Bytes that begin with a page, and take no memory until they are written to; None where there is no such thing."""
    if sys.platform != "linux":
        return None
    try:
        return torch.frombuffer(_region(nbytes, _NORESERVE), dtype=torch.uint8)
    except OSError:  # there are not so many addresses
        return None


def taken(arena: Tensor, begin: int, end: int) -> Tensor | None:
    """The bytes [begin, end) of what `mapped` has given, in memory of their own: their pages move there.

    What they leave is zero, and takes no memory until it is written to. None where pages cannot move: nothing has
    changed then. Only whole pages move; the rest is copied.
    """
    start, stop = arena.data_ptr() + begin, arena.data_ptr() + end
    low, high = page_up(start), page_down(stop)
    origin = page_down(start)
    if high <= low or len(_alive) >= _MOST:
        return None
    try:
        region = _region(page_up(stop) - origin)
    except OSError:
        return None
    base = ctypes.addressof(ctypes.c_char.from_buffer(region))
    if not moved(Move(low, base + low - origin, high - low)):
        return None
    _alive.add(region)
    ctypes.memmove(base + start - origin, start, low - start)
    ctypes.memmove(base + high - origin, high, stop - high)
    return torch.frombuffer(region, dtype=torch.uint8, count=stop - start, offset=start - origin)


def moved(move: Move) -> bool:
    """Move pages: their origin is zero then, and takes no memory until it is written to. False where they cannot."""
    origin, target = map(ctypes.c_void_p, (move.origin, move.target))
    size = ctypes.c_size_t(move.nbytes)
    found = _mremap()(origin, size, size, _MAYMOVE | _FIXED | _DONTUNMAP, target)
    return bool(found != _FAILED)


def emptied(begin: int, end: int) -> None:
    """Give whole pages back to the system: they are zero then, and take no memory until they are written to."""
    _madvise()(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), mmap.MADV_DONTNEED)


def page_up(address: int) -> int:
    return -(-address // _PAGE) * _PAGE


def page_down(address: int) -> int:
    return address // _PAGE * _PAGE


@cache
def _mremap() -> Any:
    function = ctypes.CDLL(None).mremap
    function.restype = ctypes.c_void_p
    return function


@cache
def _madvise() -> Any:
    return ctypes.CDLL(None).madvise


def _region(nbytes: int, flags: int = 0) -> mmap.mmap:
    return mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | flags)
