"""Why nothing fits: sets of buffers, held against every offset tried."""

from __future__ import annotations

import pytest

import memplan
from builders.interrupting import SOON, signals
from oracles.exactness import FIXED, Case, case, fits_by_cp_sat


def without(made: Case, gone: int) -> Case:
    """The case with a buffer that has no bytes in the way of anybody: its pairs and pins go."""
    left = Case(list(made.size), made.first, made.last, made.alignment)
    left.size[gone] = 0
    left.parts = [part for part in made.parts if part[0] != gone]
    left.conflicts = [pair for pair in made.conflicts if gone not in pair]
    left.pins = {i: pin for i, pin in made.pins.items() if i != gone}
    left.reserved = made.reserved
    return left


def case_of(problem: memplan.Problem) -> Case:
    columns = (problem.size, problem.first, problem.last, problem.alignment)
    made = Case(*(column.tolist() for column in columns))
    made.parts = [] if problem.parts is None else [tuple(row) for row in problem.parts.tolist()]
    made.conflicts = [] if problem.conflicts is None else [tuple(row) for row in problem.conflicts.tolist()]
    made.reserved = [] if problem.reserved is None else [tuple(row) for row in problem.reserved.tolist()]
    made.together = [] if problem.together is None else [tuple(row) for row in problem.together.tolist()]
    made.branches = problem.branches or []
    if problem.pins is not None:
        made.pins = {i: pin for i, pin in enumerate(problem.pins.tolist()) if pin >= 0}
    return made


def check(kind: str, seeds: range) -> int:
    """Each set is infeasible, and loses that with any one taken away."""
    sets = 0
    for seed in seeds:
        problem = memplan.Problem(**case(kind, seed, most=9).arguments())
        peak = memplan.plan(problem).peak
        assert memplan.explaining.obstruction(problem, peak) is None
        found = memplan.explaining.obstruction(problem, peak - 1)
        assert found is not None, (kind, seed)
        assert found.irreducible, (kind, seed)
        assert found.lower_bound == found.peak == peak
        assert (found.proof is None) == (found.problem.branches is not None), (kind, seed)
        if found.proof is not None:
            found.proof.check(found.problem)
        assert fits_by_cp_sat(case_of(found.problem), peak - 1) is False, (kind, seed)
        for b in range(len(found.problem)):
            rest = found.problem.subset([c for c in range(len(found.problem)) if c != b])
            assert len(rest) == 0 or fits_by_cp_sat(case_of(rest), peak - 1), (kind, seed, b)
        sets += 1
    return sets


@pytest.mark.parametrize("kind", ["conflicts", "shapes", *FIXED])
def test_sets_are_irreducible(kind: str) -> None:
    assert check(kind, range(12)) == 12


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["conflicts", "shapes", *FIXED])
def test_many_sets_are_irreducible(kind: str) -> None:
    assert check(kind, range(100, 400)) == 300


def test_what_would_have_to_go() -> None:
    problem = memplan.Problem([4, 4], [0, 1], [2, 3], names=["a", "b"], pins=[-1, 4], reserved=[(0, 2, 0, 2)])
    found = memplan.explaining.obstruction(problem, 8)
    assert found is not None
    assert (found.buffers, found.irreducible, found.lower_bound, found.peak) == (("a", "b"), True, 12, 12)
    assert found.without == ("buffer 'a'", "buffer 'b'", "reserved bytes [0, 2)")
    assert repr(found) == "<memplan obstruction: 2 buffers beyond 8 bytes>"
    lines = str(found).splitlines()
    assert lines[0] == "fewest buffers that no plan places together within 8 bytes:"
    assert lines[2] == "  b: 4 bytes, alive in [1, 3), pinned to offset 4"
    assert lines[3] == "the whole needs at least 12 bytes; the best plan found needs 12 bytes"
    free = memplan.explaining.obstruction(problem.with_pins([-1, 2]), "8")
    assert free is not None
    assert "the pin of 'b'" in free.without


def test_errors_know_their_problem() -> None:
    for order in ("given", "best"):
        with pytest.raises(memplan.InfeasibleError) as refused:
            memplan.plan("example:gpt2_infer", capacity="1KiB", order=order)
        found = memplan.explaining.obstruction(refused.value)
        assert found is not None
        assert set(found.buffers) <= set(refused.value.problem.names)
    assert memplan.explaining.obstruction(memplan.plan(([4, 4], [0, 0], [1, 1])), 7) is not None


def test_long_lists_are_cut() -> None:
    found = memplan.explaining.obstruction(memplan.Problem([1] * 30, [0] * 30, [1] * 30), 29)
    assert found is not None
    assert len(found.buffers) == 30
    assert "  … and 10 more" in str(found)


def test_ctrl_c_ends_it() -> None:
    n = 150
    pairs = [(a, b) for a in range(n) for b in range(a) if (a * 7919 + b * 104729) % 101 < 50]
    sizes = [1000 + 37 * b for b in range(n)]
    problem = memplan.Problem(sizes, list(range(n)), list(range(1, n + 1)), conflicts=pairs)
    with signals(SOON), pytest.raises(KeyboardInterrupt):
        memplan.explaining.obstruction(problem, 76_000, effort=2**60)


def test_bad_input() -> None:
    with pytest.raises(TypeError, match="obstruction takes a Problem, a Plan or an InfeasibleError, got str"):
        memplan.explaining.obstruction("x.onnx", 4)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="obstruction needs a capacity"):
        memplan.explaining.obstruction(memplan.Problem([1], [0], [1]))
    with pytest.raises(ValueError, match="effort must be >= 1"):
        memplan.explaining.obstruction(memplan.Problem([1], [0], [1]), 0, effort=0)
