"""Searches and who waits for them: a capacity to fit, better plans as they are found, and interrupts."""

from __future__ import annotations

import contextlib
import itertools
import pickle
import random
import re
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memplan
from builders.graphs import graph, op, tensor
from builders.interrupting import FOREVER, SOON, signals
from builders.paths import DATA
from builders.registered import PLANNERS, brief
from builders.strategies import BOUNDED, columns, shaped_problems
from memplan import generate
from oracles import plain as oracle

A = memplan.read_problem(DATA / "minimalloc" / "A.1048576.csv")
CP_SAT = pytest.param("cp_sat", marks=pytest.mark.skipif("cp_sat" not in PLANNERS, reason="needs memplan[exact]"))
SEARCHES = [FOREVER, "exhaustive:nodes=1000000000000", "auto:effort=1000000000000", "valley:work=1000000000000", CP_SAT]


def hard() -> memplan.Problem:
    """No search gets to the end of it: greedy_by_size peaks at 8,953,511, the load is 7,834,455."""
    chance = random.Random(17)
    first = [chance.randint(0, 64) for _ in range(64)]
    size = [chance.randint(1, 10**6) for _ in range(64)]
    return memplan.Problem(size, first, [step + chance.randint(1, 21) for step in first])


def network(problem: memplan.Problem) -> dict[str, Any]:
    """A graph of as many tensors that live as the buffers do, from the first op that writes to the last that reads."""
    lives = list(zip(problem.size.tolist(), problem.first.tolist(), problem.last.tolist(), strict=True))
    ops = [
        {
            "name": f"op{step}",
            "inputs": [f"t{i}" for i, (_, first, last) in enumerate(lives) if first < step == last - 1],
            "outputs": [f"t{i}" for i, (_, first, _) in enumerate(lives) if first == step],
        }
        for step in range(max(last for _, _, last in lives))
    ]
    tensors = [{"name": f"t{i}", "bytes": size} for i, (size, _, _) in enumerate(lives)]
    return {"tensors": tensors, "ops": ops, "outputs": []}


HARD = hard()
PUZZLE = generate.tight(200, steps=60, units=256, exchanges=100, shrunk=0.02, seed=1)


def for_long(planner: str) -> memplan.Problem:
    """What the planner searches for long."""
    if planner.startswith(("auto", "valley")):
        return PUZZLE
    return HARD if planner.startswith(("exhaustive", "cp_sat")) else A


# Five buffers, each of which conflicts with two others, in a ring: every clique has 2 bytes, the least peak is 3.
ABOVE_LOAD = memplan.Problem([1] * 5, range(5), range(1, 6), conflicts=[(i, (i + 1) % 5) for i in range(5)])
# The same as a graph, of 6 bytes each: the load is 12, the least peak 18.
RING: dict[str, Any] = {
    **graph(
        [tensor("x", 8, "input"), *(tensor(f"t{i}", 6) for i in range(5))],
        op("o0", "x", "t0"),
        *(op(f"o{i}", f"t{i - 1}", f"t{i}") for i in range(1, 5)),
        outputs="t4",
    ),
    "apart": [["t0", "t4"]],
}
# With what may share bytes, the fits of greedy planners peak at 14, without at 13: the load in both cases.
GRAPH: dict[str, Any] = graph(
    [tensor("x", 8, "input"), *({"name": f"t{i}", "bytes": size} for i, size in enumerate([6, 7, 2, 2, 8]))],
    op("o0", "x", "t0"),
    op("o1", "x t0", "t1"),
    op("o2", "t0", "t2"),
    op("o3", "t2 x", "t3", inplace=["t3 t2"]),
    op("o4", "t3", "t4"),
    outputs="t4",
)


# A capacity


def alive_at(problem: tuple[list[int], ...], step: int) -> dict[int, int]:
    size, first, last = problem[:3]
    return {i: size[i] for i in range(len(size)) if size[i] and first[i] <= step < last[i]}


