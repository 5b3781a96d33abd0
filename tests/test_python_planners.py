"""Planners written in Python: checked like those of the core, and given what they support."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import memplan
from memplan.planners import Options, Parameter, Placement, PlannerInfo

REGISTRY = sys.modules["memplan.planners"]
GRAPH: dict[str, Any] = {
    "tensors": [
        {"name": name, "bytes": 4, "kind": kind}
        for name, kind in [("x", "input"), ("a", "intermediate"), ("b", "intermediate")]
    ],
    "ops": [{"name": "f", "inputs": ["x"], "outputs": ["a"]}, {"name": "g", "inputs": ["a"], "outputs": ["b"]}],
    "outputs": ["b"],
}
NUMBER = Parameter("k", "a number", 3, -5, 9)
WORD = Parameter("order", "a word", "size", words=("birth", "size"))

Register = Callable[..., list[tuple[memplan.Problem, Options]]]


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Register:
    """Adds a planner "mine" that gives these offsets; returns what it is asked, as it comes."""

    def add(
        offsets: Sequence[int] | None = None, supports: tuple[str, ...] = (), bound: int = 0, pools: int = 0
    ) -> Any:
        asked: list[tuple[memplan.Problem, Options]] = []

        def run(problem: memplan.Problem, options: Options) -> Placement:
            asked.append((problem, options))
            return Placement(offsets if offsets is not None else [0] * len(problem), bound, pools)

        row = PlannerInfo("mine", "a test", True, supports, "O(1)", "here", (NUMBER, WORD), run)
        monkeypatch.setattr(REGISTRY, "IN_PYTHON", (*REGISTRY.IN_PYTHON, row))
        return asked

    return add


def test_it_is_listed_last(register: Register) -> None:
    register()
    assert [row.name for row in memplan.planners()][-2:] == ["cp_sat", "mine"]
    assert repr(memplan.planners()[-1]) == "<memplan planner 'mine'>"


def test_a_plan_of_it(register: Register) -> None:
    asked = register([0, 4], bound=8, pools=2)
    plan = memplan.plan(([4, 4], [0, 0], [1, 1]), "mine:k=-2", seed=7, threads=3, time_limit=1.5)
    assert plan.offsets.tolist() == [0, 4]
    assert (plan.peak, plan.lower_bound, plan.optimal, plan.pools) == (8, 8, True, 2)
    assert (plan.planner, plan.winner) == ("mine:k=-2", "mine:k=-2")
    assert plan.seconds >= 0
    assert asked[0][1] == Options(1.5, 7, 3, {"k": -2, "order": "size"})


def test_wrong_offsets_are_caught_by_name(register: Register) -> None:
    register()
    with pytest.raises(
        memplan.InvalidPlanError, match=r"planner 'mine' made an invalid plan.*\n.*share bytes \[0, 4\)"
    ):
        memplan.plan(([4, 4], [0, 0], [1, 1]), "mine")
    with pytest.raises(memplan.InvalidPlanError, match="planner 'mine'"):
        memplan.plan(GRAPH, "mine")


@pytest.mark.parametrize("offsets", [[0], [0, 4, 8]])
def test_offsets_for_other_buffers_are_refused(register: Register, offsets: list[int]) -> None:
    register(offsets)
    with pytest.raises(memplan.ProblemError, match="one entry per buffer"):
        memplan.plan(([4, 4], [0, 0], [1, 1]), "mine")


def test_a_graph_is_planned_replayed_and_kept(register: Register) -> None:
    register([0, 4])
    plan = memplan.plan(GRAPH, "mine")
    assert plan["b"].offset == 4
    assert plan.graph == memplan.capture(GRAPH)
    plan.verify()


def test_a_graph_is_the_same_problem_as_for_the_core(register: Register) -> None:
    asked = register(supports=("alignment",), offsets=[0, 8, 16])
    plan = memplan.plan(GRAPH, "first_fit", alignment=8, place=("input", "intermediate", "output"))
    memplan.plan(GRAPH, "mine", alignment=8, place=("input", "intermediate", "output"))
    assert asked[0][0] == plan.problem


def test_what_it_lacks_is_refused_by_name(register: Register) -> None:
    register()
    problem = memplan.Problem([4, 4], [0, 1], [1, 2], 4, conflicts=[(0, 1)])
    with pytest.raises(memplan.UnsupportedError, match="'mine' does not support alignment, conflicts, which"):
        memplan.plan(problem, "mine")


@pytest.mark.parametrize(("supports", "bound"), [((), 8), (("shapes",), 9)])
def test_without_shapes_it_is_given_rectangles(register: Register, supports: tuple[str, ...], bound: int) -> None:
    """And what it proves of those is not kept."""
    asked = register([0, 8], supports=supports, bound=9)
    problem = memplan.Problem([8, 1], [0, 1], [2, 2], names=["a", "b"], parts=[(0, 0, 8, 0, 1), (0, 0, 4, 1, 2)])
    plan = memplan.plan(problem, "mine")
    assert (asked[0][0].parts is not None) == ("shapes" in supports)
    assert asked[0][0].names == ["a", "b"]
    assert plan.lower_bound == bound
    assert plan.problem is problem


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mine:k=10", r"parameter k must be an integer in \[-5, 9\], got '10'"),
        ("mine:k=x", r"parameter k must be an integer in \[-5, 9\], got 'x'"),
        ("mine:order=name", "parameter order must be one of birth, size, got 'name'"),
        ("mine:depth=1", "planner 'mine' takes NAME=VALUE for k, order, got 'depth=1'"),
        ("mine:k", "planner 'mine' takes NAME=VALUE for k, order, got 'k'"),
        ("mine2", "planner must be one of auto, .*, cp_sat, mine, got 'mine2'"),
        ("tlsf_replay:block=0", "parameter block must be an integer in"),
    ],
)
def test_bad_parameters(register: Register, text: str, message: str) -> None:
    register()
    with pytest.raises(ValueError, match=message):
        memplan.plan(([4], [0], [1]), text)


def test_words_and_the_last_of_two_values_count(register: Register) -> None:
    asked = register()
    memplan.plan(([4], [0], [1]), "mine:order=birth,k=1,k=2")
    assert asked[0][1].settings == {"k": 2, "order": "birth"}
