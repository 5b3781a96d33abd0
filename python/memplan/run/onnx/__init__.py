"""Plans of ONNX, run node by node on views of one arena."""

from __future__ import annotations

from ...errors import UnsupportedError
from ...facts.source import Source
from ..program import Program


def program_of(source: Source) -> Program:
    """The program of a model, or of the file of one."""
    raise UnsupportedError(f"a source of kind {source.kind} cannot be run yet")
