"""Programs of ExecuTorch in the best order: the same results, and never more bytes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import memplan

pytest.importorskip("torch")
pytest.importorskip("executorch")

import torch
from torch import Tensor, nn

from builders.branching import branching
from builders.executorch_programs import program_of, runs
from memplan.running.ordering import PieceGraph

memory_planning_pass = memplan.executorch.memory_planning_pass


def assert_same(one: list[list[Tensor]], other: list[list[Tensor]]) -> None:
    assert [len(outputs) for outputs in one] == [len(outputs) for outputs in other]
    assert all(torch.equal(a, b) for x, y in zip(one, other, strict=True) for a, b in zip(x, y, strict=True))


def both(model: nn.Module, *calls: tuple[Tensor, ...], **options: Any) -> tuple[list[Any], list[Any]]:
    """The arenas in the given order and in the best one, after a look at the results."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = torch.export.export(model.eval(), calls[0])
        planned, replanned = (memory_planning_pass(**options, order=order) for order in ("given", "best"))
        given, best = (program_of(exported, memory) for memory in (planned, replanned))
    assert_same(runs(given, *calls), runs(best, *calls))
    return planned.arenas, replanned.arenas


@pytest.mark.parametrize("name", ["experts", *(pytest.param(n, marks=pytest.mark.slow) for n in ("cells", "pyramid"))])
def test_branches_run_one_after_another(name: str) -> None:
    model, x = branching(name)
    (given,), (best,) = both(model, (x,), (2 * x,))
    assert best.bytes < given.bytes
    assert best.bytes == best.load
    assert best.plan.buffers is None
    best.plan.verify()


class Model(nn.Module):
    """A function as a network, with a number that it remembers."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("state", torch.zeros(1, 4))

    def forward(self, *args: Tensor) -> Any:
        return self.function(self, *args)


def remembers(model: Any, x: Tensor) -> Tensor:
    before = model.state * 2
    wide = [torch.cat([x * k + before] * 8, 1).relu() for k in range(3)]
    model.state.add_(x.mean(0, keepdim=True))
    return sum(w.sum(1, keepdim=True) for w in wide) + model.state


def test_state_is_read_before_it_changes() -> None:
    x = torch.randn(4, 4)
    given, best = both(Model(remembers), (x,), (x,), (-x,))
    assert best[0].bytes < given[0].bytes


def chooses(model: Any, x: Tensor) -> Tensor:
    def widens(value: Tensor) -> Tensor:
        wide = [torch.cat([value * k] * 8, 1).relu() for k in range(4)]
        return sum(w.sum(1, keepdim=True) for w in wide) + value

    wide = [torch.cat([x * k] * 4, 1).relu() for k in range(3)]
    chosen = torch.cond(x.sum() > 0, widens, lambda value: value - 1, [x])
    return chosen + sum(w.sum(1, keepdim=True) for w in wide)


def test_bodies_have_orders_of_their_own() -> None:
    x = torch.rand(4, 4)
    given, best = both(Model(chooses), (x,), (-x,))
    size = {arena.body: arena.bytes for arena in best}
    assert all(size[arena.body] <= arena.bytes for arena in given)
    assert size[""] < given[-1].bytes
    assert any(size[arena.body] < arena.bytes for arena in given if arena.body)


def takes_apart(model: Any, x: Tensor) -> Tensor:
    wide = [torch.cat([x * k] * 8, 1) for k in range(3)]
    found = [torch.max(w, 1) for w in wide]
    return sum(values for values, _ in found) + sum(indices for _, indices in found)


def test_what_takes_results_apart_stays_beside_them() -> None:
    given, best = both(Model(takes_apart), (torch.randn(16, 4),))
    assert best[0].bytes < given[0].bytes


def splits(model: Any, x: Tensor) -> Tensor:
    """An operator that writes a list, from which each part is taken."""
    wide = [torch.cat([x * k] * 8, 1) for k in range(3)]
    parts = [torch.split(w, [8, 24], 1) for w in wide]
    return sum(a.sum(1, keepdim=True) + b.sum(1, keepdim=True) for a, b in parts)


def test_parts_of_a_list_stay_beside_what_writes_it() -> None:
    given, best = both(Model(splits), (torch.randn(4, 4),))
    assert best[0].bytes < given[0].bytes


def test_no_memory_of_several_gets_larger() -> None:
    model, x = branching("experts")
    second = {"memory_of": lambda node: 2 if "addmm" in node.name else None}
    given, best = both(model, (x,), **second)
    assert [arena.memory for arena in given] == [arena.memory for arena in best] == [1, 2]
    assert all(after.load <= before.load for before, after in zip(given, best, strict=True))


def test_an_unknown_order() -> None:
    with pytest.raises(ValueError, match="order must be one of given, best"):
        memory_planning_pass(order="fast")


def test_a_draft_waits_for_readers_of_what_it_changes() -> None:
    pieces = PieceGraph()
    pieces.piece("x", 4, given=True)
    pieces.piece("wide", 100)
    pieces.piece("narrow", 1)
    pieces.op(["x", "wide"])
    pieces.op(["x"], ["x"])  # whoever reads x later reads the new value
    pieces.op(["x", "narrow"])
    pieces.op(["wide", "narrow"])
    assert pieces.in_order("best") is None
    waits = [op["after"] for op in pieces._ops]
    assert waits == [[], ["op0"], ["op1"], ["op0", "op2"]]
