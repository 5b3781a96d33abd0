"""The tree of splits against torch's own: the same offsets and the same pool, for random and for real problems."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given

import memplan
from builders.instances import others, shipped
from builders.strategies import BOUNDED, columns

torch = pytest.importorskip("torch")
memory_planning: Any = pytest.importorskip("torch._inductor.codegen.memory_planning")

TORCH_ALIGNS_TO = 64
MOST_BUFFERS = 500  # torch takes minutes for the largest, and more stack than Python lends it
Rows = list[tuple[int, int, int]]  # size, first, last


def torch_plan(rows: Iterable[tuple[int, int, int]]) -> tuple[list[int], int]:
    """Offsets and pool size of torch's own allocator, fed as its planner feeds it."""
    node = SimpleNamespace(
        get_layout=lambda: SimpleNamespace(size=()), get_device=lambda: torch.device("cpu"), get_name=lambda: "buffer"
    )
    blocks = [
        memory_planning.Allocation(node, memory_planning.LiveRange(first, last), size_hint=size, symbolic_size=size)
        for size, first, last in rows
    ]
    pools = memory_planning.AllocationPools()
    for block in sorted(blocks, key=lambda block: (-block.size_hint, -len(block.live_range))):
        if block.size_hint > 0:
            pools.allocate(block)
    pools.finalize()
    (pool,) = pools.device_to_pools[torch.device("cpu")] if pools.device_to_pools else [None]
    return [int(block.offset or 0) for block in blocks], int(pool.root.get_symbolic_size()) if pool else 0


def tree(rows: Rows, alignment: int = 1) -> memplan.Plan:
    size, first, last = (list(column) for column in zip(*rows, strict=True))
    return memplan.plan(memplan.Problem(size, first, last, alignment), "inductor_tree")


def same_as_torch(rows: Rows) -> bool:
    """With torch's alignment; and with sizes as they are, which torch has when all are multiples of it."""
    padded = tree(rows, TORCH_ALIGNS_TO)
    exact = tree(rows)
    larger = torch_plan([(size * TORCH_ALIGNS_TO, first, last) for size, first, last in rows])
    return (padded.offsets.tolist(), padded.peak) == torch_plan(rows) and (
        [offset * TORCH_ALIGNS_TO for offset in exact.offsets.tolist()],
        exact.peak * TORCH_ALIGNS_TO,
    ) == larger


def anywhere(chance: random.Random) -> Rows:
    begin = [chance.randint(-9, 20) for _ in range(chance.randint(1, 25))]
    return [(chance.randint(1, 400), first, first + chance.randint(1, 12)) for first in begin]


def equal_sizes(chance: random.Random) -> Rows:
    sizes = [chance.choice([1, 63, 64, 65, 128, 4096]) for _ in range(chance.randint(1, 3))]
    return [(chance.choice(sizes), first, last) for _, first, last in anywhere(chance)]


def equal_lives(chance: random.Random) -> Rows:
    return [(chance.choice([64, 100, 128]), 4 * (step // 4), 4 * (step // 4) + 4) for _, step, _ in anywhere(chance)]


def nested(chance: random.Random) -> Rows:
    n = chance.randint(2, 15)
    return [(chance.randint(1, 40) * chance.choice([1, 16, 64]), k, 2 * n - k) for k in range(n)]


def layered(chance: random.Random) -> Rows:
    """A network's forward pass, of which some is kept for the backward pass."""
    n = chance.randint(2, 14)
    rows = []
    for k in range(n):
        size = chance.choice([16, 48, 64, 100, 256, 1000])
        rows.append((size, k, 2 * n - k if chance.random() < 0.4 else k + 2))
        rows.append((chance.randint(1, 64), k, k + 1))
        rows.append((size, 2 * n - k - 1, 2 * n - k + 1))
    return rows


def mostly_small(chance: random.Random) -> Rows:
    return [(chance.choice([1, 2, 3, 8, 5000]), first, last) for _, first, last in anywhere(chance)]


@pytest.mark.few(2)
@pytest.mark.parametrize("count", [80, pytest.param(800, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", [anywhere, equal_sizes, equal_lives, nested, layered, mostly_small])
def test_same_offsets_and_pool_as_torch(kind: Callable[[random.Random], Rows], count: int) -> None:
    chance = random.Random(kind.__name__)
    for _ in range(count):  # each of them twice: with torch's alignment, and without
        rows = kind(chance)
        assert same_as_torch(rows), rows


@given(columns(alignments=(1,)))
@BOUNDED
def test_same_with_buffers_of_no_bytes(problem: tuple[list[int], list[int], list[int], list[int]]) -> None:
    rows = list(zip(*problem[:3], strict=True))
    if rows:
        assert same_as_torch(rows)


@pytest.mark.few(8)
@pytest.mark.parametrize("path", [*shipped("*/*.csv"), *others("*/*.csv")])
def test_same_as_torch_on_real_problems(path: Path) -> None:
    problem = memplan.read_problem(path)
    if len(problem) > MOST_BUFFERS:
        pytest.skip("takes minutes")
    rows = list(zip(problem.size.tolist(), problem.first.tolist(), problem.last.tolist(), strict=True))
    plan = tree(rows, TORCH_ALIGNS_TO)
    assert (plan.offsets.tolist(), plan.peak) == torch_plan(rows)


@pytest.mark.slow
def test_a_deep_tree_is_too_deep_for_torch() -> None:
    """memplan plans several times as many; torch gives up below 1,000 that are all alive together."""
    with pytest.raises(RecursionError):
        torch_plan([(8, 0, 1)] * 1000)
