"""What a forward graph leaves: bytes that are held while backward runs, for it or for the caller.

Names alone do not tell. What forward saves of an input, such as a weight, may be a copy of it in another layout, and
two outputs may show the same bytes. So forward says which of its blocks hold which outputs, by the names that these
have when the graphs are parted, and backward counts these blocks in place of its inputs of these names.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import fx

from ..inductor.lines import Ledger
from ..inductor.wrapper import Block
from ..private_compiler import V, ir


@dataclass(frozen=True)
class Outputs:
    """The outputs of a graph when the partitioner hands it over: names, or None for numbers; those that users see."""

    names: tuple[str | None, ...]
    seen: frozenset[int]

    @classmethod
    def of(cls, graph: fx.GraphModule) -> Outputs:
        """Those of a graph before Inductor changes it."""
        node = graph.graph.output_node()
        (returned,) = node.args
        values: Sequence[Any] = returned if isinstance(returned, (list, tuple)) else [returned]
        names = tuple(value.name if isinstance(value, fx.Node) else None for value in values)
        return cls(names, frozenset(node.meta.get("user_visible_output_idxs", ())))


@dataclass
class Step:
    """The graphs of a step that are compiled one after another: the outputs of the one, and what forward has left."""

    outputs: Outputs = Outputs((), frozenset())
    left: list[dict[str, Any]] | None = None


def left_by(ledger: Ledger, outputs: Outputs) -> list[dict[str, Any]]:
    """The blocks that hold outputs of the graph that is compiled now, as plain values."""
    found: dict[int, dict[str, Any]] = {}
    for number, (name, value) in enumerate(zip(outputs.names, V.graph.graph_outputs, strict=True)):
        block = ledger.alive.get(_home(value, ledger))
        if name is None:
            continue
        new: dict[str, Any] = {"block": "", "device": "", "bytes": 0, "names": [], "seen": False}  # a view of an input
        if block is not None:
            new |= {"block": block.name, "device": block.device, "bytes": block.bytes}
        row = found.setdefault(id(block), new)
        row["names"].append(name)
        row["seen"] |= number in outputs.seen
    return list(found.values())


def given(ledger: Ledger, left: list[dict[str, Any]] | None, kept: Collection[str] = ()) -> list[Block]:
    """What backward holds that was there before: what forward has left, and gradients.

    Results of forward are the caller's, and held throughout. So is what backward does not let go, or what is ``kept``:
    names that it lets go. If it is not known what forward has left, it is what backward lets go, but for inputs of the
    network.
    """
    if left is None:
        found = [block for block in ledger.given if not block.name.startswith("primals")]
        return [replace(block, last=ledger.steps) if block.name in kept else block for block in found]
    gone = {block.name: block.last for block in ledger.given if block.name not in kept}
    saved = {name for row in left for name in row["names"]}
    found = [block for block in ledger.given if block.name not in saved and not block.name.startswith("primals")]
    for row in left:
        if not row["block"]:
            continue
        held = row["seen"] or any(name not in gone and name in V.graph.graph_inputs for name in row["names"])
        last = ledger.steps if held else max(gone.get(name, 1) for name in row["names"])
        found.append(Block(list(row["names"]), row["bytes"], 0, last, "given", device=row["device"]))
    return found


def _home(value: Any, ledger: Ledger) -> str:
    """The name of the buffer in whose bytes an output lies."""
    has_bytes = hasattr(value, "get_name") and not isinstance(value, ir.ShapeAsConstantBuffer)  # that is a number
    name = value.get_name() if has_bytes else ""
    while name and name not in ledger.alive:
        node = V.graph.name_to_buffer.get(name)
        shown = node.get_inputs_that_alias_output() if node is not None else ()
        name = shown[0] if shown else ""
    return str(name)
