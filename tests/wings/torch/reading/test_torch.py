"""The torch importer on modules: exact sizes, views and names on nets small enough to count by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils.checkpoint import checkpoint

import memplan
from builders.torch_nets import Hand, Net, aliases, imported, names, op, tensor, types
from memplan.errors import SourceError
from memplan.torch.reading import import_torch


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
        "view": ("relu_", 0),
        "fc.t": ("fc.weight", 0),
    }
    convolution = op(graph, "conv.convolution")
    for loop in convolution["loops"]:
        loop.pop("workspace", None)  # that of its kernel, which depends on the processor
    assert convolution == {
        "name": "conv.convolution",
        "type": "aten.convolution.default",
        "inputs": ["x", "conv.weight", "conv.bias"],
        "outputs": ["conv.convolution"],
        "flops": 2 * 2 * 16 * 9,
        "loops": [
            {
                "extent": 2,
                "reads": {"conv.weight": [0, 1, 1, 0], "conv.bias": [0, 1, 1, 0]},
                "writes": {"conv.convolution": [1, 1]},
            },
            {"extent": 4, "reads": {"x": [2, 1, 3, 1]}, "writes": {"conv.convolution": [2, 1]}},
            {"extent": 4, "reads": {"x": [3, 1, 3, 1]}, "writes": {"conv.convolution": [3, 1]}},
        ],
        "pieces_copied": True,
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
        y.fill_(1)
        return row * 2

    graph = imported(function, torch.zeros(2, 4))
    assert op(graph, "mul_1")["inputs"] == ["select", "fill_"]
    assert aliases(graph)["fill_"] == ("mul", 0)


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


def test_what_shows_bytes_again_has_no_shape_of_its_own() -> None:
    """In a graph dict a shape takes no more bytes than the tensor has."""
    graph = memplan.capture(Net(lambda net, x: x.expand(4, 4).exp()), args=(torch.ones(1, 4),)).graph
    said = {t.name: (t.bytes, t.shape, t.dtype) for t in graph.tensors}
    assert said["expand"] == (16, None, "float32")
    assert said["exp"] == (64, [4, 4], "float32")


@pytest.mark.parametrize("function", [torch.ops.aten.copy, torch.ops.aten.slice_scatter])
def test_a_copy_of_a_whole_storage_has_as_many_bytes_the_second_time(function: Any) -> None:
    """Torch remembers what its operators return for fake tensors, without what lies behind the result."""
    x, y = torch.randn(4, 8, 16), torch.randn(4, 3, 16)
    found = [imported(lambda net, x, y: function(x[:, 2:5], y), x, y) for _ in range(3)]
    assert found[0] == found[1] == found[2]
    if function is torch.ops.aten.copy:
        assert tensor(found[0], found[0]["outputs"][0])["bytes"] == function(x[:, 2:5], y).untyped_storage().nbytes()


def test_a_result_that_is_returned_twice_has_one_storage_the_second_time() -> None:
    """Both biases of a layer have the same gradient."""
    found = [import_torch(nn.LSTM(16, 24), args=(torch.randn(2, 7, 16),), train=True) for _ in range(3)]
    assert found[0] == found[1] == found[2]
    assert aliases(found[0])["grad.bias_ih_l0"][0] == "backward.new_empty_strided"
