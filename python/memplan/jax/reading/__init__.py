"""Import modules of HLO as graph dicts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...importers import notes
from ...importers.graph_dict import graph_of
from ...sizes import format_bytes
from ...solving.planning import plan
from .graph import graph_of_module, spaces_of
from .text import HloError as HloError
from .text import Module, parse

_HOST = 5  # the memory space of the host


def import_hlo(text: str, source: str) -> dict[str, Any]:
    """Turn the text form of an HLO module into a graph dict of its entry computation.

    Parameters are of kind `input`, constants of kind `weight`. The order is that of the text, which is the one that XLA
    runs where the module is scheduled. The ops of a `call` and of a `while` are ops of the graph, those of a `while`
    with its `body`. What a `conditional` runs is its `workspace`. The arena is memory space 0, and tensors in other
    spaces are excluded from it. A note says how many bytes these hold at most.

    Raises
    ------
    SourceError
        The text is no HLO module. The message names the line and the computation.
    """
    module = parse(text, source)
    graph = graph_of_module(module, source)
    if outside := [*_held(module, source)]:
        notes.say(f"beside the arena: {', '.join(outside)}")
    return graph


def _held(module: Module, source: str) -> Iterator[str]:
    """How many bytes other memory spaces hold at most."""
    for space in spaces_of(module):
        if space == 0:
            continue
        graph = graph_of(graph_of_module(module, source, space), measured=True)
        if load := plan(graph, "first_fit").load:
            yield f"{format_bytes(load)} in memory space {space}{' (the host)' if space == _HOST else ''}"
