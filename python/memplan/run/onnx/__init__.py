"""Plans of ONNX, run node by node on views of one arena."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ... import _core
from ...importers.onnx import imported, loaded
from ...options.source import Source

if TYPE_CHECKING:
    from .bound import Program


ENGINES = ("reference", "onnxruntime")


def program_of(source: Source) -> Program:
    """The program of a model, or of the file of one, whose external data are read from its folder.

    Raises
    ------
    SourceError
        As `memplan.capture`. Also if no engine has the operator of a node, or a weight cannot be read. The message
        names it.
    MissingDependencyError
        onnx is not installed, or ONNX Runtime is asked for and is not.
    """
    if source.engine not in ENGINES:
        raise ValueError(f"engine must be 'reference' or 'onnxruntime', got {source.engine!r}")
    found = imported(source.value, dims=source.reading.dims, inplace_ops=source.reading.inplace_ops)
    from .bound import Program

    return Program(found, lambda: loaded(source.value), _folder(source.value), source.engine)


def write_in_pieces(source: Source, pieces: Sequence[_core.Piece], path: str | os.PathLike[str]) -> None:
    """Write a model with ops in pieces, as its graph was split; see `Plan.to_onnx`."""
    from ...importers.graph_dict import graph_of
    from .reordered import write
    from .split import split_model

    found = imported(source.value, dims=source.reading.dims, inplace_ops=source.reading.inplace_ops)
    model = split_model(found, loaded(source.value), graph_of(found.graph, measured=True), pieces)
    write(model, path, _folder(source.value))


def _folder(source: Any) -> str | None:
    """The folder of a model's file; None for a model in memory."""
    return os.path.dirname(os.path.abspath(source)) if isinstance(source, (str, os.PathLike)) else None
