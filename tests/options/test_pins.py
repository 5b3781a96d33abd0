"""Pinned buffers and reserved bytes: what is refused, what verify sees, and optima beside those of all orders."""

from __future__ import annotations

import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memplan
from builders.commands import run
from memplan import _core

ALWAYS = (-(2**63), 2**63 - 1)
TWO = {"size": [10, 10], "first": [0, 0], "last": [5, 5], "names": ["a", "b"]}


def problem(pins: Any = None, reserved: Any = None, **changes: Any) -> memplan.Problem:
    return memplan.Problem(**(TWO | changes), pins=pins, reserved=reserved)


# Problems


def test_pins_and_reserved_bytes_are_columns() -> None:
    given = problem([100, -1], [(0, 8, 1, 3), (200, 300, *ALWAYS)])
    assert given.pins.tolist() == [100, -1]
    assert given.reserved.tolist() == [[0, 8, 1, 3], [200, 300, *ALWAYS]]
    assert pickle.loads(pickle.dumps(given)) == given
    assert given != problem([100, -1])
    assert given != problem(None, [(0, 8, 1, 3), (200, 300, *ALWAYS)])
    assert given.with_pins() == problem() == problem([-1, -1], [])
    assert problem().pins is None
    assert problem().reserved is None
    shown = given._repr_html_()
    assert "pinned" in shown
    assert "reserved" in shown


@pytest.mark.parametrize(
    ("pins", "reserved", "message"),
    [
        ([0], None, "pins must have one entry per buffer: size has 2, pins has 1"),
        ([-2, 0], None, r"pins\[0\] \(buffer 'a'\) must be >= 0, got -2"),
        (
            [4, 9],
            None,
            r"buffer 'a' at bytes \[4, 14\) and buffer 'b' at bytes \[9, 19\) share bytes \[9, 14\) in steps",
        ),
        ([0, -1], [(9, 12, *ALWAYS)], r"'a' at bytes \[0, 10\) and reserved bytes \[9, 12\) share bytes \[9, 10\)"),
        (
            [0, -1],
            [(9, 12, 4, 9)],
            r"reserved bytes \[9, 12\) in steps \[4, 9\) share bytes \[9, 10\) in steps \[4, 5\)",
        ),
        (None, [(4, 4, 0, 1)], r"reserved\[0\] must be bytes begin < end from 0 on, .* got bytes \[4, 4\) in steps"),
        (None, [(0, 4, 1, 1)], r"reserved\[0\] must be bytes .* in steps \[1, 1\)"),
        (None, [(-1, 4, 0, 1)], r"reserved\[0\] must be bytes .* \[-1, 4\)"),
        ([2**63 - 12, -1], None, r"pins\[0\] .* leaves no room below 2\^63 for the 20 bytes of all buffers"),
        (None, [(0, 2**63 - 12, 0, 1)], r"reserved\[0\] leaves no room below 2\^63"),
        ([0], [(0, 4)], "pins must|reserved must have 4 columns"),
    ],
)
def test_what_cannot_be(pins: Any, reserved: Any, message: str) -> None:
    with pytest.raises(memplan.errors.ProblemError, match=message):
        problem(pins, reserved)


@pytest.mark.parametrize(
    ("rows", "union"),
    [
        ([(0, 9, *ALWAYS), (4, 12, *ALWAYS)], [(0, 12, *ALWAYS)]),
        ([(0, 9, 0, 5), (0, 9, 0, 5)], [(0, 9, 0, 5)]),
        ([(0, 4, *ALWAYS), (3, 6, 0, 1), (3, 6, 1, 2)], [(0, 4, *ALWAYS), (4, 6, 0, 2)]),
        ([(0, 9, 0, 2), (2, 4, 1, 5), (20, 21, 0, 9)], [(0, 2, 0, 2), (2, 4, 0, 5), (4, 9, 0, 2), (20, 21, 0, 9)]),
        ([(4, 9, 0, 2), (0, 4, 0, 2)], [(4, 9, 0, 2), (0, 4, 0, 2)]),
    ],
)
def test_of_reserved_ranges_that_overlap_the_union_counts(rows: Any, union: Any) -> None:
    assert problem(None, rows).reserved.tolist() == [list(row) for row in union]
    assert memplan.plan(problem(), reserved=rows).peak == memplan.plan(problem(None, union)).peak


