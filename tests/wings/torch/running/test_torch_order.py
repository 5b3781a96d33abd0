"""Modules that are planned in another order: what they compute and draw stays, also where an op overwrites."""

from __future__ import annotations

from typing import Any

import torch

import memplan
from builders.branching import Branches
from memplan import _core


def without(graph: _core.Graph) -> _core.Graph:
    """The graph without what `after` says."""
    fields = ("name", "type", "inputs", "outputs", "workspace", "aliases", "inplace", "overwrites", "stream")
    ops = [_core.Op(*(getattr(op, field) for field in fields), op.slices, op.concats) for op in graph.ops]
    return _core.Graph(graph.tensors, ops, graph.outputs)


def test_a_reordered_network_runs_and_gives_the_same() -> None:
    x = torch.randn(3, 8)
    given = memplan.plan(Branches(), args=(x,), alignment=64)
    plan = memplan.plan(Branches(), args=(x,), alignment=64, order="best")
    assert plan.peak < given.peak
    assert plan.order != given.order
    assert torch.equal(plan.run(x, check=True).outputs, Branches()(x))


def test_a_program_runs_with_a_barrier() -> None:
    x = torch.randn(3, 8)
    free = memplan.plan(Branches(), args=(x,), order="best")
    barrier = free.graph.ops[len(free.order) // 2].name
    plan = memplan.plan(Branches(), args=(x,), order="best", barrier=[barrier])
    assert torch.equal(plan.run(x, check=True).outputs, Branches()(x))


def test_random_numbers_are_drawn_in_their_order() -> None:
    """Small numbers are drawn first if nothing forbids it, and are others then."""

    class Draws(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            large = torch.rand(4096)
            small = torch.rand(16)
            return (x + small.sum()) * large.sum()

    graph = memplan.capture(Draws(), args=(torch.zeros(1),)).graph
    draws = [op.name for op in graph.ops if op.type.startswith("aten.rand")]
    assert len(draws) == 2
    for order in memplan.orders():
        found = [op.name for op in memplan.reorder(graph, order=order.name).ops]
        assert [name for name in found if name in draws] == draws
    free = [op.name for op in memplan.reorder(without(graph), order="growth").ops]
    assert [name for name in free if name in draws] == draws[::-1]


def test_the_old_value_is_read_before_it_is_overwritten() -> None:
    class Counts(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            state = x * 2
            old = state.repeat(64).exp()
            state.add_(1)
            return old.sum() + state.sum()

    x = torch.randn(16)
    for order in memplan.orders():
        plan = memplan.plan(Counts(), args=(x,), order=order.name)
        assert torch.equal(plan.run(x, check=True).outputs, Counts()(x)), order.name
