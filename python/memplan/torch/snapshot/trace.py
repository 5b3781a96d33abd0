"""The trace of one device: which block of memory lived when, and what was reserved.

A block lives from its `alloc` to its `free_completed`: one that another stream still uses is free only then. Step k is
the time from the k-th `alloc` to the next one. What lived before the trace began lives from step 0.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from reprlib import repr
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ...errors import SourceError

_MOST = 2**62  # bytes
ACTIONS = {  # by their numbers in the core
    "alloc": 0,
    "free_requested": 1,
    "free_completed": 2,
    "segment_alloc": 3,
    "segment_free": 4,
    "segment_map": 5,
    "segment_unmap": 6,
    "oom": 7,
}
MAIN = (0, 0)  # the id of the pool that is not private

Pool: TypeAlias = tuple[int, tuple[int, int]]  # stream, id


@dataclass
class Walked:
    """The blocks of a device, as columns, and what its segments held.

    `pools` numbers the pools, `pool` has the number of each block, and `frames` its stack or None. `reserved` are rows
    (pool, change in bytes), in order, of which `held` is the outcome by pool.
    """

    device: int
    pools: dict[Pool, int] = field(default_factory=dict)
    pool: list[int] = field(default_factory=list)
    address: list[int] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    last: list[int] = field(default_factory=list)
    frames: list[Any] = field(default_factory=list)
    reserved: list[tuple[int, int]] = field(default_factory=list)
    held: dict[int, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    traced: bool = False  # it has events of blocks
    events: list[tuple[int, int, int, int]] = field(default_factory=list)  # action, address, bytes, number of the pool
    event_frames: list[Any] = field(default_factory=list)
    segments: list[_Segment] = field(default_factory=list)

    def number(self, pool: Pool) -> int:
        return self.pools.setdefault(pool, len(self.pools))


def walked(trace: Any, segments: Sequence[Any], device: int, where: str) -> Walked:
    """The blocks of a device; SourceError says which entry of its trace or segments is wrong."""
    where = f"{where}: device_traces[{device}]"
    if not isinstance(trace, (list, tuple)):
        raise SourceError(f"{where}: expected a list of events, got {type(trace).__name__}")
    walk = _Walk(device, [_Segment.of(segment, i, where) for i, segment in enumerate(segments)])
    return walk.through(trace, where)


@dataclass
class _Segment:
    """A run of bytes that the allocator holds, when the snapshot was taken."""

    address: int
    size: int
    pool: Pool
    blocks: list[tuple[int, int, Any]]  # those in use: address, bytes as asked for, stack
    sizes: list[int]  # bytes that these have
    small: bool
    expandable: bool

    @staticmethod
    def of(entry: Any, position: int, where: str) -> _Segment:
        at = f"{where.rpartition(': ')[0]}: segments[{position}]"
        if not isinstance(entry, Mapping):
            raise SourceError(f"{at}: expected a dict, got {type(entry).__name__}")
        start = _address(entry, "address", at, otherwise=0)
        blocks, sizes, address = [], list[int](), start
        for i, block in enumerate(_blocks(entry, at)):
            inside = f"{at}.blocks[{i}]"
            if not isinstance(block, Mapping) or not isinstance(block.get("state"), str):
                raise SourceError(f"{inside}: expected a dict with size and state, got {repr(block)}")
            size = _number(block, "size", inside)
            address = _address(block, "address", inside, otherwise=address)
            if block["state"].startswith("active"):
                asked = _number(block, "requested_size", inside, otherwise=size)
                blocks.append((address, asked, block.get("frames")))
                sizes.append(size)
            address += size
        size = _number(entry, "total_size", at)
        pool = _pool(entry, "segment_pool_id", at) or (_stream(entry, at), MAIN)
        small = entry.get("segment_type", "small" if size <= 2**21 else "large") == "small"
        return _Segment(start, size, pool, blocks, sizes, small, bool(entry.get("is_expandable", False)))


class _Walk:
    def __init__(self, device: int, segments: list[_Segment]) -> None:
        self.found = Walked(device)
        self._segments = sorted(segments, key=lambda segment: segment.address)
        self._starts = [segment.address for segment in self._segments]
        self._has_private = any(segment.pool[1] != MAIN for segment in segments)
        self._step = 0
        self._live: dict[int, int] = {}  # address -> block
        self._asked: dict[int, int] = {}  # block -> the step at which its free was requested
        self._requests = self._completes = False
        self._lost = self._out_of_memory = 0
        self._at = ""

    def through(self, trace: Sequence[Any], where: str) -> Walked:
        act = {
            "alloc": self._alloc,
            "free_requested": self._free_requested,
            "free_completed": self._free_completed,
            "segment_alloc": self._grow,
            "segment_map": self._grow,
            "segment_free": self._shrink,
            "segment_unmap": self._shrink,
            "oom": self._oom,
        }
        for i, event in enumerate(trace):
            try:
                name = event["action"]
                action = act.get(name)
                if action is not None:
                    action(event)
                    self._keep(name, event)
            except SourceError as error:
                raise SourceError(f"{where}[{i}]: {error}") from None
            except (KeyError, TypeError, IndexError):
                raise SourceError(f"{where}[{i}]: expected an event, a dict with action, got {repr(event)}") from None
        self._finish()
        return self.found

    # Events

    def _alloc(self, event: Any) -> None:
        address, size = _address(event, "addr"), _number(event, "size")
        old = self._live.get(address)
        if old is not None:
            self._lost += old not in self._asked
            self._end(old)
        self._step += 1
        self._live[address] = self._add(self._pool_of(event, address), address, size, self._step, event.get("frames"))

    def _free_requested(self, event: Any) -> None:
        self._requests = True
        self._asked[self._freed(event)] = self._step

    def _free_completed(self, event: Any) -> None:
        self._completes = True
        block = self._freed(event)
        self._asked.pop(block, None)
        self._end(block)
        del self._live[self.found.address[block]]

    def _freed(self, event: Any) -> int:
        """The block that an event frees; one that has no `alloc` lived before."""
        address = _address(event, "addr")
        block = self._live.get(address)
        if block is None:
            size = _number(event, "size")
            block = self._live[address] = self._add(self._pool_of(event, address), address, size, 0, None)
        return block

    def _grow(self, event: Any) -> None:
        pool = self._pool_of(event, _address(event, "addr"))
        self.found.reserved.append((self.found.number(pool), _number(event, "size")))

    def _shrink(self, event: Any) -> None:
        pool = self._pool_of(event, _address(event, "addr"))
        self.found.reserved.append((self.found.number(pool), -_number(event, "size")))

    def _oom(self, event: Any) -> None:
        self._out_of_memory += 1

    def _keep(self, name: str, event: Any) -> None:
        found = self.found
        address = _address(event, "device_free" if name == "oom" and "device_free" in event else "addr", otherwise=0)
        pool = (_stream(event, ""), MAIN) if name == "oom" else self._pool_of(event, address)
        found.events.append((ACTIONS[name], address, _number(event, "size"), found.number(pool)))
        found.event_frames.append(event.get("frames"))

    # Blocks

    def _add(self, pool: Pool, address: int, size: int, first: int, frames: Any) -> int:
        found = self.found
        found.pool.append(found.number(pool))
        found.address.append(address)
        found.size.append(size)
        found.first.append(first)
        found.last.append(-1)
        found.frames.append(frames)
        return len(found.last) - 1

    def _end(self, block: int) -> None:
        self.found.last[block] = self._asked.pop(block, self._step) + 1

    def _pool_of(self, event: Any, address: int) -> Pool:
        """As the event says, else as the segment says in which the address is: old traces name no pools."""
        pool = _pool(event, "pool_id", "") if "pool_id" in event else None
        if pool is not None:
            return pool
        stream = _stream(event, "")
        if self._has_private:
            i = bisect_right(self._starts, address) - 1
            if i >= 0 and address < self._starts[i] + self._segments[i].size:
                return stream, self._segments[i].pool[1]
        return stream, MAIN

    # The end of the trace

    def _finish(self) -> None:
        found = self.found
        found.segments = self._segments
        found.traced = bool(found.size)
        at_end = list(self._live.values())
        for block in at_end:
            if self._completes:
                self._asked.pop(block, None)  # another stream still uses it
            self._end(block)
        before = sum(first == 0 for first in found.first)
        before_bytes = sum(size for size, first in zip(found.size, found.first, strict=True) if first == 0)
        standing, later = self._standing()
        for pool, address, size, frames in standing:
            found.last[self._add(pool, address, size, 0, frames)] = self._step + 1
        for segment in self._segments:
            number = found.number(segment.pool)
            found.held[number] = found.held.get(number, 0) + segment.size
        self._say(before + len(standing), before_bytes + sum(s[2] for s in standing), later)

    def _standing(self) -> tuple[list[tuple[Pool, int, int, Any]], int]:
        """The blocks in use that the trace does not know: those from before it; and how many came after it.

        Where the trace put other blocks, nothing can have stood throughout: what is there now came after its end.
        """
        unknown = [
            (segment.pool, *block)
            for segment in self._segments
            for block in segment.blocks
            if block[0] not in self._live
        ]
        starts = np.array([block[1] for block in unknown], dtype=np.uint64)
        sizes = np.array([block[2] for block in unknown], dtype=np.uint64)
        moved = _meets(starts, starts + sizes, self.found).tolist()
        return [block for block, later in zip(unknown, moved, strict=True) if not later], sum(moved)

    def _say(self, before: int, size: int, later: int) -> None:
        device, traced = f"device {self.found.device}", self.found.traced
        asked_only = self._requests and not self._completes
        said = {
            f"{before:,} blocks ({size:,} bytes) lived before the trace begins: they live from its first step": (
                before and traced
            ),
            f"{later:,} blocks came after the end of the trace: they are left out": later,
            f"{self._lost:,} frees are not in the trace: such a block ends where its address is given out again": (
                self._lost
            ),
            "the trace has no free_completed: blocks end where their free was requested": asked_only,
            f"memory ran out {self._out_of_memory:,} times": self._out_of_memory,
        }
        self.found.notes += [f"{device}: {text}" for text, holds in said.items() if holds]


def _meets(begin: npt.NDArray[np.uint64], end: npt.NDArray[np.uint64], found: Walked) -> npt.NDArray[np.bool_]:
    """Which of some ranges of addresses share bytes with a block of the trace."""
    address = np.array(found.address, dtype=np.uint64)
    order = np.argsort(address, kind="stable")
    if not len(order):
        return np.zeros(len(begin), dtype=np.bool_)
    tops = np.maximum.accumulate((address + np.array(found.size, dtype=np.uint64))[order])
    below = np.searchsorted(address[order], end)  # blocks that begin below the end of the range
    return (below > 0) & (tops[np.maximum(below - 1, 0)] > begin)


# Entries


def _blocks(entry: Mapping[str, Any], at: str) -> Sequence[Any]:
    blocks = entry.get("blocks")
    if not isinstance(blocks, (list, tuple)):
        raise SourceError(f"{at}.blocks: expected a list, got {type(blocks).__name__}")
    return blocks


def _number(entry: Any, key: str, at: str = "", otherwise: int | None = None) -> int:
    value = entry.get(key, otherwise)
    if type(value) is int and 0 <= value < _MOST:
        return value
    raise _expected(at, key, "an integer >= 0 and below 2^62", value)


def _address(entry: Any, key: str, at: str = "", otherwise: int | None = None) -> int:
    """An address, which some devices have above 2^63, and some traces write as a negative number then."""
    value = entry.get(key, otherwise)
    if type(value) is int and -(2**63) <= value < 2**64:
        return value % 2**64
    raise _expected(at, key, "an address", value)


def _stream(entry: Mapping[str, Any], at: str) -> int:
    value = entry.get("stream", 0)
    if type(value) is int:
        return value
    raise _expected(at, "stream", "an integer", value)


def _pool(entry: Mapping[str, Any], key: str, at: str) -> Pool | None:
    """Stream and id of an entry; None if it has no id."""
    value = entry.get(key)
    if value is None:
        return None
    if isinstance(value, (list, tuple)) and len(value) == 2 and all(type(part) is int for part in value):
        return _stream(entry, at), (value[0], value[1])
    raise _expected(at, key, "two integers", value)


def _expected(at: str, key: str, what: str, value: Any) -> SourceError:
    got = "nothing" if value is None else f"{repr(value)}"
    return SourceError(f"{at}{': ' if at else ''}expected {key!r}, {what}, got {got}")