def test_many_pins_at_one_address_are_checked_in_time() -> None:
    many = 20_000
    first = np.arange(many)
    given = memplan.Problem(np.full(many, 4), first, first + 1, pins=np.zeros(many, np.int64))
    assert memplan.plan(given).peak == 4


def test_a_pin_must_be_aligned() -> None:
    with pytest.raises(memplan.errors.ProblemError, match=r"pins\[1\] \(buffer 'b'\) must be a multiple of 8, got 12"):
        problem([-1, 12], alignment=[1, 8])


def test_pins_that_conflict_whatever_their_lifetimes() -> None:
    with pytest.raises(
        memplan.errors.ProblemError, match=r"'a' and buffer 'b' share bytes \[5, 10\), and these two conflict"
    ):
        problem([0, 5], last=[2, 5], first=[0, 2], conflicts=[(0, 1)])


def test_pins_that_meet_in_bytes_or_in_time_alone() -> None:
    assert memplan.plan(problem([0, 10])).peak == 20
    assert memplan.plan(problem([0, 5], first=[0, 2], last=[2, 5])).peak == 15
    parts = [(0, 0, 5, 0, 5), (0, 5, 10, 0, 2), (1, 0, 10, 2, 5)]
    assert memplan.plan(problem([0, 5], parts=parts)).peak == 15


# Verify


def test_verify_sees_what_has_moved_and_what_is_reserved() -> None:
    given = problem([10, -1], [(0, 4, 2, 3)])
    assert _core.verify(given, [10, 20]) == []
    moved, used = _core.verify(given, [11, 0])
    assert (moved.kind, moved.buffer, moved.other) == ("moved", 0, None)
    assert moved.message == "buffer 'a' at offset 11 is pinned to offset 10"
    assert (used.kind, used.buffer, used.other) == ("reserved", 1, None)
    assert used.message == "buffer 'b' at bytes [0, 10) uses bytes [0, 4) in steps [2, 3), which are reserved"
    assert _core.verify(given, [10, 0], limit=0) == []


def test_verify_looks_at_the_parts_of_shapes() -> None:
    parts = [(0, 4, 10, 0, 5), (0, 0, 4, 0, 2)]
    given = problem(None, [(0, 4, 2, 5)], parts=parts)
    assert _core.verify(given, [0, 10]) == []
    assert [v.kind for v in _core.verify(given.with_pins(None, [(0, 4, 1, 5)]), [0, 10])] == ["reserved"]


# Planners


def test_a_capacity_below_a_pin_is_proven_without_a_search() -> None:
    with pytest.raises(memplan.InfeasibleError) as caught:
        memplan.plan(problem([30, -1]), capacity=39)
    assert (caught.value.lower_bound, caught.value.proven, caught.value.plan) == (40, True, None)
    assert memplan.plan(problem([30, -1]), capacity=40).optimal
    with pytest.raises(memplan.InfeasibleError) as caught:
        memplan.plan(problem([5, -1]), capacity=24)
    assert caught.value.proven
    assert caught.value.lower_bound == 25


def test_all_are_pinned_or_nothing_has_bytes() -> None:
    assert memplan.plan(problem([40, 20])).peak == 50
    empty = problem([40, -1], size=[0, 0])
    assert memplan.plan(empty).offsets.tolist() == [40, 0]
    assert memplan.plan(problem(None, [(0, 2**40, *ALWAYS)], size=[0, 0])).peak == 0
    near = problem([2**62, -1], [(0, 2**61, *ALWAYS)], size=[2**60, 2**60])
    assert memplan.plan(near).peak == 2**62 + 2**60


