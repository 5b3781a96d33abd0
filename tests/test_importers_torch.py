"""The torch importer: exact sizes on nets small enough to count by hand, then real architectures."""

from __future__ import annotations

import operator
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.export import Dim, export
from torch.fx.experimental.proxy_tensor import make_fx
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import memplan
import models
from memplan.errors import MissingDependencyError, SourceError
from memplan.importers.torch import accepts, import_pt2, import_torch


class Net(nn.Module):
    """A forward made from a function, with one layer for it to use."""

    def __init__(self, function: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        self.function = function
        self.fc = nn.Linear(4, 4)
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x: Tensor, y: Tensor | None = None) -> Any:
        return self.function(self, x) if y is None else self.function(self, x, y)


def imported(function: Callable[..., Any], x: Tensor, *more: Tensor, train: bool = False) -> dict[str, Any]:
    graph = import_torch(Net(function), args=(x, *more), train=train)
    memplan.plan(graph)
    return graph


def tensor(graph: dict[str, Any], name: str) -> dict[str, Any]:
    return next(entry for entry in graph["tensors"] if entry["name"] == name)


def op(graph: dict[str, Any], name: str) -> dict[str, Any]:
    return next(entry for entry in graph["ops"] if entry["name"] == name)


def names(graph: dict[str, Any], kind: str) -> list[str]:
    return [entry["name"] for entry in graph["tensors"] if entry["kind"] == kind]


def types(graph: dict[str, Any]) -> list[str]:
    return [entry["type"].removeprefix("aten.").partition(".")[0] for entry in graph["ops"]]


def aliases(graph: dict[str, Any]) -> dict[str, tuple[str, int]]:
    return {
        alias["output"]: (alias["input"], alias["offset"]) for entry in graph["ops"] for alias in entry.get("alias", ())
    }


# --- one run of a module ---------------------------------------------------------------------------------


