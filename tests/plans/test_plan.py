"""Plans: figures, slots, comparison, and what verify() says of a plan that was tampered with."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import memplan
from builders.graphs import graph, op
from builders.strategies import BOUNDED, shaped_problems
from oracles import plain as oracle

GRAPH: dict[str, Any] = graph(
    "x 16 input, t 32, v 16, y 20 output",
    op("conv", "x", "t", workspace=64),
    op("view", "t", "v", alias=["v t 8"]),
    op("relu", "v", "y"),
    outputs="y",
)


@pytest.fixture
def plan() -> memplan.Plan:
    """A small plan with gaps in it: three buffers, the middle one moved up by alignment."""
    return memplan.plan(memplan.Problem([10, 6, 8], [0, 1, 3], [2, 4, 5], [1, 8, 1], ["a", "b", "c"]), "first_fit")


@pytest.fixture
def graph_plan() -> memplan.Plan:
    return memplan.plan(GRAPH, "first_fit", alignment=8)


def moved(plan: memplan.Plan, offsets: list[int]) -> memplan.Plan:
    return dataclasses.replace(plan, offsets=np.array(offsets, dtype=np.int64))


def test_figures(plan: memplan.Plan) -> None:
    assert plan.offsets.tolist() == [0, 16, 0]
    assert (plan.peak, plan.lower_bound, plan.load, plan.naive) == (22, 16, 16, 24)
    assert plan.gap == pytest.approx(22 / 16 - 1)
    assert plan.optimal is False
    assert (plan.planner, plan.winner) == ("first_fit", "first_fit")
    assert plan.graph is None


def test_figures_are_plain_numbers(plan: memplan.Plan) -> None:
    assert {type(plan.peak), type(plan.lower_bound), type(plan.load), type(plan.naive)} == {int}
    assert type(plan.gap) is float
    figures = (value for value in dataclasses.astuple(plan[0])[1:] if not isinstance(value, str))  # the pool has a name
    assert all(type(value) is int for value in figures)


def test_gap_of_nothing_is_zero() -> None:
    assert memplan.plan(([], [], [])).gap == 0.0
    assert memplan.plan(([0], [0], [1])).gap == 0.0


def test_naive_is_the_sum_without_padding() -> None:
    assert memplan.plan(memplan.Problem([1, 1], [0, 0], [1, 1], 64), "naive").naive == 2


def test_slots_by_position_and_name(plan: memplan.Plan) -> None:
    b = memplan.plans.Slot("b", offset=16, bytes=6, first=1, last=4, alignment=8)
    assert plan[1] == plan[-2] == plan["b"] == plan[np.int64(1)] == b
    assert b.end == 22
    assert list(plan) == [plan["a"], b, plan["c"]]
    assert len(plan) == 3


def test_slots_of_nameless_buffers() -> None:
    assert memplan.plan(([4, 5], [0, 0], [1, 1]))["#1"].bytes == 5


@pytest.mark.parametrize("position", [3, -4, 2**70])
def test_unknown_positions(plan: memplan.Plan, position: int) -> None:
    with pytest.raises(IndexError, match=f"buffer {position} is out of range: the plan has 3 buffers"):
        plan[position]


@pytest.mark.parametrize("key", [1.5, None, slice(1)], ids=str)
def test_keys_of_other_types(plan: memplan.Plan, key: Any) -> None:
    with pytest.raises(TypeError):
        plan[key]


def test_unknown_names(plan: memplan.Plan, graph_plan: memplan.Plan) -> None:
    with pytest.raises(KeyError, match="no tensor or buffer named 'nope'"):
        plan["nope"]
    with pytest.raises(KeyError, match="no tensor or buffer named 'nope'"):
        graph_plan["nope"]


def test_slots_of_tensors_views_and_workspaces(graph_plan: memplan.Plan) -> None:
    t, v = graph_plan["t"], graph_plan["v"]
    assert (v.name, v.offset, v.bytes) == ("v", t.offset + 8, 16)
    assert v.alignment == 8
    assert graph_plan["conv.workspace"].bytes == 64


def test_tensors_live_from_their_write_to_their_last_read(graph_plan: memplan.Plan) -> None:
    assert {name: (graph_plan[name].first, graph_plan[name].last) for name in "tvy"} == {
        "t": (0, 2),
        "v": (1, 3),
        "y": (2, 3),
    }
    assert (graph_plan[0].name, graph_plan[0].first, graph_plan[0].last) == ("t", 0, 3)  # the buffer, with v in it


def test_inputs_live_from_the_start_and_outputs_and_weights_to_the_end() -> None:
    plan = memplan.plan(
        graph(
            "x 4 input, unread 4 input, w 4 weight, y 4 output, z 4, scratch 4 workspace",
            op("a", "w", "y"),
            op("b", "x", "z scratch"),
            op("c", "", ""),
            op("d", "z", ""),
            outputs="x",
        ),
        place=("input", "weight", "intermediate", "output", "workspace"),
    )
    assert {name: (plan[name].first, plan[name].last) for name in ("x", "unread", "w", "y", "z", "scratch")} == {
        "x": (0, 4),
        "unread": (0, 1),
        "w": (0, 4),
        "y": (0, 4),
        "z": (1, 4),
        "scratch": (1, 2),
    }


# f is made first, then p and q, which form c; r is written over c's copy of them, and s is cut out of r.
SHARING: dict[str, Any] = graph(
    "x 8 input, p 16, q 8, c 24, r 24, s 4, y 4",
    op("make_p", "x", "p"),
    op("make_q", "p", "q"),
    op("join", "p q", "c", concat=["c p", "c q 16"]),
    op("relu", "c", "r", type="Relu", inplace=["r c"]),
    op("cut", "r", "s", slice=["s r 20"]),
    op("end", "s", "y"),
    outputs="y",
)


def test_sharing_says_what_shares_bytes_by_choice() -> None:
    plan = memplan.plan(SHARING)
    assert plan.sharing == (
        memplan.plans.Coalescing("concat", "join", "c", "q", 16),
        memplan.plans.Coalescing("concat", "join", "c", "p", 0),
        memplan.plans.Coalescing("inplace", "relu", "r", "c", 0),
        memplan.plans.Coalescing("slice", "cut", "s", "r", 20),
    )
    assert [(s.inner, s.outer) for s in plan.sharing] == [("q", "c"), ("p", "c"), ("r", "c"), ("s", "r")]
    for sharing in plan.sharing:
        assert plan[sharing.inner].offset == plan[sharing.outer].offset + sharing.offset
    assert {name: (plan[name].first, plan[name].last) for name in "pqcrs"} == {
        "p": (0, 3),
        "q": (1, 3),
        "c": (2, 4),
        "r": (3, 5),
        "s": (4, 6),
    }
    assert (plan[0].name, plan[0].first, plan[0].last) == ("c", 0, 6)


def test_nothing_is_shared_that_must_not_be(plan: memplan.Plan) -> None:
    assert memplan.plan(SHARING, inplace=False, zero_copy=False).sharing == ()
    assert {s.how for s in memplan.plan(SHARING, zero_copy=False).sharing} == {"inplace"}
    assert {s.how for s in memplan.plan(SHARING, disable_inplace_ops=["Relu"]).sharing} == {"concat", "slice"}
    assert plan.sharing == ()


def test_plans_that_share_pickle() -> None:
    plan = memplan.plan(SHARING)
    for other in (pickle.loads(pickle.dumps(plan)), copy.deepcopy(plan)):
        assert other == plan
        assert (other.sharing, other.naive) == (plan.sharing, plan.naive)
    assert plan != memplan.plan(SHARING, disable_inplace_ops=["Relu"])


def test_pools_are_kept(plan: memplan.Plan) -> None:
    pooled = dataclasses.replace(plan, objects=3)
    assert pickle.loads(pickle.dumps(pooled)).objects == 3
    assert pooled != plan


def test_interrupted_plans_say_so(plan: memplan.Plan) -> None:
    cut = dataclasses.replace(plan, interrupted=True)
    assert not plan.interrupted
    assert cut != plan
    assert pickle.loads(pickle.dumps(cut)) == cut
    assert repr(cut) == "<memplan.Plan: 3 buffers, peak 22 bytes, gap 37.500%, interrupted, planner 'first_fit'>"
    assert cut.summary().endswith(" s, interrupted")
    assert "interrupted" not in plan.summary()


def test_tensors_that_are_not_placed(graph_plan: memplan.Plan) -> None:
    with pytest.raises(KeyError, match=r"'x' \(input\) is not placed in the arena; see the options `place` and"):
        graph_plan["x"]


def test_a_view_of_what_is_not_placed_names_its_root() -> None:
    spec = copy.deepcopy(GRAPH)
    spec["ops"][1] |= {"inputs": ["x"], "alias": [{"output": "v", "input": "x"}]}
    with pytest.raises(KeyError, match=r"'v'.*'x' \(input\)"):
        memplan.plan(spec)["v"]


def test_offsets_are_in_the_order_of_the_buffers(graph_plan: memplan.Plan) -> None:
    assert [slot.offset for slot in graph_plan] == graph_plan.offsets.tolist()
    assert graph_plan.problem.names == ["t", "y", "conv.workspace"]


def test_verify_returns_none(plan: memplan.Plan, graph_plan: memplan.Plan) -> None:
    assert plan.verify() is None
    assert graph_plan.verify() is None


def test_verify_lists_every_violation(plan: memplan.Plan) -> None:
    with pytest.raises(memplan.errors.InvalidPlanError) as error:
        moved(plan, [0, 4, 20]).verify()
    lines = str(error.value).splitlines()
    assert lines[0] == "the plan is not valid:"
    assert lines[1:] == [
        "  buffer 'b' at offset 4 is not aligned to 8",
        "  buffer 'c' of 8 bytes at offset 20 ends beyond the arena of 22 bytes",
        "  buffer 'a' at bytes [0, 10) and buffer 'b' at bytes [4, 10) share bytes [4, 10) "
        "while both are alive in steps [1, 2)",
    ]
    assert [violation.kind for violation in error.value.violations] == ["misaligned", "outside", "overlap"]


def test_verify_replays_the_graph(graph_plan: memplan.Plan) -> None:
    with pytest.raises(
        memplan.errors.InvalidPlanError, match=r"op 'relu' .* writes while it reads tensor 'v'"
    ) as error:
        moved(graph_plan, [0, 0, 32]).verify()
    kinds = {type(fault).__name__ for fault in error.value.violations}
    assert kinds == {"Violation", "ReplayFault"}


def test_pickle_and_copy(plan: memplan.Plan, graph_plan: memplan.Plan) -> None:
    for original in (plan, graph_plan):
        for other in (pickle.loads(pickle.dumps(original)), copy.deepcopy(original)):
            assert other == original
            assert other.seconds == original.seconds
            assert list(other) == list(original)
            other.verify()
    assert pickle.loads(pickle.dumps(graph_plan))["v"] == graph_plan["v"]


def test_offsets_stay_read_only_through_pickle(plan: memplan.Plan) -> None:
    assert not pickle.loads(pickle.dumps(plan)).offsets.flags.writeable


def test_offsets_outlive_the_plan(plan: memplan.Plan) -> None:
    offsets = memplan.plan(([4, 5], [0, 0], [1, 1])).offsets
    assert offsets.tolist() == [0, 4]
    with pytest.raises(ValueError, match="read-only"):
        offsets[0] = 1


def test_equality_leaves_out_the_time(plan: memplan.Plan) -> None:
    assert dataclasses.replace(plan, seconds=9.0, found_after=8.0) == plan
    assert moved(plan, [0, 16, 1]) != plan
    assert dataclasses.replace(plan, planner="auto") != plan
    assert memplan.plan(memplan.Problem([10, 6, 8], [0, 1, 3], [2, 4, 5], [1, 8, 1]), "first_fit") != plan
    assert plan != plan.offsets.tolist()


def test_plans_cannot_be_changed(plan: memplan.Plan) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.peak = 1  # type: ignore[misc]
    with pytest.raises(TypeError, match="unhashable"):
        hash(plan)


def test_repr(plan: memplan.Plan) -> None:
    assert repr(plan) == "<memplan.Plan: 3 buffers, peak 22 bytes, gap 37.500%, planner 'first_fit'>"
    optimal = memplan.plan(([4], [0], [1]))
    assert repr(optimal) == "<memplan.Plan: 1 buffers, peak 4 bytes, optimal, planner 'auto'>"


def test_summary(plan: memplan.Plan) -> None:
    lines = plan.summary().splitlines()
    assert [line.split()[0] for line in lines] == ["buffers", "naive", "load", "peak", "proof", "planner"]
    assert " 22 bytes, 8.3% below naive" in plan.summary()
    assert "gap 37.500%, not proven optimal" in plan.summary()
    assert "auto (first_fit won after " in memplan.plan(([4], [0], [1])).summary()
    assert "optimal: the peak equals the load" in memplan.plan(([4], [0], [1])).summary()


def test_str_is_one_line(plan: memplan.Plan) -> None:
    start = "peak 22 bytes, gap 37.500%: 3 buffers, first_fit, "
    assert str(plan).startswith(start)
    assert str(plan).endswith(" s")
    optimal = dataclasses.replace(memplan.plan(([4], [0], [1])), seconds=0.25, interrupted=True)
    assert str(optimal) == "peak 4 bytes, optimal: 1 buffer, auto (first_fit), 0.25 s, interrupted"


def test_each_better_plan_is_printed_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    plan = memplan.plan("example:resnet50_train", on_improvement=print)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 1
    assert all(line.startswith("peak ") for line in lines)
    assert f"({plan.peak:,} bytes), optimal in this order: " in lines[-1]


def test_in_says_what_has_a_slot() -> None:
    plan = memplan.plan(memplan.Problem([4, 5], [0, 0], [1, 1], names=["a", "b"]))
    assert "a" in plan
    assert 1 in plan
    assert "c" not in plan
    assert 2 not in plan
    assert 1.5 not in plan


def test_verify_after_the_arrays_were_changed_is_of_the_problem_as_it_was() -> None:
    last = np.array([3, 4, 5])
    plan = memplan.plan(memplan.Problem([1, 2, 3], [0, 1, 2], last))
    last[:] = -5
    plan.verify()


def test_verify_lists_as_many_violations_as_told() -> None:
    count = 60
    problem = memplan.Problem([1] * count, [0] * count, [1] * count)
    plan = memplan.Plan(problem, np.zeros(count, dtype=np.int64), 1, 60, False, "f", "f", 0.0)
    for limit, listed in ((None, count * (count - 1) // 2), (1000, 1000), (3, 3)):
        with pytest.raises(memplan.errors.InvalidPlanError) as caught:
            plan.verify(limit)
        assert len(caught.value.violations) == listed
        assert str(caught.value).endswith("… and more") == (listed < count * (count - 1) // 2)


# Who has the bytes when


def test_reuse_of_a_buffer(plan: memplan.Plan) -> None:
    found = plan.reuse("c")
    assert found.slot == plan["c"]
    assert [slot.name for slot in found.before] == ["a"]
    assert found.after == found.sharing == ()
    assert [slot.name for slot in plan.reuse(0).after] == ["c"]
    assert plan.reuse(-1) == found
    assert plan.reuse("b").before == plan.reuse("b").after == ()


@given(shaped_problems())
@BOUNDED
def test_reuse_is_who_was_and_will_be_in_the_same_bytes(case: Any) -> None:
    columns, parts, conflicts = case
    plan = memplan.plan(memplan.Problem(*columns, None, parts or None, conflicts or None), "greedy_by_size")
    used = [oracle.cells(columns, parts, b) for b in range(len(plan))]
    for b, slot in enumerate(plan):
        found = plan.reuse(b)
        before, after = {}, {}
        for other, there in enumerate(plan):
            own = range(slot.offset, slot.end)
            cells = [(byte, step) for byte, step in used[other] if other != b and there.offset + byte in own]
            for part in {(byte, step) for byte, step in cells}:
                if step_of_rows(parts, other, there, part)[1] <= slot.first:
                    before[other] = max(before.get(other, -99), step_of_rows(parts, other, there, part)[1])
                if step_of_rows(parts, other, there, part)[0] >= slot.last:
                    after[other] = min(after.get(other, 99), step_of_rows(parts, other, there, part)[0])
        assert {s.name for s in found.before} == {plan[o].name for o in before}
        assert {s.name for s in found.after} == {plan[o].name for o in after}
        ends = [before[int(s.name[1:])] for s in found.before]
        assert ends == sorted(ends, reverse=True)
        begins = [after[int(s.name[1:])] for s in found.after]
        assert begins == sorted(begins)


def step_of_rows(parts: Any, buffer: int, slot: memplan.plans.Slot, cell: tuple[int, int]) -> tuple[int, int]:
    """The steps of the part, or of the buffer, that a byte at a step belongs to."""
    own = [part[1:] for part in parts if part[0] == buffer]
    for begin, end, first, last in own:
        if begin <= cell[0] < end and first <= cell[1] < last:
            return first, last
    return slot.first, slot.last


def test_reuse_of_tensors_says_what_they_share_by_choice() -> None:
    plan = memplan.plan(SHARING)
    assert [(s.how, s.inner, s.outer) for s in plan.reuse("c").sharing] == [
        ("concat", "q", "c"),
        ("concat", "p", "c"),
        ("inplace", "r", "c"),
    ]
    assert plan.reuse("c").before == ()
    text = str(plan.reuse("r"))
    assert text.startswith("r: 24 B at 0, steps 3-4")
    assert "r is in place of c (relu); s is slice of r (cut)" in text


def test_reuse_shows_who_comes_before_and_after(plan: memplan.Plan) -> None:
    lines = [line.split() for line in str(plan.reuse("c")).splitlines()[2:]]
    assert lines == [["before", "a", "0-1", "0", "10", "8", "B"], ["itself", "c", "3-4", "0", "8", "8", "B"]]


@pytest.mark.parametrize(("key", "error"), [("nope", KeyError), (3, IndexError), ("x", KeyError)])
def test_reuse_of_what_is_not_there(key: Any, error: type[Exception], graph_plan: memplan.Plan) -> None:
    with pytest.raises(error):
        graph_plan.reuse(key)


def test_what_was_asked_of_the_memory_is_kept() -> None:
    plan = memplan.plan(SHARING, alignment=4, inplace=False, donate=["x"], disable_inplace_ops=["Relu"])
    for kept in (plan, pickle.loads(pickle.dumps(plan))):
        asked = kept.storage
        assert asked is not None
        assert (asked.alignment, asked.inplace, asked.zero_copy) == (4, False, True)
        assert (asked.donate, asked.disable_inplace_ops) == (["x"], ["Relu"])
        assert asked.place == ["intermediate", "output", "workspace"]
    assert memplan.plan(([4], [0], [1])).storage is None
