"""What the front knows of ONNX: which sources this wing takes, what runs plans of them, and what writes them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from ..errors import UnsupportedError
from ..frontend import Form, Wing
from ..options.declaring import made
from ..options.records import Reading
from ..options.source import Source
from ..plans.plan import Plan
from ..running import matching
from ..running.from_file import with_graph
from .doors import doors
from .reading import import_onnx
from .running import ENGINES, program_of, write_in_pieces

_OPTIONS = frozenset({"args", "kwargs", "dims", "values", "inplace_ops"})


def _read(source: Any, reading: Reading) -> dict[str, Any]:
    asked = {name: getattr(reading, name) for name in _OPTIONS}
    return import_onnx(source, **asked | {"inplace_ops": frozenset(reading.inplace_ops)})


def _is_model(source: object) -> bool:
    onnx = sys.modules.get("onnx")
    return onnx is not None and isinstance(source, onnx.ModelProto)


def _has_op(type: str) -> bool:
    try:
        import onnx.defs
    except ImportError:
        return False
    return "." not in type and bool(onnx.defs.has(type))


MODEL = Form("onnx", _read, _OPTIONS, accepts=_is_model, program=program_of, engines=ENGINES)
FILE = Form(".onnx", _read, _OPTIONS, suffixes=(".onnx",), program=program_of, engines=ENGINES)


def to_onnx(plan: Plan, path: str | os.PathLike[str], source: Any, options: Mapping[str, Any]) -> None:
    """Write the model of a plan in its order; see `Plan.to_onnx`."""
    if source is not None:
        from ..importers import form_of

        given = Source(source, form_of(source), made(Reading, options))
    elif any(options.values()):
        raise TypeError(f"options {', '.join(options)} go with source=, they came without")
    elif plan.source is None:
        raise TypeError("the plan holds no model: give what was planned, plan.to_onnx(path, source=model)")
    else:
        given = plan.source
    if given.form not in (MODEL, FILE):
        raise TypeError(f"to_onnx writes what came from ONNX, the plan is of a source of kind {given.form.name}")
    program = program_of(given)
    if plan.graph is None:
        plan = with_graph(plan, program.graph)
    elif (planned := matching.whole_graph(plan)) is not None:
        matching.require_same(planned, program.graph)
    if any(change.kind == "split" for change in plan.changes):
        return _write_in_pieces(plan, given, path)
    program.write(plan, path)


def _write_in_pieces(plan: Plan, given: Source, path: str | os.PathLike[str]) -> None:
    if any(change.kind != "split" for change in plan.changes):
        raise UnsupportedError(
            'pieces are written by a plan that memplan.fit gives for allow=("split",), this one has other changes too'
        )
    write_in_pieces(given, plan, path)


WING = Wing(
    (MODEL, FILE),
    ("onnx.ModelProto",),
    {"to_onnx": to_onnx},
    doors=doors(ENGINES),
    has_op=_has_op,
    packages=("onnx", "onnxruntime"),
)