class Hand(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3, padding=1)
        self.fc = nn.Linear(32, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(torch.relu_(self.conv(x)).view(x.shape[0], -1))  # type: ignore[no-any-return]


def test_a_net_counted_by_hand() -> None:
    graph = import_torch(Hand(), args=(torch.zeros(1, 1, 4, 4),))
    assert {entry["name"]: entry["bytes"] for entry in graph["tensors"]} == {
        "conv.weight": 72,
        "conv.bias": 8,
        "fc.weight": 384,
        "fc.bias": 12,
        "x": 64,
        "conv.convolution": 128,
        "relu_": 128,
        "view": 128,
        "fc.t": 384,
        "fc.addmm": 12,
    }
    assert [entry["name"] for entry in graph["ops"]] == [
        "conv.convolution",
        "relu_",
        "view",
        "fc.t",
        "fc.addmm",
    ]
    assert aliases(graph) == {
        "relu_": ("conv.convolution", 0),
        "view": ("conv.convolution", 0),
        "fc.t": ("fc.weight", 0),
    }
    assert op(graph, "conv.convolution") == {
        "name": "conv.convolution",
        "type": "aten.convolution.default",
        "inputs": ["x", "conv.weight", "conv.bias"],
        "outputs": ["conv.convolution"],
    }
    assert tensor(graph, "conv.convolution")["shape"] == [1, 2, 4, 4]
    assert tensor(graph, "conv.convolution")["dtype"] == "float32"
    assert names(graph, "input") == ["x"]
    assert graph["outputs"] == ["fc.addmm"]
    assert memplan.plan(graph).lower_bound == 128 + 12


def test_plan_takes_a_module() -> None:
    module, x = Hand(), torch.zeros(1, 1, 4, 4)
    assert memplan.plan(module, args=(x,)).lower_bound == 140
    assert memplan.plan(module, args=(x,), train=True).lower_bound > 140


def test_views_have_their_offset_and_extent() -> None:
    graph = imported(lambda net, x: torch.cat((x * 1).chunk(3, 1)[1:]), torch.zeros(2, 6))
    assert [tensor(graph, f"split.{k}")["bytes"] for k in range(3)] == [32, 32, 32]
    assert [aliases(graph)[f"split.{k}"] for k in range(3)] == [("mul", 0), ("mul", 8), ("mul", 16)]


def test_an_empty_view_has_no_bytes() -> None:
    graph = imported(lambda net, x: (x * 1)[2:] + 1, torch.zeros(2, 6))
    assert (tensor(graph, "slice")["bytes"], aliases(graph)["slice"]) == (0, ("mul", 0))


def test_a_view_of_a_view_is_an_alias_of_the_root() -> None:
    graph = imported(lambda net, x: (x * 1)[1:][:, 2:].sin(), torch.zeros(3, 4))
    assert aliases(graph) == {"slice": ("mul", 16), "slice_1": ("mul", 24)}
    assert op(graph, "slice_1")["inputs"] == ["slice", "mul"]


def test_whoever_reads_mutated_bytes_reads_the_mutation() -> None:
    def function(net: Net, x: Tensor) -> Tensor:
        y = x * 1
        row = y[0]
        y.add_(1)
        return row * 2

    graph = imported(function, torch.zeros(2, 4))
    assert op(graph, "mul_1")["inputs"] == ["select", "add_"]
    assert aliases(graph)["add_"] == ("mul", 0)


def test_mutations_without_a_result_are_outputs() -> None:
    def function(net: Net, x: Tensor) -> Tensor:
        torch._foreach_add_([x, net.fc.bias], 1.0)
        return x

    graph = imported(function, torch.zeros(2, 4))
    assert aliases(graph) == {"_foreach_add_.0": ("x", 0), "_foreach_add_.1": ("fc.bias", 0)}
    assert graph["outputs"] == ["_foreach_add_.0"]


def test_out_variants_grow_their_storage() -> None:
    graph = imported(lambda net, x: torch.add(x, x, out=torch.empty(0)), torch.zeros(2, 4))
    assert tensor(graph, "empty")["bytes"] == 32
    assert aliases(graph) == {"add": ("empty", 0)}


def test_detach_is_no_op() -> None:
    assert types(imported(lambda net, x: (x * 1).detach() + 1, torch.zeros(2))) == ["mul", "add"]


def test_tied_weights_appear_once() -> None:
    net = Net(lambda net, x: net.head(net.fc(x)), head=nn.Linear(4, 4, bias=False))
    net.head.weight = net.fc.weight
    graph = import_torch(net, args=(torch.zeros(2, 4),), train=True)
    assert names(graph, "weight") == ["fc.weight", "fc.bias"]
    assert graph["outputs"] == ["loss", "grad.fc.weight", "grad.fc.bias"]


def test_parameters_in_one_storage_are_one_weight() -> None:
    flat = torch.zeros(10)
    net = Net(lambda net, x: net.a * net.b, a=nn.Parameter(flat[:4]), b=nn.Parameter(flat[4:8]))
    graph = import_torch(net, args=(torch.zeros(4),))
    assert names(graph, "weight") == ["a", "fc.weight", "fc.bias"]
    assert tensor(graph, "a")["bytes"] == 40
    assert op(graph, "mul")["inputs"] == ["a"]


def test_buffers_and_constants_are_weights() -> None:
    net = Net(lambda net, x: x + net.scale + net.plain)
    net.register_buffer("scale", torch.zeros(4))
    net.plain = torch.zeros(4)
    graph = import_torch(net, args=(torch.zeros(4),))
    assert names(graph, "weight") == ["fc.weight", "fc.bias", "scale", "constant_0"]


def test_a_scalar_made_in_the_forward_is_made_by_an_op() -> None:
    graph = imported(lambda net, x: x * torch.tensor(3.0), torch.zeros(4))
    assert op(graph, "lift_fresh")["inputs"] == []
    assert tensor(graph, "lift_fresh")["bytes"] == 4


def test_inputs_are_named_after_the_forward() -> None:
    class Many(nn.Module):
        def forward(self, x: Any, *rest: Tensor, masks: Any = None, **extra: Tensor) -> Any:
            return x["a"] + rest[1] + masks[0][1] + extra["bias"]

    one = torch.zeros(1)
    graph = import_torch(
        Many(),
        args=[{"a": one.clone()}, one.clone(), one.clone()],
        kwargs={"masks": [(3, one.clone())], "bias": one.clone()},
    )
    assert names(graph, "input") == ["x.a", "rest.0", "rest.1", "masks.0.1", "bias"]


def test_tensors_inside_objects_are_found_and_left_alone() -> None:
    class Cache:
        def __init__(self) -> None:
            self.keys = [torch.zeros(2, 4)]

    def function(net: Net, x: Tensor, cache: Any) -> Any:
        cache.keys[0] = torch.cat([cache.keys[0], x])
        return x, cache

    cache = Cache()
    graph = imported(function, torch.zeros(1, 4), cache)  # type: ignore[arg-type]
    assert names(graph, "input") == ["x", "y.keys.0"]
    assert graph["outputs"] == ["x", "cat"]
    assert cache.keys[0].shape == (2, 4)
    assert not isinstance(cache.keys[0], FakeTensor)


def test_outputs_of_every_kind() -> None:
    def function(net: Net, x: Tensor) -> Any:
        made = x * 1
        return {"made": made, "again": made, "view": made[1:], "in": x, "weights": (net.fc.weight, net.fc.weight.t())}

    graph = imported(function, torch.zeros(2, 4))
    assert graph["outputs"] == ["mul", "slice", "x", "fc.weight", "t"]


@pytest.mark.parametrize("shape", [(), (0, 4), (1,)])
def test_scalars_and_empty_tensors(shape: tuple[int, ...]) -> None:
    graph = imported(lambda net, x: x + 1, torch.zeros(shape, dtype=torch.float64))
    assert tensor(graph, "add")["bytes"] == 8 * torch.Size(shape).numel()


@pytest.mark.parametrize(
    ("dtype", "nbytes"), [("bfloat16", 2), ("complex64", 8), ("bool", 1), ("int64", 8), ("float8_e4m3fn", 1)]
)
def test_dtypes(dtype: str, nbytes: int) -> None:
    graph = imported(lambda net, x: torch.cat([x, x]), torch.zeros(3, dtype=getattr(torch, dtype)))
    assert (tensor(graph, "cat")["bytes"], tensor(graph, "cat")["dtype"]) == (6 * nbytes, dtype)


def test_a_module_without_arguments() -> None:
    class Source(nn.Module):
        def forward(self) -> Tensor:
            return torch.zeros(5)

    assert import_torch(Source())["outputs"] == ["zeros"]


def test_what_was_compiled_is_imported_as_it_was_written() -> None:
    module, x = nn.Linear(4, 2), torch.zeros(1, 4)
    expected = import_torch(module, args=(x,))
    assert import_torch(torch.compile(module), args=(x,)) == expected
    inside = import_torch(nn.Sequential(torch.compile(module)), args=(x,))
    assert types(inside) == types(expected)


# --- forward and backward --------------------------------------------------------------------------------


def test_training_by_hand() -> None:
    graph = imported(lambda net, x: net.fc(x).relu(), torch.zeros(2, 4), train=True)
    assert graph["outputs"] == ["loss", "grad.fc.weight", "grad.fc.bias"]
    assert op(graph, "backward.threshold_backward")["inputs"] == ["backward.expand", "relu"]
    assert op(graph, "backward.fc.mm")["inputs"] == ["backward.fc.t", "x"]
    assert aliases(graph)["grad.fc.weight"] == ("backward.fc.mm", 0)
    assert tensor(graph, "grad.fc.bias")["bytes"] == 16


def test_the_loss_of_the_result_is_taken() -> None:
    graph = imported(lambda net, x: {"loss": net.fc(x).mean(), "other": net.fc(x).sin()}, torch.zeros(2, 4), train=True)
    assert op(graph, "mean")["outputs"] == ["loss"]
    assert not any(entry["name"].startswith("backward.sin") for entry in graph["ops"])


def test_several_results_are_added_up() -> None:
    graph = imported(lambda net, x: (net.fc(x), net.fc(x).sin(), x > 0), torch.zeros(2, 4), train=True)
    assert types(graph)[:9] == ["t", "addmm", "t", "addmm", "sin", "gt", "sum", "sum", "add"]


def test_an_input_that_requires_a_gradient_gets_one() -> None:
    x = torch.zeros(2, 4, requires_grad=True)
    graph = imported(lambda net, x: net.fc(x), x, train=True)
    assert graph["outputs"] == ["loss", "grad.fc.weight", "grad.fc.bias", "grad.x"]
    assert x.grad is None


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints_run_again_in_the_backward_pass(reentrant: bool) -> None:
    def function(net: Net, x: Tensor) -> Any:
        return checkpoint(lambda inner: net.fc(inner).sin(), net.fc(x), use_reentrant=reentrant)

    graph = imported(function, torch.zeros(2, 4), train=True)
    assert types(graph).count("addmm") == 3
    assert graph["outputs"] == ["loss", "grad.fc.weight", "grad.fc.bias"]


def test_autograd_functions() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return gradient * 2 + ctx.saved_tensors[0]

    graph = imported(lambda net, x: Double.apply(net.fc(x)), torch.zeros(2, 4), train=True)
    assert op(graph, "backward.add")["inputs"] == ["backward.mul", "fc.addmm"]


def test_nothing_to_differentiate() -> None:
    with pytest.raises(SourceError, match=r"train=True needs an output that requires a gradient, Net\.forward"):
        import_torch(Net(lambda net, x: x.argmax()), args=(torch.zeros(4),), train=True)


# --- what the import must leave as it was ----------------------------------------------------------------


def test_the_module_is_as_it_was() -> None:
    class Keeper(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bn = nn.BatchNorm1d(4)
            self.history: list[Tensor] = []

        def forward(self, x: Tensor) -> Tensor:
            self.last = self.bn(x)
            self.history.append(self.last)
            self.register_buffer("late", self.last.detach())
            return self.last * self.last

    module = Keeper()
    module.bn.eval()
    module.bn.weight.grad = torch.ones(4)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    import_torch(module, args=(torch.randn(2, 4),), train=True)
    assert {name: value.tolist() for name, value in module.state_dict().items()} == {
        name: value.tolist() for name, value in before.items()
    }
    assert not hasattr(module, "last")
    assert not hasattr(module, "late")
    assert module.history == []
    assert (module.training, module.bn.training) == (True, False)
    assert torch.equal(module.bn.weight.grad, torch.ones(4))
    assert module.bn.bias.grad is None
    assert not any(isinstance(value, FakeTensor) for value in [*module.parameters(), *module.buffers()])
    assert module(torch.zeros(2, 4)).shape == (2, 4)


def test_random_numbers_are_not_drawn() -> None:
    net = Net(lambda net, x: torch.dropout(x, 0.5, True) + torch.rand(4))
    before = torch.get_rng_state()
    import_torch(net, args=(torch.zeros(4),))
    assert torch.equal(torch.get_rng_state(), before)


def test_modes_and_hooks_are_as_they_were() -> None:
    hooks = len(nn.modules.module._global_forward_hooks)
    with pytest.raises(SourceError), torch.inference_mode():
        import_torch(Net(lambda net, x: x.nonzero()), args=(torch.zeros(4),))
    assert len(nn.modules.module._global_forward_hooks) == hooks
    assert torch.is_grad_enabled()
    assert type(torch.zeros(1)) is Tensor


def test_many_threads_may_import() -> None:
    module, x = Hand(), torch.zeros(1, 1, 4, 4)
    expected = import_torch(module, args=(x,), train=True)
    with ThreadPoolExecutor(4) as threads:
        graphs = list(threads.map(lambda _: import_torch(module, args=(x,), train=True), range(8)))
    assert all(graph == expected for graph in graphs)


def test_a_recurrent_net_works_afterwards() -> None:
    lstm, x = nn.LSTM(4, 3), torch.zeros(2, 1, 4)
    import_torch(lstm, args=(x,), train=True)
    assert type(lstm(x)[0]) is Tensor


# --- weights without data --------------------------------------------------------------------------------


def test_meta_and_fake_modules_give_the_same_graph() -> None:
    expected = import_torch(Hand(), args=(torch.zeros(1, 1, 4, 4),), train=True)
    with torch.device("meta"):
        meta = Hand()
        assert import_torch(meta, args=(torch.zeros(1, 1, 4, 4),), train=True) == expected
    assert import_torch(meta, args=(torch.zeros(1, 1, 4, 4),), train=True) == expected
    with FakeTensorMode():
        fake, x = Hand(), torch.zeros(1, 1, 4, 4)
        assert import_torch(fake, args=(x,), train=True) == expected
    assert import_torch(fake, args=(x,), train=True) == expected


@pytest.mark.parametrize("train", [False, True])
def test_seven_billion_parameters(train: bool) -> None:
    model = models.llama_7b()
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    graph = import_torch(model, args=(torch.zeros(1, 128, dtype=torch.int64),), train=train)
    seconds = time.perf_counter() - start
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    weights = sum(entry["bytes"] for entry in graph["tensors"] if entry["kind"] == "weight")
    assert weights > 26_900_000_000
    assert kilobytes < 1_000_000
    assert seconds < 60
    memplan.plan(graph)


# --- traced graphs ---------------------------------------------------------------------------------------


class Traced(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 4)
        self.norm = nn.LayerNorm(4)
        self.register_buffer("count", torch.zeros(4))
        self.plain = torch.ones(4)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        self.count.add_(1)
        return {"y": self.norm(self.fc(x).relu_() + self.count + self.plain), "tail": x.view(-1)[2:]}


def dynamic() -> torch.export.ExportedProgram:
    shapes = {"x": {0: Dim("batch", min=2, max=64)}}
    return export(Traced(), (torch.zeros(6, 8),), dynamic_shapes=shapes)


def symbol() -> str:
    return str(dynamic().graph_module.graph.find_nodes(op="placeholder")[-1].meta["val"].shape[0])


def test_a_symbolically_traced_graph() -> None:
    graph = import_torch(torch.fx.symbolic_trace(Traced()), args=(torch.zeros(6, 8),))
    assert [entry["name"] for entry in graph["ops"]] == [
        "fc", "relu_", "add", "add_1", "norm", "view", "getitem",
    ]  # fmt: skip
    assert op(graph, "fc")["inputs"] == ["x", "fc.weight", "fc.bias"]
    assert aliases(graph)["relu_"] == ("fc", 0)
    assert aliases(graph)["getitem"] == ("x", 8)
    assert op(graph, "norm")["workspace"] == 48  # mean and rstd of six rows
    assert set(names(graph, "weight")) == {"count", "fc.weight", "fc.bias", "plain", "norm.weight", "norm.bias"}
    assert graph["outputs"] == ["norm", "getitem"]
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
    graph = import_torch(module)
    assert [entry["name"] for entry in graph["ops"]] == ["mm", "native_layer_norm", "split"]
    assert aliases(graph) == {"split.0": ("native_layer_norm.0", 0), "split.1": ("native_layer_norm.0", 48)}
    assert len(graph["outputs"]) == 2
    memplan.plan(graph)


def test_an_exported_program() -> None:
    graph = import_torch(export(Traced(), (torch.zeros(6, 8),)))
    assert types(graph) == ["add_", "linear", "relu_", "add", "add", "layer_norm", "view", "slice"]
    assert aliases(graph)["add_"] == ("count", 0)
    assert aliases(graph)["slice_1"] == ("x", 8)
    assert op(graph, "layer_norm")["workspace"] == 48
    assert "plain" in names(graph, "weight")
    assert names(graph, "input") == ["x"]
    memplan.plan(graph)


def test_a_program_in_functional_form_returns_the_buffers_that_it_updates() -> None:
    graph = import_torch(export(Traced(), (torch.zeros(6, 8),)).run_decompositions())
    assert op(graph, "add")["inputs"] == ["count"]
    assert graph["outputs"] == ["add", "native_layer_norm.0", "slice_1"]
    memplan.plan(graph)


def test_training_an_exported_program() -> None:
    program = dynamic()
    graph = import_torch(program, train=True, dims={"batch": 8})
    assert graph["outputs"][0] == "loss"
    assert "grad.fc.weight" in graph["outputs"]
    assert tensor(graph, "x")["shape"] == [8, 8]
    keywords = export(Traced(), (), {"x": torch.zeros(6, 8)})
    assert import_torch(keywords, train=True)["outputs"][0] == "loss"


def test_symbols_are_hints_or_dims_or_arguments() -> None:
    program = dynamic()
    assert tensor(import_torch(program), "linear")["shape"] == [6, 4]
    assert tensor(import_torch(program, dims={"batch": 9}), "linear")["shape"] == [9, 4]
    assert tensor(import_torch(program, dims={symbol(): 9}), "linear")["shape"] == [9, 4]
    assert tensor(import_torch(program, args=(torch.zeros(9, 8),)), "linear")["shape"] == [9, 4]


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


def test_dims_need_symbols() -> None:
    with pytest.raises(SourceError, match="the source has none"):
        import_torch(export(Traced(), (torch.zeros(6, 8),)), dims={"batch": 3})
    with pytest.raises(SourceError, match="a module has no symbolic sizes"):
        import_torch(Traced(), args=(torch.zeros(6, 8),), dims={"batch": 3})
    with pytest.raises(SourceError, match="args or dims, not both"):
        import_torch(dynamic(), args=(torch.zeros(6, 8),), dims={"batch": 3})


def test_a_symbol_without_a_hint_is_named() -> None:
    program = dynamic()
    shape_env = program.graph_module.graph.find_nodes(op="placeholder")[-1].meta["val"].shape[0].node.shape_env
    shape_env.backed_var_to_val.clear()
    with pytest.raises(SourceError, match=r"symbol 's\d+' has no number; give it one with dims"):
        import_torch(program)
    assert tensor(import_torch(program, dims={"batch": 7}), "linear")["shape"] == [7, 4]


def test_pt2_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    torch.export.save(dynamic(), path)
    assert import_pt2(path) == import_torch(dynamic())
    assert tensor(import_pt2(path, dims={symbol(): 9}), "linear")["shape"] == [9, 4]
    assert import_pt2(str(path), train=True)["outputs"][0] == "loss"
    with pytest.raises(SourceError, match=r"the source has 's\d+' \(dimension 0 of 'x'\)"):
        import_pt2(path, dims={"batch": 9})


def test_pt2_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "broken.pt2"
    path.write_bytes(b"not a model")
    with pytest.raises(SourceError, match=r"broken\.pt2: torch\.export\.load cannot read it"):
        import_pt2(path)
    with pytest.raises(FileNotFoundError, match=r"missing\.pt2"):
        import_pt2(tmp_path / "missing.pt2")


# --- operators that hold graphs --------------------------------------------------------------------------


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


# --- what cannot be imported -----------------------------------------------------------------------------


def test_sizes_that_depend_on_data() -> None:
    net, x = Net(lambda net, x: net.fc(x).nonzero() + 1), torch.zeros(2, 4)
    with pytest.raises(SourceError, match=r"op 'nonzero' \(aten\.nonzero\.default\): the size of its output"):
        import_torch(net, args=(x,))
    with pytest.raises(SourceError, match=r"node 'nonzero' .*depends on data \(symbol 'u0'\)"):
        import_torch(export(net, (x,)))
    with pytest.raises(SourceError, match=r"node 'nonzero'"):
        import_torch(torch.fx.symbolic_trace(lambda x: x.nonzero() + 1), args=(x,))


def test_branches_that_depend_on_data() -> None:
    with pytest.raises(SourceError, match="reads the value of a tensor"):
        imported(lambda net, x: x if x.sum() > 0 else -x, torch.zeros(2))


def test_a_number_that_no_size_depends_on_may_be_unknown() -> None:
    graph = import_torch(export(Net(lambda net, x: x * x.sum().item()), (torch.zeros(4),)))
    assert op(graph, "item") == {"name": "item", "type": "aten.item.default", "inputs": ["sum_1"], "outputs": []}
    memplan.plan(graph)


def test_failures_of_the_model_say_what_it_was_given() -> None:
    with pytest.raises(SourceError, match=r"Net\.forward: op 'fc\.addmm' .*given \(float32\[3, 3\]\)") as caught:
        imported(lambda net, x: net.fc(x), torch.zeros(3, 3))
    assert isinstance(caught.value.__cause__, RuntimeError)
    with pytest.raises(SourceError, match=r"Net\.forward: too many positional arguments; .*float32\[1\]"):
        import_torch(Net(lambda net, x: x), args=(torch.zeros(1),) * 3)
    with pytest.raises(SourceError, match=r"Net\.forward: missing a required argument: 'x'"):
        import_torch(Net(lambda net, x: x))
    with pytest.raises(SourceError, match=r"KeyError: 'weights'"):
        imported(lambda net, x: {}["weights"], torch.zeros(1))


def test_a_failure_leaves_nothing_on_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SourceError):
        imported(lambda net, x: net.fc(x), torch.zeros(3, 3))
    assert capfd.readouterr().err == ""


class Subclass(Tensor):
    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def strange_tensors() -> dict[str, tuple[Tensor, str]]:
    return {
        "sparse": (torch.eye(4).to_sparse(), "got a torch.sparse_coo one"),
        "nested": (torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]), "got a nested one"),
        "subclass": (torch.zeros(4).as_subclass(Subclass), r"got the subclass .*Subclass"),
    }