@pytest.mark.few(12)
@pytest.mark.parametrize("planner", PLANNERS)
@given(columns(max_buffers=8), st.integers(0, 60))
@settings(BOUNDED, max_examples=20)
def test_a_plan_that_fits_or_an_error_that_says_why(planner: str, problem: Any, capacity: int) -> None:
    names = [f"b{i}" for i in range(len(problem[0]))]
    source = memplan.Problem(*problem, names)
    load = oracle.load(problem)
    error = None
    try:
        plan = memplan.plan(source, planner, capacity=capacity, **brief(planner))
    except memplan.InfeasibleError as infeasible:
        error, plan = infeasible, infeasible.plan
    if error is None:
        assert plan.peak <= capacity
        return
    assert (error.capacity, error.proven) == (capacity, error.lower_bound > capacity)
    assert error.lower_bound >= load
    alive = alive_at(problem, error.step)
    assert sum(alive.values()) == load
    assert error.buffers == tuple(names[i] for i in sorted(alive, key=lambda i: (-alive[i], i)))
    assert (plan is None) == (error.peak is None) == (oracle.aligned_load(problem) > capacity)
    if plan is not None:
        plan.verify()
        assert plan.peak == error.peak > capacity
        assert plan.problem is source
        assert error.lower_bound <= error.peak


@pytest.mark.parametrize("planner", ["exhaustive", CP_SAT])
@given(columns(max_buffers=6))
@settings(BOUNDED, max_examples=25)
def test_exact_planners_fit_what_can_be_fitted_and_prove_the_rest(planner: str, problem: Any) -> None:
    source = memplan.Problem(*problem)
    least = memplan.plan(source, planner).peak
    assert memplan.plan(source, planner, capacity=least).peak == least
    if least > 0:
        with pytest.raises(memplan.InfeasibleError, match=r"^no plan fits a capacity of") as caught:
            memplan.plan(source, planner, capacity=least - 1)
        assert caught.value.proven
        assert caught.value.lower_bound <= least


@pytest.mark.parametrize("planner", SEARCHES)
def test_a_search_ends_with_the_first_plan_that_fits(planner: str) -> None:
    problem = for_long(planner)
    capacity = {A.load: 1_300_000, HARD.load: 8_400_000, PUZZLE.load: 300_000}[problem.load]
    assert memplan.plan(problem, "greedy_by_size").peak > capacity
    plan = memplan.plan(problem, planner, capacity=capacity)
    assert plan.peak <= capacity
    assert plan.lower_bound == plan.load
    assert not plan.interrupted


@pytest.mark.parametrize("planner", ["somas", "auto"])
def test_what_comes_first_is_enough(planner: str) -> None:
    best = memplan.plan(A, planner)
    enough = memplan.plan(A, planner, capacity=A.load * 2)
    assert best.peak < enough.peak <= A.load * 2


def test_exhaustive_ends_with_the_proof_that_nothing_fits() -> None:
    assert memplan.plan(ABOVE_LOAD, "exhaustive").lower_bound == 3
    with pytest.raises(memplan.InfeasibleError) as caught:
        memplan.plan(ABOVE_LOAD, "exhaustive", capacity=2)
    assert (caught.value.lower_bound, caught.value.peak, caught.value.proven) == (3, 3, True)


def test_what_alignments_need_is_known_without_a_search() -> None:
    """Seven at multiples of 3: the load is 7, the least peak 19."""
    problem = memplan.Problem([1] * 7, [0] * 7, [1] * 7, 3)
    assert memplan.plan(problem, "first_fit").lower_bound == 19
    with pytest.raises(
        memplan.InfeasibleError, match="at least 19 bytes are needed, as alignments leave gaps"
    ) as caught:
        memplan.plan(problem, "first_fit", capacity=18)
    assert (caught.value.plan, caught.value.lower_bound, caught.value.proven) == (None, 19, True)


@pytest.mark.parametrize("planner", SEARCHES)
def test_a_load_above_the_capacity_is_answered_without_a_search(planner: str) -> None:
    told: list[memplan.Plan] = []
    with pytest.raises(memplan.InfeasibleError, match="at least 7834455 bytes are needed") as caught:
        memplan.plan(HARD, planner, capacity=HARD.load - 1, on_improvement=told.append)
    assert (caught.value.plan, caught.value.peak, caught.value.proven) == (None, None, True)
    assert told == []


