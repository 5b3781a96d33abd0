"""What Inductor fuses, and what it keeps in memory, in code that is to hold little.

Functions of torch are replaced, once and for good. They do as before unless the thread compiles such code.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..private_compiler import CppScheduling, MemoryDep, Scheduler, V, ir

_MUCH = 16  # a part of the largest tensor that two loops touch
Within = Callable[[], int | None]  # how far apart ops that are fused may be in the graph; None: do as torch does


def fuse_less(within: Within, writers: Callable[[], bool]) -> None:
    """Replace what decides that in torch; `writers`: whether loops that both write much for others may be fused."""
    scheduler: Any = Scheduler
    scheduler.can_fuse = one_at_a_time(near(scheduler.can_fuse, within), writers)
    kernels: Any = CppScheduling
    kernels.ready_to_flush = alone(kernels.ready_to_flush, within)
    boxes: Any = ir.StorageBox
    boxes.should_realize_on_reuse = unless_larger(boxes.should_realize_on_reuse, within)


def near(by_torch: Callable[..., bool], within: Within) -> Callable[..., bool]:
    """What refuses to fuse ops that are far apart in the graph: what they read and write would live all the while.

    Nor is what adds to a total fused with what makes the summands, if these have fewer bytes.
    """

    @functools.wraps(by_torch)
    def can_fuse(scheduler: Any, one: Any, other: Any, *more: Any, **named: Any) -> bool:
        far = within()
        if far is not None:
            apart = max(other.max_order - one.min_order, one.max_order - other.min_order)
            if apart > far or any(_adds_to_more(node) for node in (one, other)):
                return False
        return by_torch(scheduler, one, other, *more, **named)

    return can_fuse


def one_at_a_time(by_torch: Callable[..., bool], writers: Callable[[], bool]) -> Callable[..., bool]:
    """What may refuse to fuse loops that both write much for others to read: one loop would write all of it at once.

    What comes between them in the graph may need only one of these tensors, and end with it.
    """

    @functools.wraps(by_torch)
    def can_fuse(scheduler: Any, one: Any, other: Any, *more: Any, **named: Any) -> bool:
        fuses = by_torch(scheduler, one, other, *more, **named)
        return fuses and (writers() or not _both_stay(one, other))

    return can_fuse


def alone(by_torch: Callable[[Any], bool], within: Within) -> Callable[[Any], bool]:
    """What gives each loop a function of its own: all that a function takes is there while it runs."""

    @functools.wraps(by_torch)
    def ready_to_flush(scheduling: Any) -> bool:
        return within() is not None or by_torch(scheduling)

    return ready_to_flush


def unless_larger(by_torch: Callable[..., bool], within: Within) -> Callable[..., bool]:
    """What keeps a tensor out of memory that is larger than all that it is computed of: who reads it reads that."""

    @functools.wraps(by_torch)
    def should_realize_on_reuse(box: Any, users: int, **named: Any) -> bool:
        return by_torch(box, users, **named) and (within() is None or not _is_larger(box.data))

    return should_realize_on_reuse


def _adds_to_more(node: Any) -> bool:
    """Whether a node of the scheduler adds to a tensor with more bytes than what it adds."""
    return any(_bytes(total.get_numel(), total.get_dtype()) > _bytes(n, dtype) for total, n, dtype in _totals(node))


def _both_stay(one: Any, other: Any) -> bool:
    """Whether nodes of the scheduler both write much, of the largest that they touch, that others read."""
    own = {*one.get_operation_names(), *other.get_operation_names()}
    least = min(sum(_bytes_for_others(made, own) for made in node.get_outputs()) for node in (one, other))
    touched = {dep.name for node in (one, other) for dep in node.read_writes.reads_and_writes() if _is_of_loop(dep)}
    return least * _MUCH > max((_bytes_of(name) for name in touched), default=0)


def _is_of_loop(dep: Any) -> bool:
    """Whether a loop reads or writes a tensor, and does not only wait for what changes it."""
    return isinstance(dep, MemoryDep)


def _bytes_for_others(made: Any, own: set[str]) -> int:
    """The bytes of a buffer that other nodes of the scheduler read, or the caller gets; else 0."""
    users = {user.get_name() for user in made.users if not user.is_weak}
    return _bytes_of(made.get_name()) if users - own else 0


def _totals(node: Any) -> Iterator[tuple[Any, Any, torch.dtype]]:
    """What a node scatters to, with the elements that it adds there."""
    for inner in node.get_nodes():
        loops = getattr(inner.node, "data", None)
        if isinstance(loops, ir.Scatter):
            yield inner.node.get_layout().target, loops.get_numel(), loops.get_dtype()


def _is_larger(loops: Any) -> bool:
    """Whether a tensor has more bytes than the buffers that it is computed of."""
    read = sum(_bytes_of(name) for name in loops.get_read_names())
    return _bytes(loops.get_numel(), loops.get_dtype()) > read


def _bytes_of(name: str) -> int:
    return _bytes(V.graph.get_numel(name), V.graph.get_dtype(name))


def _bytes(elements: Any, dtype: torch.dtype) -> int:
    return int(V.graph.sizevars.optimization_hint(elements, fallback=1)) * dtype.itemsize