@pytest.mark.parametrize("kind", ["sparse", "nested", "subclass"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_tensors_that_are_refused(kind: str) -> None:
    strange, message = strange_tensors()[kind]
    with pytest.raises(SourceError, match=f"input 'x': .*{message}"):
        import_torch(Net(lambda net, x: x), args=(strange,))
    net = Net(lambda net, x: x)
    net.register_buffer("odd", strange)
    with pytest.raises(SourceError, match=f"weight 'odd': .*{message}"):
        import_torch(net, args=(torch.zeros(1),))


def test_sparse_results_name_their_op() -> None:
    with pytest.raises(SourceError, match=r"op '_to_sparse': expected a dense"):
        imported(lambda net, x: x.to_sparse(), torch.zeros(4, 4))


def test_lazy_modules() -> None:
    with pytest.raises(SourceError, match="weight 'weight' is not initialized"):
        import_torch(nn.LazyLinear(3), args=(torch.zeros(1, 4),))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: import_torch("model"), "source must be a torch.nn.Module.*got a builtins.str"),
        (lambda: import_torch(nn.Linear), "got the class Linear: give an instance of it"),
        (lambda: import_torch(nn.Linear(4, 4), args=torch.zeros(4)), r"args must be a tuple.*args=\(x,\)"),
        (lambda: import_torch(nn.Linear(4, 4), kwargs=[1]), "kwargs must be a mapping.*got a builtins.list"),
    ],
)
def test_wrong_kinds(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call()


def test_accepts() -> None:
    assert accepts(nn.Linear(2, 2))
    assert accepts(torch.fx.symbolic_trace(nn.Linear(2, 2)))
    assert accepts(export(nn.Linear(2, 2), (torch.zeros(1, 2),)))
    assert not accepts(nn.Linear)
    assert not accepts({"tensors": []})


def test_torch_stays_unimported_until_it_is_needed() -> None:
    code = "import sys; from memplan.importers.torch import accepts; accepts(3); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_torch_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingDependencyError, match=r"memplan\[torch\]"):
        import_torch(object())


# --- real architectures ----------------------------------------------------------------------------------


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("name", models.CATALOGUE)
def test_transformers_models(name: str, train: bool) -> None:
    example = models.CATALOGUE[name]()
    example.model.train(train)
    inputs = dict(example.inputs) if train else models.inference_inputs(example)
    graph = import_torch(example.model, kwargs=inputs, train=train)
    plan = memplan.plan(graph)
    assert set(names(graph, "input")) == set(inputs)
    assert not any(name.startswith("constant") for name in names(graph, "weight"))
    assert plan.peak >= plan.lower_bound > 0
    assert ("loss" in graph["outputs"]) is train


@pytest.mark.parametrize("name", ["resnet", "convnext", "swin", "vit"])
def test_exported_transformers_models(name: str) -> None:
    example = models.CATALOGUE[name]()
    inputs = models.inference_inputs(example)
    exported = import_torch(export(example.model, (), inputs))
    module = import_torch(example.model, kwargs=inputs)
    assert tensor(exported, exported["outputs"][0])["bytes"] == tensor(module, module["outputs"][0])["bytes"]
    ratio = memplan.plan(exported).lower_bound / memplan.plan(module).lower_bound
    assert 1.0 <= ratio < 1.15  # a node's workspace counts as alive for all of the node


class LiveBytes(TorchDispatchMode):
    """The most bytes of storages alive after any operator of a real run, those of `held` left out."""

    def __init__(self, held: list[Tensor]) -> None:
        super().__init__()
        self.peak = 0
        self._held = {tensor.untyped_storage()._cdata for tensor in held}
        self._alive: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for value in torch.utils._pytree.tree_leaves(result):
            if isinstance(value, Tensor) and value.untyped_storage()._cdata not in self._held:
                storage = value.untyped_storage()
                self._alive[storage._cdata] = StorageWeakRef(storage), storage.nbytes()
        self._alive = {key: entry for key, entry in self._alive.items() if not entry[0].expired()}
        self.peak = max(self.peak, sum(nbytes for _, nbytes in self._alive.values()))
        return result


@pytest.mark.parametrize("name", models.CATALOGUE)
def test_the_load_is_what_a_real_run_holds(name: str) -> None:
    """The graph's load against the storages that eager torch really holds, found by weak references.

    Inference: the run holds at least the load, and more where a local variable of the model outlives its last use;
    a graph's tensor ends there. Training: what autograd saves dominates, and both agree to a few per cent. The run
    holds more by such locals; the graph holds more where the engine adds two gradients in place, which it does with
    plain tensors and not with fake ones.
    """
    example = models.CATALOGUE[name]()
    held = [*example.model.parameters(), *example.model.buffers(), *example.inputs.values()]
    inputs = models.inference_inputs(example)
    with torch.no_grad(), LiveBytes(held) as inference:
        example.model(**inputs)
    example.model.train()
    with LiveBytes(held) as training:
        example.model(**example.inputs).loss.backward()
    example.model.zero_grad()
    trained = memplan.plan(import_torch(example.model, kwargs=example.inputs, train=True)).lower_bound
    inferred = memplan.plan(import_torch(example.model.eval(), kwargs=inputs)).lower_bound
    assert 0.6 * inference.peak < inferred <= inference.peak
    assert trained == pytest.approx(training.peak, rel=0.05)


def test_decoding_with_a_cache() -> None:
    from transformers import DynamicCache

    model, inputs = models.llama()
    cache = DynamicCache(config=model.config)
    with torch.no_grad():
        model(inputs["input_ids"], past_key_values=cache)
    keys = cache.layers[0].keys
    graph = import_torch(model, args=(torch.zeros(2, 1, dtype=torch.int64),), kwargs={"past_key_values": cache})
    assert "past_key_values.layers.1.values" in names(graph, "input")
    assert len(graph["outputs"]) == 5
    assert cache.layers[0].keys is keys
    memplan.plan(graph)
