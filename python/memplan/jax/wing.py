"""What the front knows of JAX: the functions and files that this wing takes."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

from ..errors import MissingDependencyError, SourceError
from ..frontend import FOLDER, Door, Form, Steps, Wing
from ..importers import notes
from ..options.records import Reading
from .dumps import assigned_beside, is_dump, module_in
from .reading import import_hlo
from .stepping import Sized, compiled, estimate, lowered

_UNSCHEDULED = "the module is not scheduled: its order is that of the text, which XLA may change"


def _module(name: str) -> Any:
    return sys.modules.get(name)


def _is_jitted(source: object) -> bool:
    return _module("jax") is not None and hasattr(source, "lower") and hasattr(source, "eval_shape")


def _is_lowered(source: object) -> bool:
    stages = _module("jax.stages")
    return stages is not None and isinstance(source, stages.Lowered)


def _is_compiled(source: object) -> bool:
    stages = _module("jax.stages")
    return stages is not None and isinstance(source, stages.Compiled)


def _read_jitted(source: Any, reading: Reading) -> dict[str, Any]:
    return _read_compiled(compiled(lowered(source, reading.args, reading.kwargs)), reading)


def _read_compiled(source: Any, reading: Reading) -> dict[str, Any]:
    text = source.as_text()
    if not text:
        raise SourceError("the backend gives no text of what it has compiled")
    if (said := source.memory_analysis()) is not None:
        notes.needs("xla", said.temp_size_in_bytes + said.output_size_in_bytes)
    return import_hlo(text, "the compiled function")


def _read_file(path: str | os.PathLike[str], reading: Reading) -> dict[str, Any]:
    if os.path.isdir(path):
        path = module_in(path)
    if (assigned := assigned_beside(path)) is not None:
        notes.needs("xla", assigned)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SourceError(f"{path}: expected the text form of HLO, got other bytes: {error}") from None
    if "is_scheduled=true" not in text.partition("\n")[0]:
        notes.say(_UNSCHEDULED)
    return import_hlo(text, os.fspath(path))


def require_jax() -> None:
    """Raise MissingDependencyError where JAX is not installed."""
    try:
        import jax.stages  # noqa: F401
    except ImportError:
        raise MissingDependencyError("functions of JAX need the package jax: pip install memplan[jax]") from None


def _fits() -> None:
    require_jax()
    importlib.import_module("memplan.jax.budgets")


_ARGUMENTS = frozenset({"args", "kwargs"})

WING = Wing(
    (
        Form("jax.jit", _read_jitted, _ARGUMENTS, accepts=_is_jitted),
        Form(
            "jax.stages.Lowered",
            lambda source, reading: _read_compiled(compiled(source), reading),
            accepts=_is_lowered,
        ),
        Form("jax.stages.Compiled", _read_compiled, accepts=_is_compiled),
        Form(".hlo", _read_file, suffixes=(".hlo", ".txt", FOLDER), accepts=is_dump),
    ),
    ("functions of jax.jit", "jax.stages.Lowered", "jax.stages.Compiled", "a folder of --xla_dump_to"),
    steps=Steps(_is_jitted, estimate, Sized, "a function of jax.jit"),
    doors=(Door("plan(jitted)", require_jax), Door("fit", _fits)),
    packages=("jax", "jaxlib"),
)
