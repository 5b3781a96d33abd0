"""The worked examples of the documents that the planner comes from, built as graphs."""

from __future__ import annotations

from typing import Any

import pytest

import memplan
from builders.graphs import W, X, buffers, graph, load, op, shared, tensor
from builders.reuse_edges import edges_of

Dict = dict[str, Any]
KB, MB = 10**3, 10**6


def meet(plan: memplan.Plan, a: str, b: str) -> bool:
    """Whether two tensors lie on some of the same bytes."""
    return max(plan[a].offset, plan[b].offset) < min(plan[a].end, plan[b].end)


# MXNet's notes on memory: in place, sharing, and parallel branches


def sigmoid(source: str, target: str, **more: Any) -> Dict:
    return op(f"sigmoid_{target}", source, target, inplace=[f"{target} {source}"], type="sigmoid", **more)


def test_three_sigmoids_in_a_chain_need_one_tensor() -> None:
    source = graph([X], op("load", "x", "a"), sigmoid("a", "b"), sigmoid("b", "c"), sigmoid("c", "d"), outputs="d")
    plan = memplan.plan(source)
    assert (len(plan.problem), plan.peak, plan.load) == (1, 8, 8)
    assert load(source, inplace=False) == 16


def test_a_sigmoid_whose_input_is_used_again_is_not_in_place() -> None:
    source = graph([X], op("load", "x", "a"), sigmoid("a", "b"), sigmoid("b", "c"), op("f", "b", "f1"), outputs="c f1")
    assert shared(source) == {"inplace b a"}
    plan = memplan.plan(source)
    assert plan.peak == 24
    assert not meet(plan, "b", "c")


def test_standard_sharing_lets_e_take_the_bytes_of_b() -> None:
    """B is done when C is there; E, which needs D alone, is computed into it."""
    small = (tensor("C", 1), tensor("D", 1))
    source = graph([X, *small], op("b", "x", "B"), op("c", "B", "C"), op("d", "C", "D"), op("e", "D", "E"), outputs="E")
    plan = memplan.plan(source)
    assert shared(source) == set()
    assert meet(plan, "B", "E")
    assert plan.peak == plan.load == 9


PERCEPTRON = graph(
    [tensor("A", kind="input"), tensor("label", kind="input"), W],
    op("fc1", "A w", "fc1"),
    op("act1", "fc1", "act1", inplace=["act1 fc1"]),
    op("fc2", "act1 w", "fc2"),
    op("out", "fc2", "out", inplace=["out fc2"]),
    op("d(fc2)", "out label", "d(fc2)", inplace=["d(fc2) out"]),
    op("d(act1)", "d(fc2) w", "d(act1)"),
    op("d(fc1)", "d(act1) act1", "d(fc1)", inplace=["d(fc1) act1"]),
    op("d(A)", "d(fc1) w", "d(A)"),
    outputs="d(A)",
)


def test_the_two_layers_of_a_perceptron_forward_and_back() -> None:
    assert shared(PERCEPTRON) == {
        "inplace act1 fc1",
        "inplace out fc2",
        "inplace d(fc2) out",
        "inplace d(fc1) act1",
    }
    plan = memplan.plan(PERCEPTRON)
    assert len(plan.problem) == 4
    assert plan.peak == 24  # d(act1) beside what is left of the forward pass
    assert meet(plan, "d(A)", "d(act1)") or meet(plan, "d(A)", "d(fc2)")
    assert plan.naive == 64


def branches(streams: bool) -> Dict:
    """A[1] feeds two branches, A[2] A[3] A[4] and A[5] A[6] A[7], that meet in A[8]."""

    def on(stream: int) -> Dict:
        return {"stream": stream} if streams else {}

    return graph(
        [tensor("A1", kind="input")],
        op("o2", "A1", "A2", **on(1)),
        op("o3", "A2", "A3", **on(1)),
        op("o4", "A3", "A4", **on(1)),
        op("o5", "A1", "A5", **on(2)),
        op("o6", "A5", "A6", **on(2)),
        op("o7", "A6", "A7", **on(2)),
        op("o8", "A4 A7", "A8", **on(0)),
        outputs="A8",
    )