def test_a_pin_of_no_bytes_is_where_it_is_asked_for() -> None:
    """The peak is no multiple of the other sizes then."""
    plan = memplan.plan(memplan.Problem([6, 0], [0, 0], [1, 1], pins=[-1, 10]))
    assert (plan.peak, plan.lower_bound, plan.offsets.tolist()) == (10, 10, [0, 10])


def test_what_is_reserved_above_a_plan_costs_nothing() -> None:
    plan = memplan.plan(problem(None, [(20, 2**40, *ALWAYS)]))
    assert (plan.peak, plan.optimal) == (20, True)
    assert memplan.plan(problem(None, [(19, 2**40, *ALWAYS)])).peak == 2**40 + 10


def test_minimalloc_s_meaning_of_an_offset(tmp_path: Path) -> None:
    path = tmp_path / "l.csv"
    path.write_text("id,lower,upper,size,offset\na,0,5,10,100\nb,0,5,10,110\n")
    assert memplan.plan(path).peak == 120
    assert memplan.plan(memplan.read_problem(path, pins=False)).peak == 20
    path.write_text("id,lower,upper,size,offset\na,0,5,10,\nb,0,5,10,5\n")
    plan = memplan.plan(path)
    assert (plan["a"].offset, plan["b"].offset) == (15, 5)
    path.write_text("id,lower,upper,size,offset\na,0,5,10,-1\n")
    with pytest.raises(
        memplan.errors.SourceError, match="line 2, column 5: offset must be >= 0, or empty where the buffer is"
    ):
        memplan.plan(path)
    path.write_text("id,lower,upper,size,offset\na,0,5,10,\n")
    with pytest.raises(memplan.errors.SourceError, match="offset must be an integer, got ''"):
        memplan.read_plan(path)
    path.write_text("id,lower,upper,size,offset\na,0,5,10,0\nb,0,5,10,5\n")
    with pytest.raises(
        memplan.errors.SourceError, match=r"l.csv: pins: buffer 'a' at bytes \[0, 10\) and buffer 'b' at byte"
    ):
        memplan.plan(path)


def test_json_keeps_what_is_fixed(tmp_path: Path) -> None:
    plan = memplan.plan(problem([30, -1], [(0, 8, *ALWAYS), (9, 12, 1, 2)]))
    plan.to_json(tmp_path / "plan.json")
    back = memplan.read_plan(tmp_path / "plan.json")
    assert back.problem == plan.problem
    assert back.offsets.tolist() == plan.offsets.tolist()
    text = (tmp_path / "plan.json").read_text()
    for old, new, message in [
        ('"pinned": true', '"pinned": 1', r"buffers\[0\].pinned must be true or false, got 1"),
        ('"reserved": [', '"reserved": [{}, ', r"reserved\[0\].begin must be of type int, got None"),
    ]:
        (tmp_path / "plan.json").write_text(text.replace(old, new))
        with pytest.raises(memplan.errors.SourceError, match=message):
            memplan.read_plan(tmp_path / "plan.json")


# Options


