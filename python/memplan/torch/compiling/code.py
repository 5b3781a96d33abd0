"""The code of a wrapper with arenas: lines that make them, cut buffers from them, and offer them to kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import sympy
import torch

from ...errors import UnsupportedError
from ...plans import usage
from ..inductor.wrapper import Call
from ..private import OpOverload
from ..private_compiler import V, wrapper
from .arenas import Arena
from .serving import OUTSIDE, can_serve

_SERVED = ("aten", "mkldnn")  # operators that keep nothing past their call
_LEAST = 4096  # bytes of a free range that is worth offering


def servable(lines: Sequence[Any], calls: Mapping[int, Call]) -> dict[int, Call]:
    """The calls that may allocate in arenas, by the position of their line; none without the allocator."""
    found = {at: call for at, call in calls.items() if _may_be_served(lines[at].node, call)}
    return found if found and can_serve() else {}


def _is_within(end: Any, unit: int, scale: Any) -> bool:
    """Whether bytes end within `unit * scale`, of symbolic sizes too: `scale` is a size, and so it is not negative."""
    sizevars = V.graph.sizevars
    if sizevars.statically_known_leq(end, unit * scale):
        return True
    part = sympy.Rational(
        sizevars.optimization_hint(end, fallback=0), sizevars.optimization_hint(scale, fallback=1) or 1
    )
    return bool(part <= unit and sympy.expand(end - part * scale) == 0)


def _may_be_served(node: Any, call: Call) -> bool:
    """Whether it is a call of an operator of torch's own, on the CPU, that returns tensors."""
    operator = getattr(node, "op_overload", None)
    own = isinstance(operator, OpOverload) and operator.namespace in _SERVED
    known = bool(call.results) and all(
        block.device == "cpu" and block.bytes > 0 and len(path) < 2 for path, block in call.results
    )
    return own and known and not node.get_unbacked_symbol_defs()