def test_a_plan_for_one_stream_ties_the_branches_together() -> None:
    edges = edges_of(branches(streams=False))
    assert memplan.plan(branches(streams=False)).peak == 24
    assert any(before in {"o2", "o3", "o4"} and after in {"o5", "o6", "o7"} for before, after in edges)


def test_a_plan_for_streams_leaves_the_branches_free() -> None:
    plan = memplan.plan(branches(streams=True))
    assert edges_of(branches(streams=True)) == []
    assert plan.peak == 32
    for one in ("A2", "A3"):
        for other in ("A5", "A6"):
            assert not meet(plan, one, other)


# GE's lifetimes and ops in place


def test_t3_takes_the_bytes_of_t1_only_when_both_readers_are_done() -> None:
    """Op2 and Op3 read T1; T3 is written while Op3 reads T1, so it cannot lie there, whatever inclusive ends say."""
    source = graph(
        [tensor("Input", kind="input")],
        op("Op1", "Input", "T1"),
        op("Op2", "T1", "T2"),
        op("Op3", "T1", "T3"),
        op("Op4", "T2 T3", "Output"),
        outputs="Output",
    )
    plan = memplan.plan(source)
    lives = {slot.name: (slot.first, slot.last) for slot in plan}
    assert lives == {"T1": (0, 3), "T2": (1, 4), "T3": (2, 4), "Output": (3, 4)}
    assert plan.peak == 24
    assert meet(plan, "T1", "Output")
    assert not meet(plan, "T1", "T3")


def test_relu_in_place_is_safe_for_an_only_reader() -> None:
    relu = op("relu", "x1", "y", type="relu", inplace=["y x1"])
    assert shared(graph([X], op("make", "x", "x1"), relu, outputs="y")) == {"inplace y x1"}


def test_relu_in_place_is_unsafe_beside_another_reader() -> None:
    source = graph(
        [X],
        op("make", "x", "x1"),
        op("relu", "x1", "y1", type="relu", inplace=["y1 x1"]),
        op("sigmoid", "x1", "y2"),
        outputs="y1 y2",
    )
    assert "inplace y1 x1" not in shared(source)


CNN = graph(
    [
        tensor("Input", 150 * KB, "input"),
        tensor("T1", 3200 * KB),
        tensor("T2", 3200 * KB),
        tensor("T3", 800 * KB),
    ],
    op("Conv", "Input", "T1", type="Conv"),
    op("ReLU", "T1", "T2", type="ReLU", inplace=["T2 T1"]),
    op("Pool", "T2", "T3", type="Pool"),
    outputs="T3",
)
PLACED = ("input", "intermediate", "output", "workspace")


def test_the_cnn_block() -> None:
    """7.35 MB without reuse, as the document has it. Its 3.35 MB are what is needed until ReLU has run; Pool reads T2
    while it writes T3, which lies beside it, on the input's bytes, of which it needs more."""
    assert memplan.plan(CNN, "naive", place=PLACED, inplace=False).peak == 7350 * KB
    plan = memplan.plan(CNN, place=PLACED)
    assert shared(CNN, place=PLACED) == {"inplace T2 T1"}
    assert plan.naive == 7350 * KB
    assert plan.peak == plan.load == 4000 * KB
    assert meet(plan, "Input", "T3")
    until_relu = {**CNN, "tensors": CNN["tensors"][:3], "ops": CNN["ops"][:2], "outputs": ["T2"]}
    assert memplan.plan(until_relu, place=PLACED).peak == 3350 * KB


def test_the_cnn_block_with_a_pool_that_writes_over_its_input() -> None:
    ops = [*CNN["ops"][:2], {**CNN["ops"][2], "inplace": [{"output": "T3", "input": "T2"}]}]
    assert memplan.plan({**CNN, "ops": ops}, place=PLACED).peak == 3350 * KB


@pytest.mark.parametrize(("listed", "peak"), [(["ReLU"], 6400), (["Add", "Mul"], 4000)])
def test_the_cnn_block_with_ops_that_are_not_in_place(listed: list[str], peak: int) -> None:
    assert memplan.plan(CNN, place=PLACED, disable_inplace_ops=listed).peak == peak * KB


# MegEngine's chunks: read and write dependences


