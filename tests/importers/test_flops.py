"""Floating-point operations of ops, as importers count them."""

from __future__ import annotations

import math
import pickle
from typing import Any

import pytest
import torch
from onnx import TensorProto, helper
from torch import Tensor, fx, nn
from torch.utils.flop_counter import FlopCounterMode, register_flop_formula

import memplan
from builders.onnx_models import model, value
from memplan.plans.costs import costs_of


def counted(source: Any, *args: Any, **options: Any) -> float:
    graph = memplan.capture(source, args=args, **options).graph
    assert isinstance(graph, memplan.Graph)
    return sum(op.flops or 0.0 for op in graph.ops)


def by_torch(net: nn.Module, *args: Any, train: bool = False) -> int:
    with FlopCounterMode(display=False) as counter:
        out = net(*args)
        if train:
            out.sum().backward()
    return int(counter.get_total_flops())


class Attention(nn.Module):
    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        weights = torch.softmax(torch.bmm(q, k.transpose(1, 2)), -1)
        out: Tensor = torch.baddbmm(q, weights, k)
        return out


def test_flops_are_those_of_torch() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ConvTranspose2d(8, 4, 4, 2, 1), nn.Flatten(), nn.Linear(4 * 256, 5)
    )
    x = torch.randn(2, 3, 8, 8)
    assert counted(net, x, train=True) == by_torch(net, x, train=True)
    assert counted(fx.symbolic_trace(net), x) == by_torch(net, x)
    assert counted(torch.export.export(net, (x,)), x) == by_torch(net, x)
    q, k = torch.randn(3, 5, 4), torch.randn(3, 5, 4)
    assert counted(Attention(), q, k) == by_torch(Attention(), q, k)


@pytest.mark.parametrize("transposed", [False, True])
def test_a_weight_of_groups_has_as_many_flops_as_its_convolution(transposed: bool) -> None:
    """torch counts the gradient of the weight as if there were one group."""
    kind = nn.ConvTranspose1d if transposed else nn.Conv1d
    whole, parts = kind(4, 4, 3, bias=False), kind(4, 4, 3, groups=4, bias=False)
    x = torch.randn(2, 4, 9, requires_grad=True)
    assert counted(whole, x, train=True) == by_torch(whole, x, train=True)
    assert counted(parts, x, train=True) * 4 == counted(whole, x, train=True)


def test_flops_of_what_torch_does_not_count() -> None:
    class Fused(nn.Module):
        def forward(self, q: Tensor, k: Tensor) -> Tensor:
            out: Tensor = nn.functional.scaled_dot_product_attention(q, k, k)
            return out

    q, k = torch.randn(2, 3, 5, 8, requires_grad=True), torch.randn(2, 3, 7, 8, requires_grad=True)
    products = 2 * 2 * 3 * 5 * 7 * 8
    assert counted(Fused(), q, k, train=True) == (2 + 5) * products
    layer, x = nn.LSTM(4, 6), torch.randn(5, 2, 4)
    assert counted(layer, x) == 5 * 2 * 2 * 4 * 6 * (4 + 6)
    matrix, vector = torch.randn(3, 4), torch.randn(4)
    assert counted(Product(), matrix, vector) == 2 * 3 * 4


class Product(nn.Module):
    def forward(self, matrix: Tensor, vector: Tensor) -> Tensor:
        return matrix @ vector


@torch.library.custom_op("memplan_flops::twice", mutates_args=())
def twice(x: Tensor) -> Tensor:
    return 2 * x


@twice.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


