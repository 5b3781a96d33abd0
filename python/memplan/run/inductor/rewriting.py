"""The lines of a wrapper with arenas in place of single allocations."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
import torch._inductor.config
from torch._inductor import ir
from torch._inductor.codegen import wrapper
from torch._inductor.virtualized import V

from ...errors import UnsupportedError
from ...inductor.lines import MEMORY, Ledger, number_of
from ...inductor.wrapper import Block
from .arenas import Arena, arenas_on, held
from .compiled import Loaded, columns
from .settings import Settings

_DEVICES = ("cpu", "cuda")


def rewritten(codegen: Any, name: str, settings: Settings, by_torch: Callable[[Any, bool], None]) -> bool:
    """Change the lines of a wrapper, so that buffers come from arenas; False where there is nothing to place.

    If it is false or raises, nothing has changed.

    Raises
    ------
    UnsupportedError
        A wrapper of a kind that is not known here.
    """
    _check(codegen)
    lines = _without_removed(codegen)
    ledger = Ledger(lines)
    at = {id(block): position for position, block in ledger.allocated.items()}
    to_place = [b for b in ledger.blocks if id(b) in at and _may_lie_in_arena(lines[at[id(b)]], b, settings)]
    if not to_place:
        return False
    default = _blocks_by_default(codegen, by_torch)
    arenas: list[Arena] = []
    figures: dict[str, dict[str, int]] = {}
    for device in dict.fromkeys(block.device for block in to_place):
        blocks, by_default = ([b for b in every if b.device == device] for every in (ledger.blocks, default))
        chosen, outside = _on(device, blocks, to_place, settings)
        arenas += chosen
        figures[device] = {
            "planned": held(chosen, outside),
            "default": held([], by_default),
            "load": held([], blocks),
            "outside": sum(block.source == "wrapper" for block in outside),
        }
    cuts: dict[int, list[str]] = {}
    for number, arena in enumerate(arenas):
        positions = [at[id(block)] for block in arena.blocks]
        texts = _texts(codegen, f"arena{number}", arena, [lines[position].node for position in positions])
        cuts.update(zip(positions, texts, strict=True))
    said = Loaded(name, figures, [columns(arena.plan, arena.device) for arena in arenas])
    codegen.lines = [line for position, kept in enumerate(lines) for line in cuts.get(position, [kept])]
    codegen.header.writeline("from memplan.run.inductor.compiled import loaded as _memplan_loaded")
    codegen.header.writeline(f"_memplan_loaded({said.to_text()!r})")
    return True


def _on(device: str, blocks: list[Block], to_place: list[Block], settings: Settings) -> tuple[list[Arena], list[Block]]:
    """The arenas on a device, and the blocks there that lie in none."""
    placeable = {id(block) for block in to_place}
    placed = [block for block in blocks if id(block) in placeable]
    arenas = arenas_on(device, placed, [block for block in blocks if id(block) not in placeable], settings)
    inside = {id(block) for arena in arenas for block in arena.blocks}
    return arenas, [block for block in blocks if id(block) not in inside]


def _check(codegen: Any) -> None:
    """Refuse wrappers in which lines mean something else."""
    if type(codegen) is not wrapper.PythonWrapperCodegen:
        raise UnsupportedError(f"its wrapper is a {type(codegen).__name__}, expected PythonWrapperCodegen")
    if torch._inductor.config.triton.cudagraphs and "cuda" in V.graph.device_types:
        raise UnsupportedError("CUDA graphs keep memory of their own (triton.cudagraphs)")
    if any(isinstance(line, wrapper.EnterCudaStreamContextLine) for line in codegen.lines):
        raise UnsupportedError("its kernels run on several CUDA streams, in an order that is not known here")


def _without_removed(codegen: Any) -> list[Any]:
    """The lines without those about buffers that Inductor has removed, which would write nothing."""
    removed = V.graph.removed_buffers
    return [line for line in codegen.lines if not isinstance(line, MEMORY) or line.node.get_name() not in removed]


def _may_lie_in_arena(line: Any, block: Block, settings: Settings) -> bool:
    node = line.node
    kind = "output" if block.escapes else "intermediate"
    plain = isinstance(node, ir.Buffer) and not line.comm_buffer and not node.get_is_pinned()
    return plain and block.bytes > 0 and kind in settings.place and node.get_device().type in _DEVICES


def _blocks_by_default(codegen: Any, by_torch: Callable[[Any, bool], None]) -> list[Block]:
    """What torch's default holds."""
    lines = codegen.lines
    codegen.lines = [copy.copy(line) for line in lines]
    try:
        by_torch(codegen, False)
        return Ledger(codegen.lines).blocks
    finally:
        codegen.lines = lines


# Code


def _texts(codegen: Any, name: str, arena: Arena, nodes: list[Any]) -> list[list[str]]:
    """The code in place of each allocation, in the order of the arena's blocks.

    The arena is one tensor, of the dtype that most of its buffers have; for the other dtypes it has views. A buffer is
    cut from the tensor of its dtype. When the last one is cut, the names of these tensors go: the buffers share the
    storage, which is freed with the last of them.
    """
    dtypes = [node.get_dtype() for node in nodes]
    of_dtype = {dtype: f"{name}_{str(dtype).removeprefix('torch.')}" for dtype in dict.fromkeys(dtypes)}
    own = max(of_dtype, key=dtypes.count)
    size = arena.bytes // own.itemsize
    begin = [codegen.make_allocation(of_dtype[own], nodes[0].get_device(), own, (size,), (1,))]
    begin += [f"{of_dtype[dtype]} = {of_dtype[own]}.view({dtype})" for dtype in of_dtype if dtype != own]
    texts = [
        [_cut(codegen, node, of_dtype, int(at), arena)] for node, at in zip(nodes, arena.plan.offsets, strict=True)
    ]
    texts[0] = begin + texts[0]
    texts[-1].append(f"del {', '.join(of_dtype.values())}")
    return texts


def _cut(codegen: Any, node: Any, of_dtype: dict[torch.dtype, str], offset: int, arena: Arena) -> str:
    """The line that cuts a buffer from its arena; its bytes are inside, and begin where its dtype may."""
    name, dtype = node.get_name(), node.get_dtype()
    size, stride = node.get_size(), node.get_stride()
    elements = 1 + sum((number_of(s, name) - 1) * number_of(d, name) for s, d in zip(size, stride, strict=True))
    if offset % dtype.itemsize or not 0 <= offset <= arena.bytes - elements * dtype.itemsize:
        raise AssertionError(f"{name} would lie outside of its arena: {elements} of {dtype} at {offset}")
    shape, strides = codegen.codegen_python_shape_tuple(tuple(size)), codegen.codegen_python_shape_tuple(tuple(stride))
    return f"{name} = reinterpret_tensor({of_dtype[dtype]}, {shape}, {strides}, {offset // dtype.itemsize})"
