"""What the tests of planners that think in pools share: random problems, and pools laid end to end."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hypothesis import strategies as st

import memplan
from builders.contract_cases import CASES
from builders.strategies import columns
from oracles import plain as oracle

Columns = tuple[list[int], list[int], list[int], list[int]]  # size, first, last, alignment
Pairs = list[tuple[int, int]]  # conflicts beyond lifetimes
Pools = list[list[int]]  # per pool, the buffers that it holds


@st.composite
def problems(draw: st.DrawFn, max_buffers: int = 24, sizes: Sequence[int] = ()) -> tuple[Columns, Pairs]:
    """Columns with alignments, and extra conflicts half of the time; few different sizes where they are given."""
    size, first, last, alignment = draw(columns(max_buffers))
    if sizes:
        size = [sizes[s % len(sizes)] for s in size]
    buffers = st.integers(0, max(len(size) - 1, 0))
    pairs = draw(st.lists(st.tuples(buffers, buffers), max_size=12)) if draw(st.booleans()) else []
    return (size, first, last, alignment), [(a, b) for a, b in pairs if a != b]


def problem_of(columns: Columns, pairs: Pairs) -> memplan.Problem:
    return memplan.Problem(*columns, conflicts=pairs or None)


def by_birth(columns: Columns) -> list[int]:
    """The buffers that have bytes, by birth; sorted() keeps the index's order among equals."""
    size, first, _, _ = columns
    return sorted((i for i in range(len(size)) if size[i]), key=lambda i: first[i])


def alive_together(columns: Columns, i: int, j: int) -> bool:
    _, first, last, _ = columns
    return first[i] < last[j] and first[j] < last[i]


def conflict(pairs: Pairs, buffer: int, others: Collection[int]) -> bool:
    return any({a, b} == {buffer, other} for a, b in pairs for other in others)


def end_to_end(columns: Columns, pools: Pools) -> list[int]:
    """Offsets: each pool begins at a multiple of its largest alignment, and is as large as its largest buffer."""
    size, _, _, alignment = columns
    offsets, top = [0] * len(size), 0
    for members in pools:
        begin = next_multiple(top, max(alignment[i] for i in members))
        for i in members:
            offsets[i] = next_multiple(begin, alignment[i])
        top = max(offsets[i] + size[i] for i in members)
    return offsets


def next_multiple(offset: int, alignment: int) -> int:
    while offset % alignment:
        offset += 1
    return offset


def expect(planner: str, columns: Columns, pairs: Pairs, pools: Pools) -> None:
    """The planner puts the same buffers into the same pools as `pools` says, in that order."""
    plan = memplan.plan(problem_of(columns, pairs), planner)
    assert plan.objects == len(pools)
    assert plan.offsets.tolist() == end_to_end(columns, pools)


def expect_valid(case: str, planner: str) -> None:
    """A degenerate case of the contract, with parameters other than the standard."""
    columns = CASES[case]
    plan = memplan.plan(memplan.Problem(*columns), planner)
    assert oracle.violations(columns, plan.offsets.tolist()) == set()
    assert plan.peak >= oracle.load(columns)


def pools_of(plan: memplan.Plan) -> dict[int, list[int]]:
    """Who shares bytes: the buffers that have bytes, by offset; for plans without alignment."""
    shared: dict[int, list[int]] = {}
    for i, offset in enumerate(plan.offsets.tolist()):
        if plan.problem.size[i] > 0:
            shared.setdefault(offset, []).append(i)
    return shared
