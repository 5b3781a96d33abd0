"""Importers: from what people have to a Graph or a Problem. A file or a package per kind of source."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from .. import _core
from ..inplace_ops import check_types, with_inplace
from ..ops import kept_alive, without_overlap
from ..options.records import Reading
from ..options.source import Source
from ..options.taking import request
from ..torch.snapshot import Snapshot, is_snapshot, read_snapshot
from . import notes
from .graph_dict import graph_of, read_example, read_graph_dict
from .tape import Tape

ACCEPTED = (
    "a graph dict, memplan.Graph, memplan.Problem, memplan.Tape, (size, first, last) arrays, a path to .onnx, .tflite, "
    ".json, .csv, .pt2 or .pickle, 'example:NAME', onnx.ModelProto, torch.nn.Module, torch.fx.GraphModule, "
    "torch.export.ExportedProgram or a memory snapshot of torch"
)


HAVE_PROGRAMS = ("torch", ".pt2", "onnx", ".onnx", "tape")  # kinds of sources that can be run


class Captured(NamedTuple):
    """What was read: a graph or problem, what it was read from if that can be run, and what is to be known of it."""

    buffers: _core.Graph | _core.Problem
    source: Source | None = None
    notes: tuple[str, ...] = ()
    device: str | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Network:
    """A network that was captured once, for every function that takes a source; its plans run.

    Attributes
    ----------
    graph : Graph
        Its ops and tensors.
    source : Source or None
        What it was captured from, if that can be run. Pickles leave it out.
    notes : tuple of str
        What to know about it; see `Plan.notes`.
    device : str or None
        "cuda" if it was captured as eager torch would run it there.
    """

    graph: _core.Graph
    source: Source | None = None
    notes: tuple[str, ...] = ()
    device: str | None = None

    def __repr__(self) -> str:
        kind = "a graph" if self.source is None else self.source.kind
        return f"<memplan.Network: {len(self.graph.ops)} ops, {len(self.graph.tensors)} tensors, from {kind}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Network, (self.graph, None, self.notes, self.device)


def read_once(source: Any, reading: Mapping[str, Any]) -> Network | _core.Problem:
    """A source that many functions may be given; see `memplan.capture`."""
    read = captured(source, request("capture", reading).reading)
    if isinstance(read.buffers, _core.Problem):
        return read.buffers
    return source if isinstance(source, Network) else Network(read.buffers, *read[1:])


def captured(source: Any, reading: Reading) -> Captured:
    """Import any accepted source; see `memplan.capture`."""
    given = {option for option, value in reading.given().items() if not _is_nothing(value)}
    if isinstance(source, Network):
        for option in sorted(given - {"keep_alive"}):
            raise TypeError(f"option {option} goes with capture; this network was captured without it")
        graph = source.graph if reading.overlap else without_overlap(source.graph)
        return Captured(kept_alive(graph, reading.keep_alive), source.source, source.notes, source.device)
    kind = kind_of(source)
    _refuse_options(kind, given)
    for name, size in (reading.dims or {}).items():
        if isinstance(size, (tuple, list)):
            raise TypeError(f"dims[{name!r}] must be a size here, got {size!r}: memplan.plan alone takes ranges")
    if kind.startswith(".") and not os.path.exists(source):  # before a package is asked for that could read it
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(source))
    with notes.heard() as said:
        buffers = _read(kind, source, reading)
    if isinstance(buffers, _core.Graph):
        check_types(buffers, reading.inplace_ops, "inplace_ops")
        buffers = kept_alive(buffers, reading.keep_alive)
        if not reading.overlap:
            buffers = without_overlap(buffers)
    if reading.device is not None:
        from ..torch.reading.cuda import notes_of

        assert isinstance(buffers, _core.Graph)
        said += notes_of({op.type for op in buffers.ops})
        return Captured(buffers, None, tuple(said), reading.device)
    if kind.startswith("."):
        source = os.path.abspath(source)  # it may be read again when another folder is the current one
    origin = Source(source, kind, reading) if kind in HAVE_PROGRAMS else None
    return Captured(buffers, origin, tuple(dict.fromkeys(said)))


def _read(kind: str, source: Any, reading: Reading) -> _core.Graph | _core.Problem:
    if kind == "problem":
        return source  # type: ignore[no-any-return]
    if kind in ("tape", "snapshot", ".pickle"):
        if isinstance(source, Tape):
            return source.problem()
        read = source if isinstance(source, Snapshot) else read_snapshot(source)
        return read.problem(**(reading.blocks or {}))
    if kind == "arrays":
        return _core.Problem(*source)
    asked = {option: getattr(reading, option) for option in _OPTIONS[kind]}
    if kind == ".csv":
        from .csv import read_problem

        return read_problem(source, **asked)
    asked["inplace_ops"] = types = frozenset(reading.inplace_ops)
    if kind not in ("graph", *_GRAPH_DICTS):
        return graph_of(_imported(kind, source, asked), measured=True)
    graph = source if kind == "graph" else graph_of(_spec_of(kind, source))
    return with_inplace(graph, types) if types else graph


def _is_nothing(value: Any) -> bool:
    """Whether an option says nothing, such as ``args=[]``."""
    return value is False or (isinstance(value, (tuple, list, Mapping, frozenset)) and len(value) == 0)


_GRAPH_DICTS = ("dict", "example", ".json")
_OPTIONS = {
    ".csv": {"inclusive"},
    ".pickle": {"blocks"},
    "snapshot": {"blocks"},
    ".onnx": {"args", "kwargs", "dims", "values", "inplace_ops"},
    "onnx": {"args", "kwargs", "dims", "values", "inplace_ops"},
    ".tflite": {"inplace_ops", "overlap", "signature"},
    ".pt2": {"train", "dims", "inplace_ops", "trust", "optimizer", "keep_gradients"},
    "torch": {"args", "kwargs", "train", "dims", "inplace_ops", "device", "kernels", "optimizer", "keep_gradients"},
    **{kind: {"inplace_ops"} for kind in ("graph", *_GRAPH_DICTS)},
}


def _refuse_options(kind: str, used: set[str]) -> None:
    takes = {k: options | {"keep_alive"} if "inplace_ops" in options else options for k, options in _OPTIONS.items()}
    for option in sorted(used - takes.get(kind, set())):
        takers = ", ".join(k for k, options in takes.items() if option in options)
        raise TypeError(f"option {option} does not apply to a source of kind {kind}; it applies to: {takers}")


def kind_of(source: Any) -> str:
    """What kind of source it is: "torch", ".pt2", "onnx", ".onnx", ...; TypeError lists what is accepted."""
    if isinstance(source, _core.Graph):
        return "graph"
    if isinstance(source, Network):
        return "network" if source.source is None else source.source.kind
    if isinstance(source, _core.Problem):
        return "problem"
    if isinstance(source, Snapshot):
        return "snapshot"
    if isinstance(source, Tape):
        return "tape"
    if isinstance(source, Mapping):
        return "snapshot" if is_snapshot(source) else "dict"
    if isinstance(source, str) and source.startswith("example:"):
        return "example"
    if isinstance(source, (str, os.PathLike)):
        return _kind_of_path(os.fspath(source))
    if isinstance(source, (tuple, list)) and len(source) == 3 and not any(isinstance(c, str) for c in source):
        return "arrays"
    if _is_onnx_model(source):
        return "onnx"
    if "torch" in sys.modules:
        from ..torch.reading import accepts

        if accepts(source):
            return "torch"
    if isinstance(source, type):
        raise TypeError(f"source must be {ACCEPTED}; got the class {source.__qualname__}, not an instance of it")
    raise TypeError(f"source must be {ACCEPTED}; got {type(source).__module__}.{type(source).__qualname__}")


def _kind_of_path(path: str) -> str:
    suffix = Path(path).suffix.lower()
    if suffix == ".pkl":
        return ".pickle"
    if suffix not in (".onnx", ".tflite", ".json", ".csv", ".pt2", ".pickle"):
        raise TypeError(
            f"a path must end in .onnx, .tflite, .json, .csv, .pt2 or .pickle, got {path!r}; source must be {ACCEPTED}"
        )
    return suffix


def _is_onnx_model(source: object) -> bool:
    onnx = sys.modules.get("onnx")
    return onnx is not None and isinstance(source, onnx.ModelProto)


def _spec_of(kind: str, source: Any) -> Mapping[str, Any]:
    """A graph dict as it is, or as it lies in a file."""
    if kind == "example":
        return read_example(source.removeprefix("example:"))
    return read_graph_dict(source) if kind == ".json" else source


def _imported(kind: str, source: Any, asked: dict[str, Any]) -> Mapping[str, Any]:
    """The graph dict that is made of a model."""
    if kind in ("onnx", ".onnx"):
        from ..onnx.reading import import_onnx

        return import_onnx(source, **asked)
    if kind == ".tflite":
        from ..tflite.reading import import_tflite

        return import_tflite(source, **asked).graph
    from ..torch.reading import import_pt2, import_torch

    return (import_pt2 if kind == ".pt2" else import_torch)(source, **asked)
