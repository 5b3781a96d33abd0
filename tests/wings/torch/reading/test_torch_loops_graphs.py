"""The loops in graph dicts of torch: by names of tensors, as far as these have rows."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import memplan
from builders.torch_nets import imported, op
from memplan.torch.reading import import_torch

Loops = list[dict[str, Any]]


def loops(graph: dict[str, Any], name: str) -> Loops:
    return op(graph, name).get("loops", [])  # type: ignore[no-any-return]


def test_a_tensor_that_is_read_twice_alike_is_listed_once() -> None:
    graph = imported(lambda net, x: x + x, torch.zeros(3, 4))
    assert loops(graph, "add")[0] == {"extent": 3, "reads": {"x": [0, 1, 1, 0]}, "writes": {"add": [0, 1]}}


def test_a_tensor_that_is_read_in_two_ways_is_read_whole() -> None:
    graph = imported(lambda net, x: x @ x, torch.zeros(4, 4))
    rows, columns = loops(graph, "mm")[:2]
    assert rows == {"extent": 4, "writes": {"mm": [0, 1]}}
    assert columns == {"extent": 4, "writes": {"mm": [1, 1]}}


def test_two_views_of_one_tensor_are_two() -> None:
    graph = imported(lambda net, x: x @ x.t(), torch.zeros(4, 5))
    assert loops(graph, "mm")[0] == {"extent": 4, "reads": {"x": [0, 1, 1, 0]}, "writes": {"mm": [0, 1]}}
    assert loops(graph, "t")[0] == {"extent": 5, "reads": {"x": [1, 1, 1, 0]}, "writes": {"t": [0, 1]}}


def test_an_expanded_tensor_is_read_whole_and_has_no_loop_itself() -> None:
    graph = imported(lambda net, x: x.expand(3, 4) * 2, torch.zeros(4))
    assert not loops(graph, "expand")
    assert loops(graph, "mul")[0] == {"extent": 3, "writes": {"mul": [0, 1]}}


def test_a_view_of_a_view_lists_what_it_is_a_view_of() -> None:
    graph = imported(lambda net, x: (x * 1)[1:].view(-1), torch.zeros(3, 4))
    assert loops(graph, "slice")[-1] == {"extent": 2, "reads": {"mul": [0, 1, 1, -1]}, "writes": {"slice": [0, 1]}}
    assert loops(graph, "view")[0] == {"extent": 2, "reads": {"slice": [0, 1, 1, 0]}, "writes": {"view": [0, 4]}}
    assert op(graph, "view")["inputs"] == ["slice", "mul"]


def test_rows_of_axes_taken_together_lie_evenly() -> None:
    split = imported(lambda net, x: x.view(2, 3, 4) + 1, torch.zeros(6, 4))
    assert loops(split, "view")[1] == {"extent": 6, "reads": {"x": [0, 1, 1, 0]}, "writes": {"view": [[0, 1], 1]}}
    assert [loop["writes"]["add"][0] for loop in loops(split, "add")] == [0, 1, 2, [0, 1], [0, 2]]
    turned = imported(lambda net, x: x.transpose(0, 1) + 1, torch.zeros(2, 3, 4))
    assert [loop["writes"]["add"][0] for loop in loops(turned, "add")] == [0, 1, 2]


def test_axes_of_size_one_have_no_loop_and_no_name() -> None:
    graph = imported(lambda net, x: x + 1, torch.zeros(1, 3, 4))
    assert [loop["writes"]["add"][0] for loop in loops(graph, "add")] == [1, 2, [1, 2]]


def test_what_writes_to_its_input_or_draws_numbers_is_not_split() -> None:
    graph = imported(lambda net, x: F.dropout((x * 2).add_(1), 0.5, True), torch.zeros(4, 4))
    written = [entry for entry in graph["ops"] if any(k in entry["type"] for k in ("add_", "bernoulli_", "dropout"))]
    assert written
    assert not any("loops" in entry for entry in written)


def test_a_loss_and_the_number_of_its_targets() -> None:
    def loss(net: nn.Module, x: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(x, target)

    graph = imported(loss, torch.randn(5, 7, requires_grad=True), torch.arange(5), train=True)
    assert loops(graph, "nll_loss_forward") == [
        {
            "extent": 5,
            "reads": {"_log_softmax": [0, 1, 1, 0], "y": [0, 1, 1, 0]},
            "sums": ["nll_loss_forward.0"],
            "early": {"nll_loss_forward.1": ["y"]},
        }
    ]


def test_backward_needs_no_loss() -> None:
    """The gradient of a loss begins with ones of its shape."""
    graph = imported(lambda net, x: net.fc(x).square().sum(), torch.zeros(3, 4), train=True)
    assert op(graph, "ones_like")["inputs"] == []


def test_nodes_of_exported_programs() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.fc = nn.LayerNorm(6), nn.Linear(6, 5)

        def forward(self, x: Tensor) -> Tensor:
            return self.fc(self.norm(x))  # type: ignore[no-any-return]

    graph = import_torch(torch.export.export(Block(), (torch.zeros(2, 3, 6),)))
    norm, product = graph["ops"]
    assert [loop["extent"] for loop in norm["loops"]] == [2, 3, 6]
    assert [loop["extent"] for loop in product["loops"]] == [2, 3, 5, 6]
    assert norm["loops"][2]["reads"] == {"x": [[0, 1], 1, 1, 0]}
    memplan.plan(graph)
