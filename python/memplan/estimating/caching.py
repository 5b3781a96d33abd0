"""A dynamic allocator replayed by size: what torch's caching allocator for CUDA reserves for the same lifetimes.

After the rules of c10/cuda/CUDACachingAllocator in torch 2.13 with its standard settings: sizes are rounded up to 512
bytes; up to 1 MiB come from small segments of 2 MiB, others from segments of 20 MiB, or of their own size rounded up to
2 MiB from 10 MiB on; the smallest free block that fits is taken, and split when what is left is worth it; free
neighbours in a segment become one; segments are kept.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field

from .. import _core

MIB = 1 << 20


@dataclass
class Pool:
    """Segments of one kind; free blocks are (size, segment, begin), sorted."""

    small: bool
    free: list[tuple[int, int, int]] = field(default_factory=list)
    segments: list[dict[int, int]] = field(default_factory=list)  # per segment: free blocks, begin -> size
    reserved: int = 0

    def take(self, size: int) -> tuple[int, int, int]:
        """A block of that size or a little more: (segment, begin, size)."""
        at = bisect_left(self.free, (size, -1, -1))
        if at == len(self.free):
            self._reserve(size)
            at = bisect_left(self.free, (size, -1, -1))
        found, segment, begin = self.free.pop(at)
        del self.segments[segment][begin]
        rest = found - size
        if rest >= 512 if self.small else rest > MIB:
            self._put(segment, begin + size, rest)
            found = size
        return segment, begin, found

    def give(self, segment: int, begin: int, size: int) -> None:
        """Back, joined with its free neighbours."""
        blocks = self.segments[segment]
        after = blocks.get(begin + size)
        if after is not None:
            self._drop(segment, begin + size, after)
            size += after
        before = next((b for b, s in blocks.items() if b + s == begin), None)
        if before is not None:
            size += blocks[before]
            self._drop(segment, before, blocks[before])
            begin = before
        self._put(segment, begin, size)

    def _reserve(self, size: int) -> None:
        whole = 2 * MIB if self.small else 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB
        self.reserved += whole
        self.segments.append({})
        self._put(len(self.segments) - 1, 0, whole)

    def _put(self, segment: int, begin: int, size: int) -> None:
        insort(self.free, (size, segment, begin))
        self.segments[segment][begin] = size

    def _drop(self, segment: int, begin: int, size: int) -> None:
        self.free.pop(bisect_left(self.free, (size, segment, begin)))
        del self.segments[segment][begin]


def reserved(problem: _core.Problem) -> int:
    """Bytes of all segments at the end, when the buffers are born and die in their order."""
    pools = {True: Pool(small=True), False: Pool(small=False)}
    size, first, last = (column.tolist() for column in (problem.size, problem.first, problem.last))
    deaths = sorted(range(len(size)), key=lambda i: last[i])
    held: dict[int, tuple[int, int, int]] = {}
    dead = 0
    for i in sorted(range(len(size)), key=lambda i: first[i]):
        while last[deaths[dead]] <= first[i]:
            gone = deaths[dead]
            if gone in held:
                pools[_rounded(size[gone]) <= MIB].give(*held.pop(gone))
            dead += 1
        if size[i]:
            rounded = _rounded(size[i])
            held[i] = pools[rounded <= MIB].take(rounded)
    return sum(pool.reserved for pool in pools.values())


def _rounded(size: int) -> int:
    return -(-size // 512) * 512
