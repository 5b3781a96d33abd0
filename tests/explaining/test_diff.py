"""Differences of plans: what changed, and why the load did, checked slot by slot."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memplan
from builders.html_pages import Page
from builders.paths import DATA
from builders.strategies import BOUNDED, columns, relation_graphs
from memplan.diffs.diff import CHANGES, Change, PlanDiff
from memplan.plans.moved_ops import OpMove, moved_ops

NAMES = "abcdefghijklmnopqrstuvwxyz"


def problem(**rows: tuple[int, int, int]) -> memplan.Problem:
    size, first, last = zip(*rows.values(), strict=True)
    return memplan.Problem(size, first, last, names=list(rows))


def check(one: memplan.Plan, other: memplan.Plan, d: PlanDiff) -> None:
    """The kinds of every change by definition, the order, and that the differences at the load add up."""
    assert (d.before.peak, d.after.peak) == (one.peak, other.peak)
    assert (d.before.load, d.after.load) == (one.load, other.load)
    assert (d.before.lower_bound, d.after.lower_bound) == (one.lower_bound, other.lower_bound)
    assert sum(a.after - a.before for a in d.at_load) == other.load - one.load
    assert all(a.before != a.after for a in d.at_load)
    for change in d.changes:
        assert change.kinds == kinds_of(change) != ()
        assert set(change.kinds) <= set(CHANGES)
        assert change.before is None or change.before == one[change.name]
        assert change.after is None or change.after == other[change.name]
    assert all(a.bytes >= b.bytes for a, b in itertools.pairwise(d.changes))


def kinds_of(change: Change) -> tuple[str, ...]:
    a, b = change.before, change.after
    if a is None or b is None:
        return ("appeared",) if a is None else ("vanished",)
    was, now = a.last - a.first, b.last - b.first
    tests = [b.bytes > a.bytes, b.bytes < a.bytes, now > was, now < was, a.offset != b.offset]
    return tuple(kind for kind, applies in zip(CHANGES[2:], tests, strict=True) if applies)


@given(columns(12), columns(12))
@settings(BOUNDED, max_examples=80)
def test_random_problems(one: Any, other: Any) -> None:
    plans = [
        memplan.plan(memplan.Problem(*rows, names=list(NAMES[: len(rows[0])])), "first_fit") for rows in (one, other)
    ]
    d = plans[0].diff(plans[1])
    check(*plans, d)
    names = {slot.name for plan in plans for slot in plan}
    assert d.same + len(d.changes) == len(names)
    assert not d.of_tensors


@pytest.mark.slow
@given(relation_graphs(), relation_graphs())
@settings(BOUNDED, max_examples=80)
def test_random_graphs(one: dict[str, Any], other: dict[str, Any]) -> None:
    plans = [memplan.plan(source, "greedy_by_size") for source in (one, other)]
    d = plans[0].diff(plans[1])
    check(*plans, d)
    assert d.of_tensors


@given(relation_graphs())
@settings(BOUNDED, max_examples=40)
def test_a_plan_does_not_differ_from_itself(source: dict[str, Any]) -> None:
    plan = memplan.plan(source, "greedy_by_size")
    d = plan.diff(plan)
    assert (d.changes, d.at_load) == ((), ())
    assert "stays at" in str(d)


def test_every_kind() -> None:
    before = memplan.plan(
        problem(same=(4, 0, 1), gone=(9, 0, 1), grown=(2, 3, 4), shrunk=(7, 5, 6), longer=(3, 7, 8), shorter=(1, 9, 13))
    )
    after = memplan.plan(
        problem(same=(4, 0, 1), new=(6, 1, 2), grown=(4, 3, 4), shrunk=(2, 5, 6), longer=(3, 7, 9), shorter=(1, 9, 10))
    )
    d = before.diff(after)
    check(before, after, d)
    assert [(c.name, [k for k in c.kinds if k != "moved"], c.bytes) for c in d.changes if c.kinds != ("moved",)] == [
        ("gone", ["vanished"], 9),
        ("new", ["appeared"], 6),
        ("shrunk", ["shrank"], 5),
        ("longer", ["longer"], 3),
        ("grown", ["grew"], 2),
        ("shorter", ["shorter"], 1),
    ]
    assert [(a.name, a.before, a.after) for a in d.at_load] == [("gone", 9, 0), ("new", 0, 6), ("same", 4, 0)]


def test_lives_that_are_later_are_not_longer() -> None:
    d = memplan.plan(problem(a=(4, 0, 2))).diff(memplan.plan(problem(a=(4, 5, 7))))
    assert (d.changes, d.same) == ((), 1)


def test_two_planners() -> None:
    case = memplan.Problem([4, 2, 4, 4], [1, 2, 4, 2], [2, 4, 7, 5], names=list("abcd"))
    before, after = memplan.plan(case, "first_fit"), memplan.plan(case)
    d = before.diff(after)
    assert {c.kinds for c in d.changes} == {("moved",)}
    assert d.at_load == ()
    text = " ".join(str(d).split())
    assert text.startswith("The peak falls from 10 B to 8 B (-2 B, -20.0%); gap 25.000% before, optimal now")
    assert "The load stays at 8 B, at step 4." in text
    assert f"{len(d.changes)} moved, {d.same} are the same." in text


def test_two_orders(tmp_path: Path) -> None:
    before = memplan.plan("example:resnet50_train", "first_fit")
    after = memplan.plan("example:resnet50_train", order="best")
    d = before.diff(after)
    check(before, after, d)
    check_moved(before.order, after.order, d.moved_ops)
    first = d.moved_ops[0]
    text = " ".join(str(d).split())
    assert f"{len(d.moved_ops):,} ops moved in the order: {first.name} (step {first.before} to {first.after})" in text
    assert "Ops that run earlier or later" in str(d)
    assert "both are optimal, each in its order." in " ".join(str(memplan.plan(before.graph).diff(after)).split())
    for plan, name in ((before, "before"), (after, "after")):
        plan.to_json(tmp_path / f"{name}.json")
    read = [memplan.read_plan(tmp_path / f"{name}.json") for name in ("before", "after")]
    unknown = [(move.name, move.before, move.after, 0) for move in d.moved_ops]
    assert sorted(map(astuple, read[0].diff(read[1]).moved_ops)) == sorted(unknown)
    d.to_json(tmp_path / "diff.json")
    written = json.loads((tmp_path / "diff.json").read_text(encoding="utf-8"))
    assert written["moved_ops"][0] == asdict(first)
    assert first.bytes == max(move.bytes for move in d.moved_ops) > 2**20
    assert before.diff(before).moved_ops == ()


def check_moved(before: Sequence[str], after: Sequence[str], moved: Sequence[OpMove]) -> None:
    """The ops that stay are in one order, and each move is as said."""
    names = {move.name for move in moved}
    assert [name for name in before if name not in names] == [name for name in after if name not in names]
    assert all((before[move.before], after[move.after]) == (move.name, move.name) for move in moved)
    ranks = [(move.bytes, abs(move.after - move.before)) for move in moved]
    assert ranks == sorted(ranks, reverse=True)


@given(st.permutations(list("abcdefg")))
@settings(BOUNDED, max_examples=100)
def test_no_fewer_ops_make_one_order_of_the_other(after: list[str]) -> None:
    before = "abcdefg"
    moved = moved_ops(before, after)
    check_moved(before, after, moved)
    most = max(len(some) for k in range(8) for some in itertools.combinations(after, k) if list(some) == sorted(some))
    assert len(moved) == 7 - most


@pytest.mark.parametrize(("before", "after"), [("", ""), ("ab", "abc"), ("abc", "ab"), ("ab", "cd"), ("a", "a")])
def test_orders_of_other_ops_have_no_moves(before: str, after: str) -> None:
    assert moved_ops(before, after) == ()


def test_two_versions_of_a_model() -> None:
    source = json.loads((DATA / "torch" / "bert_b8_infer.json").read_text())
    wider = copy.deepcopy(source)
    largest = max((t for t in wider["tensors"] if t["kind"] == "intermediate"), key=lambda t: t["bytes"])
    largest["bytes"] *= 2
    before, after = memplan.plan(source, "first_fit"), memplan.plan(wider, "first_fit")
    d = before.diff(after)
    check(before, after, d)
    assert (d.changes[0].name, "grew" in d.changes[0].kinds) == (largest["name"], True)
    assert d.at_load[0].name == largest["name"]
    assert largest["name"] in str(d).split("Figures")[0].replace("\n", " ")


def test_plans_from_files_are_compared_by_buffers(tmp_path: Path) -> None:
    plan = memplan.plan("example:gpt2_infer", "first_fit")
    plan.to_json(tmp_path / "p.json")
    d = plan.diff(memplan.read_plan(tmp_path / "p.json"))
    assert not d.of_tensors
    assert (d.changes, d.same) == ((), len(plan))


def test_as_json_and_html(tmp_path: Path) -> None:
    before, after = memplan.plan(problem(a=(4, 0, 2))), memplan.plan(problem(b=(1 << 20, 0, 2)))
    d = before.diff(after)
    d.to_json(tmp_path / "d.json")
    spec = json.loads((tmp_path / "d.json").read_text(encoding="utf-8"))
    assert (spec["format"], spec["version"]) == ("memplan.diff", 1)
    assert set(spec) == {"format", "version", "memplan", *PlanDiff.__dataclass_fields__} - {"plans"}
    assert spec["changes"][0]["name"] == "b"
    assert spec["changes"][0]["before"] is None
    d.to_html(tmp_path / "d.html")
    page = Page((tmp_path / "d.html").read_text(encoding="utf-8"))
    assert ("td", "+1.00 MiB") in page.found
    assert "+1.00 MiB" in str(d)
    assert "<table" in d._repr_html_()


def test_two_optimal_plans_are_both_called_optimal() -> None:
    before, after = memplan.plan(problem(a=(4, 0, 2))), memplan.plan(problem(a=(8, 0, 2)))
    text = str(before.diff(after))
    assert text.startswith("The peak rises from 4 B to 8 B (+4 B, +100.0%); both are optimal.")
    assert "gap" not in text


def test_a_page_has_all_changes_and_both_plans(tmp_path: Path) -> None:
    plan = memplan.plan("example:resnet50_infer", "first_fit")
    d = plan.diff(memplan.plan("example:resnet50_infer"))
    assert f"and {len(d.changes) - 20:,} more" in str(d)
    d.to_html(tmp_path / "d.html")
    text = (tmp_path / "d.html").read_text(encoding="utf-8")
    assert text.count("<img") == 1
    page = Page(text)
    assert all(("td", change.name) in page.found for change in d.changes)


@pytest.mark.parametrize("other", [([], [], []), ([0], [0], [1])])
def test_plans_of_nothing(other: Any) -> None:
    d = memplan.plan(([], [], [])).diff(memplan.plan(other))
    assert "The peak stays at 0 B" in str(d)
