"""Import TFLite models as graph dicts."""

from __future__ import annotations

import os
import struct
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import MissingDependencyError, SourceError
from .file import File
from .subgraph import Reader, Subgraph


class Imported(NamedTuple):
    """A model as the importer has seen it: the graph of a subgraph, its position, and its tensors by position."""

    graph: dict[str, Any]
    names: tuple[str, ...]
    subgraph: int


def require_tflite() -> None:
    """Raise MissingDependencyError where the package that has the format is not installed."""
    try:
        import tflite  # noqa: F401
    except ImportError:
        raise MissingDependencyError("models of TFLite need the package tflite: pip install memplan[tflite]") from None


def import_tflite(
    source: str | os.PathLike[str],
    inplace_ops: Collection[str] = (),
    overlap: bool | str = False,
    signature: str | None = None,
) -> Imported:
    """Turn a TFLite model into a graph dict.

    Inputs of the subgraph are of kind `input`. Constants and variable tensors are `weight`. What operators write is
    `intermediate`. Reshapes may be left out, and operators that work element by element may write over an input of as
    many bytes, as the kernels of TFLite Micro do. Scratch that kernels ask for when they begin is not in the file.
    With ``overlap="tflite-micro"``, operators say in which order its reference kernels read and write.

    Operators with states come `after` those that touch the same states, and do not run again. The states of resource
    variables and tables lie outside of the graph. A subgraph that an operator runs is its `workspace`.

    Parameters
    ----------
    signature
        The key of a signature, or the name of a subgraph; by default the first subgraph. Subgraphs that it does not
        run are not read.

    Raises
    ------
    MissingDependencyError
        The package `tflite` is missing; it is in the extra `tflite`.
    SourceError
        The file is no model, has no such signature, or has tensors without a size.
    """
    require_tflite()
    import tflite

    data = Path(source).read_bytes()
    if data[4:8] != b"TFL3":
        raise SourceError(f"{source}: expected a TFLite model with the mark TFL3 at byte 4, got {data[4:8]!r}")
    try:
        file = File(tflite, tflite.Model.GetRootAsModel(data, 0), str(source))
        chosen = file.chosen(signature)
        subgraph = Subgraph(Reader(file, inplace_ops, overlap == "tflite-micro"), chosen)
        return Imported(subgraph.graph(), subgraph.names, chosen)
    except (struct.error, AttributeError, IndexError, TypeError, UnicodeDecodeError) as error:
        raise SourceError(f"{source}: the file is damaged: {error}") from None
