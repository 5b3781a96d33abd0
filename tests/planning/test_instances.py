"""Instances of the field: known loads, lifetimes that agree with their graphs, and every planner on each."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest

import memplan
from builders.instances import label, others, shipped
from builders.paths import DATA, SHARED
from builders.registered import PLANNERS, brief
from oracles import plain as oracle

LOADS = {
    **{f"minimalloc/{letter}.1048576.csv": 1_048_576 for letter in "ABEFGHIK"},
    "minimalloc/C.1048576.csv": 1_039_360,
    "minimalloc/D.1048576.csv": 986_112,
    "minimalloc/J.1048576.csv": 989_184,
    "somas/resnet50.csv": 1_515_472_556,
    "somas/pangu_2.6B.csv": 5_530_099_775,
    "iopddl/G_1.csv": 3_030_937_746,
    "iopddl/S_1.csv": 1_498_635_932,
    "iopddl/Y_1.csv": 497_261_190_115,
}


EVERY = [*shipped("*/*.csv"), *others("*/*.csv")]


def columns(problem: memplan.Problem) -> oracle.Columns:
    return problem.size, problem.first, problem.last, problem.alignment


def test_the_shipped_ones_are_there() -> None:
    assert len(list(DATA.glob("*/*.csv"))) >= 19
    assert len(list(DATA.glob("torch/*.json"))) >= 6


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="the larger instances are not beside the checkout")
def test_the_others_are_there() -> None:
    assert {label(path) for path in SHARED.glob("*/*.csv")} >= set(LOADS)


@pytest.mark.parametrize("path", [known for known in EVERY if known.id in LOADS])
def test_load(path: Path) -> None:
    assert memplan.read_problem(path).load == LOADS[label(path)]


@pytest.mark.parametrize("letter", ["D", "J"])
def test_a_plan_at_the_load_is_known(letter: str) -> None:
    """Of the minimalloc problems these two are the hardest; their optimum is their load."""
    name = f"minimalloc/{letter}.1048576.csv"
    problem = memplan.read_problem(DATA / name)
    plan = memplan.read_plan(DATA / "minimalloc" / "at_load" / f"{letter}.csv")
    for column in ("names", "size", "first", "last", "alignment"):
        assert list(getattr(plan.problem, column)) == list(getattr(problem, column)), column
    assert oracle.is_valid(columns(problem), plan.offsets)
    assert oracle.peak(columns(problem), plan.offsets) == plan.peak == LOADS[name]


@pytest.mark.parametrize("path", EVERY)
def test_read_as_written(path: Path) -> None:
    with path.open(newline="") as file:
        rows = [(row["id"], int(row["lower"]), int(row["upper"]), int(row["size"])) for row in csv.DictReader(file)]
    problem = memplan.read_problem(path)
    got = zip(problem.names, problem.first.tolist(), problem.last.tolist(), problem.size.tolist(), strict=True)
    assert list(got) == rows


@pytest.mark.slow
@pytest.mark.parametrize("path", others("*/*.csv"))
def test_every_planner_holds(path: Path) -> None:
    """As test_contract asks it of the shipped ones, without the oracle where that takes too long."""
    problem = memplan.read_problem(path)
    for planner in PLANNERS:
        try:
            plan = memplan.plan(problem, planner, **brief(planner))
        except memplan.errors.UnsupportedError as error:
            if str(error).startswith(f"planner '{planner}' takes "):  # too large for it
                continue
            raise
        plan.verify()
        assert plan.peak >= plan.lower_bound
        assert plan.optimal == (plan.peak == plan.lower_bound)
        if len(problem) < 5000 or planner == "first_fit":
            assert oracle.is_valid(columns(problem), plan.offsets)


@pytest.mark.parametrize("path", [*shipped("torch/*.json"), *others("torch/*.json")])
def test_graphs_give_the_lifetimes_beside_them(path: Path) -> None:
    plan = memplan.plan(path, "first_fit")
    expected = memplan.read_problem(path.with_suffix(".csv"))

    def buffers(problem: memplan.Problem) -> Counter[tuple[int, int, int]]:
        return Counter(zip(problem.first.tolist(), problem.last.tolist(), problem.size.tolist(), strict=True))

    assert buffers(plan.problem) == buffers(expected)
    assert plan.load == expected.load
    plan.verify()
