"""greedy_by_conflicts: both fits against a plain version, and the cases of Apache TVM's tests."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memplan
from builders import peers
from builders.strategies import BOUNDED, columns
from oracles.reference import Columns, Gap, align_up, lowest, meet, place, with_bytes


def by_conflicts(problem: Columns) -> list[int]:
    buffers = with_bytes(problem)
    count = {i: sum(meet(problem, i, j) for j in buffers if j != i) for i in buffers}
    return sorted(buffers, key=lambda i: (-count[i], -problem[0][i], i))


def top(gaps: Sequence[Gap], alignment: int) -> int:
    return align_up(gaps[-1][0], alignment)


@given(columns())
@BOUNDED
def test_same_offsets_as_the_reference(problem: Columns) -> None:
    for fit, where in (("top", top), ("lowest", lowest)):
        plan = memplan.plan(memplan.Problem(*problem), f"greedy_by_conflicts:fit={fit}")
        assert plan.offsets.tolist() == place(problem, by_conflicts(problem), where)
    assert memplan.plan(memplan.Problem(*problem), "greedy_by_conflicts:fit=top").offsets.tolist() == (
        memplan.plan(memplan.Problem(*problem), "greedy_by_conflicts").offsets.tolist()
    )


@given(columns(max_buffers=10, alignments=(1,)), st.data())
@BOUNDED
def test_lifetimes_may_be_given_as_conflicts(problem: Columns, data: st.DataObject) -> None:
    """Whichever pairs are said twice, by lifetimes and as conflicts, or only as conflicts."""
    size, first, last, _ = problem
    n = len(size)
    pairs = [(i, j) for j in range(n) for i in range(j) if meet(problem, i, j)]
    twice = data.draw(st.sets(st.sampled_from(pairs))) if pairs else set()
    plain = memplan.plan((size, first, last), "greedy_by_conflicts")
    both = memplan.Problem(size, first, last, conflicts=sorted(twice))
    assert memplan.plan(both, "greedy_by_conflicts").offsets.tolist() == plain.offsets.tolist()
    only = memplan.Problem(size, range(n), range(1, n + 1), conflicts=pairs)
    assert memplan.plan(only, "greedy_by_conflicts").offsets.tolist() == plain.offsets.tolist()


@pytest.mark.parametrize(
    ("problem", "peak"), [(peers.tvm_linear(), peers.TVM_LINEAR_PEAK), (peers.tvm_fanout(), peers.TVM_FANOUT_PEAK)]
)
def test_peaks_of_tvm(problem: memplan.Problem, peak: int) -> None:
    assert memplan.plan(problem, "greedy_by_conflicts").peak == peak


def test_the_lowest_fit_uses_what_tvm_leaves_empty() -> None:
    # sid_9 conflicts with PaddedInput_7 only, which lies above sid_8: there is room below it.
    plan = memplan.plan(peers.tvm_linear(), "greedy_by_conflicts:fit=lowest")
    assert plan.offsets.tolist() == [0, 802816, 0, 1117472, 802816]
    assert memplan.plan(peers.tvm_linear(), "greedy_by_conflicts").offsets.tolist()[2] == 1117472
