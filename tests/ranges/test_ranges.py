"""One plan for sizes in a range: its offsets hold for all of them, and each size has a plan of its own."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

import memplan
from builders import graphs
from builders.commands import run
from builders.plans import places_of
from builders.strategies import bounded, relation_graphs
from memplan.importers import Captured
from memplan.ranges import planning
from oracles.machine import Machine


def network(shape: list[Any]) -> onnx.ModelProto:
    """Grows with the batch, but for a product of weights."""
    name = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("MatMul", ["a", "w"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["c"]),
        helper.make_node("Mul", ["w", "w"], ["ww"]),
        helper.make_node("MatMul", ["c", "ww"], ["y"]),
    ]
    weight = helper.make_tensor("w", TensorProto.FLOAT, [16, 16], np.full(256, 0.5, np.float32))
    inputs, outputs = [name("x", TensorProto.FLOAT, shape)], [name("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


MODEL = network(["batch", 16])


def test_one_plan_holds_for_all_sizes() -> None:
    plan = memplan.plan(MODEL, dims={"batch": (1, 64)}, alignment=64)
    largest = memplan.plan(MODEL, dims={"batch": 64}, alignment=64)
    assert plan.peak == largest.peak
    assert plan.ranged is not None
    assert [sizes for (sizes,) in plan.ranged] == [1, 2, 4, 8, 16, 32, 64]
    assert (plan.ranged.every, plan.ranged.growing, plan.ranged.dims) == (False, True, {"batch": (1, 64)})
    for (batch,), row in plan.ranged.items():
        alone = memplan.plan(MODEL, dims={"batch": batch}, alignment=64)
        assert alone.lower_bound <= row.peak <= row.fixed <= plan.peak
        assert row.peak <= alone.peak * 1.5
        assert row.dims == {"batch": batch}
        assert row.gap == row.peak / row.lower_bound - 1


def test_the_plan_at_a_size_is_an_ordinary_plan() -> None:
    plan = memplan.plan(MODEL, dims={"batch": (1, 64)}, alignment=64, order="best")
    seven = plan.at(batch=7)
    seven.verify()
    x = np.linspace(-1, 1, 112, dtype=np.float32).reshape(7, 16)
    weight = np.full((16, 16), 0.5, np.float32)
    relu = np.maximum(x, 0)
    np.testing.assert_allclose(
        seven.run({"x": x}, check=True).outputs["y"], (relu + relu @ weight) @ (weight * weight), rtol=1e-5
    )
    assert seven.order == plan.order
    assert seven.peak < plan.peak
    assert plan.at(batch=64).peak <= plan.peak
    again = pickle.loads(pickle.dumps(plan))
    assert again.ranged is not None
    assert dict(again.ranged) == dict(plan.ranged or {})
    with pytest.raises(ValueError, match="the plan holds no source"):
        again.at(batch=7)


def test_several_dimensions_have_ranges() -> None:
    plan = memplan.plan(network(["batch", "length", 16]), dims={"batch": (1, 3), "length": (2, 9)})
    assert plan.ranged is not None
    assert len(plan.ranged) == 24
    assert plan.ranged.every
    assert plan.ranged[2, 5].peak == plan.at(batch=2, length=5).peak
    more = memplan.plan(network(["batch", "length", 16]), dims={"batch": (1, 512), "length": (1, 512)})
    assert more.ranged is not None
    assert {(1, 1), (1, 512), (512, 1), (512, 512)} <= set(more.ranged)
    assert len(more.ranged) <= 32
    mixed = memplan.plan(network(["batch", "length", 16]), dims={"batch": (4, 4), "length": 5})
    assert mixed.peak == memplan.plan(network(["batch", "length", 16]), dims={"batch": 4, "length": 5}).peak


def test_a_table_says_what_each_size_needs() -> None:
    plan = memplan.plan(MODEL, dims={"batch": (1, 64)})
    text = str(plan.ranged)
    assert "one plan for batch 1 to 64" in text
    assert "verified for these sizes; plan.at verifies any other" in text
    assert "verified for every size of the range" in str(memplan.plan(MODEL, dims={"batch": (1, 4)}).ranged)
    assert plan.ranged is not None
    assert "batch" in plan.ranged._repr_html_()
    assert repr(plan.ranged) == "<memplan.plans.Ranged: batch 1 to 64; 7 sizes>"
    assert plan.ranged[8] == plan.ranged[8,]
    with pytest.raises(KeyError, match="the plan was not looked at for batch = 7"):
        plan.ranged[7]


def test_a_range_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(MODEL, tmp_path / "net.onnx")
    assert run("plan", tmp_path / "net.onnx", "--dims", "batch=1:64") == 0
    assert "one plan for batch 1 to 64" in capsys.readouterr().out
    assert run("plan", tmp_path / "net.onnx", "--dims", "batch=1:b") != 0
    assert "or a range such as batch=1:64, got 'batch=1:b'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dims": {"batch": (4, 1)}}, r"dims\['batch'\] must be a size, or the least and the largest as \(1, 64\)"),
        ({"dims": {"batch": (1, 2, 3)}}, "must be a size, or the least"),
        ({"dims": {"batch": (1, "b")}}, "must be a size, or the least"),
        (
            {"dims": {"batch": (1, 4)}, "pools": [memplan.plans.Pool("a")]},
            "option pools does not go with dims in a range",
        ),
        ({"dims": {"batch": (1, 4)}, "start": {"a": 0}}, "option start does not go with dims in a range"),
        ({"dims": {"batch": (1, 4)}, "keep": {"a": 0}}, "option keep does not go with dims in a range"),
        ({"dims": {"length": (1, 4)}}, "dims names no symbolic dimension of the model: 'length'"),
    ],
)
def test_bad_ranges_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        memplan.plan(MODEL, **options)


def test_sizes_outside_of_the_range_are_refused() -> None:
    plan = memplan.plan(MODEL, dims={"batch": (2, 8)})
    with pytest.raises(ValueError, match="batch must be an integer from 2 to 8, got 1"):
        plan.at(batch=1)
    with pytest.raises(ValueError, match="the plan has no range of 'length'; the dimensions are 'batch'"):
        plan.at(length=1)
    with pytest.raises(ValueError, match="the plan is for a range of 'batch': give its size, from 2 to 8"):
        plan.at()
    with pytest.raises(ValueError, match="the plan is for one size"):
        memplan.plan(MODEL, dims={"batch": 2}).at(batch=2)
    with pytest.raises(TypeError, match=r"dims\['batch'\] must be a size here, got \(1, 4\)"):
        memplan.capture(MODEL, dims={"batch": (1, 4)})  # type: ignore[dict-item]


def test_a_program_of_torch_has_ranges() -> None:
    import torch
    from torch import nn

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4)).requires_grad_(False)
    batch = torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(model, (torch.randn(4, 8),), dynamic_shapes=({0: batch},))
    name = next(iter(program.range_constraints))
    plan = memplan.plan(program, dims={str(name): (2, 64)}, alignment=64)
    x = torch.randn(5, 8)
    assert torch.equal(plan.at(**{str(name): 5}).run(x, check=True).outputs, model(x))


# Families of graphs


def family(monkeypatch: pytest.MonkeyPatch, graph_of: Any) -> None:
    """Let a source be a function from sizes to a graph dict."""
    read = lambda _, reading: Captured(memplan.capture(graph_of(**reading.dims)).graph)  # noqa: E731
    monkeypatch.setattr(planning, "captured", read)


def chain(sizes: dict[str, int], *, relu: bool = True) -> dict[str, Any]:
    inplace = {"inplace": [{"output": "c", "input": "b"}]} if relu else {}
    return graphs.graph(
        [{"name": name, "bytes": size} for name, size in sizes.items()],
        graphs.op("a", "", "a"),
        graphs.op("b", "a", "b"),
        {"name": "c", "inputs": ["b"], "outputs": ["c"], **inplace},
        graphs.op("d", "c", "d"),
        outputs="d",
    )


def test_what_shrinks_is_planned_for_the_largest_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """`a` shrinks where the others grow, so that the offsets of the largest size do not hold for the smallest."""
    family(monkeypatch, lambda n: chain({"a": 64 - 8 * n, "b": 8 * n, "c": 8 * n, "d": 4}))
    plan = memplan.plan(object(), dims={"n": (1, 7)})
    assert plan.ranged is not None
    assert not plan.ranged.growing
    assert plan.ranged.every
    assert plan.peak == 56 + 56
    for (n,), row in plan.ranged.items():
        assert row.peak == row.lower_bound == 64
        assert plan.at(n=n).peak == 64


def test_small_sizes_may_need_another_order_than_large_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some tensors grow with the size, some with its square."""
    read = [[], ["t0"], [], ["t0", "t2"], ["t1"], ["t0"], [], ["t3", "t5"]]
    grow = [(1, 2), (2, 0), (0, 1), (1, 0), (2, 1), (0, 1), (8, 0), (1, 2)]
    graph = {
        "ops": [{"name": f"o{k}", "inputs": inputs, "outputs": [f"t{k}"]} for k, inputs in enumerate(read)],
        "outputs": ["t7"],
    }
    family(
        monkeypatch,
        lambda n: {
            **graph,
            "tensors": [{"name": f"t{k}", "bytes": a * n + b * n * n} for k, (a, b) in enumerate(grow)],
        },
    )
    plan = memplan.plan(object(), dims={"n": (1, 16)})
    assert plan.ranged is not None
    assert {row.like for row in plan.ranged.values()} == {(2,), (16,)}
    assert all(row.gap == 0 for row in plan.ranged.values())
    naive = memplan.plan(object(), "naive", dims={"n": (1, 16)})
    assert naive.ranged is not None
    assert naive.ranged[16].peak > naive.ranged[16].lower_bound


