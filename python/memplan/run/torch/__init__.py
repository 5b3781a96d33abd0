"""Plans of torch, run: the ops that the importer saw, one after another, on views of one arena."""

from __future__ import annotations

from ...errors import UnsupportedError
from ...facts.source import Source
from ..program import Program


def program_of(source: Source) -> Program:
    """The program of a module, graph, exported program or .pt2 file."""
    raise UnsupportedError(f"a source of kind {source.kind} cannot be run yet")
