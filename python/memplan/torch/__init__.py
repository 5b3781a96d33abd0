"""The wing of torch: it reads modules, graphs and snapshots, runs plans of them, trains within budgets, and compiles.

Rooms are imported when they are asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .wing import WING as WING

if TYPE_CHECKING:
    from .. import doctor

_DOORS: dict[str, str] = {
    "Arena": "training.replaying",
    "Checkpoints": "training.fitting",
    "CompiledPlan": "compiling.compiled",
    "Fitted": "training.fitting",
    "InductorCapture": "inductor.capture",
    "Offload": "training.fitting",
    "PlannedStep": "training.planned",
    "SideBySide": "snapshot.side_by_side",
    "Snapshot": "snapshot",
    "WhatIf": "snapshot.what_if",
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
    "PostMortem": "snapshot.post_mortem",
    "post_mortem": "snapshot.post_mortem",
    "read_snapshot": "snapshot",
    "record": "training.step_recording",
    "recording": "snapshot.recording",
    "side_by_side": "snapshot.side_by_side",
    "update_as_you_go": "training.updating",
    "what_if": "snapshot.what_if",
}  # a public name -> the module below that has it


def supported(*, run: bool = False) -> doctor.Checkup:
    """Which doors of torch work with the version that is installed, and why others do not, as `memplan doctor torch`.

    Parameters
    ----------
    run
        Try each on a small example, which takes a minute. By default, each only imports all that it needs.

    Returns
    -------
    Checkup
        Printed, it is a table.
    """
    from .. import doctor

    return doctor.doctor("torch", run=run)


def __getattr__(name: str) -> Any:
    if name in _DOORS:
        return getattr(importlib.import_module(f".{_DOORS[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_DOORS])
