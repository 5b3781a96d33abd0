"""What torch's ops may share: outputs written over inputs, parts joined, copies; and the order around mutations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import export

import memplan
from builders.torch_nets import Net
from memplan.torch.reading.relations import is_dense, lie_alike

View = tuple[str, str, int]


def captured(function: Callable[..., Any], *args: Tensor, **options: Any) -> memplan.Graph:
    graph = memplan.capture(Net(function), args=args, **options).graph
    assert isinstance(graph, memplan.Graph)
    return graph


def ops(function: Callable[..., Any], *args: Tensor, **options: Any) -> dict[str, memplan.Op]:
    return {op.name: op for op in captured(function, *args, **options).ops}


def last(function: Callable[..., Any], *args: Tensor, **options: Any) -> memplan.Op:
    return captured(function, *args, **options).ops[-1]


def over(function: Callable[..., Any], *args: Tensor, **options: Any) -> list[str]:
    """The inputs that the last op may be written over."""
    op = last(function, *args, **options)
    assert all((output, offset) == (op.outputs[0], 0) for output, _, offset in op.inplace)
    return [source for _, source, _ in op.inplace]


def image(*shape: int) -> Tensor:
    return torch.zeros(*shape).to(memory_format=torch.channels_last)


X = torch.zeros(4, 4)


# Written over


@pytest.mark.parametrize(
    "function",
    [torch.relu, torch.exp, torch.sigmoid, nn.functional.gelu, nn.functional.silu, torch.neg, lambda x: x + 1],
)
def test_unary(function: Any) -> None:
    assert over(lambda net, x: function(x), X) == ["x"]


@pytest.mark.parametrize("function", [torch.add, torch.mul, torch.sub, torch.div, torch.maximum, torch.pow])
def test_binary_on_either_side_unless_broadcast(function: Any) -> None:
    assert over(lambda net, x, y: function(x, y), X, X.clone()) == ["x", "y"]
    assert over(lambda net, x, y: function(x, y), X, torch.zeros(4)) == ["x"]
    assert over(lambda net, x, y: function(x, y), torch.zeros(4), X) == ["y"]
    assert over(lambda net, x, y: function(x, y), torch.zeros(4, 1), torch.zeros(1, 4)) == []


def test_ternary() -> None:
    assert over(lambda net, x, y: torch.where(x > 0, x, y), X, X.clone()) == ["x", "y"]
    assert over(lambda net, x: x.clamp(0, 1), X) == ["x"]
    assert over(lambda net, x: torch.addcmul(x, net.fc.weight, net.fc.weight), X) == ["x", "fc.weight"]
    assert over(lambda net, x, y: x.masked_fill(y, True), X > 0, X > 0) == ["x"]


@pytest.mark.parametrize(
    ("activation", "op"),
    [
        (torch.relu, "threshold_backward"),
        (torch.tanh, "tanh_backward"),
        (torch.sigmoid, "sigmoid_backward"),
        (nn.functional.gelu, "gelu_backward"),
        (nn.functional.silu, "silu_backward"),
        (nn.functional.hardswish, "hardswish_backward"),
        (nn.functional.leaky_relu, "leaky_relu_backward"),
        (nn.functional.elu, "elu_backward"),
    ],
)
def test_backward(activation: Any, op: str) -> None:
    found = ops(lambda net, x: activation(net.fc(x)) * x, X, train=True)
    gradient, saved = found[f"backward.{op}"].inputs[:2]
    assert [source for _, source, _ in found[f"backward.{op}"].inplace] == [gradient, saved]


def test_dropout() -> None:
    function = torch.ops.aten.native_dropout.default
    assert over(lambda net, x: function(x, 0.5, True), X) == ["x"]


def test_what_reads_more_than_one_element_is_left_to_the_caller() -> None:
    for type in ("softmax", "_softmax"):
        inplace_ops = [f"aten.{type}"]
        expected = ["x"] if type == "_softmax" else []
        assert over(lambda net, x: x.softmax(-1), X, inplace_ops=inplace_ops) == expected
    assert over(lambda net, x: x.softmax(-1), X) == []
    assert over(lambda net, x: nn.functional.layer_norm(x, (4,)), X) == []
    assert over(lambda net, x: nn.functional.layer_norm(x, (4,)), X, inplace_ops=["aten.native_layer_norm"]) == ["x"]


def test_widths_of_elements_have_to_agree() -> None:
    assert over(lambda net, x: x.to(torch.int32), X) == ["x"]
    assert over(lambda net, x: x.to(torch.float16), X) == []
    assert over(lambda net, x: x > 0, X) == []
    assert over(lambda net, x: x == 1, X.to(torch.uint8)) == ["x"]
    assert over(lambda net, x: x + 1.5, X.to(torch.int64)) == []


def test_devices_have_to_agree() -> None:
    with FakeTensorMode():
        x = torch.zeros(4, device="cuda")
    op = last(lambda net, x: x.to("cpu"), x)
    assert op.type == "aten._to_copy.default"
    assert (op.inplace, op.slices) == ([], [])
    assert over(lambda net, x: x + 1, x) == ["x"]


def test_empty_tensors_share_nothing() -> None:
    assert over(lambda net, x: x + 1, torch.zeros(0, 4)) == []


# Layouts


def test_an_output_keeps_the_layout_of_a_permuted_input() -> None:
    assert over(lambda net, x: x.t() + 1, X) == ["t"]
    assert over(lambda net, x: x + 1, image(2, 3, 4, 4)) == ["x"]


def test_strides_have_to_agree() -> None:
    assert over(lambda net, x, y: x + y.t(), X, X.clone()) == ["x"]
    assert over(lambda net, x, y: x + y, torch.zeros(2, 3, 4, 4), image(2, 3, 4, 4)) == ["x"]
    assert over(lambda net, x, y: x + y, torch.zeros(4, 1), torch.zeros(1, 4).t()) == ["x", "y"]


def test_expanded_inputs_are_not_written_over() -> None:
    assert over(lambda net, x: x.expand(4, 4) + 1, torch.zeros(4, 1)) == []
    assert over(lambda net, x, y: x.expand(4, 4) + y, torch.zeros(4), X) == ["y"]
    assert over(lambda net, x: x.unfold(0, 2, 1) + 1, torch.zeros(4)) == []


def test_dense() -> None:
    assert is_dense(X)
    assert is_dense(X.t())
    assert is_dense(image(2, 3, 4, 4)[1:])
    assert not is_dense(X[:, :2])
    assert not is_dense(torch.zeros(4).expand(4, 4))
    assert not is_dense(torch.zeros(8).as_strided((2, 2, 2), (1, 1, 5)))  # 8 elements in 8 places, two shown twice
    assert not is_dense(torch.zeros(2, dtype=torch.complex64).conj())
    assert not is_dense(torch.zeros(0))


def test_lying_alike() -> None:
    assert lie_alike(X, X + 1)
    assert lie_alike(X, X.to(torch.int32))
    assert lie_alike(torch.zeros(4, 1), torch.zeros(1, 4).t())
    assert not lie_alike(X, X.t())
    assert not lie_alike(X, X.to(torch.int64))
    assert not lie_alike(X, X.view(2, 8))


def test_inputs_with_gaps_are_not_written_over() -> None:
    assert over(lambda net, x: x[:, :2] + 1, X) == []
    assert over(lambda net, x: x[::2] + 1, torch.zeros(8)) == []


def test_views_of_a_run_of_bytes_are() -> None:
    op = last(lambda net, x: x[1:3] + 1, X)
    assert op.inplace == [("add", "slice", 0)]


def test_another_view_of_what_is_written_over_has_to_lie_in_it_alike_or_apart() -> None:
    assert over(lambda net, x: x + x, X) == ["x"]
    assert over(lambda net, x: x + x.t(), X) == []
    assert over(lambda net, x: x + x[:1], X) == []
    assert over(lambda net, x: x[1:] + x[:-1], torch.zeros(5)) == []
    assert over(lambda net, x: x[2:] + x[:2], X) == ["slice", "slice_1"]


def test_a_copy_that_may_be_left_out_counts_as_a_view() -> None:
    found = captured(lambda net, x: x + x.t().clone(), X).ops
    assert [op.type for op in found] == ["aten.t.default", "aten.clone.default", "aten.add.Tensor"]
    assert found[1].slices == [("clone", "t", 0)]
    assert found[2].inplace == [("add", "x", 0)]  # and not over the clone, which may lie in x
    plan = memplan.plan(Net(lambda net, x: (y := x + 1) + y.t().clone()), args=(X,))
    assert plan.peak == 2 * X.nbytes
    assert plan.run(args=(X,), check=True)
    assert over(lambda net, x: x + x.clone(), X) == ["x", "clone"]


def test_what_was_mutated_is_known_by_two_names() -> None:
    """The view is read after its bytes have got another name."""

    def run(net: nn.Module, x: Tensor) -> Tensor:
        y = x + 1
        view = y.view(-1)
        y.fill_(2)
        return view - 1

    assert [list(op.inplace) for op in captured(run, X).ops[-1:]] == [[("sub", "view", 0), ("sub", "fill_", 0)]]
    assert memplan.plan(Net(run), args=(X,)).peak == X.nbytes


def test_a_parameter_that_is_part_of_a_larger_storage_is_known_by_no_name_of_its_own() -> None:
    flat = torch.zeros(10)
    net = Net(lambda net, x: net.a * net.b, a=nn.Parameter(flat[:4]), b=nn.Parameter(flat[4:8]))
    graph = memplan.capture(net, args=(torch.zeros(4),)).graph
    assert isinstance(graph, memplan.Graph)
    assert graph.ops[-1].inplace == []
    part = flat[:4]  # named after the input, as its storage of ten elements is
    assert last(lambda net, x, y: torch.cat([x, y]), part, torch.zeros(4)).concats == [("cat", "y", 16)]
    assert last(lambda net, x: x.clone(), part).slices == []


ROWS = torch.tensor([2, 0])


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda net, x: x.index_copy(0, ROWS, x[:2].clone() + 1), ["x"]),
        (lambda net, x: x.index_add(0, ROWS.repeat(2), x), []),
        (lambda net, x: x.index_add(0, ROWS, x[2:]), []),
        (lambda net, x: x.slice_scatter(x[1:3], 0, 2, 4), []),
        (lambda net, x: (y := x + 1).index_add(0, ROWS.repeat(2), y.clone()), ["add"]),  # and y is copied, or kept
        (lambda net, x: x[:2].index_copy(0, ROWS[1:], x[2:3]), ["slice"]),  # other bytes of the same storage
    ],
)
def test_what_keeps_an_input_but_for_some_places_is_written_over_it_alone(function: Any, expected: list[str]) -> None:
    assert over(function, X) == expected


def test_nodes_of_a_traced_graph_too() -> None:
    def run(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return torch.index_copy(x, 0, ROWS, y[:2]), torch.index_copy(y, 0, ROWS, y[:2])

    graph = memplan.capture(torch.fx.symbolic_trace(run), args=(X, X.clone())).graph
    assert isinstance(graph, memplan.Graph)
    assert [list(op.inplace) for op in graph.ops if "index_copy" in op.name] == [[("index_copy", "x", 0)], []]


class Decode(nn.Module):
    """A step of two layers with a cache of keys and values each."""

    def __init__(self) -> None:
        super().__init__()
        self.projections = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))

    def forward(self, x: Tensor, position: Tensor, caches: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        new: list[Tensor] = []
        for layer in (0, 2):
            keys, values = (
                cache.index_copy(1, position, project(x))
                for cache, project in zip(caches[layer : layer + 2], self.projections[layer : layer + 2], strict=True)
            )
            x = x + torch.softmax(x @ keys.transpose(1, 2), -1) @ values
            new += [keys, values]
        return x, new


def test_caches_that_are_given_away_are_updated_in_their_own_bytes() -> None:
    args = torch.zeros(1, 1, 16), torch.zeros(1, dtype=torch.int64), [torch.zeros(1, 64, 16) for _ in range(4)]
    caches = [f"caches.{number}" for number in range(4)]
    kept = memplan.plan(Decode(), args=args)
    plan = memplan.plan(Decode(), args=args, donate=caches)
    assert {share.input for share in plan.sharing if share.op.startswith("index_copy")} == set(caches)
    assert kept.peak >= 4 * 64 * 16 * 4
    assert plan.peak < 1024


def test_what_an_op_mutates_is_not_written_over() -> None:
    function = torch.ops.aten.rrelu_with_noise.default
    inplace_ops = ["aten.rrelu_with_noise"]
    assert last(lambda net, x, y: function(x, y, 0.1, 0.3, True), X, X.clone(), inplace_ops=inplace_ops).inplace == [
        ("rrelu_with_noise.0", "x", 0)
    ]


def test_what_has_been_resized_is_not_written_over() -> None:
    def function(net: Net, x: Tensor) -> Tensor:
        y = x * 1
        z = y + 1
        y.resize_(8, 4)
        return z

    assert ops(function, X)["add"].inplace == []


# Joined


def test_cat_on_the_outermost_axis() -> None:
    op = last(lambda net, x, y: torch.cat([x, y]), torch.zeros(2, 3), torch.zeros(4, 3))
    assert op.concats == [("cat", "x", 0), ("cat", "y", 24)]
    op = last(lambda net, x, y: torch.cat((x, y), dim=-1), torch.zeros(1, 3), torch.zeros(1, 2))
    assert op.concats == [("cat", "x", 0), ("cat", "y", 12)]


def test_cat_on_an_inner_axis() -> None:
    assert last(lambda net, x: torch.cat([x, x + 1], 1), X).concats == []
    both = torch.zeros(1, 3, 4, 4), torch.zeros(1, 2, 4, 4)
    assert last(lambda net, x, y: torch.cat([x, y], 1), *both).concats == [("cat", "x", 0), ("cat", "y", 192)]
    assert last(lambda net, x, y: torch.cat([x, y], 1), image(1, 3, 4, 4), image(1, 2, 4, 4)).concats == []
    assert len(last(lambda net, x, y: torch.cat([x, y], 2), image(1, 3, 4, 4), image(1, 3, 2, 4)).concats) == 2


def test_parts_have_to_lie_as_in_the_whole() -> None:
    assert last(lambda net, x: torch.cat([x, x.t()]), X).concats == [("cat", "x", 0)]
    assert last(lambda net, x, y: torch.cat([x[:, :2], y]), X, torch.zeros(4, 2)).concats == [("cat", "y", 32)]
    assert last(lambda net, x, y: torch.cat([x.expand(4, 4), y]), torch.zeros(4), X).concats == [("cat", "y", 64)]
    assert last(lambda net, x, y: torch.cat([x, y]), X, X.to(torch.int32)).concats == [("cat", "x", 0)]


def test_empty_parts_and_parts_that_come_twice() -> None:
    op = last(lambda net, x, y: torch.cat([x, y, y]), torch.zeros(0), X)
    assert op.concats == [("cat", "y", 0)]


def test_stack() -> None:
    assert last(lambda net, x, y: torch.stack([x, y]), X, X.clone()).concats == [("stack", "x", 0), ("stack", "y", 64)]
    assert last(lambda net, x, y: torch.stack([x, y], 1), X, X.clone()).concats == []
    assert last(lambda net, x, y: torch.stack([x, y], -1), X, X.clone()).concats == []


# Copied


def test_clones_of_the_same_layout() -> None:
    assert last(lambda net, x: x.clone(), X).slices == [("clone", "x", 0)]
    assert last(lambda net, x: x.t().clone(), X).slices == [("clone", "t", 0)]
    assert last(lambda net, x: x[1:3].clone(), X).slices == [("clone", "slice", 0)]
    assert last(lambda net, x: x.t().contiguous(), X).slices == []
    assert last(lambda net, x: x[:, :2].clone(), X).slices == []
    assert last(lambda net, x: x.expand(4, 4).clone(), torch.zeros(4)).slices == []


def test_casts_to_the_same_dtype() -> None:
    assert last(lambda net, x: x.to(torch.float32, copy=True), X).slices == [("_to_copy", "x", 0)]
    assert last(lambda net, x: x.to(torch.int32), X).slices == []


def test_copies_in_another_shape() -> None:
    assert last(lambda net, x: torch.ops.aten.view_copy.default(x, [2, 8]), X).slices == [("view_copy", "x", 0)]
    assert last(lambda net, x: torch.ops.aten.squeeze_copy.default(x), X).slices == [("squeeze_copy", "x", 0)]


@pytest.mark.parametrize("which", ["source", "copy", "view of the copy"])
def test_a_copy_that_comes_to_differ_is_a_copy(which: str) -> None:
    def function(net: Net, x: Tensor) -> Tensor:
        y = x * 1
        z = y.clone()
        {"source": y, "copy": z, "view of the copy": z[1:]}[which].zero_()
        return y + z

    assert ops(function, X)["clone"].slices == []


def test_a_copy_of_what_was_mutated_before_may_be_left_out() -> None:
    def function(net: Net, x: Tensor) -> Tensor:
        y = x * 1
        y.add_(1)
        return y.clone()

    assert ops(function, X)["clone"].slices == [("clone", "add_", 0)]


@pytest.mark.parametrize("which", ["part", "whole"])
def test_parts_that_come_to_differ_from_the_whole(which: str) -> None:
    def function(net: Net, x: Tensor) -> Any:
        y = x * 1
        z = torch.cat([y, x])
        (y if which == "part" else z[:1]).zero_()
        return y, z

    expected = [("cat", "x", 64)] if which == "part" else []
    assert ops(function, X)["cat"].concats == expected


# Mutations


def test_what_is_written_over_element_by_element_is_made_anew() -> None:
    """Whoever reads the bytes later, by whatever view, reads what was made, and it may lie over what it was made of."""

    def run(net: nn.Module, x: Tensor) -> Tensor:
        y = x + 1
        view, row, same = y.view(-1), y[0], y.detach()
        kept = y.clone()
        y.mul_(2)
        return (view - 1).sum() + row + same + kept

    found = ops(run, X)
    made = found["mul_"]
    assert (made.type, made.aliases, made.inplace) == ("aten.mul.Tensor", [], [("mul_", "add", 0)])
    assert found["sub"].inputs == ["mul_"]
    assert found["sub"].inplace == [("sub", "mul_", 0)]
    assert found["clone"].slices == [("clone", "add", 0)]
    assert all(not op.after for op in found.values())
    assert made.loops
    net = Net(run)
    assert memplan.plan(net, args=(X,)).run(args=(X,), check=True)


@pytest.mark.parametrize(
    "write",
    [
        lambda x, y: x.add_(1),  # what the caller gave
        lambda x, y: y[1:].add_(1),  # a part
        lambda x, y: y.add_(y.view(-1).detach().view(4, 4)[:, :1].expand(4, 4)),  # reads other elements of it
        lambda x, y: y.cumsum_(0),  # not element by element
        lambda x, y: y.zero_(),
        lambda x, y: y.copy_(x),  # reads nothing of it
    ],
)
def test_what_is_not_made_anew(write: Any) -> None:
    def run(net: nn.Module, x: Tensor) -> Tensor:
        y = x * 1
        write(x, y)
        return y + 0

    assert any(op.aliases and op.type.partition(".")[2].partition(".")[0].endswith("_") for op in ops(run, X).values())


def test_a_mutation_runs_after_those_that_read_what_it_destroys() -> None:
    def function(net: Net, x: Tensor) -> Tensor:
        y = x * 1
        row = y[0]
        a = y.sin()
        b = row.cos()
        y.fill_(1)
        c = y.exp()
        y.zero_()
        return a + b + c + y

    found = ops(function, X)
    assert found["fill_"].after == ["sin", "cos"]
    assert found["zero_"].after == ["exp"]
    assert all(not op.after for name, op in found.items() if name not in ("fill_", "zero_"))


def test_a_mutation_of_a_view_runs_after_readers_of_the_whole() -> None:
    def function(net: Net, x: Tensor) -> Tensor:
        y = x * 1
        a = y.sin()
        y[0].add_(1)
        return a + y

    assert ops(function, X)["add_"].after == ["sin"]


# Graphs that torch has traced


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.act, self.norm = nn.Linear(4, 4), nn.GELU(), nn.LayerNorm(4)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        x = self.act(self.fc(x)) + y
        return torch.cat([nn.functional.softplus(x), self.norm(x).relu()])


def relations(graph: Any) -> dict[str, tuple[list[View], list[View]]]:
    return {op.name: (list(op.inplace), list(op.concats)) for op in graph.ops if op.inplace or op.concats}


def test_a_node_may_share_what_the_only_operator_inside_it_may() -> None:
    traced = memplan.capture(torch.fx.symbolic_trace(Block()), args=(X, X.clone())).graph
    assert relations(traced) == {
        "act.gelu": ([("act.gelu", "fc.linear", 0)], []),
        "add": ([("add", "act.gelu", 0), ("add", "y", 0)], []),
        "softplus": ([("softplus", "add", 0)], []),
        "relu": ([("relu", "norm.layernorm", 0)], []),
        "cat": ([], [("cat", "softplus", 0), ("cat", "relu", 64)]),
    }
    exported = memplan.capture(export(Block(), (X, X.clone()))).graph
    assert list(relations(exported)) == ["act.gelu", "add", "softplus", "relu", "cat"]


def test_types_that_the_caller_adds_to_a_traced_graph() -> None:
    traced = torch.fx.symbolic_trace(Block())
    graph = memplan.capture(traced, args=(X, X.clone()), inplace_ops=["torch.nn.modules.normalization"]).graph
    assert relations(graph)["norm.layernorm"] == ([("norm.layernorm", "add", 0)], [])
    graph = memplan.capture(export(Block(), (X, X.clone())), inplace_ops=["aten.layer_norm.default"]).graph
    assert "norm.layer_norm" in relations(graph)
