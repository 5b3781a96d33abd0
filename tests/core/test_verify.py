"""The two checks of a plan: verify on a problem, replay on a graph. Both must see what is wrong, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import memplan
from builders import graphs
from memplan import _core
from oracles import plain as oracle

PAIR = memplan.Problem([10, 10], [0, 1], [3, 4], names=["a", "b"])


def kinds(problem: memplan.Problem, offsets: list[int], **options: Any) -> list[tuple[str, int, int | None]]:
    return [(v.kind, v.buffer, v.other) for v in _core.verify(problem, offsets, **options)]


# Verify


def test_a_valid_plan_has_no_violations() -> None:
    assert _core.verify(PAIR, [0, 10]) == []
    assert _core.verify(PAIR, np.array([10, 0])) == []


def test_overlap_names_buffers_bytes_and_steps() -> None:
    (violation,) = _core.verify(PAIR, [4, 0])
    assert (violation.kind, violation.buffer, violation.other) == ("overlap", 0, 1)
    assert violation.message == (
        "buffer 'a' at bytes [4, 14) and buffer 'b' at bytes [0, 10) share bytes [4, 10) "
        "while both are alive in steps [1, 3)"
    )
    assert str(violation) == violation.message
    assert violation.message in repr(violation)


def test_a_step_apart_is_apart() -> None:
    assert kinds(memplan.Problem([10, 10], [0, 3], [3, 4]), [0, 0]) == []
    assert kinds(memplan.Problem([10, 10], [0, 2], [3, 4]), [0, 0]) == [("overlap", 0, 1)]


def test_one_shared_byte_is_found() -> None:
    assert kinds(PAIR, [0, 9]) == kinds(PAIR, [9, 0]) == [("overlap", 0, 1)]


def test_nested_and_equal_ranges_are_found() -> None:
    problem = memplan.Problem([100, 1, 100], [0, 0, 0], [1, 1, 1])
    assert sorted(kinds(problem, [0, 50, 0])) == [("overlap", 0, 1), ("overlap", 0, 2), ("overlap", 1, 2)]


def test_zero_size_buffers_share_bytes_freely() -> None:
    assert kinds(memplan.Problem([10, 0, 0], [0, 0, 0], [1, 1, 1]), [0, 5, 5]) == []


def test_misaligned() -> None:
    problem = memplan.Problem([1, 1], [0, 1], [1, 2], [8, 3], names=["a", "b"])
    (violation,) = _core.verify(problem, [8, 8])
    assert (violation.kind, violation.buffer, violation.other) == ("misaligned", 1, None)
    assert violation.message == "buffer 'b' at offset 8 is not aligned to 3"


@pytest.mark.parametrize("offset", [-1, -10, -(2**63)])
def test_before_the_arena(offset: int) -> None:
    (violation,) = _core.verify(memplan.Problem([10], [0], [1]), [offset])
    assert violation.kind == "outside"
    assert violation.message == f"buffer '#0' at offset {offset} begins before the arena"


def test_beyond_the_capacity() -> None:
    assert kinds(PAIR, [0, 10], capacity=20) == []
    (violation,) = _core.verify(PAIR, [0, 10], capacity=19)
    assert (violation.kind, violation.buffer) == ("outside", 1)
    assert violation.message == "buffer 'b' of 10 bytes at offset 10 ends beyond the arena of 19 bytes"


def test_an_end_beyond_int64_is_outside() -> None:
    problem = memplan.Problem([10, 10], [0, 0], [1, 1])
    assert ("outside", 0, None) in kinds(problem, [2**63 - 5, 0])
    assert {kind for kind, _, _ in kinds(problem, [2**63 - 1, 2**63 - 5])} >= {"outside"}


def test_limit_caps_and_keeps_the_order() -> None:
    problem = memplan.Problem([4] * 20, [0] * 20, [1] * 20)
    everything = kinds(problem, [0] * 20)
    assert len(everything) == 20 * 19 // 2
    for limit in (0, 1, 7, 190, 1000):
        assert kinds(problem, [0] * 20, limit=limit) == everything[:limit]


def test_offsets_of_the_wrong_length_or_type_are_refused() -> None:
    with pytest.raises(
        memplan.errors.ProblemError, match="offsets must have one entry per buffer: the problem has 2, offsets has 1"
    ):
        _core.verify(PAIR, [0])
    with pytest.raises(memplan.errors.ProblemError, match="offsets must hold integers that fit int64, got float64"):
        _core.verify(PAIR, [0.0, 10.0])


# Replay: a graph with every tensor and workspace laid by hand. x -> a -> b -> y, with v a view of a.

CHAIN = graphs.graph(
    "x 4 input, w 4 weight, a 8, v 4, b 4, y 4 output",
    graphs.op("make", "x w", "a", workspace=2),
    graphs.op("look", "a", "v", alias=["v a 2"]),
    graphs.op("use", "v", "b"),
    graphs.op("end", "b", "y"),
    outputs="y",
)
CHAIN_PLACES = {"x": 20, "w": 24, "a": 0, "v": 2, "b": 8, "y": 12}

# A weight updated where it lies: two of its eight bytes are new afterwards.
UPDATE = graphs.graph(
    "x 4 input, w 8 weight, new 2, t 4, y 4 output",
    graphs.op("update", "x w", "new t", overwrite=["new w 0"], workspace=2),
    graphs.op("end", "t", "y"),
    outputs="y",
)
UPDATE_PLACES = {"x": 8, "w": 0, "new": 0, "t": 12, "y": 16}


def faults(
    graph: Mapping[str, Any], places: Mapping[str, int], workspace: int = oracle.NOWHERE, **options: Any
) -> list[str]:
    """Replay with every tensor a buffer of its own, where `places` says; the oracle must agree that it is wrong."""
    captured = memplan.capture(graph).graph
    names = [tensor.name for tensor in captured.tensors]
    sizes = [tensor.bytes for tensor in captured.tensors]
    scratch = [op.workspace for op in captured.ops]
    count = len(names) + len(scratch)
    problem = memplan.Problem(sizes + scratch, [0] * count, [1] * count)
    tensors = [i if places[name] >= 0 else -1 for i, name in enumerate(names)]
    workspaces = [len(names) + k if bytes_ and workspace >= 0 else -1 for k, bytes_ in enumerate(scratch)]
    own = _core.buffers_of(captured, _core.StorageOptions(inplace=False, zero_copy=False))
    roots = own.root_of_tensor.tolist()
    inside = [
        0 if places[name] >= 0 else offset for name, offset in zip(names, own.offset_in_buffer.tolist(), strict=True)
    ]
    buffers = _core.Buffers(problem, tensors, inside, roots, workspaces, [], [], 0)
    offsets = [max(places[name], 0) for name in names] + [max(workspace, 0)] * len(scratch)
    found = _core.replay(captured, buffers, offsets, **options)
    slow = oracle.replay(graph, places, {op.name: workspace if op.workspace else -1 for op in captured.ops})
    assert bool(slow) == bool(found) or options, (slow, found)
    return [fault.message for fault in found]


def test_replay_of_a_good_plan_finds_nothing() -> None:
    assert faults(CHAIN, CHAIN_PLACES, workspace=8) == []
    assert faults(UPDATE, UPDATE_PLACES, workspace=20) == []


def test_replay_of_bytes_that_may_be_reused_finds_nothing() -> None:
    assert faults(CHAIN, CHAIN_PLACES | {"b": 8, "y": 0, "x": 12}, workspace=8) == []


def test_replay_ignores_what_is_not_placed() -> None:
    assert faults(CHAIN, dict.fromkeys(CHAIN_PLACES, oracle.NOWHERE)) == []
    assert faults(CHAIN, CHAIN_PLACES | {"x": -1, "w": -1}, workspace=8) == []


@pytest.mark.parametrize(
    ("changes", "workspace", "message"),
    [
        pytest.param(
            {"v": 3}, 8, "'look' .*'v' must be at offset 2 as a view of tensor 'a', but is at offset 3", id="view moved"
        ),
        pytest.param({"v": -1}, 8, "'look' .*'v' must be at offset 2", id="view outside"),
        pytest.param({"a": -1}, 8, "'look' .*'v' must be outside the arena", id="root outside"),
        pytest.param(
            {"b": 2}, 8, "'use' .*writes while it reads .*'v' at offset 2, but bytes .* hold .*'b'", id="on its input"
        ),
        pytest.param({"a": 20, "v": 22}, 8, "'make' .*writes while it reads .*'x'", id="on the graph's input"),
        pytest.param(
            {"x": 24}, 8, "'make' .*reads tensor 'x' at offset 24, but bytes .* hold tensor 'w'", id="inputs meet"
        ),
        pytest.param(
            {}, 21, "'make' .*reads tensor 'x' .* hold the workspace of op 'make'", id="workspace on an input"
        ),
        pytest.param(
            {}, 7, "'make' .*uses its workspace at offset 7, but bytes .* hold tensor 'a'", id="on its output"
        ),
        pytest.param({"y": 24}, 8, "the next run needs tensor 'w' .* hold tensor 'y'", id="weight destroyed"),
        pytest.param({"b": 12}, 8, "'end' .*writes while it reads tensor 'b'", id="read too late"),
    ],
)
def test_replay_finds(changes: dict[str, int], workspace: int, message: str) -> None:
    found = faults(CHAIN, CHAIN_PLACES | changes, workspace)
    assert any(re.search(message, line) for line in found), found


def two_names(relation: str, over: tuple[str, ...]) -> dict[str, Any]:
    """a, v with the same bytes, and an op that reads both and may write y over some of them."""
    return graphs.graph(
        [{"name": name, "bytes": 4} for name in "avy"],
        graphs.op("make", "", "a"),
        {"name": "look", "inputs": ["a"], "outputs": ["v"], relation: [{"output": "v", "input": "a"}]},
        {
            "name": "add",
            "inputs": ["a", "v"],
            "outputs": ["y"],
            "inplace": [{"output": "y", "input": name} for name in over],
        },
        outputs="y",
    )


@pytest.mark.parametrize("relation", ["alias", "slice"])
def test_replay_finds_who_is_written_over_by_another_name(relation: str) -> None:
    places = {"a": 0, "v": 0, "y": 0}
    assert faults(two_names(relation, ("a", "v")), places) == []
    for over, other in (("a", "v"), ("v", "a")):
        (found,) = faults(two_names(relation, (over,)), places)
        assert re.search(f"'add' .*writes while it reads tensor '{other}' at offset 0, but .* hold tensor 'y'", found)


def test_replay_finds_a_lifetime_that_is_too_short() -> None:
    graph = memplan.capture(CHAIN).graph
    buffers, solution = _core.solve_graph(
        graph, _core.StorageOptions(["intermediate", "output"]), _core.PlanOptions("first_fit")
    )
    assert _core.replay(graph, buffers, solution.offsets) == []
    problem = buffers.problem
    last = problem.last.copy()
    last[problem.names.index("a")] = 2  # its view is read at step 2 still
    shortened = memplan.Problem(problem.size, problem.first, last, 1, problem.names)
    wrong = _core.Buffers(shortened, *buffers.__reduce__()[1][1:])
    offsets = memplan.plan(shortened, "first_fit").offsets
    (fault,) = _core.replay(graph, wrong, offsets)
    assert (fault.op, graph.tensors[fault.tensor].name) == (2, "v")
    assert "op 'use' (step 2) writes while it reads tensor 'v'" in fault.message


def test_replay_finds_an_output_destroyed_before_the_end() -> None:
    graph = {**CHAIN, "outputs": ["y", "b"]}
    (message,) = faults(graph, CHAIN_PLACES | {"y": 9, "b": 8}, workspace=8)[-1:]
    assert "at the end the caller gets tensor 'b' at offset 8, but bytes [9, 12) hold tensor 'y'" in message


def test_replay_finds_bytes_never_written() -> None:
    graph = graphs.graph("x 4 input, v 2", graphs.op("look", "x", "v", alias=["v x"]), outputs="v")
    assert any("bytes [9, 11) were never written" in message for message in faults(graph, {"x": 0, "v": 9}))


def test_replay_finds_two_outputs_of_an_op_on_one_another() -> None:
    graph = graphs.graph("a 4, b 4", graphs.op("split", "", "a b"))
    assert faults(graph, {"a": 0, "b": 4}) == []
    assert "op 'split' (step 0) writes tensor 'a'" in faults(graph, {"a": 0, "b": 3})[0]


def test_replay_finds_an_overwrite_elsewhere() -> None:
    assert "'new' must be at offset 0 as a view of tensor 'w'" in faults(UPDATE, UPDATE_PLACES | {"new": 20}, 24)[0]


def test_replay_keeps_what_an_overwrite_leaves_alone() -> None:
    """Only the bytes that an op overwrites on purpose may change under its inputs."""
    assert faults(UPDATE, UPDATE_PLACES, workspace=4)  # on bytes of w that `new` does not take


def test_replay_keeps_the_rest_of_an_updated_weight() -> None:
    assert faults(UPDATE, UPDATE_PLACES | {"y": 4}, workspace=20)  # on bytes of w that were not updated


def test_replay_keeps_the_new_value_of_an_updated_weight() -> None:
    assert faults(UPDATE, UPDATE_PLACES | {"y": 0}, workspace=20)


def test_replay_says_each_fault_once_and_in_order() -> None:
    found = faults(CHAIN, dict.fromkeys(CHAIN_PLACES, 0), workspace=0)
    assert len(found) == len(set(found))
    for limit in (0, 1, 2, 100):
        assert faults(CHAIN, dict.fromkeys(CHAIN_PLACES, 0), workspace=0, limit=limit) == found[:limit]


def test_replay_faults_name_op_and_tensor() -> None:
    graph = memplan.capture(CHAIN).graph
    buffers, _ = _core.solve_graph(
        graph, _core.StorageOptions(["output", "intermediate", "workspace"]), _core.PlanOptions("naive")
    )
    fault = _core.replay(graph, buffers, [0] * len(buffers.problem))[0]
    assert fault.op == 0
    assert fault.tensor in (None, 2)
    assert str(fault) == fault.message
    assert fault.message in repr(fault)


def test_replay_refuses_offsets_of_the_wrong_length() -> None:
    graph = memplan.capture(CHAIN).graph
    buffers, _ = _core.solve_graph(graph, _core.StorageOptions(["output"]), _core.PlanOptions("naive"))
    with pytest.raises(
        memplan.errors.ProblemError, match="offsets must have one entry per buffer: the problem has 1, offsets has 2"
    ):
        _core.replay(graph, buffers, [0, 0])


def test_replay_of_offsets_near_int64_does_not_wrap() -> None:
    graph = memplan.capture(CHAIN).graph
    buffers, _ = _core.solve_graph(graph, _core.StorageOptions(["intermediate", "output"]), _core.PlanOptions("naive"))
    found = _core.replay(graph, buffers, [2**63 - 3, *[0] * (len(buffers.problem) - 1)])
    assert found
    assert not any("-9223372036" in fault.message for fault in found)


@pytest.mark.parametrize("offset", [-1, -5])
def test_replay_finds_a_placed_tensor_before_the_arena(offset: int) -> None:
    """A negative offset of a placed buffer is wrong; it does not mean that the buffer is not placed."""
    graph = memplan.capture(CHAIN).graph
    buffers, _ = _core.solve_graph(graph, _core.StorageOptions(["output"]), _core.PlanOptions("naive"))
    with pytest.raises(memplan.errors.InvalidPlanError, match="before the arena"):
        memplan.Plan(buffers.problem, np.array([offset]), 4, 4, True, "f", "f", 0.0, 0, graph, buffers).verify()
