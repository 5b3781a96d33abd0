"""mxnet: simulated reference counts; free blocks of about the size are taken, and grow."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memplan
from builders.pooling import CASES, Columns, Pairs, Pools, conflict, expect, expect_valid, pools_of, problems
from builders.strategies import BOUNDED, columns

RANGES = (0, 1, 2, 3, 16, 1 << 20)


def pools(columns: Columns, pairs: Pairs, match_range: int) -> Pools:
    """NNVM's pass on events: at each step the dead leave their blocks first, then the born ask, large ones first."""
    size, first, last, _ = columns
    buffers = [i for i in range(len(size)) if size[i]]
    made: list[dict[str, Any]] = []
    free: list[dict[str, Any]] = []  # in the order of release
    holder: dict[int, dict[str, Any]] = {}
    for step in sorted({*first, *last}):
        dying = [i for i in buffers if last[i] <= step and i in holder]
        free += [holder.pop(i) for i in sorted(dying, key=lambda i: (last[i], i))]
        for i in sorted((i for i in buffers if first[i] == step), key=lambda i: (-size[i], -i)):
            usable = [block for block in free if not conflict(pairs, i, block["held"])]
            block = matching(usable, size[i], match_range)
            if block is None:
                block = {"bytes": 0, "held": []}
                made.append(block)
            else:
                del free[next(k for k, other in enumerate(free) if other is block)]
            block["bytes"] = max(block["bytes"], size[i])
            block["held"].append(i)
            holder[i] = block
    return [block["held"] for block in made]


def matching(free: list[dict[str, Any]], size: int, match_range: int) -> dict[str, Any] | None:
    if match_range == 0:
        return None
    large = [block for block in free if size <= block["bytes"] <= size * match_range]
    if large:
        return min(large, key=lambda block: block["bytes"])  # the first of equals
    small = [block for block in free if size // match_range <= block["bytes"] < size]
    return max(reversed(small), key=lambda block: block["bytes"], default=None)  # the last of equals


@given(problems(max_buffers=40), st.sampled_from(RANGES))
@BOUNDED
def test_same_pools_as_the_reference(problem: tuple[Columns, Pairs], match_range: int) -> None:
    expect(f"mxnet:match_range={match_range}", *problem, pools(*problem, match_range))


@given(problems(max_buffers=40, sizes=(1, 2, 16, 17, 64, 300)))
@BOUNDED
def test_same_pools_as_the_reference_at_16(problem: tuple[Columns, Pairs]) -> None:
    expect("mxnet", *problem, pools(*problem, 16))


@pytest.mark.parametrize("match_range", [0, 1, 1 << 20])
@pytest.mark.parametrize("case", CASES)
def test_degenerate(case: str, match_range: int) -> None:
    expect_valid(case, f"mxnet:match_range={match_range}")


@given(columns(max_buffers=40, alignments=(1,)))
@BOUNDED
def test_a_range_of_0_shares_nothing_and_of_1_equal_sizes(problem: Columns) -> None:
    size = problem[0]
    assert memplan.plan(memplan.Problem(*problem), "mxnet:match_range=0").peak == sum(size)
    exact = memplan.plan(memplan.Problem(*problem), "mxnet:match_range=1")
    assert all(len({size[i] for i in pool}) == 1 for pool in pools_of(exact).values())
    reuse = memplan.plan(memplan.Problem(*problem), "inductor_reuse")
    assert (exact.objects, exact.peak) == (reuse.objects, reuse.peak)


@pytest.mark.parametrize(
    ("sizes", "pools"),
    [
        ((16, 1), 1),  # 16 times as large: taken
        ((17, 1), 2),
        ((1, 16), 1),  # 16 times smaller: taken, and grows
        ((1, 32), 2),
        ((1, 31), 1),  # 31 / 16 is 1 in whole bytes
    ],
)
def test_the_range_at_its_ends(sizes: tuple[int, int], pools: int) -> None:
    plan = memplan.plan((list(sizes), [0, 1], [1, 2]), "mxnet")
    assert (plan.objects, plan.peak) == (pools, max(sizes) if pools == 1 else sum(sizes))


def test_a_larger_block_before_a_smaller_one() -> None:
    """Blocks of 4 and 30 are free for 8; the larger is taken, and the smaller one only when it is gone."""
    plan = memplan.plan(([4, 30, 8, 9], [0, 0, 2, 2], [1, 1, 3, 3]), "mxnet")
    assert sorted(pools_of(plan).values()) == [[0, 2], [1, 3]]
    assert plan.peak == 38


def test_near_the_end_of_int64() -> None:
    plan = memplan.plan(([2**61, 2**61 - 1, 2**60], [0, 1, 2], [1, 2, 3]), "mxnet:match_range=1048576")
    assert (plan.objects, plan.peak) == (1, 2**61)


# A perceptron of two layers, forward and backward: what each op makes, from what, and in whose place.
BATCH, SIZES = 32, {"A": 784, "fc1": 128, "fc2": 10}
PERCEPTRON = [
    ("fc1", "fc1", ["A"], None),
    ("act1", "fc1", ["fc1"], "fc1"),
    ("fc2", "fc2", ["act1"], None),
    ("out", "fc2", ["fc2"], "fc2"),
    ("d(fc2)", "fc2", ["out"], "out"),
    ("d(act1)", "fc1", ["d(fc2)"], None),
    ("d(fc1)", "fc1", ["d(act1)", "act1"], "act1"),
    ("d(A)", "A", ["d(fc1)"], None),
]


def perceptron(in_place: bool) -> dict[str, Any]:
    rows = {"A": "A", **{name: like for name, like, _, _ in PERCEPTRON}}
    tensors = [
        {"name": name, "bytes": 4 * BATCH * SIZES[like], "kind": "input" if name == "A" else "intermediate"}
        for name, like in rows.items()
    ]
    ops: list[dict[str, Any]] = []
    for name, _, inputs, place in PERCEPTRON:
        op: dict[str, Any] = {"name": f"op {name}", "inputs": inputs, "outputs": [name]}
        if place and in_place:
            op["overwrite"] = [{"output": name, "input": place, "offset": 0}]
        ops.append(op)
    return {"tensors": tensors, "ops": ops, "outputs": ["d(A)"]}


def test_the_perceptron_shares_as_its_drawing_says() -> None:
    """act1 and d(fc1) lie in fc1, out and d(fc2) in fc2, and d(A) takes over d(act1), although it is larger."""
    plan = memplan.plan(perceptron(in_place=True), "mxnet")
    offset = {name: plan[name].offset for name in ("fc1", "fc2", "d(act1)", "d(A)")}
    assert offset["d(A)"] == offset["d(act1)"]
    assert len(set(offset.values())) == plan.objects == 3
    assert plan.peak == 4 * BATCH * (128 + 10 + 784)  # the block of d(act1) has grown to 784
    assert plan.naive == 4 * BATCH * (128 + 10 + 128 + 784)


def test_the_perceptron_without_ops_in_place_needs_a_block_more() -> None:
    plan = memplan.plan(perceptron(in_place=False), "mxnet")
    assert plan["d(A)"].offset != plan["d(fc1)"].offset
    assert plan.peak > memplan.plan(perceptron(in_place=True), "mxnet").peak
