"""Plans that change few offsets of an earlier one, at the same peak."""

from __future__ import annotations

import random
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memplan
from builders.commands import run
from builders.interrupting import signals
from memplan import _core
from oracles.exactness import case

ALIVE: dict[str, Any] = {"size": [4, 4, 4], "first": [0, 0, 2], "last": [2, 4, 4], "names": ["a", "b", "c"]}


def test_offsets_by_name_are_taken_if_they_cost_nothing() -> None:
    problem = memplan.Problem(**ALIVE)
    plan = memplan.plan(problem, keep={"a": 4, "c": "4"})
    assert (plan.peak, plan["a"].offset, plan["b"].offset, plan.moved) == (8, 4, 0, ())
    assert memplan.plan(problem, keep={"a": 4, "b": 4}).moved in (("a",), ("b",))
    assert memplan.plan(problem, keep={"a": 400, "c": 2}).moved == ("a", "c")
    assert memplan.plan(problem, pin={"a": 0}, keep={"a": 4, "b": 4}).moved == ("a",)
    assert memplan.plan(problem).moved is None


def test_an_earlier_plan_is_kept(tmp_path: Path) -> None:
    plain = memplan.generate.layered(60)
    columns = (plain.size, plain.first, plain.last, plain.alignment)
    problem = memplan.Problem(*columns, [f"b{k}" for k in range(len(plain))])
    plan = memplan.plan(problem)
    again = memplan.plan(memplan.generate.shuffled(problem), "greedy_by_size", keep=plan)
    assert again.peak >= plan.peak
    assert again.moved == ()
    assert memplan.plan(problem, keep=plan).offsets.tolist() == plan.offsets.tolist()
    path, lives = tmp_path / "plan.json", tmp_path / "l.csv"
    lives.write_text("id,lower,upper,size\na,0,2,4\nb,0,4,4\nc,2,4,4\n")
    memplan.plan(lives, keep={"b": 0}).to_json(path)
    assert run("plan", lives, "--keep", path, "--json", tmp_path / "again.json") == 0
    assert memplan.read_plan(tmp_path / "again.json")["b"].offset == 0


def test_tensors_of_a_graph_stay() -> None:
    graph = memplan.capture("example:gpt2_infer").graph.to_dict()
    plan = memplan.plan(graph)
    grown = next(t for t in graph["tensors"][150:] if t["kind"] == "intermediate")
    grown["bytes"] += 4096
    grown.pop("shape", None)
    later, kept = memplan.plan(graph), memplan.plan(graph, keep=plan, time_limit=20)
    assert kept.peak == later.peak
    assert len(kept.moved or ()) <= 2


def moves_at_least(problem: memplan.Problem, wished: dict[str, int], peak: int) -> int:
    """The fewest that have to move, by all subsets of those that stay."""
    names, best = list(wished), len(wished)
    for stay in product([False, True], repeat=len(names)):
        moved = len(names) - sum(stay)
        if moved >= best:
            continue
        try:
            pin = {name: wished[name] for name, stays in zip(names, stay, strict=True) if stays}
            memplan.plan(problem, pin=pin, capacity=peak)
            best = moved
        except ValueError:
            continue
    return best


