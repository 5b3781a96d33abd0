"""beam: against a plain version, with one way, few and all of them; and what greedy planners miss."""

from __future__ import annotations

import pytest
from hypothesis import given

import memplan
from builders.strategies import BOUNDED, columns
from memplan import generate
from oracles.reference import Columns, align_up, with_bytes

Way = tuple[int, dict[int, int], dict[int, int]]  # the peak, all offsets, those of what is alive


def free_blocks(size: list[int], alive: dict[int, int], peak: int) -> list[tuple[int, int]]:
    found, begin = [], 0
    for i in sorted(alive, key=lambda i: alive[i]):
        if begin < alive[i]:
            found.append((begin, alive[i]))
        begin = alive[i] + size[i]
    return [*found, (begin, peak)] if begin < peak else found


def beam(problem: Columns, k: int) -> list[int]:
    size, first, last, alignment = problem
    ways: list[Way] = [(0, {}, {})]
    for born in sorted(with_bytes(problem), key=lambda i: (first[i], i)):
        made: list[tuple[int, int, int, Way]] = []
        for peak, offsets, before in ways:
            alive = {i: offset for i, offset in before.items() if last[i] > first[born]}
            height = max((offset + size[i] for i, offset in alive.items()), default=0)
            places = [align_up(b, alignment[born]) for b, _ in free_blocks(size, alive, height)]
            ends = [e for _, e in free_blocks(size, alive, height)]
            fitting = [p for p, e in zip(places, ends, strict=True) if p + size[born] <= e]
            for offset in [*fitting, align_up(height, alignment[born])]:
                now, top = {**alive, born: offset}, max(peak, offset + size[born])
                way = (top, {**offsets, born: offset}, now)
                made.append((top, len(free_blocks(size, now, top)), len(made), way))
        ways, seen = [], set()
        for *_, way in sorted(made, key=lambda entry: entry[:3]):
            blocks = tuple(sorted((offset, size[i], last[i]) for i, offset in way[2].items()))
            if blocks not in seen and len(ways) < k:
                ways.append(way)
                seen.add(blocks)
    return [ways[0][1].get(i, 0) for i in range(len(size))]


@pytest.mark.parametrize("k", [1, 2, 16])
@given(problem=columns(max_buffers=16))
@BOUNDED
def test_same_offsets_as_the_reference(k: int, problem: Columns) -> None:
    plan = memplan.plan(memplan.Problem(*problem), f"beam:k={k}")
    assert plan.offsets.tolist() == beam(problem, k)


@given(columns(max_buffers=6))
@BOUNDED
def test_all_ways_find_the_best_of_them(problem: Columns) -> None:
    """Ways that are merged lose nothing: with room for all, the peak is the least of any choice of blocks."""
    size, first, last, alignment = problem
    births = sorted(with_bytes(problem), key=lambda i: (first[i], i))

    def least(position: int, offsets: dict[int, int], peak: int) -> int:
        if position == len(births):
            return peak
        born = births[position]
        alive = {i: offset for i, offset in offsets.items() if last[i] > first[born]}
        height = max((offset + size[i] for i, offset in alive.items()), default=0)
        blocks = [(b, e) for b, e in free_blocks(size, alive, height)]
        places = [align_up(b, alignment[born]) for b, e in blocks if align_up(b, alignment[born]) + size[born] <= e]
        return min(
            least(position + 1, {**offsets, born: offset}, max(peak, offset + size[born]))
            for offset in [*places, align_up(height, alignment[born])]
        )

    assert memplan.plan(memplan.Problem(*problem), "beam:k=1000").peak == least(0, {}, 0)


# A row per range of bytes, a column per step. Left, what every greedy fit makes of it; right, what can be done: 2 goes
# on top although there is room below, and leaves that room to 4.
#
#     13  . . 4 .         11  . . 3 3
#      9  . . 3 3          8  . 2 2 .
#      6  1 1 1 1          6  1 1 1 1
#      4  0 2 2 .          4  0 . 4 .
GREEDY_FAILS = ([4, 2, 2, 3, 4], [0, 0, 1, 2, 2], [1, 4, 3, 4, 3])


def test_more_ways_find_what_greedy_misses() -> None:
    for planner in ("first_fit", "best_fit", "worst_fit", "beam:k=1"):
        assert memplan.plan(GREEDY_FAILS, planner).peak == 13
    assert memplan.plan(GREEDY_FAILS, "first_fit").offsets.tolist() == [0, 4, 0, 6, 9]
    wide = memplan.plan(GREEDY_FAILS, "beam:k=8")
    assert wide.offsets.tolist() == [0, 4, 6, 8, 0]
    assert (wide.peak, wide.optimal) == (11, True)
    assert memplan.plan(GREEDY_FAILS, "exhaustive").peak == 11


def test_low_ends_of_free_blocks_do_not_suffice() -> None:
    # 0 is born first, so that it begins at 0 in every way; in the only best plans it lies above 1.
    problem = ([2, 4, 4, 3], [1, 1, 2, 3], [3, 2, 4, 7])
    assert memplan.plan(problem, "beam:k=100000").peak == 9
    best = memplan.plan(problem, "exhaustive")
    assert (best.peak, best.offsets.tolist()) == (7, [4, 0, 0, 4])


def test_past_the_time_limit_the_best_way_is_followed_alone() -> None:
    problem = generate.layered(2000)
    alone, first_fit = memplan.plan(problem, "beam:k=1"), memplan.plan(problem, "first_fit")
    plan = memplan.plan(problem, "beam:k=1000", time_limit=1e-9)
    plan.verify()
    assert plan.peak <= max(alone.peak, first_fit.peak)


@pytest.mark.parametrize("k", ["0", "-1", "1048577", "all"])
def test_k_is_a_number_of_ways(k: str) -> None:
    with pytest.raises(ValueError, match=rf"k must be an integer in \[1, 1048576\], got '{k}'"):
        memplan.plan(GREEDY_FAILS, f"beam:k={k}")
