"""Traces: events as the Trace Event Format has them, rows without overlaps, counters that are the load and the top."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import memplan
from builders import graphs
from builders.strategies import BOUNDED, columns, shaped_problems
from memplan import generate
from memplan.export.chrome_trace import chrome_trace

REQUIRED = {
    "X": {"name", "cat", "pid", "tid", "ts", "dur", "args"},
    "C": {"name", "pid", "tid", "ts", "args"},
    "M": {"name", "pid", "args"},
}


def events(plan: memplan.Plan, phase: str, process: str) -> list[dict[str, Any]]:
    every = chrome_trace(plan)["traceEvents"]
    (number,) = [e["pid"] for e in every if e["name"] == "process_name" and e["args"]["name"] == process]
    return [event for event in every if event["ph"] == phase and event["pid"] == number]


def buffers(plan: memplan.Plan) -> list[dict[str, Any]]:
    return events(plan, "X", "arena")


def counter(plan: memplan.Plan, name: str) -> list[tuple[int, int]]:
    return [(e["ts"], e["args"]["bytes"]) for e in events(plan, "C", "memory") if e["name"] == name]


def check_format(trace: dict[str, Any]) -> None:
    """What Perfetto's and Chrome's readers ask for."""
    assert trace["displayTimeUnit"] in ("ms", "ns")
    for event in trace["traceEvents"]:
        assert REQUIRED[event["ph"]] <= set(event)
        assert all(
            isinstance(event[key], int) and event[key] >= 0 for key in ("ts", "dur", "pid", "tid") if key in event
        )
        if event["ph"] == "C":
            assert len(event["args"]) == 1  # Perfetto refuses counters of several values
    rows = [(e["pid"], e["tid"]) for e in trace["traceEvents"] if e["name"] == "thread_name"]
    assert len({thread for _, thread in rows}) == len(rows)  # Perfetto tells threads by their number
    assert not {process for process, _ in rows} & {thread for _, thread in rows}  # which is the main thread
    assert {(e["pid"], e["tid"]) for e in trace["traceEvents"] if e["ph"] == "X"} == set(rows)


def check_rows(plan: memplan.Plan) -> None:
    rows: dict[int, list[tuple[int, int]]] = {}
    for event in buffers(plan):
        rows.setdefault(event["tid"], []).append((event["ts"], event["ts"] + event["dur"]))
    for lives in rows.values():
        lives.sort()
        assert all(a[1] <= b[0] for a, b in pairwise(lives))
    alive = [0]
    for _, change in sorted([(s.first, 1) for s in plan if s.bytes] + [(s.last, -1) for s in plan if s.bytes]):
        alive.append(alive[-1] + change)
    assert len(rows) == max(alive)  # no more than need be


def tops(plan: memplan.Plan) -> dict[int, int]:
    """Per step, the end of the highest byte in use, by looking at all."""
    rows = plan.problem.parts
    parts = [] if rows is None else rows.tolist()
    shaped = {part[0] for part in parts}
    used = [(plan[b].offset + end, first, last) for b, _, end, first, last in parts]
    used += [(s.end, s.first, s.last) for b, s in enumerate(plan) if b not in shaped and s.bytes]
    steps = {step for _, first, last in used for step in (first, last)}
    return {step: max((end for end, first, last in used if first <= step < last), default=0) for step in steps}


@pytest.fixture
def plan() -> memplan.Plan:
    graph = graphs.graph(
        [
            graphs.tensor("x", 16, "input"),
            {"name": "t", "shape": [2, 4], "dtype": "float32"},
            graphs.tensor("v", 16),
            graphs.tensor("y", 8, "output"),
        ],
        graphs.op("a", "x", "t", type="A", workspace=64),
        graphs.op("b", "t", "v", alias=["v t 16"]),
        graphs.op("c", "v", "y", type="C", stream=1),
        outputs="y",
    )
    return memplan.plan(graph)


def test_buffers_are_events_with_all_that_is_known(plan: memplan.Plan) -> None:
    by_name = {event["name"]: event for event in buffers(plan)}
    assert set(by_name) == {slot.name for slot in plan}
    t, slot = by_name["t"], plan[0]
    assert slot.name == "t"
    assert (t["ts"], t["dur"], t["cat"]) == (slot.first, slot.last - slot.first, "intermediate")
    assert t["args"] == {
        "bytes": 32,
        "offset": slot.offset,
        "address": f"0x{slot.offset:08x}",
        "first step": slot.first,
        "last step": slot.last - 1,
        "op": "a",
        "op type": "A",
        "dtype": "float32",
        "shape": [2, 4],
        "tensors": ["t", "v"],
    }
    check_format(chrome_trace(plan))
    check_rows(plan)


def test_ops_are_events_in_a_row_per_stream(plan: memplan.Plan) -> None:
    ops = events(plan, "X", "ops")
    assert [(e["name"], e["ts"], e["dur"], e["cat"]) for e in ops] == [
        ("a", 0, 1, "A"),
        ("b", 1, 1, "op"),
        ("c", 2, 1, "C"),
    ]
    assert ops[0]["args"] == {"step": 0, "type": "A", "inputs": ["x"], "outputs": ["t"], "workspace": 64}
    assert ops[0]["tid"] == ops[1]["tid"] != ops[2]["tid"]


def test_high_addresses_are_in_the_rows_above() -> None:
    plan = memplan.plan(([1, 2, 4], [0, 0, 0], [9, 9, 9]), "naive")
    above = sorted(buffers(plan), key=lambda event: event["tid"])
    assert [event["args"]["offset"] for event in above] == sorted(plan.offsets.tolist(), reverse=True)


def test_a_row_goes_on_at_the_nearest_address() -> None:
    plan = memplan.plan(([4, 4, 4, 4], [0, 0, 3, 3], [3, 3, 5, 5]), "first_fit")
    row_at = {(event["args"]["offset"], event["ts"]): event["tid"] for event in buffers(plan)}
    assert row_at[0, 0] == row_at[0, 3]
    assert row_at[4, 0] == row_at[4, 3]


def test_parts_are_told() -> None:
    problem = memplan.Problem([4], [0], [4], 1, ["a"], [(0, 0, 2, 0, 4), (0, 2, 4, 0, 2)])
    (event,) = buffers(memplan.plan(problem))
    assert event["args"]["parts"] == ["bytes 0 to 2 in steps 0 to 3", "bytes 2 to 4 in steps 0 to 1"]


@given(columns())
@BOUNDED
def test_rows_and_counters_of_any_plan(case: Any) -> None:
    check(memplan.plan(memplan.Problem(*case), "first_fit"))


@given(shaped_problems(max_buffers=5))
@BOUNDED
def test_rows_and_counters_of_any_shapes(case: Any) -> None:
    buffers_, parts, _ = case
    check(memplan.plan(memplan.Problem(*buffers_, None, parts), "first_fit"))


def check(plan: memplan.Plan) -> None:
    check_format(chrome_trace(plan))
    check_rows(plan)
    origin = int(plan.problem.first.min()) if len(plan) else 0
    steps, load = plan.problem.load_curve()
    assert counter(plan, "load") == list(zip((steps - origin).tolist(), load.tolist(), strict=True))
    exact, known = tops(plan), dict(counter(plan, "top of the arena"))
    now = 0
    for step in sorted(exact):
        now = known.get(step - origin, now)
        assert now == exact[step]
    assert max(known.values(), default=0) == plan.peak


def test_the_first_step_of_a_problem_is_time_zero() -> None:
    plan = memplan.plan(([5, 1], [-7, 2**61], [2**61, 2**61 + 1]))
    first, second = sorted(buffers(plan), key=lambda event: event["ts"])
    assert (first["ts"], first["args"]["first step"]) == (0, -7)
    assert (second["ts"], second["args"]["first step"]) == (2**61 + 7, 2**61)


def test_the_file_is_json(plan: memplan.Plan, tmp_path: Path) -> None:
    plan.to_chrome_trace(tmp_path / "plan.json")
    assert json.loads((tmp_path / "plan.json").read_text()) == chrome_trace(plan)
    assert chrome_trace(plan)["otherData"]["peak"] == plan.peak
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


def test_many_buffers_do_not_take_long(tmp_path: Path) -> None:
    plan = memplan.plan(generate.layered(20_000), "first_fit")
    plan.to_chrome_trace(tmp_path / "plan.json")
    assert (tmp_path / "plan.json").stat().st_size < 10_000_000
    random = np.random.default_rng(0)
    first = random.integers(0, 100, 5000)
    check_rows(memplan.plan((random.integers(1, 9, 5000), first, first + random.integers(1, 100, 5000)), "naive"))


@pytest.mark.parametrize("case", [([], [], []), ([0, 0], [0, 3], [1, 9])])
def test_without_bytes_there_are_no_rows(case: Any) -> None:
    plan = memplan.plan(case)
    check_format(chrome_trace(plan))
    assert not buffers(plan)
