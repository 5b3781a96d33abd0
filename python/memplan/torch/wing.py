"""What the front knows of torch: which sources this wing takes, and what runs plans of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..frontend import Form, Steps, Wing
from ..importers import notes
from ..options.records import Reading
from .doors import DOORS
from .estimating import estimate, runs
from .reading import accepts, import_pt2, import_torch
from .running import program_of
from .snapshot import Snapshot, is_snapshot, read_snapshot


def _read_module(source: Any, reading: Reading) -> dict[str, Any]:
    asked = {name: getattr(reading, name) for name in MODULE.options} | {"kernels": reading.kernels is True}
    found = import_torch(source, **asked | {"inplace_ops": frozenset(reading.inplace_ops)})
    if reading.device is not None:
        from .reading.cuda import notes_of

        for note in notes_of({op["type"] for op in found["ops"]}):
            notes.say(note)
    return found


def _read_file(source: Any, reading: Reading) -> dict[str, Any]:
    asked = {name: getattr(reading, name) for name in FILE.options}
    return import_pt2(source, **asked | {"inplace_ops": frozenset(reading.inplace_ops)})


def _read_snapshot(source: Any, reading: Reading) -> Any:
    read = source if isinstance(source, Snapshot) else read_snapshot(source)
    return read.problem(**(reading.blocks or {}))


def _what_if(path: str, **options: Any) -> Any:
    from .snapshot.what_if import what_if

    return what_if(path, **options)


def _explained(path: str, device: int | None = None) -> Any:
    from .snapshot.post_mortem import post_mortem

    return post_mortem(path, device=device)


def _compared(paths: Sequence[str]) -> Any:
    from .snapshot.side_by_side import side_by_side

    return side_by_side(paths)


def _is_snapshot(source: Any) -> bool:
    return isinstance(source, Snapshot) or (isinstance(source, Mapping) and is_snapshot(source))


def _sized(*call: Any) -> Any:
    from .sizing import Sized

    return Sized(*call)


def _has_op(type: str) -> bool:
    namespace, _, name = type.partition(".")
    try:
        import torch

        packet = getattr(getattr(torch.ops, namespace), name.partition(".")[0])
        return bool(name) and name.partition(".")[2] in ("", *packet.overloads())
    except (ImportError, AttributeError):
        return False


MODULE = Form(
    "torch",
    _read_module,
    frozenset({"args", "kwargs", "train", "dims", "inplace_ops", "device", "kernels", "optimizer", "keep_gradients"}),
    accepts=accepts,
    program=program_of,
)
FILE = Form(
    ".pt2",
    _read_file,
    frozenset({"train", "dims", "inplace_ops", "trust", "optimizer", "keep_gradients"}),
    suffixes=(".pt2",),
    program=program_of,
)
SNAPSHOT = Form("snapshot", _read_snapshot, frozenset({"blocks"}), accepts=_is_snapshot)
SNAPSHOT_FILE = Form(
    ".pickle",
    _read_snapshot,
    frozenset({"blocks"}),
    suffixes=(".pickle", ".pkl"),
    opened=read_snapshot,
    what_if=_what_if,
    explained=_explained,
    compared=_compared,
)

WING = Wing(
    (MODULE, FILE, SNAPSHOT, SNAPSHOT_FILE),
    ("torch.nn.Module", "torch.fx.GraphModule", "torch.export.ExportedProgram", "a memory snapshot of torch"),
    steps=Steps(runs, estimate, _sized, "a torch.nn.Module"),
    has_op=_has_op,
    doors=DOORS,
    packages=("torch",),
)
