"""Planners written in Python: checked like those of the core, and given what they support."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from typing import Any

import pytest

import memplan
from builders.graphs import graph, op
from memplan import register
from memplan.cli.planners import parameter_text
from memplan.planning import Options, Parameter, Placement, PlannerInfo, registry

GRAPH: dict[str, Any] = graph(
    "x 4 input, a 4 intermediate, b 4 intermediate", op("f", "x", "a"), op("g", "a", "b"), outputs="b"
)
NUMBER = Parameter("k", "a number", 3, -5, 9)
WORD = Parameter("order", "a word", "size", words=("birth", "size"))

Add = Callable[..., list[tuple[memplan.Problem, Options]]]


@pytest.fixture
def add_planner(monkeypatch: pytest.MonkeyPatch) -> Add:
    """Adds a planner "mine" that gives these offsets; returns what it is asked, as it comes."""

    def add(
        offsets: Sequence[int] | None = None, supports: tuple[str, ...] = (), bound: int = 0, objects: int = 0
    ) -> Any:
        asked: list[tuple[memplan.Problem, Options]] = []

        def run(problem: memplan.Problem, options: Options) -> Placement:
            asked.append((problem, options))
            return Placement(offsets if offsets is not None else [0] * len(problem), bound, objects)

        row = PlannerInfo("mine", "a test", True, supports, "O(1)", "here", (NUMBER, WORD), run)
        monkeypatch.setattr(registry, "IN_PYTHON", (*registry.IN_PYTHON, row))
        return asked

    return add


def test_it_is_listed_last(add_planner: Add) -> None:
    add_planner()
    assert [row.name for row in memplan.planners()][-2:] == ["cp_sat", "mine"]
    assert repr(memplan.planners()[-1]) == "<memplan planner 'mine'>"


def test_a_plan_of_it(add_planner: Add) -> None:
    asked = add_planner([0, 4], bound=8, objects=2)
    plan = memplan.plan(([4, 4], [0, 0], [1, 1]), "mine:k=-2", seed=7, threads=3, time_limit=1.5)
    assert plan.offsets.tolist() == [0, 4]
    assert (plan.peak, plan.lower_bound, plan.optimal, plan.objects) == (8, 8, True, 2)
    assert (plan.planner, plan.winner) == ("mine:k=-2", "mine:k=-2")
    assert plan.seconds >= 0
    assert asked[0][1] == Options(1.5, 7, 3, {"k": -2, "order": "size"})


def test_wrong_offsets_are_caught_by_name(add_planner: Add) -> None:
    add_planner()
    with pytest.raises(
        memplan.errors.InvalidPlanError, match=r"planner 'mine' made an invalid plan.*\n.*share bytes \[0, 4\)"
    ):
        memplan.plan(([4, 4], [0, 0], [1, 1]), "mine")
    with pytest.raises(memplan.errors.InvalidPlanError, match="planner 'mine'"):
        memplan.plan(GRAPH, "mine")


@pytest.mark.parametrize("offsets", [[0], [0, 4, 8]])
def test_offsets_for_other_buffers_are_refused(add_planner: Add, offsets: list[int]) -> None:
    add_planner(offsets)
    message = rf"'mine' must give one integer per buffer as offsets, 2 of them; got int64 of shape \({len(offsets)},\)"
    with pytest.raises(memplan.errors.PlannerError, match=message):
        memplan.plan(([4, 4], [0, 0], [1, 1]), "mine")


def test_a_graph_is_planned_replayed_and_kept(add_planner: Add) -> None:
    add_planner([0, 4])
    plan = memplan.plan(GRAPH, "mine")
    assert plan["b"].offset == 4
    assert plan.graph == memplan.capture(GRAPH).graph
    plan.verify()


def test_a_graph_is_the_same_problem_as_for_the_core(add_planner: Add) -> None:
    asked = add_planner(supports=("alignment",), offsets=[0, 8, 16])
    plan = memplan.plan(GRAPH, "first_fit", alignment=8, place=("input", "intermediate", "output"))
    memplan.plan(GRAPH, "mine", alignment=8, place=("input", "intermediate", "output"))
    assert asked[0][0] == plan.problem


def test_what_it_lacks_is_refused_by_name(add_planner: Add) -> None:
    add_planner()
    problem = memplan.Problem([4, 4], [0, 1], [1, 2], 4, conflicts=[(0, 1)])
    with pytest.raises(memplan.errors.UnsupportedError, match="'mine' does not support alignment, conflicts, which"):
        memplan.plan(problem, "mine")


@pytest.mark.parametrize(("supports", "bound"), [((), 8), (("shapes",), 9)])
def test_without_shapes_it_is_given_rectangles(add_planner: Add, supports: tuple[str, ...], bound: int) -> None:
    """And what it proves of those is not kept."""
    asked = add_planner([0, 8], supports=supports, bound=9)
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
def test_bad_parameters(add_planner: Add, text: str, message: str) -> None:
    add_planner()
    with pytest.raises(ValueError, match=message):
        memplan.plan(([4], [0], [1]), text)


def test_it_is_told_the_capacity(add_planner: Add) -> None:
    asked = add_planner([0, 4])
    assert memplan.plan(([4, 4], [0, 0], [1, 1]), "mine", capacity=8).peak == 8
    assert asked[0][1].capacity == 8
    assert asked[0][1].tell is None
    with pytest.raises(memplan.InfeasibleError):
        memplan.plan(([4, 4], [0, 0], [1, 1]), "mine", capacity=7)
    assert len(asked) == 1  # the load says so


@pytest.mark.parametrize("source", [([4, 4], [0, 0], [1, 1]), GRAPH], ids=["problem", "graph"])
def test_what_does_not_fit_is_in_the_error(add_planner: Add, source: Any) -> None:
    add_planner([0, 6], bound=9)
    with pytest.raises(memplan.InfeasibleError, match="the best plan of planner 'mine:k=1' peaks at 10") as caught:
        memplan.plan(source, "mine:k=1", capacity=9)
    assert (caught.value.lower_bound, caught.value.peak, caught.value.proven) == (9, 10, False)
    assert caught.value.plan is not None
    assert caught.value.plan.offsets.tolist() == [0, 6]
    assert (caught.value.plan.graph is None) == (source is not GRAPH)
    with pytest.raises(memplan.InfeasibleError, match="no plan fits a capacity of 8 bytes: at least 9") as caught:
        memplan.plan(source, "mine", capacity=8)
    assert caught.value.proven


Run = Callable[[memplan.Problem, Options], Placement]


@pytest.fixture
def run_as(monkeypatch: pytest.MonkeyPatch) -> Callable[[Run], None]:
    """Adds a planner "mine" that is a function."""

    def add(run: Run) -> None:
        row = PlannerInfo("mine", "a test", False, (), "O(1)", "here", (), run)
        monkeypatch.setattr(registry, "IN_PYTHON", (*registry.IN_PYTHON, row))

    return add


def descending(problem: memplan.Problem, options: Options) -> Placement:
    assert options.tell is not None
    for offset, bound in [(9, 1), (12, 8), (7, 9), (7, 9)]:
        options.tell([0, offset], bound)
    return Placement([0, 5])


@pytest.mark.parametrize("source", [([4, 4], [0, 0], [1, 1]), GRAPH], ids=["problem", "graph"])
def test_it_tells_of_better_plans(run_as: Callable[[Run], None], source: Any) -> None:
    run_as(descending)
    told: list[memplan.Plan] = []
    plan = memplan.plan(source, "mine", on_improvement=told.append)
    assert [(better.peak, better.lower_bound) for better in told] == [(13, 8), (11, 9), (9, 8)]
    assert all((better.graph is None) == (source is not GRAPH) for better in told)
    assert told[-1] == plan


@pytest.mark.parametrize("source", [([4, 4], [0, 0], [1, 1]), GRAPH], ids=["problem", "graph"])
def test_nothing_wrong_is_told(run_as: Callable[[Run], None], source: Any) -> None:
    def overlapping(problem: memplan.Problem, options: Options) -> Placement:
        assert options.tell is not None
        options.tell([0, 3], 0)
        return Placement([0, 4])

    run_as(overlapping)
    with pytest.raises(memplan.errors.InvalidPlanError, match="planner 'mine' made an invalid plan"):
        memplan.plan(source, "mine", on_improvement=lambda plan: pytest.fail("told"))


def test_it_keeps_what_it_has_when_interrupted(run_as: Callable[[Run], None]) -> None:
    run_as(lambda problem, options: Placement([0, 4], interrupted=True))
    assert memplan.plan(([4, 4], [0, 0], [1, 1]), "mine").interrupted
    with pytest.raises(KeyboardInterrupt):
        memplan.plan(([4, 4], [0, 0], [1, 1]), "mine", on_interrupt="raise")


def test_an_interrupt_before_there_is_a_plan_is_raised(run_as: Callable[[Run], None]) -> None:
    def run(problem: memplan.Problem, options: Options) -> Placement:
        raise KeyboardInterrupt

    run_as(run)
    with pytest.raises(KeyboardInterrupt):
        memplan.plan(([4, 4], [0, 0], [1, 1]), "mine")


def test_words_and_the_last_of_two_values_count(add_planner: Add) -> None:
    asked = add_planner()
    memplan.plan(([4], [0], [1]), "mine:order=birth,k=1,k=2")
    assert asked[0][1].settings == {"k": 2, "order": "birth"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([0, 4], r"must give a Placement, got \[0, 4\]"),
        (None, "must give a Placement, got None"),
        (Placement([0.0, 4.5]), r"must give one integer per buffer as offsets, 2 of them; got float64 of shape \(2,\)"),  # type: ignore[list-item]
        (Placement([[0, 4]]), r"got int64 of shape \(1, 2\)"),  # type: ignore[list-item]
        (Placement([0, 4], 9), "claims that no plan peaks below 9 bytes, and gives one that peaks at 8"),
    ],
)
def test_what_is_no_placement_is_refused(run_as: Callable[[Run], None], given: Any, message: str) -> None:
    run_as(lambda problem, options: given)
    for source in (([4, 4], [0, 0], [1, 1]), GRAPH):
        with pytest.raises(memplan.errors.PlannerError, match=f"planner 'mine' .*{message}"):
            memplan.plan(source, "mine")


def test_its_own_errors_name_it(run_as: Callable[[Run], None]) -> None:
    run_as(lambda problem, options: Placement([0], lower_bound=1.5))  # type: ignore[arg-type]
    with pytest.raises(
        memplan.errors.PlannerError, match=r"'mine' failed: TypeError: lower_bound must be an integer, got 1\.5"
    ):
        memplan.plan(([4], [0], [1]), "mine")


def test_errors_that_speak_for_themselves_are_left_alone(run_as: Callable[[Run], None]) -> None:
    def run(problem: memplan.Problem, options: Options) -> Placement:
        raise memplan.errors.UnsupportedError("too many buffers")

    run_as(run)
    with pytest.raises(memplan.errors.UnsupportedError, match=r"^too many buffers$"):
        memplan.plan(([4], [0], [1]), "mine")


@pytest.mark.parametrize("swallows", [False, True])
def test_what_a_listener_raises_is_raised_whatever_the_planner_does(
    run_as: Callable[[Run], None], swallows: bool
) -> None:
    def run(problem: memplan.Problem, options: Options) -> Placement:
        assert options.tell is not None
        with suppress(Exception) if swallows else nullcontext():
            options.tell([0, 9], 0)
        return Placement([0, 4])

    def listen(plan: memplan.Plan) -> None:
        raise LookupError("enough")

    run_as(run)
    with pytest.raises(LookupError, match="enough"):
        memplan.plan(([4, 4], [0, 0], [1, 1]), "mine", on_improvement=listen)


@pytest.mark.parametrize("elsewhere", ["after it has ended", "on another thread"])
def test_plans_are_told_while_it_runs_where_it_runs(run_as: Callable[[Run], None], elsewhere: str) -> None:
    kept: list[Callable[[Sequence[int], int], None]] = []

    def run(problem: memplan.Problem, options: Options) -> Placement:
        assert options.tell is not None
        kept.append(options.tell)
        if elsewhere == "on another thread":
            with ThreadPoolExecutor(1) as pool:
                pool.submit(options.tell, [0, 9], 0).result()
        return Placement([0, 4])

    run_as(run)
    message = r"options\.tell must be called while the planner runs, on the thread that called it"
    with nullcontext() if elsewhere.startswith("after") else pytest.raises(memplan.errors.PlannerError, match=message):
        memplan.plan(([4, 4], [0, 0], [1, 1]), "mine", on_improvement=lambda plan: None)
    with pytest.raises(memplan.errors.PlannerError, match=message):
        kept[0]([0, 4], 0)


@pytest.mark.parametrize("keeps", [False, True])
def test_an_interrupt_of_a_listener_ends_it(run_as: Callable[[Run], None], keeps: bool) -> None:
    def run(problem: memplan.Problem, options: Options) -> Placement:
        assert options.tell is not None
        with suppress(KeyboardInterrupt) if keeps else nullcontext():
            options.tell([0, 9], 0)
        return Placement([0, 4], interrupted=True)

    def listen(plan: memplan.Plan) -> None:
        if plan.peak == 13:
            raise KeyboardInterrupt

    run_as(run)
    with nullcontext() if keeps else pytest.raises(KeyboardInterrupt):
        plan = memplan.plan(([4, 4], [0, 0], [1, 1]), "mine", on_improvement=listen)
        assert (plan.peak, plan.interrupted) == (8, True)


def test_it_says_when_its_plan_was_found(run_as: Callable[[Run], None]) -> None:
    def run(problem: memplan.Problem, options: Options) -> Placement:
        assert options.tell is not None
        options.tell([0, 4], 0)
        time.sleep(0.05)
        return Placement([0, 4])

    run_as(run)
    plan = memplan.plan(([4, 4], [0, 0], [1, 1]), "mine", on_improvement=lambda plan: None)
    assert plan.found_after + 0.05 <= plan.seconds


def test_no_bound_is_none(run_as: Callable[[Run], None]) -> None:
    def run(problem: memplan.Problem, options: Options) -> Placement:
        assert options.tell is not None
        options.tell([0, 9], None)
        return Placement([0, 4], None)

    run_as(run)
    told: list[memplan.Plan] = []
    plan = memplan.plan(([4, 4], [0, 0], [1, 1]), "mine", on_improvement=told.append)
    assert ([better.peak for better in told], plan.peak, plan.lower_bound) == ([13, 8], 8, 8)


@pytest.mark.parametrize(
    ("offsets", "bound", "message"),
    [
        ([0, 4], "8", "must give a lower_bound that is an integer or None, got '8'"),
        ([0, 4], 1.5, r"must give a lower_bound that is an integer or None, got 1\.5"),
        ([0, [4]], 0, r"must give one integer per buffer as offsets, got \[0, \[4\]\]"),
        ([0, 4], 2**63, "must give a lower_bound below 9223372036854775808"),
    ],
)
def test_what_is_told_is_checked(run_as: Callable[[Run], None], offsets: Any, bound: Any, message: str) -> None:
    def run(problem: memplan.Problem, options: Options) -> Placement:
        assert options.tell is not None
        options.tell(offsets, bound)
        return Placement([0, 4])

    run_as(run)
    with pytest.raises(memplan.errors.PlannerError, match=f"planner 'mine' {message}"):
        memplan.plan(([4, 4], [0, 0], [1, 1]), "mine", on_improvement=lambda plan: None)


@pytest.mark.parametrize(
    ("limits", "takes", "expected"),
    [
        ({}, ["7", "-7", str(2**63 - 1)], None),
        ({"least": 0}, ["0", "7"], "an integer >= 0"),
        ({"most": 9}, ["-7", "9"], "an integer <= 9"),
        ({"least": 0, "most": 0}, ["0"], r"an integer in \[0, 0\]"),
    ],
)
def test_a_parameter_has_the_limits_that_it_is_given(
    monkeypatch: pytest.MonkeyPatch, limits: dict[str, int], takes: list[str], expected: str | None
) -> None:
    asked: list[Any] = []

    def run(problem: memplan.Problem, options: Options) -> Placement:
        asked.append(options.settings["restarts"])
        return Placement([0])

    parameter = Parameter("restarts", "how many", 0, **limits)
    row = PlannerInfo("mine", "a test", False, (), "O(1)", "here", (parameter,), run)
    monkeypatch.setattr(registry, "IN_PYTHON", (*registry.IN_PYTHON, row))
    for text in takes:
        memplan.plan(([4], [0], [1]), f"mine:restarts={text}")
    assert asked == [int(text) for text in takes]
    if expected is not None:
        wrong = str(limits["least"] - 1 if "least" in limits else limits["most"] + 1)
        with pytest.raises(ValueError, match=f"parameter restarts must be {expected}, got '{wrong}'"):
            memplan.plan(([4], [0], [1]), f"mine:restarts={wrong}")
    assert expected is None or (expected.removeprefix("an integer ") in parameter_text(parameter)) != (len(limits) == 2)


@pytest.mark.parametrize(
    ("numbers", "name"), [({"lower_bound": 2**63}, "lower_bound"), ({"objects": 2**31}, "objects")]
)
def test_numbers_too_large_are_refused(run_as: Callable[[Run], None], numbers: dict[str, int], name: str) -> None:
    run_as(lambda problem, options: Placement([0, 4], **numbers))
    with pytest.raises(
        memplan.errors.PlannerError,
        match=rf"planner 'mine' must give a (number of )?{name} below \d+, got {numbers[name]}",
    ):
        memplan.plan(([4, 4], [0, 0], [1, 1]), "mine")


# For the time of a script or notebook


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {})


def stack(problem: memplan.Problem, options: Options) -> Placement:
    return Placement([int(problem.size[:i].sum()) for i in range(len(problem))])


def row(name: str = "stack", run: Run | None = stack, supports: tuple[str, ...] = ("alignment",)) -> PlannerInfo:
    return PlannerInfo(name, "a test", False, supports, "O(n)", "here", (), run)


@pytest.mark.usefixtures("clean")
def test_a_registered_planner_is_one_of_them() -> None:
    register(row())
    assert memplan.planners()[-1].name == "stack"
    assert memplan.plan(GRAPH, "stack").peak == 8
    with pytest.raises(ValueError, match=r"planner must be one of .*, cp_sat, stack, got 'stacks'"):
        memplan.plan(GRAPH, "stacks")


@pytest.mark.usefixtures("clean")
def test_a_cell_that_is_run_again_replaces_it() -> None:
    register(row())
    register(row(run=lambda problem, options: Placement([8, 0])))
    assert [row.name for row in memplan.planners()].count("stack") == 1
    assert memplan.plan(GRAPH, "stack").offsets.tolist() == [8, 0]


@pytest.mark.usefixtures("clean")
@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda: stack, TypeError, "register takes a PlannerInfo, got <function stack"),
        (lambda: row("first_fit"), ValueError, "the name 'first_fit' is taken by memplan's own planner"),
        (lambda: row("cp_sat"), ValueError, "the name 'cp_sat' is taken by memplan's own planner"),
        (lambda: row("a:b"), ValueError, "name must be a word such as 'first_fit', got 'a:b'"),
        (lambda: row(run=None), TypeError, "planner 'stack' has no run"),
        (lambda: row(supports=("pages",)), ValueError, "supports must be among alignment, shapes, conflicts"),
        (lambda: Parameter("k", "", 10, 0, 9), ValueError, r"standard must be an integer in \[0, 9\], got 10"),
        (lambda: Parameter("k", "", "c", words=("a", "b")), ValueError, "standard must be one of a, b, got 'c'"),
        (lambda: Parameter("k=", "", 0), ValueError, "name must be a word"),
    ],
)
def test_what_cannot_be_a_planner_is_not_registered(
    wrong: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        register(wrong())
    assert memplan.planners()[-1].name == "cp_sat"