def test_a_read_dependence_prolongs_the_life_of_a_chunk() -> None:
    source = graph(
        [X],
        op("write", "x", "input0"),
        op("view", "input0", "output0", alias=["output0 input0"]),
        op("other", "x", "t"),
        op("read", "output0 t", "y"),
        outputs="y",
    )
    plan = memplan.plan(source)
    assert plan.problem.names == ["input0", "t", "y"]
    assert (plan.problem.first[0], plan.problem.last[0]) == (0, 4)


def overwritten(*more: Dict, tensors: tuple[Dict, ...] = (), outputs: str = "y") -> Dict:
    """A chunk of 20 MB, of which 10 MB from 6 MB on are written over."""
    return graph(
        [X, tensor("chunk1", 20 * MB), tensor("chunk2", 10 * MB), tensor("y", 0), *tensors],
        op("make", "x", "chunk1"),
        op("set", "chunk1", "chunk2", overwrite=[f"chunk2 chunk1 {6 * MB}"]),
        *more,
        outputs=outputs,
    )


@pytest.mark.parametrize("planner", ["megengine", "greedy_by_size", "auto"])
def test_the_ends_of_an_overwritten_chunk_are_used_again(planner: str) -> None:
    source = overwritten(
        op("a", "x", "front"),
        op("b", "x", "back"),
        op("end", "chunk2 front back", "y"),
        tensors=(tensor("front", 6 * MB), tensor("back", 4 * MB)),
    )
    assert buffers(source).problem.parts.tolist() == [  # type: ignore[union-attr]
        [0, 0, 6 * MB, 0, 2],
        [0, 6 * MB, 16 * MB, 0, 5],
        [0, 16 * MB, 20 * MB, 0, 2],
    ]
    plan = memplan.plan(source, planner)
    assert [plan[name].offset for name in ("chunk1", "chunk2", "front", "back")] == [0, 6 * MB, 0, 16 * MB]
    assert plan.peak == 20 * MB


def test_a_chain_of_overwrites_has_one_root_and_summed_offsets() -> None:
    source = overwritten(
        op("set2", "chunk2", "chunk3", overwrite=[f"chunk3 chunk2 {2 * MB}"]),
        op("set3", "chunk3", "chunk4", overwrite=[f"chunk4 chunk3 {1 * MB}"]),
        op("end", "chunk4", "y"),
        tensors=(tensor("chunk3", 5 * MB), tensor("chunk4", 3 * MB)),
    )
    plan = memplan.plan(source)
    root = plan["chunk1"].offset
    assert [plan[f"chunk{i}"].offset - root for i in (2, 3, 4)] == [6 * MB, 8 * MB, 9 * MB]
    assert plan.problem.names == ["chunk1", "y"]


# Memory planning in torch: what a plan adds to a graph


def two_branches(stream: int) -> Dict:
    return graph(
        [X, tensor("left1", 1), tensor("right1", 1)],
        op("l", "x", "left"),
        op("l1", "left", "left1"),
        op("r", "x", "right", stream=stream),
        op("r1", "right", "right1", stream=stream),
        op("join", "left1 right1", "y"),
        outputs="y",
    )


def test_branches_that_share_bytes_depend_on_each_other_without_an_edge_between_them() -> None:
    assert meet(memplan.plan(two_branches(0)), "left", "right")
    assert edges_of(two_branches(0)) == [("l1", "r")]


def test_reuse_within_a_branch_only_keeps_them_free() -> None:
    plan = memplan.plan(two_branches(1))
    assert not meet(plan, "left", "right")
    assert edges_of(two_branches(1)) == []
    assert plan.peak > memplan.plan(two_branches(0)).peak


def test_two_plans_of_the_same_buffers_of_which_one_is_smaller() -> None:
    """The second buffer lies at the bottom, or where it leaves room for the last one below."""
    problem = memplan.Problem([4, 2, 4, 4], [1, 2, 4, 2], [2, 4, 7, 5])
    left, right = memplan.plan(problem, "first_fit"), memplan.plan(problem, "auto")
    assert (left.peak, right.peak, problem.load) == (10, 8, 8)
    assert (left.offsets[1], right.offsets[1]) == (0, 4)
