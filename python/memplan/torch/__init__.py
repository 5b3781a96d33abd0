"""The wing of torch: it reads modules, graphs and snapshots, runs plans of them, trains within budgets, and compiles.

Rooms are imported when they are asked for.
"""

from __future__ import annotations

import importlib
from typing import Any

from .wing import WING as WING

_DOORS: dict[str, str] = {
    "Arena": "training.replaying",
    "Checkpoints": "training.fitting",
    "CompiledPlan": "compiling.compiled",
    "Fitted": "training.fitting",
    "InductorCapture": "inductor.capture",
    "Offload": "training.fitting",
    "PlannedStep": "training.planned",
    "Snapshot": "snapshot",
    "UpdatesAsYouGo": "training.updating",
    "arena": "training.replaying",
    "backend": "compiling",
    "capture_inductor": "inductor.capture",
    "checkpoint": "training.fitting",
    "clear_compiled_plans": "compiling.compiled",
    "compiled_plans": "compiling.compiled",
    "fit": "training.fitting",
    "offload": "training.fitting",
    "planned": "training.planned",
    "read_snapshot": "snapshot",
    "record": "training.recording",
    "update_as_you_go": "training.updating",
}  # a public name -> the module below that has it


def __getattr__(name: str) -> Any:
    if name in _DOORS:
        return getattr(importlib.import_module(f".{_DOORS[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_DOORS])
