"""Scratch of kernels: bytes that one allocates and frees in a call, besides its results. A call on zeros tells."""

from __future__ import annotations

import functools
import logging
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..inductor.wrapper import Block, Call
from ..private import DisableAutocast, disable_current_modes
from ..private_compiler import V, extern_kernels, reinterpret_tensor
from .serving import ResultPath, can_serve, kernel_of

log = logging.getLogger("memplan.torch")
_ALIGNMENT = 64
_REMEMBERED = 1024  # kernels with their arguments
_TRIES = 4  # of how many bytes scratch lies in
_Layout = tuple[int, tuple[int, ...], tuple[int, ...], int, torch.dtype]  # elements, shape, strides, offset, dtype
_NAMES = {  # as the header of a wrapper has them
    **{"torch": torch, "aten": torch.ops.aten, "inductor_ops": torch.ops.inductor, "extern_kernels": extern_kernels},
    **{"reinterpret_tensor": reinterpret_tensor, "device": torch.device},
    **{"math": math, "inf": math.inf, "nan": math.nan},
}


@dataclass(frozen=True)
class Scratch:
    """What calls need besides their results, by step: the calls of a step follow each other, so they share a block.

    ``served`` is for scratch in an arena: so many bytes side by side are enough for it. ``default`` is for scratch that
    the kernel allocates: what a call holds at most, less its results, which may come when the scratch is gone.
    ``position`` says by the names in the blocks at which line a kernel is called.
    """

    served: list[Block]
    default: list[Block]
    position: dict[str, int]


def scratch_of(lines: Sequence[Any], calls: Mapping[int, Call]) -> Scratch:
    """The scratch of calls of extern kernels."""
    served, default, position = dict[int, Block](), dict[int, Block](), dict[str, int]()
    for at, call in calls.items():
        name = f"{lines[at].node.get_name()} scratch"
        position[name] = at
        for blocks, size in zip((served, default), _sizes(lines[at].node, call), strict=True):
            if size > 0:
                block = blocks.setdefault(call.step, Block([], 0, call.step, call.step + 1, "scratch"))
                block.buffers.append(name)
                block.bytes = max(block.bytes, size)
    return Scratch([*served.values()], [*default.values()], position)


def _sizes(node: Any, call: Call) -> tuple[int, int]:
    """0 if it cannot be told: if sizes are symbolic, if the kernel fails on zeros, or if it lies not on the CPU."""
    try:
        arguments = ", ".join([*node.codegen_args(), *node.codegen_kwargs()])
        words = dict.fromkeys(re.findall(r"[^\W\d]\w*", arguments))
        names = [word for word in words if V.graph.try_get_buffer(word) is not None]
        for number, name in enumerate(names):
            arguments = re.sub(rf"\b{name}\b", f"_memplan{number}", arguments)
        results = tuple((path, block.bytes) for path, block in call.results)
        return _measured(node.get_kernel_name(), arguments, tuple(map(_layout_of, names)), results)
    except Exception as error:
        log.debug("the scratch of %s cannot be told: %s: %s", node.get_name(), type(error).__name__, error)
        return 0, 0


@functools.lru_cache(_REMEMBERED)
def _measured(
    kernel: str, arguments: str, layouts: tuple[_Layout, ...], results: tuple[tuple[ResultPath, int], ...]
) -> tuple[int, int]:
    """The bytes of `Scratch.served` and of `Scratch.default`."""
    if not can_serve():
        return 0, 0
    rows, end = list[tuple[ResultPath, int, int, int]](), 0
    for path, size in results:
        rows.append((path, 0, end, size))
        end += -(-size // _ALIGNMENT) * _ALIGNMENT
    with disable_current_modes(), torch.no_grad(), DisableAutocast(), torch.random.fork_rng(devices=[]):
        whole = torch.empty(end, dtype=torch.uint8)
        tensors = {f"_memplan{number}": _zeros(*layout) for number, layout in enumerate(layouts)}
        run: Callable[[], Any] = eval(f"lambda: {kernel}({arguments})", {**_NAMES, **tensors})
        served = kernel_of(kernel, rows, [])
        _elsewhere(served, run, whole)  # the first call shows which of its allocations the results are

        def beside(size: int) -> int:
            free = torch.empty(size, dtype=torch.uint8)
            return _elsewhere(kernel_of(kernel, rows, [(1, 0, size)], served.numbers), run, whole, free)

        scratch = _side_by_side(beside)
        default = _elsewhere(kernel_of(kernel, [], []), run)
    return scratch, max(0, default - sum(size for _, size in results))


def _elsewhere(kernel: Any, run: Callable[[], Any], *arenas: torch.Tensor) -> int:
    """The most bytes that a call holds and that lie in no arena."""
    kernel.run(*(given for arena in arenas for given in (arena, 1)), run)
    return int(kernel.elsewhere)


def _side_by_side(elsewhere: Callable[[int], int]) -> int:
    """In how many bytes side by side the scratch of a call lies, where ``elsewhere`` is what does not fit into some.

    As its results are not among these, so many are not less than what is allocated at once. Alignment, and what is
    freed in between, may need more.
    """
    size = most = elsewhere(0)
    never = elsewhere(2 * most + _ALIGNMENT) if most else 0  # what is too small to be offered a place
    for _ in range(_TRIES):
        missed = elsewhere(size) - never if most > never else 0
        if missed <= 0:
            break
        size = -(-(size + missed) // _ALIGNMENT) * _ALIGNMENT
    return size


def _layout_of(name: str) -> _Layout:
    node: Any = V.graph.get_buffer(name)
    if node.get_device().type != "cpu":
        raise ValueError(f"{name} lies on {node.get_device()}")
    numbers = (tuple(map(int, each)) for each in (node.get_size(), node.get_stride()))
    return int(V.graph.get_allocation_storage_size(node)), *numbers, int(node.get_layout().offset), node.get_dtype()


def _zeros(elements: int, shape: tuple[int, ...], strides: tuple[int, ...], begin: int, dtype: torch.dtype) -> Any:
    return torch.zeros(elements + begin, dtype=dtype).as_strided(shape, strides, begin)
