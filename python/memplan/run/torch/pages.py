"""An arena of pages of its own, on Linux: what a run returns takes its pages along, and nothing is copied."""

from __future__ import annotations

import ctypes
import mmap
import sys
from functools import cache
from typing import Any
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
    low, high = -(-start // _PAGE) * _PAGE, stop // _PAGE * _PAGE
    origin = start // _PAGE * _PAGE
    if high <= low or len(_alive) >= _MOST:
        return None
    try:
        region = _region(-(-stop // _PAGE) * _PAGE - origin)
    except OSError:
        return None
    base = ctypes.addressof(ctypes.c_char.from_buffer(region))
    size = ctypes.c_size_t(high - low)
    addresses = (ctypes.c_void_p(at) for at in (low, base + low - origin))
    if _mremap()(next(addresses), size, size, _MAYMOVE | _FIXED | _DONTUNMAP, next(addresses)) == _FAILED:
        return None
    _alive.add(region)
    ctypes.memmove(base + start - origin, start, low - start)
    ctypes.memmove(base + high - origin, high, stop - high)
    return torch.frombuffer(region, dtype=torch.uint8, count=stop - start, offset=start - origin)


@cache
def _mremap() -> Any:
    function = ctypes.CDLL(None).mremap
    function.restype = ctypes.c_void_p
    return function


def _region(nbytes: int, flags: int = 0) -> mmap.mmap:
    return mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | flags)
