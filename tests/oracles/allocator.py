"""What torch's allocator for the CPU gives out while something runs, as torch's own profiler reports it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch.profiler import ProfilerActivity, profile, record_function


def peaks(runs: Sequence[Callable[[], Any]]) -> list[int]:
    """For each run, the most bytes that were given out at one time above those before it, its result among them."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        for number, run in enumerate(runs):
            with record_function(f"run {number}"):
                kept = run()
            del kept
    events = profiler.profiler.kineto_results.events()
    given = sorted(((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]"), key=lambda pair: pair[0])
    spans = {e.name(): (e.start_ns(), e.end_ns()) for e in events if e.name().startswith("run ")}
    return [_peak(given, *spans[f"run {number}"]) for number in range(len(runs))]


def peak(run: Callable[[], Any]) -> int:
    """The same of one run."""
    return peaks([run])[0]


def _peak(given: Sequence[tuple[int, int]], begin: int, end: int) -> int:
    held = most = 0
    for size in _between(given, begin, end):
        held += size
        most = max(most, held)
    return most


def _between(given: Sequence[tuple[int, int]], begin: int, end: int) -> Iterator[int]:
    first = bisect_left(given, (begin, -(2**62)))
    for time, size in given[first:]:
        if time > end:
            return
        yield size