def test_the_message_lists_the_largest_ten() -> None:
    names = [f"b{i}" for i in range(12)]
    problem = memplan.Problem([*range(3, 15)], [0] * 12, [2] * 12, 1, names, [(11, 0, 7, 0, 2)])
    with pytest.raises(memplan.InfeasibleError) as caught:
        memplan.plan(problem, capacity=20)
    lines = str(caught.value).splitlines()
    assert lines[:3] == [
        "no plan fits a capacity of 20 bytes: at least 95 bytes are needed",
        "most is alive at step 0, 95 bytes of 12 buffers:",
        "  buffer 'b10' with 13 bytes, alive in [0, 2)",
    ]
    assert "  buffer 'b11' with 7 of its 14 bytes, alive in [0, 2)" in lines
    assert lines[-1] == "  … and 2 more with 7 bytes"
    assert len(lines) == 13
    assert caught.value.buffers == tuple(f"b{i}" for i in (10, 9, 8, 7, 6, 5, 4, 11, 3, 2, 1, 0))


def test_the_message_where_nothing_is_proven() -> None:
    with pytest.raises(memplan.InfeasibleError) as caught:
        memplan.plan(ABOVE_LOAD, "greedy_by_size", capacity=2)
    assert str(caught.value).splitlines()[0] == (
        "no plan was found that fits a capacity of 2 bytes: the best plan of planner 'greedy_by_size' peaks at 3; "
        "at least 2 are needed"
    )


@pytest.mark.parametrize("planner", ["auto", "greedy_by_size", "exhaustive", CP_SAT])
def test_a_graph_that_does_not_fit(planner: str) -> None:
    with pytest.raises(memplan.InfeasibleError) as caught:
        memplan.plan(RING, planner, capacity=17)
    error = caught.value
    assert error.plan is not None
    assert error.plan.graph == memplan.capture(RING).graph
    assert error.peak == error.plan.peak == 18 > error.plan.load == 12
    assert error.buffers == ("t0", "t1")
    error.plan.verify()
    with pytest.raises(memplan.InfeasibleError) as caught:
        memplan.plan(GRAPH, planner, capacity=12)
    assert (caught.value.plan, caught.value.lower_bound) == (None, 13)


def test_auto_fits_a_graph_with_sharing_or_without() -> None:
    assert memplan.plan(GRAPH, "greedy_by_size").peak > 13
    assert memplan.plan(GRAPH, capacity=13).peak == 13


def test_errors_pickle() -> None:
    with pytest.raises(memplan.InfeasibleError) as caught:
        memplan.plan(ABOVE_LOAD, "greedy_by_size", capacity=2)
    error, again = caught.value, pickle.loads(pickle.dumps(caught.value))
    assert isinstance(error, ValueError)
    assert str(again) == str(error)
    assert vars(again) == vars(error)


@pytest.mark.parametrize(("capacity", "error"), [(-1, ValueError), (2**63, ValueError), (1.5, TypeError)])
def test_capacities_that_are_none(capacity: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="capacity must be") as caught:
        memplan.plan(ABOVE_LOAD, capacity=capacity)
    assert not isinstance(caught.value, memplan.InfeasibleError)


def test_nothing_fits_nowhere() -> None:
    assert memplan.plan(([], [], []), capacity=0).peak == 0
    assert memplan.plan(([0], [0], [1]), capacity=0).peak == 0
    assert memplan.plan(ABOVE_LOAD, capacity=2**63 - 1).peak == 3


# Better plans as they are found


def expect_descent(told: list[memplan.Plan], plan: memplan.Plan) -> None:
    peaks = [better.peak for better in told]
    assert all(a > b for a, b in itertools.pairwise(peaks))
    assert peaks[-1] == plan.peak
    assert (told[-1].offsets == plan.offsets).all()
    for better in told:
        better.verify()
        assert better.planner == plan.planner
        assert better.load <= better.lower_bound <= better.peak
        assert better.seconds >= 0
        assert not better.offsets.flags.writeable


