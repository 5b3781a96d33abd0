"""Plans of other tools: what holds gives its peak; what does not names tensors or buffers, bytes and steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import memplan
from builders import graphs
from builders.strategies import bounded, graph_dicts, relation_graphs
from oracles import plain as oracle

PAIR = memplan.Problem([10, 10], [0, 1], [3, 4], names=["a", "b"])
# x -> a -> (v, a view of a) -> b -> y, where y may be written over b.
CHAIN: dict[str, Any] = graphs.graph(
    "x 4 input, w 4 weight, a 8, v 4, b 4, y 4",
    graphs.op("make", "x w", "a", workspace=2),
    graphs.op("look", "a", "v", alias=["v a 2"]),
    graphs.op("use", "v", "b"),
    graphs.op("end", "b", "y", inplace=["y b"]),
    outputs="y",
)
PLACES = {"a": 0, "b": 8, "y": 8, "make.workspace": 8}


# Problems


@pytest.mark.parametrize(
    "offsets", [[10, 0], np.array([10, 0]), {"b": 0, "a": 10}, {"a": np.int64(10), "b": 0}, memplan.plan(PAIR)]
)
def test_a_plan_that_holds_gives_its_peak(offsets: Any) -> None:
    assert memplan.verify(PAIR, offsets) == 20
    assert memplan.verify(([10, 10], [0, 1], [3, 4]), [0, 12], capacity="22") == 22


def test_two_buffers_on_the_same_bytes_are_named() -> None:
    with pytest.raises(memplan.errors.InvalidPlanError) as caught:
        memplan.verify(PAIR, {"a": 4, "b": 0})
    (violation,) = caught.value.violations  # type: ignore[attr-defined]
    assert (violation.kind, violation.buffer, violation.other) == ("overlap", 0, 1)
    assert str(caught.value).splitlines() == [
        "the plan is not valid:",
        "  buffer 'a' at bytes [4, 14) and buffer 'b' at bytes [0, 10) share bytes [4, 10) "
        "while both are alive in steps [1, 3)",
    ]


def test_a_capacity_and_a_limit() -> None:
    with pytest.raises(
        memplan.errors.InvalidPlanError, match="'b' of 10 bytes at offset 10 ends beyond the arena of 19 byt"
    ):
        memplan.verify(PAIR, [0, 10], capacity=19)
    many = memplan.Problem([4] * 20, [0] * 20, [1] * 20)
    with pytest.raises(memplan.errors.InvalidPlanError, match=r"\n  … and more$") as caught:
        memplan.verify(many, [0] * 20, limit=7)
    assert len(caught.value.violations) == 7  # type: ignore[attr-defined]
    with pytest.raises(memplan.errors.InvalidPlanError) as caught:
        memplan.verify(many, [0] * 20, limit=None)
    assert len(caught.value.violations) == 190  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("offsets", "error", "message"),
    [
        ({"a": 0}, ValueError, "offsets has no 'b'; each of the 2 buffers needs one"),
        ({"a": 0, "b": 10, "c": 0}, ValueError, "offsets names 'c', which is none of the buffers; the buffers are 'a'"),
        ({"a": 0, "b": 1.0}, TypeError, r"offsets\['b'\] must be an integer, got 1.0"),
        ({"a": 0, "b": 2**63}, ValueError, r"offsets\['b'\] must fit int64, got 9223372036854775808"),
        ([0], ValueError, "offsets must have one entry per buffer: the problem has 2, offsets has 1"),
        (None, TypeError, "offsets must be a mapping from names to bytes, or a Plan; .* got NoneType"),
    ],
)
def test_offsets_that_are_none(offsets: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        memplan.verify(PAIR, offsets)


def test_a_file_and_its_options(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text("id,lower,upper,size\na,0,1,4\nb,1,2,4\n")
    assert memplan.verify(tmp_path / "l.csv", [0, 0]) == 4
    with pytest.raises(memplan.errors.InvalidPlanError):
        memplan.verify(tmp_path / "l.csv", [0, 0], inclusive=True)


# Plans


def test_a_plan_of_memplan() -> None:
    plan = memplan.plan("example:resnet50_infer")
    assert memplan.verify(plan) == memplan.verify(plan, plan.offsets) == memplan.verify(plan, plan) == plan.peak
    assert memplan.verify("example:resnet50_infer", plan) == plan.peak
    with pytest.raises(memplan.errors.InvalidPlanError, match="ends beyond the arena"):
        memplan.verify(plan, capacity=plan.peak - 1)
    with pytest.raises(memplan.errors.InvalidPlanError, match="share bytes"):
        memplan.verify(plan, plan.offsets * 0)


def test_a_plan_from_a_file_on_its_graph(tmp_path: Path) -> None:
    """Its file says where tensors lie, also those that share a buffer."""
    plan = memplan.plan(CHAIN)
    plan.to_json(tmp_path / "plan.json")
    assert memplan.verify(CHAIN, memplan.read_plan(tmp_path / "plan.json")) == plan.peak


# Graphs


def test_a_graph_and_offsets_by_name() -> None:
    assert memplan.verify(CHAIN, PLACES) == 12
    assert memplan.verify(CHAIN, PLACES | {"v": 2}) == 12
    assert memplan.verify(memplan.plan(CHAIN), PLACES) == 12
    assert memplan.verify(CHAIN, PLACES, alignment=8) == 12  # views lie where they must
    assert memplan.verify(CHAIN, PLACES | {"x": 12, "w": 16}) == 20


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"b": 4, "y": 4}, {}, r"op 'use' .* writes while it reads tensor 'v' at offset 2, but bytes \[4, 6\) hold t"),
        ({"v": 3}, {}, "tensor 'v' must be at offset 2 as a view of tensor 'a', but is at offset 3"),
        ({"make.workspace": 7}, {}, r"op 'make' .* workspace at offset 7, but bytes \[7, 8\) hold tensor 'a'"),
        ({"y": 9}, {}, r"writes while it reads tensor 'b' at offset 8, but bytes \[9, 12\) hold tensor 'y'"),
        ({"y": -1}, {}, "buffer 'y' at offset -1 begins before the arena"),
        ({}, {"capacity": 11}, "buffer 'b' of 4 bytes at offset 8 ends beyond the arena of 11 bytes"),
        ({}, {"alignment": 16}, "buffer 'b' at offset 8 is not aligned to 16"),
    ],
)
def test_what_is_wrong_on_a_graph(changes: dict[str, int], options: dict[str, Any], message: str) -> None:
    with pytest.raises(memplan.errors.InvalidPlanError, match=message):
        memplan.verify(CHAIN, PLACES | changes, **options)


@pytest.mark.parametrize(
    ("left", "message"),
    [
        ("b", "offsets has no 'b', a tensor of 4 bytes and kind intermediate; the option place says"),
        ("y", "offsets has no 'y', a tensor of 4 bytes and kind output"),
        ("make.workspace", "offsets has no 'make.workspace', the workspace of 2 bytes of op 'make'"),
    ],
)
def test_what_must_have_an_offset(left: str, message: str) -> None:
    fewer = {name: offset for name, offset in PLACES.items() if name != left}
    with pytest.raises(ValueError, match=message):
        memplan.verify(CHAIN, fewer)
    place = {"b": ["output", "workspace"], "y": ["intermediate", "workspace"]}.get(left, ["intermediate", "output"])
    assert memplan.verify(CHAIN, fewer, place=place) > 0


def test_names_that_a_graph_does_not_have() -> None:
    with pytest.raises(
        ValueError, match=r"offsets names 'make.workspce', which is none of .*; did you mean 'make.workspac"
    ):
        memplan.verify(CHAIN, PLACES | {"make.workspce": 0})
    with pytest.raises(TypeError, match=r"offsets must be a mapping from names to bytes, or a Plan; .* got list"):
        memplan.verify(CHAIN, [0, 8, 8])
    with pytest.raises(ValueError, match="donate must name graph inputs, got 'a'"):
        memplan.verify(CHAIN, PLACES, donate=["a"])


def test_outside_of_the_arena_values_are_kept_too() -> None:
    """An output over a view of an input that the caller keeps: only as the caller lets it."""
    graph = graphs.graph(
        "x 4 input, v 4, y 4",
        graphs.op("look", "x", "v", alias=["v x"]),
        graphs.op("add", "v", "y", overwrite=["y v"]),
        outputs="y",
    )
    assert memplan.verify(graph, {}) == 0  # all of it lies where the caller has put x
    with pytest.raises(memplan.errors.InvalidPlanError, match="'y' must be outside the arena"):
        memplan.verify(graph, {"y": 0})


@bounded(60)
@given(graph=st.one_of(graph_dicts(), relation_graphs()), draw=st.data())
def test_plans_and_broken_plans_of_random_graphs(graph: dict[str, Any], draw: st.DataObject) -> None:
    """Plans of memplan hold; of broken ones, the slow replay says the same."""
    plan = memplan.plan(graph, "greedy_by_size")
    assert memplan.verify(graph, plan) == plan.peak
    lies = dict(zip(plan.tensors.names, plan.tensors.offset.tolist(), strict=True))
    kinds = {tensor["name"]: tensor["kind"] for tensor in graph["tensors"]}
    shown = {view["output"] for op in graph["ops"] for view in shows(op)}
    assume(lies and all(name in lies or name in shown or kinds[name] in ("input", "weight") for name in kinds))
    moved = draw.draw(st.sampled_from(sorted(lies)))
    lies[moved] = draw.draw(st.integers(0, plan.peak + 1))
    slow = oracle_faults(graph, lies)
    try:
        memplan.verify(graph, lies)
        assert not slow
    except memplan.errors.InvalidPlanError:
        assert slow or len({op.get("stream", 0) for op in graph["ops"]}) > 1  # where other orders are tried too


def shows(op: dict[str, Any]) -> list[dict[str, Any]]:
    return [*op.get("alias", []), *op.get("overwrite", []), *op.get("slice", [])]


def oracle_faults(graph: dict[str, Any], lies: dict[str, int]) -> Any:
    """What the slow replay finds; outside the arena, views and slices lie in what they show."""
    place, region = dict(lies), {}
    for tensor in graph["tensors"]:
        if tensor["name"] not in place:
            place[tensor["name"]], region[tensor["name"]] = 0, tensor["name"]
    for op in graph["ops"]:
        for view in shows(op):
            output, source = view["output"], view["input"]
            if output not in lies:
                place[output] = place[source] + view["offset"]
                region.pop(output)
                region |= {output: region[source]} if source in region else {}
    return oracle.replay(
        graph,
        {tensor["name"]: place[tensor["name"]] for tensor in graph["tensors"]},
        {op["name"]: lies.get(f"{op['name']}.workspace", oracle.NOWHERE) for op in graph["ops"]},
        region=region,
    )
