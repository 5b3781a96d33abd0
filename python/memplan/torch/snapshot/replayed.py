"""A snapshot's trace in the core: replayed as it was recorded, and run again with other settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ... import _core
from .settings import settings_of
from .trace import MAIN, Walked

_TIES = ("segment", "address", "block")  # which of equal free blocks torch 2.14, torch until 2.11, and torch 2.12 take


@dataclass(frozen=True, eq=False)
class Replayed:
    """The trace of one device, with the settings that it was recorded with."""

    trace: _core.CachingTrace
    recorded: str  # the text of the settings
    ties: str  # a snapshot does not say torch's version: the rule that gives the most addresses
    exact: _core.CachingReplay

    @classmethod
    def of(cls, walk: Walked, recorded: str) -> Replayed:
        """Replay with each rule until one agrees in all; of equal ones, that of the newest torch counts."""
        trace = _trace_of(walk, settings_of(recorded).large_segment)
        found: list[Replayed] = []
        for ties in _TIES:
            found.append(cls(trace, recorded, ties, trace.replay(settings_of(recorded, ties=ties))))
            if found[-1].exact.parts_at < 0:
                break
        return min(found, key=lambda one: (one.exact.parts_at >= 0, -one.exact.equal_addresses))

    def run(self, setting: str, **more: Any) -> _core.CachingRun:
        """The same requests with another setting."""
        return self.trace.reserve(settings_of(setting, ties=self.ties, **more))

    def state_at_peak(self) -> dict[str, Any]:
        """Segments and blocks when most is reserved, and then most is in blocks."""
        reserved = self.exact.reserved_after
        event = -1
        if len(reserved):
            most = np.flatnonzero(reserved == reserved.max())
            event = int(most[np.argmax(self.exact.allocated_after[most])])
        return self.trace.state_after(settings_of(self.recorded, ties=self.ties), event, as_recorded=True)

    def notes(self) -> list[str]:
        """What the snapshot contradicts, where the replay parts from it, and what else a reader has to know."""
        exact, said = self.exact, []
        if exact.contradictions:
            said.append(f"the snapshot contradicts itself {exact.contradictions:,} times, first: {exact.contradiction}")
        if exact.parts_at >= 0:
            said.append(f"the replay parts from the trace at event {exact.parts_at:,}: {exact.parts_because}")
        if exact.before:
            fresh = self.run(self.recorded).reserved
            if fresh != exact.reserved:
                said.append(
                    "other settings begin with the blocks from before the trace alone; "
                    f"so would the snapshot's reserve {fresh:,} bytes"
                )
        return said


def _trace_of(walk: Walked, large_segment: int) -> _core.CachingTrace:
    """The columns of a device, as the core takes them."""
    private = sorted({pool[1] for pool in walk.pools if pool[1] != MAIN})
    group = {MAIN: 0} | {name: k + 1 for k, name in enumerate(private)}
    streams = sorted({stream for stream, _ in walk.pools}, key=lambda stream: stream % 2**64)  # as torch orders them
    rank = {stream: k for k, stream in enumerate(streams)}
    pools = [(rank[stream], group[name]) for stream, name in walk.pools]
    segments = [(s.address, s.size, walk.number(s.pool), s.small, s.expandable) for s in walk.segments]
    blocks = [
        (address, size, asked, walk.number(s.pool))
        for s in walk.segments
        for (address, asked, _), size in zip(s.blocks, s.sizes, strict=True)
    ]
    return _core.CachingTrace(
        pools=_table(pools, 2),
        events=_table(walk.events, 4),
        segments=_table(segments, 5),
        blocks=_table(blocks, 4),
        large_segment=large_segment,
    )


def _table(rows: list[Any], columns: int) -> npt.NDArray[np.int64]:
    """Rows of integers below 2^64, of which those from 2^63 on wrap around."""
    if not rows:
        return np.zeros((0, columns), np.int64)
    return np.array(rows, dtype=object).astype(np.uint64).view(np.int64).reshape(-1, columns)