@pytest.mark.few(12)
@pytest.mark.parametrize("planner", PLANNERS)
@given(columns(max_buffers=12))
@settings(BOUNDED, max_examples=10)
def test_peaks_descend_to_the_plan(planner: str, problem: Any) -> None:
    told: list[memplan.Plan] = []
    source = memplan.Problem(*problem)
    plan = memplan.plan(source, planner, on_improvement=told.append, **brief(planner))
    expect_descent(told, plan)
    assert all(better.problem is source for better in told)
    if planner not in ("cp_sat", "hill_climb"):  # whose random walk and threads may be cut at another place
        assert plan == memplan.plan(source, planner, **brief(planner))


@pytest.mark.few(12)
@pytest.mark.parametrize("planner", PLANNERS)
@given(shaped_problems(max_buffers=6))
@settings(BOUNDED, max_examples=10)
def test_no_bound_of_rectangles_is_told_for_shapes(planner: str, problem: Any) -> None:
    values, parts, conflicts = problem
    source = memplan.Problem(*values, parts=parts or None, conflicts=conflicts or None)
    told: list[memplan.Plan] = []
    with contextlib.suppress(memplan.errors.UnsupportedError):
        expect_descent(told, memplan.plan(source, planner, on_improvement=told.append, **brief(planner)))


def test_auto_ends_where_the_largest_buffer_is_the_peak_and_the_load_is_less() -> None:
    problem = memplan.Problem([10], [0], [2], 1, None, [(0, 0, 5, 0, 2)])  # its upper half is never in use
    plan = memplan.plan(problem)
    assert (plan.load, plan.lower_bound, plan.peak, plan.optimal) == (5, 10, 10, True)


@pytest.mark.parametrize("planner", SEARCHES)
def test_searches_tell_of_more_than_one_plan(planner: str) -> None:
    told: list[memplan.Plan] = []
    threads: set[int] = set()

    def tell(plan: memplan.Plan) -> None:
        told.append(plan)
        threads.add(threading.get_ident())
        if len(told) == 2:
            raise KeyboardInterrupt

    plan = memplan.plan(for_long(planner), planner, on_improvement=tell, time_limit=20)
    assert plan.interrupted
    assert len(told) > 1
    expect_descent(told, plan)
    assert threads == {threading.get_ident()}
    assert [better.seconds for better in told] == sorted(better.seconds for better in told)


@pytest.mark.parametrize("planner", ["auto", "greedy_by_size", "hill_climb", CP_SAT])
def test_better_plans_of_a_graph(planner: str) -> None:
    told: list[memplan.Plan] = []
    plan = memplan.plan(GRAPH, planner, on_improvement=told.append)
    expect_descent(told, plan)
    for better in told:
        assert better.graph == plan.graph
        assert better["t4"].bytes == 8


def test_auto_tells_of_both_attempts_on_a_graph() -> None:
    """Whichever finds it, no peak is told twice, and none that is higher than one before."""
    told: list[memplan.Plan] = []
    plan = memplan.plan("example:gpt2_train", on_improvement=told.append)
    expect_descent(told, plan)
    assert plan == memplan.plan("example:gpt2_train")


class Enough(Exception):
    pass


@pytest.mark.parametrize("planner", ["first_fit", *SEARCHES])
@pytest.mark.parametrize("source", [HARD, network(HARD)], ids=["problem", "graph"])
def test_what_the_callback_raises_is_raised(planner: str, source: Any) -> None:
    calls: list[memplan.Plan] = []

    def tell(plan: memplan.Plan) -> None:
        calls.append(plan)
        raise Enough

    with pytest.raises(Enough):
        memplan.plan(source, planner, on_improvement=tell)
    assert len(calls) == 1


def test_a_callback_may_plan() -> None:
    inner: list[int] = []
    memplan.plan(HARD, on_improvement=lambda plan: inner.append(memplan.plan(plan.problem, "first_fit").peak))
    assert inner