def test_options_by_name() -> None:
    given = problem([-1, 20])
    plan = memplan.plan(given, pin={"a": "1KiB"}, reserved=[(0, 16), ["1MiB", "2MiB", 0, 3]])
    assert plan.problem.pins.tolist() == [1024, 20]
    assert plan.problem.reserved.tolist() == [[0, 16, *ALWAYS], [2**20, 2**21, 0, 3]]
    assert memplan.plan(plan.problem, reserved=[(20, 30, 7, 8)]).problem.reserved.shape == (3, 4)
    assert memplan.plan(([4], [0], [1]), pin={"#0": 12}, alignment=4).peak == 16
    with pytest.raises(memplan.errors.ProblemError, match="must be a multiple of 8, got 20"):
        memplan.plan(given, alignment=8)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"pin": {"c": 0}}, ValueError, "pin must name buffers, got 'c'; the buffers are 'a', 'b'"),
        ({"pin": {"a": -4}}, ValueError, r"pin\['a'\] must be >= 0"),
        ({"pin": ["a"]}, TypeError, "pin must be a mapping from names of buffers to offsets, got list"),
        ({"reserved": "0:4"}, TypeError, "reserved must be a list of ranges such as"),
        ({"reserved": [(0, 4, 1)]}, TypeError, r"reserved\[0\] must be \(begin, end\) in bytes, or"),
        ({"reserved": [(0, 4, 1, 2.5)]}, TypeError, r"reserved\[0\] must have steps that are integers, got 2.5"),
        ({"reserved": [(0, 4, 0, 2**63)]}, ValueError, r"reserved\[0\] must have steps of -9\d+ to 9\d+, got 9\d+808"),
        ({"reserved": [(0, 4, -(10**9999), 1)]}, ValueError, r"to 9\d+, got an integer of 33216 bits"),
        ({"reserved": [("x", 4)]}, ValueError, r"reserved\[0\] begin"),
    ],
)
def test_options_that_are_none(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        memplan.plan(problem(), **options)


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "l.csv"
    path.write_text("id,lower,upper,size\na,0,5,10\nb,0,5,10\n")
    out = tmp_path / "plan.csv"
    assert run("plan", path, "--pin", "a=1KiB", "--reserve", "0:16", "--reserve", "40:50:1:2", "--csv", out) == 0
    assert memplan.read_problem(out).pins.tolist() == [1024, 16]
    assert run("plan", out, "--plot", tmp_path / "p.svg", "--highlight", "a") == 0
    assert run("plan", out, "--no-pins") == 0
    assert "peak     20 bytes" in capsys.readouterr().out
    assert run("verify", out, out) == 0
    assert run("plan", "example:gpt2_infer", "--no-pins") == 2
    assert "--no-pins needs a .csv file, got example:gpt2_infer" in capsys.readouterr().err
    for wrong, message in [
        (["--pin", "a"], "--pin: takes NAME=N"),
        (["--reserve", "4"], "--reserve: takes BEGIN:END"),
        (["--reserve", "0:4:a:b"], "--reserve: takes steps that are integers"),
    ]:
        assert run("plan", path, *wrong) == 2
        assert message in capsys.readouterr().err


def test_generated_variants_keep_what_is_fixed() -> None:
    from memplan import generate

    given = problem([8, -1], [(0, 8, 1, 2), (30, 40, *ALWAYS)], first=[0, 2])
    assert generate.mirrored(generate.mirrored(given)) == given
    assert generate.mirrored(given).reserved.tolist() == [[0, 8, 3, 4], [30, 40, *ALWAYS]]
    assert sorted(generate.shuffled(given).pins.tolist()) == [-1, 8]


@pytest.mark.slow
def test_many_buffers_around_what_is_fixed() -> None:
    """More than an exact search takes: a plan that holds, never above that of its first member."""
    plain = memplan.generate.layered(400)
    pins = np.full(len(plain), -1)
    pins[7], pins[300] = 10**6, 0
    given = plain.with_pins(pins, [(10**5, 10**5 + 64, *ALWAYS)])
    plan = memplan.plan(given, "auto:effort=1000000")
    plan.verify()
    assert plan.peak <= memplan.plan(given, "greedy_by_size").peak


# Bounds


def hard(**fixed: Any) -> memplan.Problem:
    """Conflicts beyond lifetimes, so that no plan reaches the load."""
    chance = random.Random(3)
    first = [chance.randrange(100) for _ in range(60)]
    pairs = [(a, b) for a in range(60) for b in range(a) if chance.random() < 0.2]
    size = [4 * chance.randint(1, 60) for _ in first]
    last = [f + chance.randint(1, 30) for f in first]
    return memplan.Problem(size, first, last, conflicts=pairs, **fixed)


@pytest.mark.parametrize(
    "fixed",
    [
        {"reserved": [(0, 1000, *ALWAYS)]},
        {"reserved": [(0, 400, *ALWAYS), (403, 1000, *ALWAYS)]},
        {"reserved": [(0, 600, 0, 60), (0, 700, 60, 200), (500, 1000, *ALWAYS)]},
    ],
)
def test_what_cannot_be_used_leaves_the_proof(fixed: Any) -> None:
    plain = memplan.plan(hard(), "auto:effort=3000000")
    above = memplan.plan(hard(**fixed), "auto:effort=3000000")
    assert plain.optimal
    assert (above.peak, above.lower_bound) == (plain.peak + 1000, plain.peak + 1000)


def test_a_pin_that_lives_throughout_is_as_reserved() -> None:
    plain = hard()
    columns = (np.append(plain.size, 1000), np.append(plain.first, 0), np.append(plain.last, 200))
    pinned = memplan.Problem(*columns, conflicts=plain.conflicts, pins=[-1] * 60 + [0])
    plan, above = (memplan.plan(it, "auto:effort=3000000") for it in (plain, pinned))
    assert above.optimal
    assert (above.peak, above["#60"].offset) == (plan.peak + 1000, 0)


@pytest.mark.parametrize(
    ("rows", "bound"),
    [
        ([(4, 100, *ALWAYS)], 120),  # a gap that is too small
        ([(12, 100, *ALWAYS)], 110),  # that takes one of two
        ([(12, 100, *ALWAYS), (105, 115, *ALWAYS)], 125),
        ([(12, 100, 4, 9)], 110),
        ([(12, 100, 5, 9)], 20),
    ],
)
@pytest.mark.parametrize("planner", ["greedy_by_size", "auto"])
def test_bounds_count_what_gaps_take(rows: Any, bound: int, planner: str) -> None:
    plan = memplan.plan(problem(None, rows), planner)
    assert (plan.peak, plan.lower_bound) == (bound, bound)


def test_a_prefix_that_is_no_multiple_of_an_alignment() -> None:
    plan = memplan.plan(problem(None, [(0, 13, *ALWAYS)], alignment=[8, 8]))
    assert (plan.peak, plan.lower_bound, plan.optimal) == (42, 42, True)  # 16 to 26, 32 to 42
    one = memplan.plan(problem(None, [(0, 13, *ALWAYS)], alignment=[8, 8], size=[10, 0]))
    assert (one.peak, one.optimal, one["b"].offset) == (26, True, 0)


def test_bounds_of_graphs_count_what_is_reserved() -> None:
    """Whatever is in place, and in any order."""
    plain = memplan.plan("example:gpt2_infer", order="best")
    above = memplan.plan("example:gpt2_infer", order="best", reserved=[(0, 4096)])
    assert plain.optimal
    assert plain.order_bound is not None
    assert (above.peak, above.lower_bound) == (plain.peak + 4096, plain.peak + 4096)
    assert above.order_bound == plain.order_bound + 4096
    with pytest.raises(memplan.InfeasibleError, match=f"at least {above.order_bound}"):
        memplan.plan("example:gpt2_infer", order="best", reserved=[(0, 4096)], capacity=plain.order_bound)


def test_each_buffer_over_reserved_bytes_is_named() -> None:
    chance = random.Random(5)
    for _ in range(200):
        n = chance.randint(1, 8)
        first = [chance.randint(0, 9) for _ in range(n)]
        last = [step + chance.randint(1, 6) for step in first]
        size = [chance.randint(0, 6) for _ in range(n)]
        rows = [
            (8 * k, 8 * k + chance.randint(1, 8), step, step + chance.randint(1, 9)) for k, step in enumerate(first)
        ]
        offsets = [chance.randint(0, 8 * n) for _ in range(n)]
        found = _core.verify(memplan.Problem(size, first, last, reserved=rows), offsets)
        over = [
            b
            for begin, end, born, dead in rows
            for b in range(n)
            if max(begin, offsets[b]) < min(end, offsets[b] + size[b]) and max(born, first[b]) < min(dead, last[b])
        ]
        assert [fault.buffer for fault in found if fault.kind == "reserved"] == over
