"""Random problems and graphs, held against the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import memplan
from builders.registered import PLANNERS as NAMES
from builders.registered import brief
from builders.strategies import BOUNDED, columns, graph_dicts, places, shaped_problems
from memplan import _core
from memplan.kinds import KINDS
from oracles import plain as oracle
from oracles.reference import Columns

pytestmark = pytest.mark.no_cover

PLANNERS = st.sampled_from(NAMES)


def addresses(graph: dict[str, Any], plan: memplan.Plan, offsets: list[int]) -> tuple[dict[str, int], dict[str, int]]:
    """Where tensors and workspaces lie when the plan's buffers lie at `offsets`, by the oracle's own storages."""
    base = {slot.name: offset for slot, offset in zip(plan, offsets, strict=True)}
    tensors = {}
    for tensor in graph["tensors"]:
        root, inside = oracle.root_of(graph, tensor["name"])
        tensors[tensor["name"]] = base[root] + inside if root in base else oracle.NOWHERE
    workspaces = {op["name"]: base.get(f"{op['name']}.workspace", oracle.NOWHERE) for op in graph["ops"]}
    return tensors, workspaces


@given(columns(), PLANNERS)
@BOUNDED
def test_plans_are_valid(problem: Columns, planner: str) -> None:
    plan = memplan.plan(memplan.Problem(*problem), planner)
    assert oracle.violations(problem, plan.offsets.tolist(), capacity=plan.peak) == set()
    assert plan.peak == oracle.peak(problem, plan.offsets.tolist())
    assert oracle.load(problem) <= plan.lower_bound <= plan.peak


@given(columns(), st.data())
@BOUNDED
def test_verify_finds_what_the_oracle_finds(problem: Columns, data: st.DataObject) -> None:
    offset = st.integers(-2, 30) | st.sampled_from([2**63 - 30, 2**63 - 25, -(2**63), 2**62])  # ends fit int64
    offsets = data.draw(st.lists(offset, min_size=len(problem[0]), max_size=len(problem[0])))
    capacity = data.draw(st.integers(0, 50) | st.just(2**63 - 1))
    expected = oracle.violations(problem, offsets, capacity)
    found = _core.verify(memplan.Problem(*problem), offsets, capacity=capacity)
    assert len(found) == len(expected)
    assert {(v.kind, v.buffer, -1 if v.other is None else v.other) for v in found} == expected

    limit = data.draw(st.integers(0, len(expected) + 1))
    first = _core.verify(memplan.Problem(*problem), offsets, capacity=capacity, limit=limit)
    assert [v.message for v in first] == [v.message for v in found[:limit]]


@given(shaped_problems(), st.data())
@BOUNDED
def test_verify_of_shapes_and_conflicts_finds_what_the_oracle_finds(case: Any, data: st.DataObject) -> None:
    problem, parts, conflicts = case
    offsets = data.draw(st.lists(st.integers(-2, 30), min_size=len(problem[0]), max_size=len(problem[0])))
    capacity = data.draw(st.integers(0, 50))
    captured = memplan.Problem(*problem, parts=parts, conflicts=conflicts)
    found = _core.verify(captured, offsets, capacity=capacity)
    expected = oracle.violations_of_shapes(problem, parts, conflicts, offsets, capacity)
    assert {(v.kind, v.buffer, -1 if v.other is None else v.other) for v in found} == expected
    limit = data.draw(st.integers(0, len(found) + 1))
    first = _core.verify(captured, offsets, capacity=capacity, limit=limit)
    assert [v.message for v in first] == [v.message for v in found[:limit]]


@given(shaped_problems())
@BOUNDED
def test_every_planner_plans_what_it_supports_and_refuses_the_rest_by_name(case: Any) -> None:
    columns_, parts, conflicts = case
    problem = memplan.Problem(*columns_, parts=parts, conflicts=conflicts)
    asked = {"alignment": (problem.alignment > 1).any(), "conflicts": problem.conflicts is not None}
    supported = {row.name: row.supports for row in memplan.planners()}
    steps = {*columns_[1]} | {part[3] for part in parts}
    load = max((oracle.load_at(columns_, parts, step) for step in steps), default=0)
    plain_peak = memplan.plan(problem, "auto").peak if not parts and not conflicts else None
    for planner in NAMES:
        missing = [feature for feature, is_asked in asked.items() if is_asked and feature not in supported[planner]]
        if missing:
            refusal = f"planner '{planner}' does not support {', '.join(missing)}, which this problem asks for"
            with pytest.raises(memplan.errors.UnsupportedError, match=refusal):
                memplan.plan(problem, planner)
            continue
        plan = memplan.plan(problem, planner, **brief(planner))
        wrong = oracle.violations_of_shapes(columns_, parts, conflicts, plan.offsets.tolist(), plan.peak)
        assert (planner, wrong) == (planner, set())
        assert load == plan.load <= plan.lower_bound <= plan.peak, planner
        assert plain_peak is None or plan.lower_bound <= plain_peak, planner


@given(columns())
@BOUNDED
def test_load_curve_is_the_load_at_every_step(problem: Columns) -> None:
    step, bytes_ = memplan.Problem(*problem).load_curve()
    size, first, last, _ = problem
    assert (np.diff(step) > 0).all()
    assert set(step.tolist()) == {*first, *last}
    for t, alive in zip(step.tolist(), bytes_.tolist(), strict=True):
        assert alive == sum(s for s, f, m in zip(size, first, last, strict=True) if f <= t < m)


@given(shaped_problems(), st.sampled_from(["auto", "greedy_by_size"]))
@BOUNDED
def test_reused_by_is_the_first_that_takes_bytes_over(case: Any, planner: str) -> None:
    problem, parts, _ = case
    plan = memplan.plan(memplan.Problem(*problem, parts=parts), planner)
    offsets = plan.offsets.tolist()
    used = [oracle.cells(problem, parts, i) for i in range(len(offsets))]
    expected = []
    for i, mine in enumerate(used):
        takers = set()  # when, and who
        for byte in {byte for byte, _ in mine}:
            until = {step for b, step in mine if b == byte}
            later = {
                (step, j)
                for j in range(len(used))
                for b, step in used[j]
                if j != i and offsets[j] + b == offsets[i] + byte and step > min(until)
            }
            takers |= {min(later)} if later else set()
        expected.append(min(takers)[1] if takers else -1)
    assert _core.reused_by(plan.problem, plan.offsets).tolist() == expected


@given(graph_dicts(), places, PLANNERS, st.sampled_from([1, 3, 8]))
@BOUNDED
def test_graphs_are_planned_and_hold(graph: dict[str, Any], place: list[str], planner: str, alignment: int) -> None:
    plan = memplan.plan(graph, planner, place=place, alignment=alignment)
    got = [(slot.name, slot.bytes, slot.first, slot.last) for slot in plan]
    assert got == oracle.buffers_of(graph, place)
    assert oracle.replay(graph, *addresses(graph, plan, plan.offsets.tolist())) == []
    assert plan.verify() is None


@given(graph_dicts())
@BOUNDED
def test_every_tensor_lies_where_its_storage_says(graph: dict[str, Any]) -> None:
    plan = memplan.plan(graph, place=KINDS)
    tensors, _ = addresses(graph, plan, plan.offsets.tolist())
    for tensor in graph["tensors"]:
        slot = plan[tensor["name"]]
        assert (slot.offset, slot.bytes) == (tensors[tensor["name"]], tensor["bytes"])


@given(graph_dicts())
@BOUNDED
def test_graph_dicts_come_back(graph: dict[str, Any]) -> None:
    captured = memplan.capture(graph).graph
    assert memplan.capture(captured.to_dict()).graph == captured


@given(graph_dicts(), places, st.data())
@BOUNDED
def test_a_moved_buffer_is_found(graph: dict[str, Any], place: list[str], data: st.DataObject) -> None:
    plan = memplan.plan(graph, place=place)
    slots = [slot for slot in plan if slot.bytes > 0]
    pairs = [(a, b) for a in slots for b in slots if a != b and a.first < b.last and b.first < a.last]
    assume(pairs)
    moved, onto = data.draw(st.sampled_from(pairs))
    target = data.draw(st.integers(max(0, onto.offset - moved.bytes + 1), onto.end - 1))
    offsets = [target if slot == moved else slot.offset for slot in plan]

    p = plan.problem
    columns_ = tuple(column.tolist() for column in (p.size, p.first, p.last, p.alignment))
    parts = [] if p.parts is None else p.parts.tolist()
    expected = {v for v in oracle.violations_of_shapes(columns_, parts, [], offsets) if v[0] == "overlap"}
    assert parts or expected  # what has a shape may lie where only its hull does
    assert {("overlap", v.buffer, v.other) for v in _core.verify(p, offsets) if v.kind == "overlap"} == expected
    faults = _core.replay(plan.graph, plan.buffers, offsets)
    destroyed = oracle.replay(graph, *addresses(graph, plan, offsets))
    assert bool(faults) == bool(destroyed), (destroyed, [fault.message for fault in faults])


@given(graph_dicts(), st.data())
@BOUNDED
def test_replay_agrees_with_the_oracle_on_any_offsets(graph: dict[str, Any], data: st.DataObject) -> None:
    plan = memplan.plan(graph, place=data.draw(places))
    offsets = data.draw(st.lists(st.integers(0, 25), min_size=len(plan), max_size=len(plan)))
    faults = _core.replay(plan.graph, plan.buffers, offsets)
    destroyed = oracle.replay(graph, *addresses(graph, plan, offsets))
    assert bool(faults) == bool(destroyed), (destroyed, [fault.message for fault in faults])
