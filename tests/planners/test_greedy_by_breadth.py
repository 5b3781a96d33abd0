"""greedy_by_breadth: offsets and shared objects, against a version that visits every step; TensorFlow Lite's cases."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given

import memplan
from builders import peers
from builders.strategies import BOUNDED, columns
from oracles.reference import Columns, align_up, meet, place, tightest, with_bytes


def by_breadth(problem: Columns) -> list[int]:
    size, first, last, _ = problem
    order: list[int] = []
    alive = {step: [i for i in with_bytes(problem) if first[i] <= step < last[i]] for step in range(-5, 20)}
    for step in sorted(alive, key=lambda step: (-sum(size[i] for i in alive[step]), step)):
        order += sorted((i for i in alive[step] if i not in order), key=lambda i: (-size[i], i))
    return order


def shared_objects(problem: Columns) -> list[list[int]]:
    """The members of each object: the smallest that is large enough, else the largest, which grows."""
    size, _, _, alignment = problem
    objects: list[list[int]] = []

    def bytes_of(members: list[int]) -> int:
        return max(size[j] for j in members)

    def divide(a: int, b: int) -> bool:
        return a % b == 0 or b % a == 0

    for i in by_breadth(problem):
        free = [k for k, members in enumerate(objects) if not any(meet(problem, i, j) for j in members)]
        free = [k for k in free if divide(max(alignment[j] for j in objects[k]), alignment[i])]
        enough = [k for k in free if bytes_of(objects[k]) >= size[i]]
        if enough:
            objects[min(enough, key=lambda k: (bytes_of(objects[k]), k))].append(i)
        elif free:
            objects[min(free, key=lambda k: (-bytes_of(objects[k]), k))].append(i)
        else:
            objects.append([i])
    return objects


@given(columns())
@BOUNDED
def test_same_offsets_as_the_reference(problem: Columns) -> None:
    plan = memplan.plan(memplan.Problem(*problem), "greedy_by_breadth")
    assert plan.offsets.tolist() == place(problem, by_breadth(problem), tightest)
    assert plan.objects == 0


@given(columns())
@BOUNDED
def test_same_objects_as_the_reference(problem: Columns) -> None:
    size, _, _, alignment = problem
    plan = memplan.plan(memplan.Problem(*problem), "greedy_by_breadth:share=objects")
    expected, top = [0] * len(size), 0
    objects = shared_objects(problem)
    for members in objects:
        begin = align_up(top, max(alignment[i] for i in members))
        top = begin + max(size[i] for i in members)
        for i in members:
            expected[i] = begin
    assert plan.offsets.tolist() == expected
    assert plan.objects == len(objects)


@pytest.mark.parametrize(
    ("rows", "objects", "sizes"),
    [
        (peers.TFLITE_CHAIN, [0, 1, 0, 1, 0], [64, 32]),
        (peers.TFLITE_COMPLEX, [0, 4, 2, 1, 3, 0, 2, 3, 1], [64, 16, 8, 8, 32]),
    ],
    ids=["chain", "complex"],
)
def test_objects_of_tflite(rows: list[peers.ComparisonRow], objects: list[int], sizes: list[int]) -> None:
    plan = memplan.plan(peers.problem(rows), "greedy_by_breadth:share=objects")
    begins = [sum(sizes[:k]) for k in range(len(sizes))]
    assert plan.offsets.tolist() == [begins[k] for k in objects]
    assert (plan.peak, plan.objects) == (sum(sizes), len(sizes))


def test_the_broadest_step_comes_first() -> None:
    # 0 is the largest, but at step 2, where it is dead, more bytes are alive: 1, 2 and 3 are stacked before it comes.
    problem = memplan.Problem([9, 6, 5, 5], [0, 1, 2, 2], [2, 3, 3, 3])
    assert memplan.plan(problem, "greedy_by_breadth").offsets.tolist() == [6, 0, 6, 11]
    assert memplan.plan(problem, "greedy_by_size").offsets.tolist() == [0, 9, 0, 15]


def test_conflicts_and_shapes_count() -> None:
    conflicting = memplan.Problem([4, 4, 4], [0, 1, 2], [1, 2, 3], conflicts=[(0, 2)])
    for share, pools in (("offsets", 0), ("objects", 2)):
        plan = memplan.plan(conflicting, f"greedy_by_breadth:share={share}")
        assert (plan.offsets.tolist(), plan.objects) == ([0, 0, 4], pools)
    # The upper half of 0 is given back at step 1, where 1 is born: it lies there.
    shaped = memplan.Problem([8, 4], [0, 1], [2, 2], parts=[(0, 0, 8, 0, 1), (0, 0, 4, 1, 2)])
    assert memplan.plan(shaped, "greedy_by_breadth").offsets.tolist() == [0, 4]
    assert memplan.plan(shaped, "greedy_by_breadth:share=objects").peak == 12


def test_objects_do_not_overlap() -> None:
    plan = memplan.plan(peers.problem(peers.TFLITE_COMPLEX, 64), "greedy_by_breadth:share=objects")
    begins = sorted(set(plan.offsets.tolist()))
    assert all(low + 64 <= high for low, high in pairwise(begins))
