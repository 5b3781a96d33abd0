"""The torch importer on graphs that torch has traced: fx.GraphModule, ExportedProgram and .pt2 files."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, export
from torch.fx.experimental.proxy_tensor import make_fx

import memplan
from builders.torch_nets import Net, Traced, aliases, names, op, tensor, types
from memplan.errors import SourceError
from memplan.torch.private import traced_sizes
from memplan.torch.reading import import_pt2, import_torch


def dynamic() -> torch.export.ExportedProgram:
    shapes = {"x": {0: Dim("batch", min=2, max=64)}}
    return export(Traced(), (torch.zeros(6, 8),), dynamic_shapes=shapes)


def symbol() -> str:
    return str(dynamic().graph_module.graph.find_nodes(op="placeholder")[-1].meta["val"].shape[0])


def test_a_symbolically_traced_graph() -> None:
    graph = import_torch(torch.fx.symbolic_trace(Traced()), args=(torch.zeros(6, 8),))
    assert [entry["name"] for entry in graph["ops"]] == [
        "fc.linear", "relu_", "add", "add_1", "norm.layernorm", "view", "getitem",
    ]  # fmt: skip
    assert op(graph, "fc.linear")["inputs"] == ["x", "fc.weight", "fc.bias"]
    assert aliases(graph)["relu_"] == ("fc.linear", 0)
    assert aliases(graph)["getitem"] == ("x", 8)
    assert op(graph, "norm.layernorm")["workspace"] == 48  # mean and rstd of six rows
    assert set(names(graph, "weight")) == {"count", "fc.weight", "fc.bias", "plain", "norm.weight", "norm.bias"}
    assert graph["outputs"] == ["norm.layernorm", "getitem"]
    memplan.plan(graph)


def test_a_traced_function_without_sizes_asks_for_arguments() -> None:
    module = torch.fx.symbolic_trace(Traced())
    with pytest.raises(SourceError, match=r"placeholder 'x' has no value: pass the graph's inputs with args"):
        import_torch(module)
    with pytest.raises(SourceError, match=r"1 inputs \(x\), got 2 values"):
        import_torch(module, args=(torch.zeros(6, 8), torch.zeros(1)))
    with pytest.raises(SourceError, match=r"kwargs\['z'\].*not among them"):
        import_torch(module, kwargs={"z": torch.zeros(6, 8)})
    assert import_torch(module, kwargs={"x": torch.zeros(6, 8)}, train=True)["outputs"][0] == "loss"


def rows(x: Tensor) -> tuple[Tensor, Tensor]:
    both = x * 2
    return both[0], both[1]


def test_two_views_of_what_one_node_has_made() -> None:
    traced = torch.fx.Graph()
    node = traced.call_function(rows, (traced.placeholder("x"),))
    traced.output(tuple(traced.call_function(operator.getitem, (node, row)) for row in range(2)))
    graph = import_torch(torch.fx.GraphModule(nn.Module(), traced), args=(torch.zeros(2, 4),))
    assert [entry["name"] for entry in graph["ops"]] == ["rows", "rows.views"]
    assert tensor(graph, "rows.0")["bytes"] == 32
    assert aliases(graph) == {"rows.1": ("rows.0", 16)}
    assert graph["outputs"] == ["rows.0", "rows.1"]
    memplan.plan(graph)


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_make_fx(mode: str) -> None:
    def function(x: Tensor, y: Tensor) -> Any:
        return torch.nn.functional.layer_norm(x @ y, (4,)).chunk(2)

    module = make_fx(function, tracing_mode=mode)(torch.zeros(6, 8), torch.zeros(8, 4))
    graph = import_torch(module, args=(torch.zeros(6, 8), torch.zeros(8, 4)))
    assert [entry["name"] for entry in graph["ops"]] == ["mm", "native_layer_norm", "split"]
    assert aliases(graph) == {"split.0": ("native_layer_norm.0", 0), "split.1": ("native_layer_norm.0", 48)}
    assert len(graph["outputs"]) == 2
    memplan.plan(graph)


def test_an_exported_program() -> None:
    graph = import_torch(export(Traced(), (torch.zeros(6, 8),)))
    assert types(graph) == ["add_", "linear", "relu_", "add", "add", "layer_norm", "view", "slice"]
    assert aliases(graph)["add_"] == ("count", 0)
    assert aliases(graph)["slice_1"] == ("x", 8)
    assert op(graph, "norm.layer_norm")["workspace"] == 48
    assert "plain" in names(graph, "weight")
    assert names(graph, "input") == ["x"]
    memplan.plan(graph)


def test_a_program_in_functional_form_returns_the_buffers_that_it_updates() -> None:
    graph = import_torch(export(Traced(), (torch.zeros(6, 8),)).run_decompositions())
    assert op(graph, "add")["inputs"] == ["count"]
    assert graph["outputs"] == ["add", "norm.native_layer_norm.0", "slice_1"]
    memplan.plan(graph)


def test_training_an_exported_program() -> None:
    program = dynamic()
    graph = import_torch(program, train=True, dims={"batch": 8})
    assert graph["outputs"][0] == "loss"
    assert "grad.fc.weight" in graph["outputs"]
    assert tensor(graph, "x")["shape"] == [8, 8]
    keywords = export(Traced(), (), {"x": torch.zeros(6, 8)})
    assert import_torch(keywords, train=True)["outputs"][0] == "loss"


def test_symbols_are_dims_or_arguments() -> None:
    program = dynamic()
    assert tensor(import_torch(program, dims={"batch": 9}), "fc.linear")["shape"] == [9, 4]
    assert tensor(import_torch(program, dims={symbol(): 9}), "fc.linear")["shape"] == [9, 4]
    assert tensor(import_torch(program, args=(torch.zeros(9, 8),)), "fc.linear")["shape"] == [9, 4]


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        (
            {"rows": 3},
            r"dims\['rows'\]: no such symbolic size; the source has 's\d+' or 'batch' \(dimension 0 of 'x'\)",
        ),
        ({"batch": 65}, r"dims\['batch'\]: the export holds for 2 to 64, got 65"),
        ({"batch": -1}, r"dims\['batch'\] must be an int >= 0, got -1"),
        ({"batch": 2.5}, r"dims\['batch'\] must be an int >= 0, got 2.5"),
    ],
)
def test_dims_that_do_not_fit(dims: dict[str, int], message: str) -> None:
    with pytest.raises(SourceError, match=message):
        import_torch(dynamic(), dims=dims)


def test_two_sizes_of_one_symbol() -> None:
    program = dynamic()
    symbol = str(next(iter(program.range_constraints)))
    assert tensor(import_torch(program, dims={"batch": 7, symbol: 7}), "fc.linear")["shape"] == [7, 4]
    said = rf"contradict each other: dims\['batch'\] is 3, dims\['{symbol}'\] is 4; both are '{symbol}' or 'batch'"
    with pytest.raises(SourceError, match=said):
        import_torch(program, dims={"batch": 3, symbol: 4})


def test_dims_need_symbols() -> None:
    with pytest.raises(SourceError, match="the source has none"):
        import_torch(export(Traced(), (torch.zeros(6, 8),)), dims={"batch": 3})
    with pytest.raises(SourceError, match="a module has no symbolic sizes"):
        import_torch(Traced(), args=(torch.zeros(6, 8),), dims={"batch": 3})
    with pytest.raises(SourceError, match="args or dims, not both"):
        import_torch(dynamic(), args=(torch.zeros(6, 8),), dims={"batch": 3})


def test_a_symbol_without_a_size_is_refused_with_what_to_pass(tmp_path: Path) -> None:
    program = dynamic()
    torch.export.save(program, tmp_path / "model.pt2")
    place = r"dimension 0 of 'x', 2 to 64, 6 when it was traced"
    named = rf"'batch' or 's\d+' \({place}\); pass dims={{'batch': 6}} \(--dims batch=6\)$"
    nameless = rf"'s\d+' \({place}\); pass dims={{'s\d+': 6}} \(--dims s\d+=6\)$"
    graph = make_fx(lambda x: x + 1, tracing_mode="symbolic")(torch.zeros(6, 8))
    for source, options, expected in (
        (program, {}, named),
        (program, {"train": True}, named),
        (program.module(), {}, named),
        (tmp_path / "model.pt2", {}, nameless),
        (graph, {}, r"2 or more, 6 when it was traced\); 's\d+' \(dimension 1 of .*, 's\d+': 8}"),
    ):
        with pytest.raises(SourceError, match=r"symbolic dimensions without a size: .*" + expected):
            memplan.plan(source, **options)
    assert tensor(import_torch(program.module(), args=(torch.zeros(9, 8),)), "fc.linear")["shape"] == [9, 4]


def test_a_size_that_nothing_was_traced_with() -> None:
    program = dynamic()
    shape_env = program.graph_module.graph.find_nodes(op="placeholder")[-1].meta["val"].shape[0].node.shape_env
    traced_sizes(shape_env).clear()
    with pytest.raises(
        SourceError, match=r"'batch' or 's\d+' \(dimension 0 of 'x', 2 to 64\); pass dims={'batch': \.\.\."
    ):
        import_torch(program)
    assert tensor(import_torch(program, dims={"batch": 7}), "fc.linear")["shape"] == [7, 4]


def test_arguments_tell_the_size_that_another_is_made_of() -> None:
    """Dimension 0 of y is 2*s0, and no dimension is s0 alone."""

    class Pairs(nn.Module):
        def forward(self, y: Tensor) -> Tensor:
            return y.view(2, -1, 8).sum(0)

    half = Dim("half", min=1, max=64)
    program = export(Pairs(), (torch.zeros(6, 8),), dynamic_shapes={"y": {0: 2 * half}})
    assert tensor(import_torch(program, args=(torch.zeros(10, 8),)), "sum_1")["shape"] == [5, 8]


def test_pt2_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    torch.export.save(dynamic(), path)
    assert import_pt2(path, dims={symbol(): 6}) == import_torch(dynamic(), dims={"batch": 6})
    assert tensor(import_pt2(path, dims={symbol(): 9}), "fc.linear")["shape"] == [9, 4]
    assert import_pt2(str(path), train=True, dims={symbol(): 6})["outputs"][0] == "loss"
    with pytest.raises(SourceError, match=r"the source has 's\d+' \(dimension 0 of 'x'\)"):
        import_pt2(path, dims={"batch": 9})


def test_pt2_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "broken.pt2"
    path.write_bytes(b"not a model")
    with pytest.raises(
        SourceError, match=r"broken\.pt2: expected an archive of torch\.export\.save: File is not a zip file"
    ):
        import_pt2(path)
    with pytest.raises(FileNotFoundError, match=r"missing\.pt2"):
        import_pt2(tmp_path / "missing.pt2")


def test_cond_has_the_workspace_of_its_larger_branch() -> None:
    def function(net: Net, x: Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda x: net.fc(x).relu() + 1, lambda x: x.sin(), (x,))

    graph = import_torch(export(Net(function), (torch.zeros(4, 4),)))
    assert set(op(graph, "cond")["inputs"]) == {"gt", "x", "fc.weight", "fc.bias"}
    assert op(graph, "cond")["workspace"] == 128  # two activations at a time
    memplan.plan(graph)
    with pytest.raises(SourceError, match=r"op 'cond': the higher-order operator cond"):
        import_torch(Net(function), args=(torch.zeros(4, 4),))


def test_while_loop() -> None:
    from torch._higher_order_ops import while_loop

    def function(net: Net, x: Tensor) -> Any:
        return while_loop(lambda i, v: i.sum() < 5, lambda i, v: (i + 1, v.sin() + 1), (torch.zeros(1), x))

    graph = import_torch(export(Net(function), (torch.zeros(4, 4),)))
    assert op(graph, "while_loop")["outputs"] == ["while_loop.0", "while_loop.1"]
    assert op(graph, "while_loop")["workspace"] == 4 + 64 + 64
    memplan.plan(graph)


def test_wrapped_bodies_run_in_place() -> None:
    def function(net: Net, x: Tensor) -> Any:
        with torch.no_grad():
            quiet = x.sin()
        with torch.autocast("cpu", torch.bfloat16):
            return net.fc(quiet)

    program = export(Net(function), (torch.zeros(2, 4),))
    graph = import_torch(program)
    assert types(graph) == ["sin", "linear"]
    assert tensor(graph, graph["outputs"][0])["dtype"] == "bfloat16"
    assert import_torch(program, train=True)["outputs"][0] == "loss"
