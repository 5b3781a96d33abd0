"""inductor_tree: a tree of splits; tests of torch's wing compare it with torch's own, offset for offset."""

from __future__ import annotations

from hypothesis import given

import memplan
from builders.drawn import Rows as Named
from builders.drawn import drawn
from builders.strategies import BOUNDED, columns

Rows = list[tuple[int, int, int]]  # size, first, last


def tree(rows: Rows) -> memplan.Plan:
    return memplan.plan(tuple(zip(*rows, strict=True)), "inductor_tree")


def test_the_largest_come_first_and_the_longest_of_equal_ones() -> None:
    """c lives longer than b; a is left to the end, and lies where c has died."""
    rows: Named = {"a": (2, 2, 3), "b": (4, 0, 1), "c": (4, 0, 2)}
    assert drawn(rows, "inductor_tree") == [
        "ccccbbbb",
        "cccc....",
        "aa......",
    ]


def test_a_deep_tree_is_no_deep_recursion() -> None:
    """Buffers that are all alive together grow the root one by one; torch gives up below 1,000 of them."""
    assert tree([(8, 0, 1)] * 4000).peak == 8 * 4000


# Of 100 bytes the upper 40 are free in [1, 5), but in two parts of time; and a buffer that asks for them.
TWO_PARTS = [(100, 0, 1), (60, 1, 3), (60, 3, 5)]


def over_a_gap(plan: memplan.Plan) -> list[int]:
    """The buffers that stand on nothing: above 0, and none that is alive with them ends where they begin."""
    return [
        i
        for i, a in enumerate(plan)
        if a.offset > 0 and not any(b.end == a.offset and b.first < a.last and a.first < b.last for b in plan)
    ]


def test_stacked_rectangles_leave_a_gap() -> None:
    rows = [*TWO_PARTS, (40, 2, 4)]
    greedy = memplan.plan(tuple(zip(*rows, strict=True)), "greedy_by_size")
    assert (over_a_gap(tree(rows)), over_a_gap(greedy)) == ([3], [])
    assert (tree(rows)[3].offset, greedy[3].offset) == (100, 60)


def test_a_buffer_over_two_parts_of_time_makes_the_root_grow() -> None:
    in_one = tree([*TWO_PARTS, (40, 3, 4)])
    over_both = tree([*TWO_PARTS, (40, 2, 4)])
    assert (in_one[3].offset, in_one.peak) == (60, 100)
    assert (over_both[3].offset, over_both.peak, over_both.load) == (100, 140, 100)


def test_of_several_alignments_each_buffer_has_its_own() -> None:
    plan = memplan.plan(memplan.Problem([10, 9, 8], [0, 0, 0], [1, 1, 1], [4, 6, 1]), "inductor_tree")
    assert plan.offsets.tolist() == [0, 12, 21]


@given(columns())
@BOUNDED
def test_any_alignments(problem: tuple[list[int], list[int], list[int], list[int]]) -> None:
    memplan.plan(memplan.Problem(*problem), "inductor_tree").verify()
