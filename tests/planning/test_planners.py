"""Each planner against a straightforward version of itself, offset for offset."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import example, given

import memplan
from builders.paths import TESTS
from builders.strategies import BOUNDED, bounded, columns
from oracles import reference
from oracles.reference import Columns, align_up

Blocks = list[tuple[int, int]]  # free [begin, end), by address, no two touching


def lowest(fitting: Blocks) -> tuple[int, int]:
    return min(fitting)


def tightest(fitting: Blocks) -> tuple[int, int]:
    return min(fitting, key=lambda block: (block[1] - block[0], block[0]))


def largest(fitting: Blocks) -> tuple[int, int]:
    return max(fitting, key=lambda block: (block[1] - block[0], block[0]))


def simulate(problem: Columns, choose: Callable[[Blocks], tuple[int, int]]) -> list[int]:
    """Buffers are born and die in order; a list of free bytes is kept, and rebuilt from scratch at each birth."""
    size, first, last, alignment = problem
    offsets, top = [0] * len(size), 0
    placed: list[int] = []
    for i in sorted(range(len(size)), key=lambda i: first[i]):
        placed = [j for j in placed if last[j] > first[i]]
        if size[i] == 0:
            continue
        free = free_blocks([(offsets[j], offsets[j] + size[j]) for j in placed], top)
        fitting = [(b, e) for b, e in free if align_up(b, alignment[i]) + size[i] <= e]
        if fitting:
            begin = choose(fitting)[0]
        else:
            begin = free[-1][0] if free and free[-1][1] == top else top
        offsets[i] = align_up(begin, alignment[i])
        top = max(top, offsets[i] + size[i])
        placed.append(i)
    return offsets


def free_blocks(used: Blocks, top: int) -> Blocks:
    free, begin = [], 0
    for used_begin, used_end in sorted(used):
        if begin < used_begin:
            free.append((begin, used_begin))
        begin = used_end
    return [*free, (begin, top)] if begin < top else free


def greedy_by_size(problem: Columns) -> list[int]:
    """The largest first; every gap below, between and above what is alive with it, the tightest that fits."""
    order = sorted(reference.with_bytes(problem), key=lambda i: (-problem[0][i], problem[1][i], i))
    return reference.place(problem, order, reference.tightest)


def naive(problem: Columns) -> list[int]:
    size, _, _, alignment = problem
    offsets, top = [], 0
    for bytes_, multiple in zip(size, alignment, strict=True):
        offsets.append(align_up(top, multiple) if bytes_ else 0)
        top = offsets[-1] + bytes_ if bytes_ else top
    return offsets


REFERENCES: dict[str, Callable[[Columns], list[int]]] = {
    "naive": naive,
    "first_fit": lambda problem: simulate(problem, lowest),
    "best_fit": lambda problem: simulate(problem, tightest),
    "worst_fit": lambda problem: simulate(problem, largest),
    "greedy_by_size": greedy_by_size,
}
GREEDY = ("first_fit", "best_fit", "greedy_by_size")

# Three births over a top that is not aligned: the bytes skipped below the second must join the free block there.
SKIPPED_BYTES = ([4, 2, 8, 8], [0, 0, 1, 2], [9, 1, 2, 3], [1, 1, 8, 1])


def test_every_planner_has_a_reference() -> None:
    """Here, or in a file of its own in planners/."""
    own = {path.stem.removeprefix("test_") for path in TESTS.glob("planners/test_*.py")}
    assert {row.name for row in memplan.planners()} == {*REFERENCES, "auto", *own}


@pytest.mark.parametrize("planner", REFERENCES)
@example(SKIPPED_BYTES)
@given(problem=columns() | columns(max_buffers=60, alignments=(1,)))
@bounded(100)
def test_same_offsets_as_the_reference(planner: str, problem: Columns) -> None:
    assert memplan.plan(memplan.Problem(*problem), planner).offsets.tolist() == REFERENCES[planner](problem)


# Lowest first ends at 130, and so does all that begins there, as far as the effort goes; tightest first at 129.
SEVERAL_ALIGNMENTS = ([1, 1, 1, 2, 2], [0, 0, 0, 1, 1], [1, 2, 2, 2, 2], [1, 1, 64, 64, 64])


@example(SEVERAL_ALIGNMENTS)
@given(columns())
@BOUNDED
def test_auto_is_above_none_of_the_greedy_ones(problem: Columns) -> None:
    plan = memplan.plan(memplan.Problem(*problem), "auto:effort=2000000")
    assert plan.peak <= min(memplan.plan(memplan.Problem(*problem), name).peak for name in GREEDY)
    assert plan.winner in ("first_fit", "greedy_by_size", "valley", "squeaky_wheel")


@given(columns(alignments=(1,)))
@BOUNDED
def test_naive_peaks_at_the_sum(problem: Columns) -> None:
    plan = memplan.plan(memplan.Problem(*problem), "naive")
    assert plan.peak == plan.naive == sum(problem[0])


def test_the_fits_differ_as_their_names_say() -> None:
    # Two blocks become free, of 8 bytes at 0 and of 4 at 10, each with a neighbour; 2, then 4 bytes are asked for.
    size, first, last = [8, 2, 4, 1, 3], [0, 0, 0, 0, 1], [1, 9, 1, 9, 9]
    where = {name: memplan.plan((size, first, last), name)[4].offset for name in REFERENCES if name != "naive"}
    assert where["first_fit"] == 0
    assert where["best_fit"] == 10
    assert where["worst_fit"] == 0
    assert [memplan.plan(([4, 2, 8, 1, 3], first, last), name)[4].offset for name in ("best_fit", "worst_fit")] == [
        0,
        6,
    ]