class Twice(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = twice(x)
        return out


def test_formulas_of_custom_operators_count() -> None:
    x = torch.randn(4, 5)
    graph = memplan.capture(Twice(), args=(x,)).graph
    assert isinstance(graph, memplan.Graph)
    assert [op.flops for op in graph.ops] == [None]

    @register_flop_formula(torch.ops.memplan_flops.twice)
    def formula(shape: Any, **kwargs: Any) -> int:
        if len(shape) != 2:
            raise ValueError("only matrices")
        return math.prod(shape)

    assert counted(Twice(), x) == 20
    assert counted(Twice(), torch.randn(4)) == 0  # a formula that fails is not worth a failed import


def node_flops(kind: str, inputs: dict[str, list[int]], outputs: list[list[int]], **attributes: Any) -> float | None:
    domain = attributes.pop("domain", "")
    names = [f"y{k}" for k in range(len(outputs))]
    made = helper.make_node(kind, list(inputs), names, domain=domain, **attributes)
    given = [value(name, shape) for name, shape in inputs.items() if name]
    made_outputs = [value(name, shape) for name, shape in zip(names, outputs, strict=True)]
    found = memplan.capture(model([made], given, made_outputs, domains=[domain] if domain else [], opset=23)).graph
    assert isinstance(found, memplan.Graph)
    return found.ops[0].flops


X = [2, 4, 6, 6]
MS = "com.microsoft"


@pytest.mark.parametrize(
    ("kind", "inputs", "output", "attributes", "flops"),
    [
        ("MatMul", {"a": [5, 3, 4], "b": [4, 2]}, [5, 3, 2], {}, 2 * 5 * 3 * 2 * 4),
        ("Gemm", {"a": [4, 3], "b": [2, 4]}, [3, 2], {"transA": 1, "transB": 1}, 2 * 3 * 2 * 4),
        ("Conv", {"x": X, "w": [8, 2, 3, 3]}, [2, 8, 4, 4], {"group": 2}, 2 * 2 * 8 * 16 * 2 * 9),
        ("ConvTranspose", {"x": X, "w": [4, 3, 2, 2], "b": [3]}, [2, 3, 7, 7], {}, 2 * 2 * 4 * 36 * 3 * 4),
        ("LSTM", {"x": [5, 2, 3], "w": [1, 16, 3], "r": [1, 16, 4]}, [5, 1, 2, 4], {"hidden_size": 4}, 20 * 16 * 7),
        ("GRU", {"x": [5, 2, 3], "w": [1, 12, 3], "r": [1, 12, 4]}, [5, 1, 2, 4], {"hidden_size": 4}, 20 * 12 * 7),
        ("Einsum", {"a": [5, 3, 4], "b": [5, 4, 2]}, [5, 3, 2], {"equation": "bij,bjk->bik"}, 2 * 5 * 3 * 4 * 2),
        ("Einsum", {"a": [5, 3, 4], "b": [4, 2]}, [5, 3, 2], {"equation": "...j, jk -> ...k"}, 2 * 5 * 3 * 4 * 2),
        ("Einsum", {"a": [3, 4]}, [4, 3], {"equation": "ij->ji"}, 0),
        ("FusedMatMul", {"a": [3, 4], "b": [4, 2]}, [3, 2], {"domain": MS}, 2 * 3 * 2 * 4),
        (
            "MultiHeadAttention",
            {"q": [2, 5, 8], "k": [2, 7, 8], "v": [2, 7, 8]},
            [2, 5, 8],
            {"num_heads": 2, "domain": MS},
            2 * 2 * 2 * 5 * 7 * 8,
        ),
        (
            "Attention",
            {"x": [2, 5, 8], "w": [8, 24], "b": [24]},
            [2, 5, 8],
            {"num_heads": 2, "domain": MS},
            2 * 2 * 5 * 8 * 24 + 2 * 2 * 2 * 5 * 5 * 8,
        ),
        ("MatMul", {"a": [3, 4], "b": [4, 2]}, [3, 2], {"domain": "mine"}, None),
        ("Relu", {"a": [3, 4]}, [3, 4], {}, None),
        ("MultiHeadAttention", {"q": [2, 5, 2, 3, 4], "": []}, [2, 5, 8], {"num_heads": 2, "domain": MS}, 1600),
        ("QLinearMatMul", {"a": [3, 4]}, [3, 2], {"domain": MS}, None),
    ],
)
def test_flops_of_onnx(
    kind: str, inputs: dict[str, list[int]], output: list[int], attributes: dict[str, Any], flops: float | None
) -> None:
    assert node_flops(kind, inputs, [output], **attributes) == flops


def test_an_attention_of_onnx_counts_what_it_has_seen_before() -> None:
    inputs = {"q": [2, 3, 1, 4], "k": [2, 3, 1, 4], "v": [2, 3, 1, 4], "": [], "pk": [2, 3, 6, 4], "pv": [2, 3, 6, 4]}
    assert node_flops("Attention", inputs, [[2, 3, 1, 4], [2, 3, 7, 4], [2, 3, 7, 4]]) == 2 * 2 * 2 * 3 * 7 * 4


def test_bodies_of_onnx_count() -> None:
    """A Scan multiplies a row by a matrix in each of five steps; an If does so in one branch."""

    def product(name: str) -> Any:
        return helper.make_node("MatMul", [name, "w"], [f"{name}.out"])

    def graph(nodes: list[Any], given: list[str], made: str) -> Any:
        return helper.make_graph(nodes, "body", [value(n, [1, 4]) for n in given], [value(made, [1, 2])])

    scan = helper.make_node(
        "Scan", ["rows"], ["y"], body=graph([product("row")], ["row"], "row.out"), num_scan_inputs=1
    )
    other = helper.make_node("Split", ["x"], ["half", "rest"], axis=1, num_outputs=2)
    branches = {
        "then_branch": graph([product("x")], [], "x.out"),
        "else_branch": graph([other], [], "half"),
    }
    choice = helper.make_node("If", ["c"], ["z"], **branches)
    given = [value("rows", [5, 1, 4]), value("x", [1, 4]), value("w", [4, 2]), value("c", [], TensorProto.BOOL)]
    found = memplan.capture(model([scan, choice], given, [value("y", [5, 1, 2]), value("z", [1, 2])])).graph
    assert isinstance(found, memplan.Graph)
    assert [op.flops for op in found.ops] == [5 * 16, 16]


def test_a_graph_says_what_its_ops_compute() -> None:
    spec: dict[str, Any] = {
        "tensors": [{"name": "x", "bytes": 10, "kind": "input"}, {"name": "y", "bytes": 6}, {"name": "z", "bytes": 4}],
        "ops": [
            {"inputs": ["x"], "outputs": ["y"], "flops": 100},
            {"inputs": ["y"], "outputs": ["z"], "flops": 1, "cost": 7},
        ],
        "outputs": ["z"],
    }
    graph = memplan.capture(spec).graph
    assert isinstance(graph, memplan.Graph)
    assert costs_of(graph, "bytes") == [16, 10]
    assert costs_of(graph, "flops") == [116, 11]
    assert costs_of(graph, "auto") == [116, 7]
    assert memplan.capture(graph.to_dict()).graph == graph == pickle.loads(pickle.dumps(graph))
    for flops, message in ((-1, "finite number >= 0, got -1"), ("many", "finite number >= 0, got 'many'")):
        spec["ops"][0]["flops"] = flops
        with pytest.raises(memplan.errors.GraphError, match=rf"ops\[0\].flops must be a {message}"):
            memplan.capture(spec)
    with pytest.raises(memplan.errors.GraphError, match="op 'a': flops must be finite and >= 0"):
        memplan.Graph([], [memplan.Op("a", flops=-1.0)], [])
