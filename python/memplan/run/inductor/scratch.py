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
from torch._inductor.select_algorithm import extern_kernels
from torch._inductor.virtualized import V
from torch.utils._python_dispatch import _disable_current_modes

from ...inductor.wrapper import Block, Call
from .serving import Kernel, Path

log = logging.getLogger("memplan.run")
_ALIGNMENT = 64
_REMEMBERED = 1024  # kernels with their arguments
_Layout = tuple[int, tuple[int, ...], tuple[int, ...], int, torch.dtype]  # elements, shape, strides, offset, dtype
_GUARDS: Any = torch._C._dynamo.guards  # whose type lacks what it has
_NAMES = {  # as the header of a wrapper has them
    **{"torch": torch, "aten": torch.ops.aten, "inductor_ops": torch.ops.inductor, "extern_kernels": extern_kernels},
    **{"reinterpret_tensor": _GUARDS._reinterpret_tensor, "device": torch.device},
    **{"math": math, "inf": math.inf, "nan": math.nan},
}


@dataclass(frozen=True)
class Scratch:
    """What calls need besides their results, by step: the calls of a step follow each other, so they share a block.

    ``served`` is for results that have places from the beginning of the call, and ``default`` for results that the
    kernel allocates when it makes them. ``position`` says by the names in the blocks at which line a kernel is called.
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
    kernel: str, arguments: str, layouts: tuple[_Layout, ...], results: tuple[tuple[Path, int], ...]
) -> tuple[int, int]:
    """The most bytes that a call holds besides results that have places, and besides those that it allocates."""
    rows, end = list[tuple[Path, int, int, int]](), 0
    for path, size in results:
        rows.append((path, 0, end, size))
        end += -(-size // _ALIGNMENT) * _ALIGNMENT
    with _disable_current_modes(), torch.no_grad(), torch._C._DisableAutocast(), torch.random.fork_rng(devices=[]):
        whole = torch.empty(end, dtype=torch.uint8)
        tensors = {f"_memplan{number}": _zeros(*layout) for number, layout in enumerate(layouts)}
        run: Callable[[], Any] = eval(f"lambda: {kernel}({arguments})", {**_NAMES, **tensors})
        served, plain = Kernel(kernel, rows, []), Kernel(kernel, [], [])
        elsewhere = []
        for offering in (served, served, plain):  # its first call shows which of its allocations the results are
            with offering.offered((whole, 1)) as call:
                call.placed(run())
            elsewhere.append(call.elsewhere)
    return elsewhere[1], max(0, elsewhere[2] - sum(size for _, size in results))


def _layout_of(name: str) -> _Layout:
    node: Any = V.graph.get_buffer(name)
    if node.get_device().type != "cpu":
        raise ValueError(f"{name} lies on {node.get_device()}")
    numbers = (tuple(map(int, each)) for each in (node.get_size(), node.get_stride()))
    return int(V.graph.get_allocation_storage_size(node)), *numbers, int(node.get_layout().offset), node.get_dtype()


def _zeros(elements: int, shape: tuple[int, ...], strides: tuple[int, ...], begin: int, dtype: torch.dtype) -> Any:
    return torch.zeros(elements + begin, dtype=dtype).as_strided(shape, strides, begin)