def test_what_has_a_place_by_name_stays_there(monkeypatch: pytest.MonkeyPatch) -> None:
    family(monkeypatch, lambda n: chain({"a": 4 * n, "b": 8 * n, "c": 8 * n, "d": 4}))
    plan = memplan.plan(object(), dims={"n": (1, 4)}, pin={"d": 100})
    assert {plan.at(n=n)["d"].offset for n in range(1, 5)} == {100}
    assert plan.ranged is not None
    assert {row.peak for row in plan.ranged.values()} == {104}


def test_branches_of_which_a_run_takes_one_share_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    def graph(n: int) -> dict[str, Any]:
        made = chain({"a": 4 * n, "b": 8 * n, "c": 8 * n, "d": 4}, relu=False)
        made["ops"][2]["inputs"], made["ops"][3]["inputs"] = ["a"], ["b", "c"]
        return made

    family(monkeypatch, graph)
    plan = memplan.plan(object(), dims={"n": (1, 4)}, exclusive=[[["b"], ["c"]]])
    assert plan.ranged is not None
    assert [row.peak for row in plan.ranged.values()] == [12 * n for n in range(1, 5)]
    assert memplan.plan(graph(4)).peak > plan.peak


def test_other_sizes_are_captured_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    family(monkeypatch, lambda n: chain({"a": 4 * n, "b": 8 * n, "c": 8 * n, "d": 4 + 1000 * (n == 77)}))
    plan = memplan.plan(object(), dims={"n": (1, 100)})
    assert plan.at(n=50).peak == 600
    assert plan.ranged is not None
    assert 50 not in [n for (n,) in plan.ranged]
    with pytest.raises(memplan.errors.UnsupportedError, match="does not hold at n=77, which was not looked at"):
        plan.at(n=77)


