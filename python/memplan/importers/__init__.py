"""Importers: from what people have to a Graph or a Problem. A file or a package per kind of source."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import _core
from ..inplace_ops import check_types, checked, with_inplace
from ..options.checks import boolean
from . import notes
from .snapshot import Snapshot, is_snapshot, read_snapshot
from .tape import Tape

ACCEPTED = (
    "a graph dict, memplan.Graph, memplan.Problem, memplan.Tape, (size, first, last) arrays, a path to .onnx, .tflite, "
    ".json, .csv, .pt2 or .pickle, 'example:NAME', onnx.ModelProto, torch.nn.Module, torch.fx.GraphModule, "
    "torch.export.ExportedProgram or a memory snapshot of torch"
)


def capture_source(
    source: Any,
    *,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
    train: bool,
    dims: Mapping[str, int] | None,
    inclusive: bool,
    inplace_ops: Collection[str],
    trust: bool,
    device: str | None,
    optimizer: Any,
    keep_gradients: bool,
) -> _core.Graph | _core.Problem:
    """Import any accepted source; see `memplan.capture`."""
    types = checked(inplace_ops)
    given = {
        "args": not (isinstance(args, (tuple, list)) and len(args) == 0),
        "kwargs": bool(kwargs),
        "train": boolean(train, "train"),
        "dims": bool(dims),
        "inclusive": boolean(inclusive, "inclusive"),
        "inplace_ops": bool(types),
        "trust": boolean(trust, "trust"),
        "device": device is not None,
        "optimizer": optimizer is not None,
        "keep_gradients": boolean(keep_gradients, "keep_gradients"),
    }
    kind = kind_of(source)
    _refuse_options(kind, {option for option, used in given.items() if used})
    if kind.startswith(".") and not os.path.exists(source):  # before a package is asked for that could read it
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(source))
    if kind == "problem":
        return source  # type: ignore[no-any-return]
    if kind == "tape":
        return source.problem()  # type: ignore[no-any-return]
    if kind == "arrays":
        return _core.Problem(*source)
    if kind == ".csv":
        from .csv import read_problem

        return read_problem(source, inclusive=inclusive)
    if kind in ("snapshot", ".pickle"):
        return (source if isinstance(source, Snapshot) else read_snapshot(source)).problem()
    if kind in ("graph", *_GRAPH_DICTS):
        graph = source if kind == "graph" else _graph_of(_dict_of(kind, source))
        check_types(graph, types, "inplace_ops")
        return with_inplace(graph, types) if types else graph
    options = {"args": args, "kwargs": kwargs, "train": train, "dims": dims, "inplace_ops": types}
    options |= {"trust": trust, "device": device, "optimizer": optimizer, "keep_gradients": keep_gradients}
    with notes.heard() as said:
        graph = _graph_of(_dict_of(kind, source, **options), measured=True)
    notes.keep(graph, said)
    check_types(graph, types, "inplace_ops")
    return graph


_GRAPH_DICTS = ("dict", "example", ".json")
_OPTIONS = {
    ".csv": {"inclusive"},
    ".onnx": {"dims", "inplace_ops"},
    "onnx": {"dims", "inplace_ops"},
    ".tflite": {"inplace_ops"},
    ".pt2": {"train", "dims", "inplace_ops", "trust", "optimizer", "keep_gradients"},
    "torch": {"args", "kwargs", "train", "dims", "inplace_ops", "device", "optimizer", "keep_gradients"},
    **{kind: {"inplace_ops"} for kind in ("graph", *_GRAPH_DICTS)},
}


def _refuse_options(kind: str, used: set[str]) -> None:
    for option in sorted(used - _OPTIONS.get(kind, set())):
        takers = ", ".join(k for k, options in _OPTIONS.items() if option in options)
        raise TypeError(f"option {option} does not apply to a source of kind {kind}; it applies to: {takers}")


def kind_of(source: Any) -> str:
    """What kind of source it is: "torch", ".pt2", "onnx", ".onnx", ...; TypeError lists what is accepted."""
    if isinstance(source, _core.Graph):
        return "graph"
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
        from .torch import accepts

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


def _dict_of(kind: str, source: Any, **options: Any) -> Mapping[str, Any]:
    if kind == "dict":
        return source  # type: ignore[no-any-return]
    if kind == "example":
        from .examples import read_example

        return read_example(source.removeprefix("example:"))
    if kind == ".json":
        from .graph_dict import read_graph_dict

        return read_graph_dict(source)
    if kind in ("onnx", ".onnx"):
        from .onnx import import_onnx

        return import_onnx(source, dims=options["dims"], inplace_ops=options["inplace_ops"])
    if kind == ".tflite":
        from .tflite import import_tflite

        return import_tflite(source, options["inplace_ops"]).graph
    from .torch import import_pt2, import_torch

    if kind == ".pt2":
        del options["args"], options["kwargs"], options["device"]
        return import_pt2(source, **options)
    del options["trust"]
    return import_torch(source, **options)


def _graph_of(spec: Mapping[str, Any], *, measured: bool = False) -> _core.Graph:
    from .graph_dict import graph_of

    return graph_of(spec, measured=measured)
