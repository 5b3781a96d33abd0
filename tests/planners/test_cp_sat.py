"""cp_sat against every plan of small problems, its proofs, its limits, and how it leaves."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

import memplan
from builders.optima import proven
from builders.paths import DATA
from oracles.exactness import KINDS

pytest.importorskip("ortools", reason="the extra memplan[exact] is not installed")

# size, first, last, alignment. Two of one byte at even offsets peak at 3.
ABOVE_LOAD = ([1, 1], [0, 0], [1, 1], [2, 2])
# greedy_by_size peaks at 17 here, the load is 15.
TO_IMPROVE = ([3, 5, 4, 3, 6, 2], [0, 1, 2, 3, 4, 1], [2, 4, 5, 6, 6, 6], [1, 2, 4, 1, 3, 1])


@pytest.mark.parametrize("kind", ["lifetimes", *KINDS])
def test_the_least_peak(kind: str) -> None:
    assert proven("cp_sat", kind, range(12), 6) == 12


def test_what_reaches_far_is_reserved() -> None:
    endless = memplan.Problem([4, 6, 4], [0, 1, 2], [2, 3, 4], pins=[2, -1, -1], reserved=[(13, 2**60, 0, 9)])
    assert memplan.plan(endless, "cp_sat").peak == memplan.plan(endless).peak == 12


def test_a_bound_above_the_load_is_proven() -> None:
    plan = memplan.plan(memplan.Problem(*ABOVE_LOAD), "cp_sat")
    assert (plan.load, plan.lower_bound, plan.peak, plan.optimal) == (2, 3, 3, True)


@pytest.mark.parametrize("unit", [1, 3, 2**20, 2**50])
def test_sizes_count_in_units_of_their_common_divisor(unit: int) -> None:
    size, first, last, alignment = TO_IMPROVE
    problem = memplan.Problem([s * unit for s in size], first, last, [a * unit for a in alignment])
    assert memplan.plan(problem, "greedy_by_size").peak == 17 * unit
    plan = memplan.plan(problem, "cp_sat")
    assert (plan.peak, plan.optimal) == (15 * unit, True)


def test_steps_far_apart() -> None:
    size, first, last = [1, 1, 1], [-(2**63), 0, 2**62], [1, 2**63 - 1, 2**63 - 1]
    plan = memplan.plan(memplan.Problem(size, first, last, 2), "cp_sat")
    assert (plan.peak, plan.optimal) == (3, True)


RING = [(i, (i + 1) % 5) for i in range(5)]  # five that need three places, although no three conflict


def test_what_is_too_large_is_refused() -> None:
    with pytest.raises(
        memplan.errors.UnsupportedError, match=r"'cp_sat' takes sizes that add up to at most 2\^50 / 5 units"
    ):
        memplan.plan(memplan.Problem([2**55 + 1] * 4 + [1], range(5), range(1, 6), conflicts=RING), "cp_sat")
    many = memplan.Problem([1] * 5001, range(5001), range(1, 5002), conflicts=RING)
    with pytest.raises(memplan.errors.UnsupportedError, match=r"'cp_sat' takes at most 5000 buffers .* has 5001"):
        memplan.plan(many, "cp_sat")


@pytest.mark.parametrize("instance", ["minimalloc/K.1048576.csv", "somas/resnet50.csv"])
def test_the_time_limit_holds_and_there_is_a_plan(instance: str) -> None:
    problem = memplan.read_problem(DATA / instance)
    begin = time.perf_counter()
    by_limit = memplan.plan(problem, "cp_sat:seconds=1000", time_limit=0.5)
    assert time.perf_counter() - begin < 5
    assert by_limit.peak <= memplan.plan(problem, "greedy_by_size").peak


def test_the_parameter_is_the_limit_where_none_is_given() -> None:
    plan = memplan.plan(DATA / "minimalloc" / "K.1048576.csv", "cp_sat:seconds=1")
    assert 0.5 < plan.seconds < 10
    assert plan.planner == plan.winner == "cp_sat:seconds=1"


@pytest.mark.slow
def test_an_interrupt_ends_it_at_once() -> None:
    begin = "import ortools.sat.python.cp_model, sys; from memplan.cli import main; print(flush=True); sys.exit(main())"
    command = [sys.executable, "-c", begin, "plan", str(DATA / "minimalloc" / "K.1048576.csv"), "--planner", "cp_sat"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()  # what is slow to import is there
    time.sleep(1)  # well into the search, which would take a minute
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "interrupted" in errors


def test_without_ortools_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    with pytest.raises(memplan.errors.MissingDependencyError, match=r"pip install 'memplan\[exact\]'"):
        memplan.plan(([1], [0], [1]), "cp_sat")
