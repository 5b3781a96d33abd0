"""Plans of ONNX, run node by node on views of one arena."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any

from ... import _core
from ...options.source import Source
from ..reading import Imported, folder_of, imported, loaded

if TYPE_CHECKING:
    from ...plans.plan import Plan
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
    found = _imported(source)
    from .bound import Program

    return Program(found, lambda: loaded(source.value), folder_of(source.value), source.engine)


def write_in_pieces(source: Source, plan: Plan, path: str | os.PathLike[str]) -> None:
    """Write a model whose ops run in pieces, of the regions of its plan; see `Plan.to_onnx`."""
    from ...importers.graph_dict import graph_of
    from .lean import lean_regions
    from .regions import regions_of
    from .reordered import write
    from .rewritten import rewritten
    from .split import Splitter

    assert plan.fitting is not None
    assert plan.fitting.pieces is not None
    found = _imported(source)
    graph = graph_of(found.graph, measured=True)
    whole = loaded(source.value)
    splitter = Splitter(found, rewritten(found, whole) if found.is_rewritten else whole, graph)
    regions = regions_of(graph, plan.changes, plan.fitting.pieces.does)
    costs = _core.op_costs(graph, "auto")
    taken = lean_regions(splitter.network, costs, regions, plan.peak, splitter.can_write)
    if not taken:
        what = "no pieces lower what a runtime holds for little more work: the model is written as it was"
        warnings.warn(what, RuntimeWarning, stacklevel=5)
    as_it_was = found.is_rewritten and not taken
    write(whole if as_it_was else splitter.model(taken), path, folder_of(source.value))


def _imported(source: Source) -> Imported:
    read = source.reading
    sizes: dict[str, Any] = {"args": read.args, "kwargs": read.kwargs, "dims": read.dims, "values": read.values}
    return imported(source.value, **sizes, inplace_ops=read.inplace_ops)
