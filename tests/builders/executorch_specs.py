"""Specs of tensors, as ExecuTorch plans them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import torch
from executorch.exir.tensor import TensorSpec

import memplan

ALIGNMENT = 16


def spec(size: int, first: int, last: int, memory: int | None = None, base: Any = None, offset: int = 0) -> TensorSpec:
    """Bytes alive in the steps from first to last, both included."""
    made = TensorSpec(torch.uint8, torch.Size([size]))
    made.lifetime = [first, last]
    made.mem_id, made.storage_base, made.storage_base_offset = memory, base, offset
    return made


def empty_graph() -> Any:
    return torch.fx.GraphModule(torch.nn.Module(), torch.fx.Graph())


def placed(specs: list[Any], planner: str = "auto", padding: int = 0, **options: Any) -> tuple[Any, Any]:
    """The algorithm, and what it gives."""
    algorithm = memplan.executorch.memory_planning_algo(planner, **options)
    return algorithm, algorithm(ALIGNMENT, specs, empty_graph(), None, padding)


def faults(specs: list[Any], result: Any, padding: int = 0) -> Iterator[str]:
    """All that is wrong with a placement, byte for byte and step by step."""
    sizes: dict[int, int] = {}
    owners: dict[tuple[int, int, int], Any] = {}  # memory, step, block of the alignment -> the root that has it
    for one in specs:
        at = result.spec_dict[one]
        if at.mem_offset % ALIGNMENT:
            yield f"{at} is not aligned"
        root = one
        while root.storage_base is not None:
            inside = result.spec_dict[root.storage_base]
            if result.spec_dict[root].mem_offset != inside.mem_offset + root.storage_base_offset:
                yield f"{at} is not in its base"
            root = root.storage_base
        if at.mem_id != (root.mem_id or 1):
            yield f"{at} is in another memory than {root.mem_id}"
        end = at.mem_offset + -(-one.nbytes() // ALIGNMENT) * ALIGNMENT
        sizes[at.mem_id] = max(sizes.get(at.mem_id, 0), end)
        for step in range(one.lifetime[0], one.lifetime[1] + 1):
            for block in range(at.mem_offset // ALIGNMENT, end // ALIGNMENT):
                if owners.setdefault((at.mem_id, step, block), root) is not root:
                    yield f"two have block {block} at step {step}"
    expected = [0] * max(2, 1 + max(sizes, default=0))
    for memory, size in sizes.items():
        expected[memory] = size + padding
    if result.bufsizes != expected:
        yield f"sizes {result.bufsizes}, expected {expected}"


def random_specs(rng: random.Random) -> list[Any]:
    """Specs in up to three memories, some in others, and in others in turn."""
    made: list[Any] = []
    for _ in range(rng.randint(1, 24)):
        first = rng.randint(0, 12)
        last = rng.randint(first, 14)
        base = rng.choice(made) if made and rng.random() < 0.3 else None
        if base is None:
            made.append(spec(rng.randint(0, 200), first, last, rng.choice([None, 1, 2, 4])))
            continue
        room = base.allocated_memory // ALIGNMENT
        offset = rng.randint(0, room)
        made.append(spec(rng.randint(0, (room - offset) * ALIGNMENT), first, last, None, base, offset * ALIGNMENT))
    rng.shuffle(made)
    return made