class Code:
    """What is written in place of which lines.

    An arena is one tensor, of the dtype that most of its buffers have; for the other dtypes it has views. A buffer is
    cut from the tensor of its dtype. When the last one is cut, or made by its kernel, the names of these tensors go:
    the buffers share the storage, which is freed with the last of them.

    ``position`` says by the name of a block at which line it is allocated, or made by the kernel that is called there.
    """

    def __init__(
        self,
        codegen: Any,
        lines: Sequence[Any],
        position: Mapping[str, int],
        served: Mapping[int, Call],
        arenas: Sequence[Arena],
    ) -> None:
        self._codegen, self._lines, self._position, self._served = codegen, lines, position, served
        self._arenas, self._kernels = arenas, 0
        self._places = {
            name: (number, int(offset), int(size))
            for number, arena in enumerate(arenas)
            for name, offset, size in zip(
                arena.plan.problem.names, arena.plan.offsets, arena.plan.problem.size, strict=True
            )
        }
        lines_of = [[position[n] for b in arena.blocks for n in b.buffers if n in position] for arena in arenas]
        self._spans = [(min(positions), max(positions)) for positions in lines_of]
        self._names = [self._names_of(number) for number in range(len(arenas))]

    def written(self) -> dict[int, list[Any]]:
        """By the position of a line, the lines in its place."""
        cuts: dict[int, list[Any]] = {}
        for name, at in self._position.items():
            if name in self._places and at not in self._served:
                cuts[at] = [self._cut(self._lines[at].node, *self._places[name][:2])]
        offers = [(at, self._offer(at, call)) for at, call in self._served.items()]
        cuts |= {at: [offer] for at, offer in offers if offer is not None}
        for number, (first, last) in enumerate(self._spans):
            cuts[first] = [*self._begin(number), *cuts.get(first, [self._lines[first]])]
            cuts[last] = [*cuts.get(last, [self._lines[last]]), f"del {', '.join(self._names[number].values())}"]
        return cuts

    def _names_of(self, number: int) -> dict[torch.dtype, str]:
        """The names of an arena's tensors by dtype, the arena itself first."""
        blocks = [block for block in self._arenas[number].blocks if block.source != "scratch"]
        dtypes = [V.graph.get_buffer(block.name).get_dtype() for block in blocks]
        cut = [dtype for dtype, b in zip(dtypes, blocks, strict=True) if self._position[b.name] not in self._served]
        own = max(dict.fromkeys(dtypes), key=(cut or dtypes).count)
        return {dtype: f"arena{number}_{str(dtype).removeprefix('torch.')}" for dtype in dict.fromkeys([own, *cut])}

    def _begin(self, number: int) -> list[str]:
        arena, names = self._arenas[number], self._names[number]
        own, *others = names
        device = torch.device(arena.device)
        size = arena.unit // own.itemsize * arena.scale
        made = self._codegen.make_allocation(names[own], device, own, (size,), (1,))
        return [made, *(f"{names[dtype]} = {names[own]}.view({dtype})" for dtype in others)]

    def _cut(self, node: Any, number: int, offset: int) -> str:
        """The line that cuts a buffer from its arena; its bytes are inside, and begin where its dtype may."""
        arena, name, dtype = self._arenas[number], node.get_name(), node.get_dtype()
        size, stride = node.get_size(), node.get_stride()
        elements = 1 + sum((s - 1) * d for s, d in zip(size, stride, strict=True))
        end = offset * arena.scale + elements * dtype.itemsize
        if offset % dtype.itemsize or not _is_within(end, arena.unit, arena.scale):
            raise AssertionError(f"{name} would lie outside of its arena: {elements} of {dtype} at {offset}")
        codegen = self._codegen
        shape, strides = (codegen.codegen_python_shape_tuple(tuple(numbers)) for numbers in (size, stride))
        begin = codegen.codegen_python_sizevar(offset // dtype.itemsize * arena.scale)
        return f"{name} = reinterpret_tensor({self._names[number][dtype]}, {shape}, {strides}, {begin})"

    def _offer(self, at: int, call: Call) -> _Offer | None:
        """The line of a call that is offered memory; None where there is nothing to offer."""
        places = [
            (path, block, *self._places.get(block.name, (OUTSIDE, 0, block.bytes))) for path, block in call.results
        ]
        here = {number for _, _, number, *_ in places if number != OUTSIDE}
        free: list[tuple[int, int, int]] = []
        if all(number != OUTSIDE or _is_static(block.name) for _, block, number, *_ in places):
            around = [number for number, (first, last) in enumerate(self._spans) if first <= at <= last]
            free = [(n, *row) for n in around if self._arenas[n].device == "cpu" for row in self._free(n, call.step)]
        used = sorted(here | {number for number, *_ in free})
        if not used:
            return None
        results = [(path, _index(used, number), offset, size) for path, _, number, offset, size in places]
        ranges = [(used.index(number), offset, size) for number, offset, size in free]
        name = self._lines[at].node.get_kernel_name()
        kernel = f"_memplan_kernel{self._kernels}"
        if self._kernels == 0:
            self._codegen.header.writeline("from memplan.torch.compiling.serving import served as _memplan_served")
        self._kernels += 1
        self._codegen.header.writeline(f"{kernel} = _memplan_served({name!r}, {results!r}, {ranges!r})")
        scales = [self._codegen.codegen_python_sizevar(self._arenas[number].scale) for number in used]
        arenas = [next(iter(self._names[number].values())) for number in used]
        given = [text for pair in zip(arenas, scales, strict=True) for text in pair]
        return _Offer(self._lines[at], f"{kernel}({', '.join(given)}, ")

    def _free(self, number: int, step: int) -> list[tuple[int, int]]:
        """Ranges of an arena that only scratch uses at a step, as offsets and bytes: the largest."""
        arena = self._arenas[number]
        problem, alignment = arena.plan.problem, int(arena.plan.problem.alignment[0])
        kept = np.array([block.source != "scratch" for block in arena.blocks])
        alive = kept & (problem.first <= step) & (step < problem.last)
        begins = arena.plan.offsets[alive]
        return usage.free_ranges(begins, begins + problem.size[alive], arena.unit, alignment, -(-_LEAST // arena.hint))


class _Offer(wrapper.WrapperLine):
    """The line of a call that is made by what offers it memory."""

    def __init__(self, line: Any, begin: str) -> None:
        self._node, self._begin = line.node, begin

    def codegen(self, code: Any) -> None:
        node = self._node
        given = ", ".join([node.get_kernel_name(), *node.codegen_args(), *node.codegen_kwargs()])
        code.writeline(f"{node.get_name()} = {self._begin}{given})")

    def codegen_fx(self, converter: Any) -> Any:
        raise UnsupportedError("fx wrappers call no kernels in arenas")


def _index(used: list[int], number: int) -> int:
    return OUTSIDE if number == OUTSIDE else used.index(number)


def _is_static(name: str) -> bool:
    """Whether the size of a buffer is the same in every call."""
    node: Any = V.graph.get_buffer(name)
    return bool(sympy.sympify(V.graph.get_allocation_storage_size(node)).is_number)