@pytest.mark.parametrize("planner", SEARCHES)
def test_an_interrupt_of_the_callback_counts_as_one(planner: str) -> None:
    def tell(plan: memplan.Plan) -> None:
        raise KeyboardInterrupt

    plan = memplan.plan(HARD, planner, on_improvement=tell)
    assert plan.interrupted
    with pytest.raises(KeyboardInterrupt):
        memplan.plan(HARD, planner, on_improvement=tell, on_interrupt="raise")


def test_callbacks_and_choices_that_are_none() -> None:
    with pytest.raises(TypeError, match="on_improvement must be callable with a plan, got 3"):
        memplan.plan(HARD, on_improvement=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="on_interrupt must be 'keep' or 'raise', got 'ignore'"):
        memplan.plan(HARD, on_interrupt="ignore")  # type: ignore[arg-type]


# Interrupts


def interrupted(source: Any, planner: str, **options: Any) -> tuple[memplan.Plan, float]:
    """The plan of a search that is interrupted after a while, and how long it took to come back then."""
    for after in (SOON, 4 * SOON, 16 * SOON):
        with contextlib.suppress(KeyboardInterrupt), signals(after) as sent:  # raised where no search has begun yet
            plan = memplan.plan(source, planner, **options)
            return plan, time.perf_counter() - sent[0]
    pytest.fail(f"no search had begun after {after} s")


posix = pytest.mark.skipif(sys.platform == "win32", reason="sends signals to itself")


@posix
@pytest.mark.parametrize("planner", [*SEARCHES, "beam:k=200000"])
def test_an_interrupt_ends_a_search_within_a_tenth_of_a_second(planner: str) -> None:
    for _ in range(5):  # a busy machine may hold anything up; once is enough
        plan, seconds = interrupted(for_long(planner), planner)
        assert plan.interrupted
        plan.verify()
        if seconds < 0.1:
            return
    pytest.fail(f"it took {seconds:.3f} s")


@posix
@pytest.mark.parametrize("planner", SEARCHES)
def test_an_interrupt_ends_the_search_of_a_graph(planner: str) -> None:
    problem = for_long(planner)
    problem = HARD if problem is A else problem  # A has too many steps for one op each
    plan, _ = interrupted(network(problem), planner)
    assert plan.interrupted
    assert plan.graph is not None
    assert plan.load == problem.load
    plan.verify()


@pytest.mark.skipif("cp_sat" not in PLANNERS, reason="needs memplan[exact]")
def test_an_interrupt_while_a_search_is_set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("memplan.planning.cp_sat._solver", interrupt)
    plan = memplan.plan(HARD, "cp_sat")
    assert plan.interrupted
    plan.verify()


@posix
@pytest.mark.parametrize("planner", SEARCHES)
def test_an_interrupt_can_be_raised(planner: str) -> None:
    with pytest.raises(KeyboardInterrupt), signals(SOON):
        memplan.plan(for_long(planner), planner, on_interrupt="raise")


@pytest.mark.few(8)
@posix
@pytest.mark.parametrize("planner", SEARCHES)
@pytest.mark.parametrize("later", [0.0, 0.001, 0.01, 0.2])
def test_a_second_interrupt_is_not_lost(planner: str, later: float) -> None:
    """Python raises it, in the search or after; two that come at once are one."""
    again = False
    with signals(SOON, SOON + later):
        try:
            memplan.plan(for_long(planner), planner)
            while any(isinstance(thread, threading.Timer) for thread in threading.enumerate()):  # until both are sent
                time.sleep(0.01)
        except KeyboardInterrupt:
            again = True
    assert again or later < 0.2  # a search looks every 40 ms at least, if the processor is there
    with pytest.raises(KeyboardInterrupt):  # as ever
        signal.raise_signal(signal.SIGINT)


@pytest.mark.few(2)
@posix
@pytest.mark.parametrize("planner", SEARCHES)
def test_an_interrupted_search_that_does_not_fit(planner: str) -> None:
    source = for_long(planner)
    with pytest.raises(memplan.InfeasibleError, match="when it was interrupted; at least") as caught, signals(SOON):
        memplan.plan(source, planner, capacity=source.load)
    assert caught.value.plan is not None
    assert caught.value.plan.interrupted
    with pytest.raises(KeyboardInterrupt), signals(SOON):
        memplan.plan(source, planner, capacity=source.load, on_interrupt="raise")


