"""Regions in place, row by row: what they make lies over what they read last, and no row is lost before that."""

from __future__ import annotations

from typing import Any

import pytest

import memplan
from memplan import _core
from memplan.importers.graph_dict import graph_of
from oracles.rows import run_pieces, run_whole

INPLACE = {"inplace": [{"output": "y", "input": "a"}]}


def op(name: str, sources: list[str], window: int = 1, axis: int = 0, **more: Any) -> dict[str, Any]:
    reads = {source: [axis, 1, window, window // 2] for source in sources}
    loop = {"extent": 8, "reads": reads, "writes": {name: [axis, 1]}}
    return {"name": f"{name}:op", "type": "conv", "inputs": sources, "outputs": [name], "loops": [loop], **more}


def block(tensors: Any = (), ops: Any = ()) -> _core.Graph:
    """x, a copy `a` of it, two convolutions, and their sum with `a`, `y`, that is copied to `z`; with some changed."""
    known = {name: {"name": name, "shape": [8, 10], "dtype": "int8"} for name in "xastyz"}
    known["x"]["kind"] = "input"
    usual = [op("a", ["x"]), op("s", ["a"], 3), op("t", ["s"], 3), op("y", ["t", "a"], **INPLACE), op("z", ["y"])]
    for name, values in dict(tensors).items():
        known[name].update(values)
    made = {one["outputs"][0]: one for one in (*usual, *ops)}
    return graph_of({"tensors": [*known.values()], "ops": [*made.values()], "outputs": ["z"]})


def in_eight(graph: _core.Graph, again: bool = False, **options: Any) -> Any:
    return _core.split(graph, [([(1, 0, again), (2, 0, False), (3, 0, False)], 8)], _core.StorageOptions(**options))


def over(split: Any) -> set[tuple[str, str]]:
    """Whole tensors that others are written over."""
    return {(after, before) for op in split.graph.ops for after, before, _ in op.overwrites if before in "xasty"}


def test_a_sum_is_written_over_what_it_reads_last() -> None:
    graph = block()
    split = in_eight(graph)
    assert over(split) == {("y/1of8", "a")}
    whole = run_whole(graph, {f"{name}:op": 0 for name in "sty"})
    assert run_pieces(graph, split)["z"] == whole["z"]
    # of `s` and `t` there are three rows and one, beside the bytes of `a` that `y` takes
    assert memplan.plan(split.graph, place=["intermediate", "workspace"]).peak == 80 + 30 + 10


@pytest.mark.parametrize(
    "graph",
    [
        pytest.param(block(ops=[op("y", ["t", "a"])]), id="the op that writes a row may not read it"),
        pytest.param(block(ops=[op("z", ["y", "a"])]), id="read after the region"),
        pytest.param(block(ops=[op("y", ["t", "a"], 3, **INPLACE)]), id="a window of rows that are written"),
        pytest.param(block({"a": {"bytes": 100}}), id="more bytes"),
        pytest.param(block({"a": {"shape": [8, 5, 2]}}), id="another shape"),
        pytest.param(block({"a": {"permuted": True}}), id="another order of axes in memory"),
        pytest.param(block({"y": {"permuted": True}}), id="written in another order of axes"),
        pytest.param(block({"a": {"kind": "output"}}), id="the caller's"),
    ],
)
def test_what_is_read_later_is_not_written_over(graph: _core.Graph) -> None:
    assert not over(in_eight(graph))


def test_rows_that_are_made_again_are_read_again() -> None:
    assert not over(in_eight(block(), again=True))


@pytest.mark.parametrize("options", [{"inplace": False}, {"disable_inplace_ops": ["conv"]}])
def test_nothing_is_written_over_where_nothing_may_be_in_place(options: dict[str, Any]) -> None:
    assert not over(in_eight(block(), **options))


def test_a_later_pass_reads_what_an_earlier_one_may_not_write_over() -> None:
    statistics = {"inputs": ["t"], "bytes": 8}
    norm = op("u", ["t"])
    norm["loops"][0]["statistics"] = statistics
    usual = block().to_dict()
    u = {"name": "u", "shape": [8, 10], "dtype": "int8"}
    ops = [*usual["ops"][:4], norm, op("z", ["y", "u"])]
    graph = graph_of({"tensors": [*usual["tensors"], u], "ops": ops, "outputs": ["z"]})
    split = _core.split(graph, [([(k, 0, False) for k in (1, 2, 3, 4)], 8)])
    assert {piece.does for piece in split.pieces} >= {"statistics"}
    assert over(split) == {("u/1of8", "a")}  # not `y`, which the first pass writes: the second reads `a` again
    assert run_pieces(graph, split)["z"] == run_whole(graph, {f"{name}:op": 0 for name in "styu"})["z"]


def test_a_plan_says_what_is_written_over_what() -> None:
    total = {"name": "z:op", "type": "sum", "inputs": ["y"], "outputs": ["z"]}
    graph = block({"z": {"shape": [1, 1]}}, [{**total, "name": "z:op"}])
    plan = memplan.fit(graph, 80 + 30 + 10, allow=("split",))
    assert [change.over for change in plan.changes] == [(("y", "a"),)]
