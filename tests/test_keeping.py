"""Plans that change few offsets of an earlier one, at the same peak."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import memplan
from commands import run
from exactness import case
from memplan import _core
from memplan.solving import keeping

ALIVE: dict[str, Any] = {"size": [4, 4, 4], "first": [0, 0, 2], "last": [2, 4, 4], "names": ["a", "b", "c"]}


def test_hints_are_taken_if_they_cost_nothing() -> None:
    problem = memplan.Problem(**ALIVE)
    plan = memplan.plan(problem, hint={"a": 4, "c": "4"})
    assert (plan.peak, plan["a"].offset, plan["b"].offset, plan.moved) == (8, 4, 0, ())
    assert memplan.plan(problem, hint={"a": 4, "b": 4}).moved in (("a",), ("b",))
    assert memplan.plan(problem, hint={"a": 400, "c": 2}).moved == ("a", "c")
    assert memplan.plan(problem, pin={"a": 0}, hint={"a": 4, "b": 4}).moved == ("a",)
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
    memplan.plan(lives, hint={"b": 0}).to_json(path)
    assert run("plan", lives, "--keep", path, "--hint", "a=4", "--json", tmp_path / "again.json") == 0
    assert memplan.read_plan(tmp_path / "again.json")["b"].offset == 0


def test_tensors_of_a_graph_stay() -> None:
    graph = memplan.capture("example:gpt2_infer").to_dict()
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


def test_few_move_beside_all_subsets() -> None:
    seeds, most = 40, 0
    for seed in range(seeds):
        chance = random.Random(seed)
        problem = memplan.Problem(**case("reserved", seed, most=7).arguments())
        wished = {
            f"#{b}": int(problem.alignment[b]) * chance.randrange(1 + int(problem.size.max() // problem.alignment[b]))
            for b in range(len(problem))
        }
        plan, kept = memplan.plan(problem), memplan.plan(problem, keep=wished)
        assert kept.peak == plan.peak
        least = moves_at_least(problem, wished, plan.peak)
        assert least <= len(kept.moved or ()) <= least + 2, seed
        most += len(kept.moved or ()) == least
    assert most >= seeds * 0.8


def test_a_plan_that_keeps_fewer_is_not_taken() -> None:
    problem = memplan.Problem(**case("plain", 32, most=9).arguments())
    chance = random.Random(32)
    wished = {
        f"#{b}": int(problem.alignment[b]) * chance.randrange(1 + int(problem.size.max() // problem.alignment[b]))
        for b in range(len(problem))
    }
    assert len(memplan.plan(problem, keep=wished).moved or ()) == 2


def test_hints_come_before_an_earlier_plan() -> None:
    plan = memplan.plan(([4, 4], [0, 0], [1, 1]), keep={"#0": 0, "#1": 4}, hint={"#0": 4, "#1": 0})
    assert plan.offsets.tolist() == [4, 0]


def test_tries_end(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = memplan.Problem(**ALIVE)
    monkeypatch.setattr(keeping, "_MOST_TRIES", dict.fromkeys(keeping._MOST_TRIES, 0))
    assert memplan.plan(problem, hint={"a": 4, "b": 4, "c": 4}).peak == 8
    plan = memplan.plan(problem)
    assert keeping.settled(plan, {"a": 4, "b": 4}, None, 1e-9).offsets.tolist() == plan.offsets.tolist()


def test_what_grows_pushes_up_what_lies_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pile, without any try: what is below what has grown stays."""
    monkeypatch.setattr(keeping, "_MOST_TRIES", dict.fromkeys(keeping._MOST_TRIES, 0))
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
        ({"hint": [4]}, TypeError, "hint must be a mapping from names to offsets, got list"),
        ({"hint": {"d": 4}}, ValueError, "hint must name buffers, got 'd'; the buffers are 'a', 'b', 'c'"),
        ({"hint": {"a": -4}}, ValueError, r"hint\['a'\] must be >= 0"),
        ({"hint": {"a": 4}, "pools": [memplan.Pool("sram")]}, TypeError, "options keep and hint do not go with pools"),
    ],
)
def test_bad_input(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        memplan.plan(memplan.Problem(**ALIVE), **options)
