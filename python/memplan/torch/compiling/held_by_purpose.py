"""All that a compiled graph holds on a device, by what it is for: as plain numbers and text for its code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from torch import fx

from ...explaining import held
from ..inductor.lines import Ledger
from ..inductor.wrapper import Block
from ..private_compiler import V
from .arenas import Arena

SAVED, RETURNED, RETURNED_BEFORE = "saved for backward", "returned", "returned by forward"
GIVEN, MADE = "gradients that backward is given", "gradients"
OVER_INPUT, RESULTS, OUTSIDE = "over an input", "results of kernels", "outside of arenas"
SCRATCH = "scratch of kernels"

_SELF = re.compile(r"^L\['\w+'\]\.?")  # how Dynamo calls the module that is compiled


def holding(
    device: str, arenas: Sequence[Arena], blocks: Sequence[Block], ledger: Ledger, kind: str, left: Sequence[Any]
) -> dict[str, Any]:
    """The blocks of a graph ("inference", "forward" or "backward") on a device, and the kernels of its steps.

    ``left`` is what forward leaves, as `left_by` has it.
    """
    wholes = [arena for arena in arenas if arena.device == device]
    place = {block.name: number for number, arena in enumerate(wholes) for block in arena.blocks}
    seen = {name for row in left if row["seen"] for name in (row["block"] if kind == "forward" else row["names"][0],)}
    here = [block for block in blocks if block.device == device and block.bytes > 0]
    return {
        "names": [block.buffers[block.source == "input"] for block in here],  # the one that is made in its bytes
        "size": [block.bytes for block in here],
        "first": [block.first for block in here],
        "last": [block.last for block in here],
        "arena": [place.get(block.name, held.NOWHERE) for block in here],
        "kinds": [_kind(block, kind, seen, block.name in place) for block in here],
        "made": [_made(block) for block in here],
        "idle": [_idle(block) for block in here],
        "ops": [_ran(ledger.ran.get(step, [])) for step in range(ledger.steps)],
        "arenas": [(arena.bytes, arena.first, arena.last) for arena in wholes],
    }


def _kind(block: Block, kind: str, seen: set[str], inside: bool) -> str:
    """What a block is for."""
    if block.source == "scratch":
        return SCRATCH
    if inside:
        return held.ARENA
    if block.source == "given":
        return GIVEN if block.name.startswith("tangents") else RETURNED_BEFORE if block.name in seen else SAVED
    if block.escapes and kind == "backward":
        return MADE
    if block.escapes:
        return RETURNED if kind == "inference" or block.name in seen else SAVED
    return {"kernel": RESULTS, "input": OVER_INPUT}.get(block.source, OUTSIDE)


def _idle(block: Block) -> tuple[int, int]:
    """When nothing uses a block, as far as is known: not while it is made, nor when it is let go."""
    begin = 0 if block.source == "given" else block.first + 1
    return begin, block.last if block.escapes else block.last - 1


def _made(block: Block) -> str:
    """The op of the graph that a block was made for, and in which module it is."""
    if block.source in ("given", "scratch"):
        return ""
    node = V.graph.get_buffer(block.buffers[block.source == "input"])
    origins = sorted(getattr(node, "origins", None) or (), key=lambda origin: str(origin.name))
    origin = node.get_origin_node() or (origins[-1] if origins else None)
    return in_words(origin) if origin is not None else ""


def in_words(node: fx.Node) -> str:
    """A node of a graph, and in which module it is."""
    modules = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    path = _SELF.sub("", str([*modules.values()][-1][0])) if modules else ""
    return f"{node.name} in {path}" if path else str(node.name)


def _ran(kernels: Sequence[str]) -> str:
    more = f" and {len(kernels) - 1:,} more" if len(kernels) > 1 else ""
    return f"{kernels[0]}{more}" if kernels else ""