def test_only_what_may_share_bytes_at_all_sizes_does(monkeypatch: pytest.MonkeyPatch) -> None:
    family(monkeypatch, lambda n: chain({"a": 4, "b": 8 * n, "c": 8 * n, "d": 4}, relu=n != 3))
    plan = memplan.plan(object(), dims={"n": (1, 4)})
    assert plan.sharing == ()
    assert plan.peak == 64
    family(monkeypatch, lambda n: chain({"a": 4, "b": 8 * n, "c": 8 * n, "d": 4}))
    assert len(memplan.plan(object(), dims={"n": (1, 4)}).sharing) == 1


def test_a_slice_that_is_not_aligned_at_one_size_is_a_copy_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written over it stays so."""

    def graph(n: int) -> dict[str, Any]:
        made = chain({"a": 4, "b": 32 * n, "c": 16 * n, "d": 16 * n}, relu=False)
        made["ops"][2]["slice"] = [{"output": "c", "input": "b", "offset": 16 * n}]
        made["ops"][3]["inplace"] = [{"output": "d", "input": "c"}]
        return made

    family(monkeypatch, graph)
    assert len(memplan.plan(object(), dims={"n": (2, 2)}, alignment=32).sharing) == 2
    assert len(memplan.plan(object(), dims={"n": (1, 2)}, alignment=32).sharing) == 1


def test_a_range_whose_least_size_gives_another_network_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def graph_of(n: int, k: int = 1) -> dict[str, Any]:
        asked.append((n, k))
        graph = chain({"a": n, "b": n, "c": n, "d": n})
        graph["tensors"] += [{"name": "e", "bytes": n, "kind": "input"}] * (n == 1)
        return graph

    family(monkeypatch, graph_of)
    with pytest.raises(
        memplan.errors.UnsupportedError, match=r"at n=1 than at n=16, .*; one can for dims=\{'n': \(2, 16\)\}"
    ):
        memplan.plan(object(), dims={"n": (1, 16)})
    assert len(asked) == 3
    assert memplan.plan(object(), dims={"n": (2, 16)}).ranged is not None
    with pytest.raises(memplan.errors.UnsupportedError, match=r"one can for dims=\{'k': 3, 'n': \(2, 1000\)\}"):
        memplan.plan(object(), dims={"n": (1, 1000), "k": 3})
    with pytest.raises(memplan.errors.UnsupportedError, match=r"one plan cannot hold for both$"):
        memplan.plan(object(), dims={"n": (1, 2)})


def test_a_range_that_an_export_does_not_hold_for_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def graph_of(n: int) -> dict[str, Any]:
        asked.append(n)
        if not 2 <= n <= 12:
            raise memplan.errors.SourceError(f"the export holds for 2 to 12, got {n}")
        return chain({"a": n, "b": n, "c": n, "d": n})

    family(monkeypatch, graph_of)
    for least, most in ((1, 8), (4, 16)):
        asked.clear()
        with pytest.raises(memplan.errors.SourceError, match="holds for 2 to 12"):
            memplan.plan(object(), dims={"n": (least, most)})
        assert len(asked) <= 2


def test_networks_that_change_with_their_sizes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    family(monkeypatch, lambda n: chain({"a": n, "b": n, "c": n, "d": n, **({"e": n} if n == 1 else {})}))
    with pytest.raises(ValueError, match="'e'"):
        memplan.plan(object(), dims={"n": (1, 4)})
    given = {"tensors": [{"name": "x", "bytes": 4, "kind": "input"}], "ops": [], "outputs": []}
    family(monkeypatch, lambda n: given if n == 2 else {**given, "tensors": []})
    with pytest.raises(
        memplan.errors.UnsupportedError, match=r"other tensors at n=1 than at n=2, such as x: one plan cannot"
    ):
        memplan.plan(object(), dims={"n": (1, 2)})
    work = [{"name": "a", "inputs": ["x"], "outputs": [], "workspace": 4}]
    family(monkeypatch, lambda n: {**given, "ops": [{**work[0], "workspace": 4 * (n == 2)}]})
    with pytest.raises(memplan.errors.UnsupportedError, match="other buffers at some sizes of the range"):
        memplan.plan(object(), dims={"n": (1, 2)})
    monkeypatch.setattr(planning, "captured", lambda *_: Captured(memplan.Problem([1], [0], [1])))
    with pytest.raises(TypeError, match="dims in a range are for graphs"):
        memplan.plan(object(), dims={"n": (1, 2)})


def scaled(graph: dict[str, Any], by: int, more: dict[str, int]) -> dict[str, Any]:
    """All bytes and offsets times a number; some tensors have more, which falls as the number grows."""
    found = {"tensors": [], "ops": [], "outputs": graph["outputs"]}
    for tensor in graph["tensors"]:
        size = tensor["bytes"] * by + more.get(tensor["name"], 0) * (9 - by)
        found["tensors"].append({**tensor, "bytes": size})
    for op in graph["ops"]:
        views = {
            key: [{**view, "offset": view["offset"] * by} for view in op[key]]
            for key in ("alias", "overwrite", "inplace", "slice", "concat")
            if key in op
        }
        found["ops"].append({**op, **views, "workspace": op["workspace"] * by})
    return found


@given(relation_graphs(), st.data())
@bounded(25)
def test_every_size_computes_what_it_computes_apart(graph: dict[str, Any], data: st.DataObject) -> None:
    keys = ("alias", "overwrite", "inplace", "slice", "concat")
    related = {v[end] for op in graph["ops"] for key in keys for v in op.get(key, ()) for end in ("input", "output")}
    free = [tensor["name"] for tensor in graph["tensors"] if tensor["name"] not in related]
    more = {name: data.draw(st.integers(0, 3)) for name in free}
    with pytest.MonkeyPatch.context() as patch:
        family(patch, lambda n: scaled(graph, n, more))
        try:
            plan = memplan.plan(object(), dims={"n": (1, 4)}, place=data.draw(st.sampled_from([KINDS, PLACED])))
        except memplan.errors.GraphError:
            return
        assert plan.ranged is not None
        for n in range(1, 5):
            at = plan.at(n=n)
            assert at.graph is not None
            assert at.lower_bound <= at.peak
            there = {"a": at.graph.to_dict()}
            assert Machine(there, {}).run("a", 0) == Machine(there, {}, {"a": places_of(at)}, at.peak).run("a", 0)


KINDS = ("input", "weight", "intermediate", "output", "workspace")
PLACED = ("intermediate", "output", "workspace")
