"""Plans of ONNX, run node by node on views of one arena."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal

from ...facts.source import Source
from ...importers.onnx import imported

if TYPE_CHECKING:
    from .bound import Program


def program_of(source: Source, engine: Literal["reference", "onnxruntime"] = "reference") -> Program:
    """The program of a model, or of the file of one.

    Parameters
    ----------
    source
        What was planned. External data are read from the folder of the file.
    engine
        What computes the nodes: "reference" for the operators that onnx brings, or "onnxruntime". A node that the one
        cannot run is run by the other, if it is installed.

    Raises
    ------
    SourceError
        As `memplan.capture`. Also if no engine has the operator of a node, or a weight cannot be read. The message
        names it.
    MissingDependencyError
        onnx is not installed, or ONNX Runtime is asked for and is not.
    """
    if engine not in ("reference", "onnxruntime"):
        raise ValueError(f"engine must be 'reference' or 'onnxruntime', got {engine!r}")
    found = imported(source.value, dims=source.dims, inplace_ops=source.inplace_ops)
    from .bound import Program

    return Program(found, _folder(source.value), engine)


def _folder(source: Any) -> str | None:
    """The folder of a model's file; None for a model in memory."""
    return os.path.dirname(os.path.abspath(source)) if isinstance(source, (str, os.PathLike)) else None
