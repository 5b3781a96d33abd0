"""Outputs over inputs that are still being read: what graphs say, how small plans get, and who checks them."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memplan

EVERYWHERE = ("input", "intermediate", "output", "workspace")


def image(name: str, rows: int, columns: int, channels: int, kind: str = "intermediate") -> dict[str, Any]:
    return {"name": name, "shape": [1, rows, columns, channels], "dtype": "int8", "kind": kind}


def conv(name: str, source: str, rows: int, columns: int, stride: int = 1, **more: Any) -> dict[str, Any]:
    """A convolution of 3 by 3, which runs pixel by pixel."""
    loops = [
        {"extent": size, "reads": {source: [axis, stride, 3, 1]}, "writes": {name: [axis, 1]}}
        for axis, size in ((1, rows), (2, columns))
    ]
    op = {"name": f"op {name}", "type": "Conv", "inputs": [source], "outputs": [name], "loops": loops}
    return op | {"ordered": [0, 1]} | more


def chain(**more: Any) -> dict[str, Any]:
    tensors = [image("x", 16, 16, 4, "input"), image("y", 16, 16, 4), image("z", 8, 8, 8)]
    ops = [conv("y", "x", 16, 16, **more), conv("z", "y", 8, 8, 2, **more)]
    return {"tensors": tensors, "ops": ops, "outputs": ["z"]}


@pytest.mark.parametrize(
    ("more", "peak"),
    [
        ({"ordered": []}, 2048),
        # y begins before x, and z before y: by the rows that are behind a window, and what lives together
        ({"ordered": [0]}, 1024 + 2 * 64 + 64),
        ({"ordered": [0, 1]}, 1024 + (64 + 2 * 4) + (4 + 8)),
        ({"ordered": [0, 1], "reads_first": True}, 1024 + (64 + 4) + 4),
        ({"ordered": [1]}, 1024 + 15 * 64 + 2 * 4),  # a column lies in all rows
    ],
)
def test_the_least_distance_is_that_of_the_loops(more: dict[str, Any], peak: int) -> None:
    plan = memplan.plan(chain(**more), place=EVERYWHERE)
    assert plan.peak == plan.lower_bound == peak
    assert plan.order_bound is not None
    assert plan.order_bound <= peak
    assert (plan.overlaps != ()) == (peak < 2048)
    plan.verify()


def rows(extent: int, columns: int, axis: int) -> dict[str, Any]:
    """An op whose result may lie over what it reads, a row or a column later."""
    tensors = [
        {"name": name, "shape": [extent, columns], "dtype": "int8", "kind": kind}
        for name, kind in (("x", "input"), ("y", "output"))
    ]
    size = (extent, columns)[axis]
    loop = {"extent": size, "reads": {"x": [axis, 1, 1, 0]}, "writes": {"y": [axis, 1]}}
    op = {"name": "op", "inputs": ["x"], "outputs": ["y"], "loops": [loop], "ordered": [0]}
    return {"tensors": tensors, "ops": [op], "outputs": ["y"]}


@pytest.mark.parametrize(
    ("graph", "peak"),
    [
        (rows(200_000_000, 1, 0), 200_000_000 + 256),  # 256 rows together
        (rows(4_000, 4_000, 1), 2 * 16_000_000 - 4_000 + 1),  # a column lies in all rows
    ],
)
def test_long_loops_are_looked_at_in_time(graph: dict[str, Any], peak: int) -> None:
    begin = time.process_time()
    plan = memplan.plan(graph, place=EVERYWHERE, time_limit=0.5)
    assert time.process_time() - begin < 5
    assert plan.peak <= peak
    y, x = (plan.offsets[plan.buffer_of(name)] for name in "yx")
    wrong = replace(plan, offsets=plan.offsets + np.where(plan.offsets == y, (x - y) // 2, 0))
    with pytest.raises(memplan.errors.InvalidPlanError):
        wrong.verify()


def test_nothing_overlaps_if_it_is_forbidden() -> None:
    plain = memplan.plan(chain(ordered=[]), place=EVERYWHERE)
    forbidden = memplan.plan(chain(), place=EVERYWHERE, overlap=False)
    assert forbidden.peak == plain.peak == 2048
    captured = memplan.capture(chain())
    assert memplan.plan(captured, place=EVERYWHERE, overlap=False).peak == 2048
    assert memplan.plan(captured, place=EVERYWHERE).peak == 1108


def grid(reads: list[int], rows: int = 3, **more: Any) -> dict[str, Any]:
    """An op from x of 3 by 3 bytes to y of some rows, along the axis that it names."""
    shapes = {"x": [3, 3], "y": [rows, 3]}
    tensors = [{"name": name, "shape": shape, "dtype": "int8"} for name, shape in shapes.items()]
    tensors[0]["kind"] = "input"
    loop = {"extent": shapes["y"][reads[0]], "reads": {"x": reads}, "writes": {"y": [reads[0], 1]}}
    op = {"name": "op", "inputs": ["x"], "outputs": ["y"], "loops": [loop], "ordered": [0], **more}
    return {"tensors": tensors, "ops": [op], "outputs": ["y"]}


@pytest.mark.parametrize(
    ("graph", "offset", "needed", "found"),
    [
        # each column is written where it has been read
        (grid([1, 1, 1, 0], reads_first=True), 0, 9, 15),
        # the last row of x is never read, so that y may lie there
        (grid([0, 1, 1, 0], rows=2), 6, 12, 12),
        (grid([0, 1, 1, 0], rows=1), 6, 9, 12),
        # nor is the middle row
        (grid([0, 2, 1, 0], rows=1), 3, 9, 12),
    ],
)
def test_no_bound_is_above_what_lies_between_the_rows(
    graph: dict[str, Any], offset: int, needed: int, found: int
) -> None:
    memplan.verify(graph, {"x": 0, "y": offset}, place=EVERYWHERE)
    plan = memplan.plan(graph, place=EVERYWHERE)
    assert (plan.lower_bound, plan.peak) == (needed, found)
    assert plan.optimal == (needed == found)
    assert plan.order_bound is not None
    assert plan.order_bound <= plan.lower_bound


@pytest.mark.parametrize("planner", ["auto", "greedy_by_size"])
def test_a_concatenation_with_one_part_in_place_and_one_overlapped(planner: str) -> None:
    shapes = {"x": [3, 2], "a": [3, 2], "c": [6, 2]}
    x, a, c = ({"name": name, "shape": shape, "dtype": "int8"} for name, shape in shapes.items())
    loop = {"extent": 2, "reads": {name: [1, 1, 1, 0] for name in "ax"}, "writes": {"c": [1, 1]}}
    parts = [{"output": "c", "input": "a", "offset": 0}, {"output": "c", "input": "x", "offset": 6}]
    ops: list[dict[str, Any]] = [
        {"inputs": ["x"], "outputs": ["a"]},
        {"inputs": ["a", "x"], "outputs": ["c"], "loops": [loop], "ordered": [0], "concat": parts},
    ]
    graph = {"tensors": [x | {"kind": "input"}, a, c], "ops": ops, "outputs": ["c"]}
    plan = memplan.plan(graph, planner, place=EVERYWHERE)
    assert plan.peak == 17  # x begins on the last byte of c, which is not written before x has been read there
    assert plan.lower_bound <= 17
    with pytest.raises(memplan.errors.InvalidPlanError):
        memplan.verify(graph, {"c": 0, "a": 0, "x": 10}, place=EVERYWHERE)


def test_what_is_read_later_or_kept_is_not_written_over() -> None:
    graph = chain()
    graph["tensors"].append(image("sum", 16, 16, 4))
    graph["ops"].append({"name": "add", "inputs": ["x", "y"], "outputs": ["sum"]})
    graph["outputs"] = ["z", "sum"]
    plan = memplan.plan(graph, place=EVERYWHERE)
    assert plan.overlaps == ()
    assert plan.peak == 3 * 1024 + 512
    kept = memplan.plan(chain() | {"outputs": ["y", "z"]}, place=EVERYWHERE)  # the last op reads y
    assert [(overlap.output, overlap.input) for overlap in kept.overlaps] == [("y", "x")]


def test_a_workspace_lies_beside_all_of_the_input() -> None:
    graph = chain()
    graph["ops"][0]["workspace"] = 100
    assert memplan.plan(graph, place=EVERYWHERE).peak == 1024 + 72 + 100


@pytest.mark.parametrize("planner", ["auto", "greedy_by_size", "first_fit", "naive"])
def test_every_planner_keeps_to_it(planner: str) -> None:
    plan = memplan.plan(chain(), planner, place=EVERYWHERE)
    assert 1108 <= plan.peak <= (3 * 1024 if planner == "naive" else 2048 + 64)


def test_one_byte_nearer_is_found_by_replay() -> None:
    graph = chain()
    plan = memplan.plan(graph, place=EVERYWHERE)
    offsets = {name: plan[name].offset for name in ("x", "y", "z")}
    memplan.verify(graph, offsets, place=EVERYWHERE)
    below, above = sorted(("x", "y"), key=offsets.__getitem__)
    offsets[below] += 1
    assert offsets[below] < offsets[above]
    with pytest.raises(
        memplan.errors.InvalidPlanError, match=r"op 'op y' .* of its ordered loops, but has written there before"
    ):
        memplan.verify(graph, offsets, place=EVERYWHERE)
    with pytest.raises(memplan.errors.InvalidPlanError):
        memplan.verify(graph, {name: plan[name].offset for name in ("x", "y", "z")}, place=EVERYWHERE, overlap=False)


# What people see


def test_steps_belong_to_ops() -> None:
    plan = memplan.plan(chain(), place=EVERYWHERE)
    first, last = plan.steps.of(0), plan.steps.of(1)
    assert first[1] - first[0] == 2  # all of x and the first rows of y; the last rows of x and all of y
    assert (plan["x"].first, plan["x"].last) == first
    assert (plan["y"].first, plan["y"].last) == (first[0], last[1])
    assert [plan.steps.op_at(step) for step in (*first[:1], first[1] - 1, *last)] == [0, 0, 1, 2]
    said = plan.explain()
    assert said.load_step is not None
    assert said.load_step.op in ("op y", "op z")
    assert said.peak_step is not None
    assert sum(alive.bytes for alive in said.alive) == said.peak_step.load
    assert "op " in str(said)


def test_files_say_what_overlaps(tmp_path: Path) -> None:
    plan = memplan.plan(chain(), place=EVERYWHERE)
    plan.to_c_header(tmp_path / "network.h")
    assert (
        f'// It lies over {plan.overlaps[0].bytes} bytes of "x", which "op y" still reads'
        in (tmp_path / "network.h").read_text()
    )
    plan.to_json(tmp_path / "plan.json")
    assert memplan.read_plan(tmp_path / "plan.json").peak == plan.peak
    plan.to_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    spans = {event["name"]: (event["ts"], event["dur"]) for event in events if event["name"].startswith("op ")}
    assert spans == {f"op {name}": (a, b - a) for name, (a, b) in zip("yz", map(plan.steps.of, (0, 1)), strict=True)}


def test_graph_dicts_keep_it() -> None:
    graph = memplan.capture(chain(reads_first=True)).graph
    again = memplan.capture(graph.to_dict()).graph
    assert again == graph
    assert (again.ops[0].ordered, again.ops[0].reads_first) == ([0, 1], True)


def test_functions_that_do_without() -> None:
    as_it_is = memplan.fit(chain(), 2048, place=EVERYWHERE)  # what is made to fit does; here nothing is
    assert (as_it_is.peak, as_it_is.changes) == (1108, ())
    assert memplan.plan(chain(), place=EVERYWHERE, pools=[memplan.plans.Pool("all")]).peak == 2048


# Bad input


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"ordered": [2]}, "op 'op y': ordered names loop 2, and the op has 2"),
        ({"ordered": [0, 0]}, "op 'op y': ordered names loop 0 twice"),
        ({"ordered": [], "reads_first": True}, "op 'op y': reads_first says something of ordered loops, and none is"),
        ({"ordered": 0}, r"ops\[0\].ordered must be a list, got int"),
        ({"ordered": ["0"]}, r"ops\[0\].ordered\[0\] must hold an integer"),
        ({"reads_first": 1}, r"ops\[0\].reads_first must be true or false, got 1"),
    ],
)
def test_what_is_wrong_is_named(more: dict[str, Any], message: str) -> None:
    with pytest.raises(memplan.errors.GraphError, match=message):
        memplan.plan(chain(**more))


def test_two_loops_along_one_axis() -> None:
    graph = chain(ordered=[0, 1])
    graph["ops"][0]["loops"][1]["reads"] = {"x": [[1, 2], 1, 1, 0]}
    with pytest.raises(memplan.errors.GraphError, match="ordered names two loops along the same axes of tensor 'x'"):
        memplan.plan(graph)


def test_padded_rows_lie_elsewhere() -> None:
    graph = chain()
    graph["tensors"][1]["bytes"] = 2048
    with pytest.raises(
        memplan.errors.GraphError, match=r"along 'y', whose bytes must be the 1024 of int8 \[1, 16, 16, 4\]"
    ):
        memplan.plan(graph)


@pytest.mark.parametrize("value", ["cmsis", 3, None])
def test_kernels_must_be_known(value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="overlap must be True"):
        memplan.plan(chain(), overlap=value)
    with pytest.raises(
        TypeError, match=r"option overlap does not apply to a source of kind dict; it applies to: .tflite"
    ):
        memplan.plan(chain(), overlap="tflite-micro")


def test_many_iterations_are_taken_together() -> None:
    """A merged loop of more than a million elements: groups of them live together."""
    size = (1 << 20) + 3
    tensors = [{"name": name, "shape": [size], "dtype": "float32" if name == "x" else "int8"} for name in ("x", "y")]
    loop = {"extent": size, "reads": {"x": [0, 1, 1, 0]}, "writes": {"y": [0, 1]}}
    op = {"inputs": ["x"], "outputs": ["y"], "loops": [loop], "ordered": [0], "reads_first": True}
    tensors[0]["kind"] = "input"
    plan = memplan.plan({"tensors": tensors, "ops": [op], "outputs": ["y"]}, place=EVERYWHERE)
    assert plan.peak == 4 * size + 2  # the two elements of a group
    assert np.all(plan.offsets >= 0)
