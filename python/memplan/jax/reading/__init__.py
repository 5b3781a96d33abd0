"""Import modules of HLO as graph dicts."""

from __future__ import annotations

from typing import Any

from .graph import graph_of_module
from .text import HloError as HloError
from .text import parse


def import_hlo(text: str, source: str) -> dict[str, Any]:
    """Turn the text form of an HLO module into a graph dict of its entry computation.

    Parameters are of kind `input`, constants of kind `weight`. The order is that of the text, which is the one that XLA
    runs where the module is scheduled. What a `while`, a `conditional` or a `call` runs is its `workspace`.

    Raises
    ------
    SourceError
        The text is no HLO module. The message names the line and the computation.
    """
    return graph_of_module(parse(text, source), source)