@pytest.mark.few(2)
@posix
@pytest.mark.parametrize("planner", SEARCHES)
def test_an_interrupted_search_has_told_of_its_plan(planner: str) -> None:
    told: list[memplan.Plan] = []
    with signals(2 * SOON):
        plan = memplan.plan(for_long(planner), planner, on_improvement=told.append)
    assert plan.interrupted
    expect_descent(told, plan)


@posix
def test_other_signals_are_handled_meanwhile() -> None:
    calls: list[float] = []
    before = signal.signal(signal.SIGUSR1, lambda *_: calls.append(time.perf_counter()))
    try:
        with signals(0.1, 0.15, number=signal.SIGUSR1) as sent:
            plan = memplan.plan(A, FOREVER, time_limit=0.3)
        assert not plan.interrupted
        assert len(calls) == 2
        assert calls[0] - sent[0] < 0.3  # while it searched
    finally:
        signal.signal(signal.SIGUSR1, before)


@posix
@pytest.mark.parametrize("planner", SEARCHES)
def test_what_a_handler_raises_is_raised(planner: str) -> None:
    def handle(*_: object) -> None:
        raise Enough

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        with pytest.raises(Enough), signals(SOON, number=signal.SIGUSR1) as sent:
            memplan.plan(for_long(planner), planner)
        assert time.perf_counter() - sent[0] < 5
    finally:
        signal.signal(signal.SIGUSR1, before)


@posix
def test_searches_of_other_threads_go_on() -> None:
    plans: list[memplan.Plan] = []
    thread = threading.Thread(target=lambda: plans.append(memplan.plan(A, FOREVER, time_limit=0.4)))
    with signals(SOON):
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            time.sleep(5)
    thread.join()
    assert not plans[0].interrupted


IN_A_PROCESS = """
import sys, memplan
plan = memplan.plan(sys.argv[1], sys.argv[2], on_improvement=lambda plan: print("found", plan.peak, flush=True))
print(plan.interrupted, plan.peak, flush=True)
"""


@pytest.mark.few(1)
@posix
@pytest.mark.parametrize("planner", [FOREVER, CP_SAT])
def test_an_interrupt_from_outside(planner: str) -> None:
    command = [sys.executable, "-c", IN_A_PROCESS, str(DATA / "minimalloc" / "A.1048576.csv"), planner]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("found ")
        time.sleep(0.2)
        begin = time.perf_counter()
        process.send_signal(signal.SIGINT)
        line = next(line for line in process.stdout if not line.startswith("found "))
        assert time.perf_counter() - begin < 1
    assert re.fullmatch(r"True \d+\n", line)
    assert process.returncode == 0


def test_a_plan_that_an_interrupt_kept_back_is_told_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> Any:  # by a signal, before anybody has heard of the plan
        raise KeyboardInterrupt

    told: list[memplan.Plan] = []
    monkeypatch.setattr("memplan.solving.solver._Teller.tell", interrupted)
    plan = memplan.plan(HARD, on_improvement=told.append)
    assert plan.interrupted
    assert [(better.peak, better.interrupted) for better in told] == [(plan.peak, True)]


@pytest.mark.few(1)
@pytest.mark.parametrize("source", [HARD, network(HARD)], ids=["problem", "graph"])
def test_a_plan_says_when_it_was_found(source: Any) -> None:
    told: list[memplan.Plan] = []
    plan = memplan.plan(source, on_improvement=told.append)
    assert plan.found_after <= plan.seconds
    assert told[-1].found_after <= plan.found_after  # as it was told, not when all was done
    assert f"({plan.winner} won after " in plan.summary()
    longer = memplan.plan(PUZZLE, time_limit=0.5, on_improvement=told.append)
    assert longer.found_after == told[-1].found_after < longer.seconds