def wished_at_random(problem: memplan.Problem, seed: int) -> dict[str, int]:
    chance = random.Random(seed)
    return {
        f"#{b}": int(problem.alignment[b]) * chance.randrange(1 + int(problem.size.max() // problem.alignment[b]))
        for b in range(len(problem))
    }


def test_fewest_move_beside_all_subsets() -> None:
    for seed in range(40):
        problem = memplan.Problem(**case("reserved", seed, most=7).arguments())
        wished = wished_at_random(problem, seed)
        plan, kept = memplan.plan(problem), memplan.plan(problem, keep=wished)
        assert kept.peak == plan.peak
        least = moves_at_least(problem, wished, plan.peak)
        assert (len(kept.moved or ()), kept.moved_bound) == (least, least), seed


def test_figures_are_those_of_what_was_changed() -> None:
    """A plan that peaks lower, as it happens, with what stays."""
    parts = [(0, 0, 2, 2, 4), (0, 2, 3, 2, 4), (3, 0, 2, 4, 5), (3, 2, 3, 1, 4)]
    names = ["b0", "b1", "b2", "b3"]
    problem = memplan.Problem([3, 2, 1, 3], [2, 3, 0, 1], [4, 5, 2, 5], names=names, parts=parts)
    for planner in ("valley", "naive", "first_fit", "auto"):
        plan = memplan.plan(problem, planner, keep={"b0": 4, "b1": 4, "b3": 8})
        assert plan.peak == max(slot.offset + slot.bytes for slot in plan)
        assert plan.optimal == (plan.peak == plan.lower_bound)
    ends = memplan.plan(memplan.Problem([4, 4], [0, 2], [2, 4]), "naive", keep={"#0": 0, "#1": 0})
    assert (ends.peak, ends.optimal, ends.moved, ends.moved_bound) == (4, True, (), 0)


def test_a_capacity_leaves_room_to_stay() -> None:
    problem = memplan.Problem([4, 4, 2], [0] * 3, [1] * 3)
    assert memplan.plan(problem, keep={"#0": 0, "#1": 8, "#2": 5}).moved_bound == 2
    wide = memplan.plan(problem, keep={"#0": 0, "#1": 8, "#2": 5}, capacity=12)
    assert (wide.peak, wide.moved, wide.moved_bound) == (12, (), 0)
    assert memplan.plan(problem, keep={"#0": 0, "#1": 8}, capacity=11).peak <= 11


def test_what_must_move_is_counted_without_a_search() -> None:
    """In large problems: pairs that overlap, and wishes that are out of reach."""
    problem = memplan.Problem([4] * 40, [k // 2 for k in range(40)], [k // 2 + 1 for k in range(40)])
    kept = memplan.plan(problem, keep={f"#{k}": 0 for k in range(38)} | {"#38": 1, "#39": 400})
    assert (kept.peak, kept.moved_bound, len(kept.moved or ())) == (8, 20, 21)


def test_a_limit_of_time_is_kept() -> None:
    """Half of it for the search; what is kept is found in time in proportion to the buffers, and Ctrl-C ends it."""
    chance = np.random.default_rng(0)
    count = 20_000
    first = chance.integers(0, count, count)
    last = np.minimum(first + chance.geometric(1 / 30, count) + 1, count + 1)
    problem = memplan.Problem(chance.integers(1, 100_000, count), first, last)
    earlier = memplan.plan(problem, "first_fit")
    begin = time.process_time()
    plan = memplan.plan(problem, keep=earlier, time_limit=0.2)
    assert time.process_time() - begin < 2
    assert plan.peak <= earlier.peak
    with signals(0.05):
        assert memplan.plan(problem, keep=earlier).interrupted


def test_a_plan_that_keeps_fewer_is_not_taken() -> None:
    problem = memplan.Problem(**case("plain", 32, most=9).arguments())
    assert len(memplan.plan(problem, keep=wished_at_random(problem, 32)).moved or ()) == 2


def test_what_grows_pushes_up_what_lies_on_it() -> None:
    """A pile: what is below what has grown stays."""
    names = ["a", "b", "c", "d", "e"]
    earlier = {name: 4 * k for k, name in enumerate(names)}
    problem = memplan.Problem([4, 4, 5, 4, 0], [0] * 5, [2, 2, 2, 2, 1], names=names)
    plan = memplan.plan(problem, keep=earlier)
    assert (plan.peak, plan.moved) == (17, ("d",))
    assert plan["d"].offset == 13
    together = memplan.plan(problem.with_together([(0, 2, 8)]), keep=earlier)
    assert together.peak == 17


def test_places_near_wishes() -> None:
    """Wishes in their order, multiples of alignments, in what pins and reserved bytes leave; the others lowest."""
    problem = memplan.Problem(
        [4, 4, 4, 4], [0] * 4, [1] * 4, [1, 4, 1, 1], pins=[-1, -1, 8, -1], reserved=[(2, 4, 0, 1)]
    )
    assert _core.placed_near(problem, [1, 3, -1, -1]).tolist() == [4, 12, 8, 16]
    assert _core.placed_near(problem, [-1, 4, 8, 30]).tolist() == [12, 4, 8, 30]
    with pytest.raises(ValueError, match="must have one entry per buffer"):
        _core.placed_near(problem, [1])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"keep": 4}, TypeError, "keep must be a plan or a mapping from names to offsets, got int"),
        ({"keep": {"d": 4}}, ValueError, "keep must name buffers, got 'd'; the buffers are 'a', 'b', 'c'"),
        ({"keep": {"a": -4}}, ValueError, r"keep\['a'\] must be >= 0"),
        ({"keep": {"a": 4}, "pools": [memplan.plans.Pool("sram")]}, TypeError, "option keep does not go with pools"),
    ],
)
def test_bad_input(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        memplan.plan(memplan.Problem(**ALIVE), **options)
