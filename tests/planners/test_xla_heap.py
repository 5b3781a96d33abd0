"""xla_heap: every order and fit against a plain version, and the cases of OpenXLA's tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given

import memplan
from builders import peers
from builders.strategies import BOUNDED, columns
from oracles.reference import Columns, Gap, align_up, lowest, place, with_bytes


def smallest(gaps: Sequence[Gap], alignment: int) -> int:
    """The smallest chunk, measured from the first aligned byte in it."""
    bounded = [(end - align_up(begin, alignment), begin) for begin, end in gaps if end is not None]
    return align_up(min(bounded)[1] if bounded else gaps[-1][0], alignment)


KEYS: dict[str, Callable[[int, int], tuple[int, ...]]] = {
    "spatial": lambda size, length: (-size, -length),
    "temporal": lambda size, length: (-length, -size),
    "spatial_temporal": lambda size, length: (-size * length,),
}


def xla_heap(problem: Columns, order: str, fit: Callable[[Sequence[Gap], int], int]) -> list[int]:
    if order == "best":
        plans = [xla_heap(problem, order, fit) for order in ("spatial", "temporal")]
        return min(plans, key=lambda offsets: max(map(sum, zip(offsets, problem[0], strict=True)), default=0))
    size, first, last, _ = problem
    key = KEYS[order]
    return place(problem, sorted(with_bytes(problem), key=lambda i: (*key(size[i], last[i] - first[i]), i)), fit)


@pytest.mark.parametrize("order", ["best", *KEYS])
@given(problem=columns())
@BOUNDED
def test_same_offsets_as_the_reference(order: str, problem: Columns) -> None:
    for fit, where in (("smallest", smallest), ("lowest", lowest)):
        plan = memplan.plan(memplan.Problem(*problem), f"xla_heap:order={order},fit={fit}")
        assert plan.offsets.tolist() == xla_heap(problem, order, where)


@given(columns())
@BOUNDED
def test_the_standard_is_the_best_of_two_orders(problem: Columns) -> None:
    source = memplan.Problem(*problem)
    plan = memplan.plan(source, "xla_heap")
    both = [memplan.plan(source, f"xla_heap:order={order}") for order in ("spatial", "temporal")]
    assert plan.peak == min(p.peak for p in both)
    assert plan.offsets.tolist() == memplan.plan(source, "xla_heap:order=best,fit=smallest").offsets.tolist()


@pytest.mark.parametrize("case", peers.XLA)
def test_offsets_of_xla(case: str) -> None:
    alignment, rows, offsets, peak = peers.XLA[case]
    plan = memplan.plan(peers.problem(rows, alignment), "xla_heap:order=spatial")
    assert plan.offsets.tolist() == offsets
    assert plan.peak == peak


def test_each_order_can_be_the_best() -> None:
    problem = memplan.Problem([2, 2, 5, 4], [2, 4, 1, 3], [6, 7, 3, 5])
    offsets = {order: memplan.plan(problem, f"xla_heap:order={order}").offsets.tolist() for order in ("best", *KEYS)}
    assert offsets["spatial"] == offsets["spatial_temporal"] == [5, 7, 0, 0]
    assert offsets["temporal"] == offsets["best"] == [0, 2, 2, 4]


def test_areas_do_not_wrap_around() -> None:
    # 2^61 bytes for 2^63 steps are a larger area than 2^61 - 1 for 2^63 + 1; modulo 2^64 they would not be.
    problem = memplan.Problem([2**61 - 1, 2**61], [-(2**62) - 1, -(2**62)], [2**62, 2**62])
    assert memplan.plan(problem, "xla_heap:order=spatial_temporal").offsets.tolist() == [2**61, 0]
