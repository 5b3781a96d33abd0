"""The lines of a wrapper with arenas in place of single allocations."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import sympy
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from ...errors import UnsupportedError
from ..inductor.lines import MEMORY, Ledger
from ..inductor.wrapper import Block, Call
from ..private_compiler import CONTEXTS, V, inductor_config, ir, wrapper
from .arenas import Arena, arenas_on, held
from .code import Code, servable
from .compiled import Loaded, columns
from .forward_outputs import Step, given, left_by
from .held_by_purpose import holding
from .scratch import scratch_of
from .settings import Settings
from .sums_in_place import over_totals
from .unread_inputs import letting_go

_DEVICES = ("cpu", "cuda")
_MORE = 0.001  # of what is held: so much more is held for blocks in arenas, which malloc need not keep apart
_LITTLE = 1 << 14  # bytes: the same, in small graphs
_Way = tuple[set[str], list[Block], dict[int, Call]]  # names of what lies in arenas; all blocks; calls that are served


def rewritten(codegen: Any, name: str, settings: Settings, step: Step, by_torch: Callable[[Any, bool], None]) -> bool:
    """Change the lines of a wrapper, so that buffers come from arenas; False where there is nothing to place.

    If it is false or raises, no such line has changed. If it does not raise, the code says what the graph holds, and
    when it is called.

    UnsupportedError: A wrapper of a kind that is not known here.
    """
    _check(codegen)
    unread = letting_go(codegen) if V.graph.is_backward else []
    codegen.lines = [*unread, *codegen.lines]
    by_line = default = _blocks_by_default(codegen, by_torch)
    lines = over_totals(codegen.lines)
    if len(lines) < len(codegen.lines):
        codegen.lines = lines
        by_line = _blocks_by_default(codegen, by_torch)
    lines = _without_removed(codegen)
    ledger = Ledger(lines, _hint, finer=True)
    calls = servable(lines, ledger.calls) if settings.serve else {}
    scratch = scratch_of(lines, calls)
    position = {
        block.name: at for at, block in ledger.allocated.items() if _may_lie_in_arena(lines[at], block, settings)
    }
    made = {b.name: at for at, call in calls.items() for _, b in call.results if _kind(b) in settings.place}
    before = given(ledger, step.left) if V.graph.is_backward else []
    usual = given(ledger, step.left, {line.node.get_name() for line in unread}) if unread else before
    by_line, default = [*by_line, *scratch.default, *before], [*default, *scratch.default, *usual]
    own = [*ledger.blocks, *before]
    in_arenas, outside = [*own, *scratch.served], [*own, *scratch.default]
    cut: list[_Way] = [(set(position), outside, {})] if position else []
    offered: list[_Way] = [({*position, *scratch.position}, in_arenas, calls)] if position and scratch.position else []
    offered += [({*position, *made, *scratch.position}, in_arenas, calls)] if made else []
    alone: _Way = (set(), by_line, {})
    # What lies alone costs fragmentation, unless it has pages of its own. Then what costs the least time comes first.
    ways = [*cut, alone, *offered] if settings.pages else [*reversed(offered), *cut, alone]
    found = [_arenas_of(names, blocks, default, settings) for names, blocks, _ in ways]
    most = [sum(figures["planned"] for figures in each.values()) for _, each, _ in found]
    enough = (1 + _MORE) * min(most) + _LITTLE
    best = next(number for number, bytes in enumerate(most) if bytes <= enough)
    arenas, figures, blocks = found[best]
    cuts = Code(codegen, lines, position | made | scratch.position, ways[best][2], arenas).written()
    if name.startswith("forward"):
        step.left = left_by(ledger, step.outputs)
    rows = [columns(arena.plan, arena.device, str(arena.scale)) for arena in arenas]
    kind, left = name.split()[0], step.left or []
    kept = {device: holding(device, arenas, blocks, ledger, kind, left) for device in figures if arenas}
    said = Loaded(name, figures, rows, [] if V.graph.is_backward else left, kept)
    codegen.header.writeline("from memplan.torch.compiling.compiled import loaded as _memplan_loaded")
    codegen.header.writeline(f"_memplan_loaded({said.to_text()!r})")
    codegen.header.writeline("from memplan.torch.compiling.trimming import called as _memplan_called")
    if arenas:
        codegen.lines = [new for at, line in enumerate(lines) for new in cuts.get(at, [line])]
    codegen.lines.insert(0, "_memplan_called()")
    if settings.pages:
        codegen.header.writeline("from memplan.torch.compiling.paging import in_pages as _memplan_in_pages")
        call = "Runner.call" if inductor_config.graph_partition else "call"
        codegen.suffix.writeline(f"{call} = _memplan_in_pages({call})")
    return bool(arenas)


def _arenas_of(
    names: Collection[str], blocks: list[Block], default: list[Block], settings: Settings
) -> tuple[list[Arena], dict[str, dict[str, int]], list[Block]]:
    """The arenas of the blocks of some names, what the graph then holds, and all blocks."""
    families = _families([block for block in blocks if block.name in names])
    found = [arena for family, sizes in families.items() for arena in _arenas(*family, sizes, blocks, settings)]
    arenas = [arena for arena in found if any(block.source != "scratch" for block in arena.blocks)]
    devices = {block.device: None for block in blocks}
    return arenas, {device: _figures(device, arenas, blocks, default) for device in devices}, blocks


def _families(blocks: list[Block]) -> dict[tuple[str, Any], dict[str, int]]:
    """The blocks to be placed by device and scale: their names, and bytes to be multiplied with the scale.

    A size is an integer times an expression of symbolic sizes, or times 1. Blocks with the same expression grow alike:
    offsets that are right for the integers are right for all sizes, multiplied with it. A size that is known only after
    some kernel has run may be unknown when an arena is made, so such blocks are allocated alone.
    """
    families: dict[tuple[str, Any], dict[str, int]] = {}
    for block in blocks:
        if block.source == "scratch":
            families.setdefault((block.device, sympy.Integer(1)), {})[block.name] = block.bytes
            continue
        node: Any = V.graph.get_buffer(block.name)
        elements = V.graph.sizevars.simplify(sympy.sympify(V.graph.get_allocation_storage_size(node)))
        number, scale = (elements * node.get_dtype().itemsize).primitive()
        if number.is_Integer and not free_unbacked_symbols(scale):
            families.setdefault((block.device, scale), {})[block.name] = int(number)
    return families


def _arenas(device: str, scale: Any, sizes: dict[str, int], blocks: list[Block], settings: Settings) -> list[Arena]:
    """The arenas of a family of blocks, planned in units of their scale; other blocks count in the same units."""
    hint = max(_hint(scale, "an arena"), 1)
    here = [block for block in blocks if block.device == device]
    placed = [replace(block, bytes=sizes[block.name]) for block in here if block.name in sizes]
    others = [replace(block, bytes=-(-block.bytes // hint)) for block in here if block.name not in sizes]
    return [replace(arena, scale=scale, hint=hint) for arena in arenas_on(device, placed, others, settings)]


def _figures(device: str, arenas: list[Arena], blocks: list[Block], default: list[Block]) -> dict[str, int]:
    """What the graph holds on a device, in bytes at the worst step; see `CompiledPlan`."""
    inside = {block.name for arena in arenas for block in arena.blocks}
    here, by_default = ([block for block in every if block.device == device] for every in (blocks, default))
    outside = [block for block in here if block.name not in inside]
    return {
        "planned": held([arena for arena in arenas if arena.device == device], outside),
        "default": held([], by_default),
        "load": held([], here),
        "outside": sum(block.source == "wrapper" for block in outside),
    }


def _hint(size: Any, name: str) -> int:
    """A size as an integer: with symbolic sizes, for those that the graph is compiled with."""
    return int(V.graph.sizevars.optimization_hint(size, fallback=1))


def _check(codegen: Any) -> None:
    """Refuse wrappers in which lines mean something else."""
    if type(codegen) is not wrapper.PythonWrapperCodegen:
        raise UnsupportedError(f"its wrapper is a {type(codegen).__name__}, expected PythonWrapperCodegen")
    if inductor_config.triton.cudagraphs and "cuda" in V.graph.device_types:
        raise UnsupportedError("CUDA graphs keep memory of their own (triton.cudagraphs)")
    for line in codegen.lines:
        if (why := CONTEXTS.get(type(line).__name__)) is not None:
            raise UnsupportedError(why)


def _without_removed(codegen: Any) -> list[Any]:
    """The lines without those about buffers that Inductor has removed, which would write nothing."""
    removed = V.graph.removed_buffers
    return [line for line in codegen.lines if not isinstance(line, MEMORY) or line.node.get_name() not in removed]


def _may_lie_in_arena(line: Any, block: Block, settings: Settings) -> bool:
    node = line.node
    plain = isinstance(node, ir.Buffer) and not line.comm_buffer and not node.get_is_pinned()
    return plain and block.bytes > 0 and _kind(block) in settings.place and node.get_device().type in _DEVICES


def _kind(block: Block) -> str:
    return "output" if block.escapes else "intermediate"


def _blocks_by_default(codegen: Any, by_torch: Callable[[Any, bool], None]) -> list[Block]:
    """What torch's default holds."""
    lines = codegen.lines
    codegen.lines = [copy.copy(line) for line in lines]
    try:
        by_torch(codegen, False)
        return Ledger(codegen.lines, _hint, finer=True).blocks
    finally:
        codegen.lines = lines
